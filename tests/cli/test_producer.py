"""`steelyard producer`: producers are listed with all brokers that know them."""

import pytest

from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from tests.cli.processes import create_topic
from tests.cli.runner import RunCommand
from tests.waiting import until


def test_producers_are_listed_and_shown_in_every_format(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "sent")
    assert run("producer", "ls", "--output", "json").json == []
    with Producer(cluster.namesrv, group="shop") as producer:
        for _ in range(16):
            producer.send(Message("sent", b"x"))
        (listed,) = run("producer", "ls", "--json").lines
        assert (listed["group"], listed["language"]) == ("shop", "PYTHON")
        assert listed["brokers"] == ["broker-0", "broker-1"]
        assert listed["seen_at"].endswith("Z")
        table = run("producer", "ls").table
        assert table[0] == ["group", "producer", "address", "client", "brokers", "seen"]
        assert table[1][:2] == ["shop", listed["id"]]
        (shown,) = run("producer", "show", "shop", "--output", "csv").csv
        assert shown["id"] == listed["id"]
        assert shown["address"].startswith("127.0.0.1:")
        wrong = run("producer", "show", "shpo")
        assert (wrong.code, wrong.out) == (ExitCode.NOT_FOUND, "")
        assert "no producer of group 'shpo' is online" in wrong.err
        assert "Did you mean 'shop'?" in wrong.err
    gone = run("producer", "show", "shop")
    assert gone.code == ExitCode.NOT_FOUND
    assert "Online are: none" in gone.err


@pytest.mark.usefixtures("advance")
def test_latencies_are_shown_and_producers_without_them_counted(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "weighed")
    with (
        Producer(cluster.namesrv, group="weighing", avoid_slow_brokers=True) as weighing,
        Producer(cluster.namesrv, group="trusting") as trusting,
    ):
        for _ in range(16):
            weighing.send(Message("weighed", b"x"))
        trusting.send(Message("weighed", b"x"))
        until(lambda: len(run("producer", "latency", "weighing", "--json").lines) == 2)
        first, second = run("producer", "latency", "weighing", "--json").lines
        assert [(row["broker"], row["share"], row["avoided_ms"], row["why"]) for row in (first, second)] == [
            ("broker-0", 1.0, None, None),
            ("broker-1", 1.0, None, None),
        ]
        every = run("producer", "latency")
        assert every.out.split()[:3] == ["group", "producer", "broker"]
        assert "1 producer without latency: Steelyard's producers report it" in every.err


def test_who_sends_without_a_group_of_its_own_is_listed_too(cluster: Cluster, run: RunCommand) -> None:
    with Producer(cluster.namesrv) as producer:
        producer.send(Message("weighed-by-nobody", b"x"))
        until(lambda: "DEFAULT_PRODUCER" in [row["group"] for row in run("producer", "ls", "--json").lines])
