"""`steelyard producer`: who sends is told, with all brokers that know it."""

from tests.cli.desk import Desk
from tests.cli.live import create_topic
from tests.waiting import until

from steelyard.cli.frame.exits import Exit
from steelyard.client.blocking.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster


def test_producers_are_listed_and_shown_in_every_format(cluster: Cluster, desk: Desk) -> None:
    create_topic(cluster.namesrv, "sent")
    assert desk("producer", "ls", "--output", "json").json == []
    with Producer(cluster.namesrv, group="shop") as producer:
        for _ in range(16):
            producer.send(Message("sent", b"x"))
        (listed,) = desk("producer", "ls", "--json").lines
        assert (listed["group"], listed["language"]) == ("shop", "PYTHON")
        assert listed["brokers"] == ["broker-0", "broker-1"]
        assert listed["seen_at"].endswith("Z")
        table = desk("producer", "ls").table
        assert table[0] == ["group", "producer", "address", "client", "brokers", "seen"]
        assert table[1][:2] == ["shop", listed["id"]]
        (shown,) = desk("producer", "show", "shop", "--output", "csv").csv
        assert shown["id"] == listed["id"]
        assert shown["address"].startswith("127.0.0.1:")
        wrong = desk("producer", "show", "shpo")
        assert (wrong.code, wrong.out) == (Exit.NOT_FOUND, "")
        assert "no producer of group 'shpo' is online" in wrong.err
        assert "Did you mean 'shop'?" in wrong.err
    gone = desk("producer", "show", "shop")
    assert gone.code == Exit.NOT_FOUND
    assert "Online are: none" in gone.err


def test_ledgers_are_shown_and_who_tells_none_is_named(cluster: Cluster, desk: Desk) -> None:
    create_topic(cluster.namesrv, "weighed")
    with (
        Producer(cluster.namesrv, group="weighing", avoid_slow_brokers=True) as weighing,
        Producer(cluster.namesrv, group="trusting") as trusting,
    ):
        for _ in range(16):
            weighing.send(Message("weighed", b"x"))
        trusting.send(Message("weighed", b"x"))
        until(lambda: len(desk("producer", "ledger", "weighing", "--json").lines) == 2)
        first, second = desk("producer", "ledger", "weighing", "--json").lines
        assert [(row["broker"], row["share"], row["avoided_ms"], row["why"]) for row in (first, second)] == [
            ("broker-0", 1.0, None, None),
            ("broker-1", 1.0, None, None),
        ]
        every = desk("producer", "ledger")
        assert every.out.split()[:3] == ["group", "producer", "broker"]
        assert "1 producer without a ledger: producers of ours tell one" in every.err


def test_who_sends_without_a_group_of_its_own_is_listed_too(cluster: Cluster, desk: Desk) -> None:
    with Producer(cluster.namesrv) as producer:
        producer.send(Message("weighed-by-nobody", b"x"))
        until(lambda: "DEFAULT_PRODUCER" in [row["group"] for row in desk("producer", "ls", "--json").lines])
