"""Topics as the page asks for them: the list, what changed of it, and one topic by its queues."""

from urllib.parse import quote

from tests.dashboard.asking import get, stream
from tests.dashboard.scenes import check_command, members

from steelyard import Admin, Message, Producer
from steelyard.dashboard.page import Page
from steelyard.serve.embedded import Cluster


def _topic(name: str) -> str:
    return f"/api/topics/{quote(name, safe='')}"


def test_the_list_tells_kinds_apart(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 2)
    rows = {row["name"]: row for row in get(page, "/api/topics")["rows"]}
    assert rows["orders"]["kind"] == "users"
    assert rows["orders"]["queues"] == 4
    assert rows["orders"]["permission"] == "read and write"
    assert rows["TBW102"]["kind"] == "system"


def test_after_the_first_answer_only_what_changed_comes(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("orders", 1)
        with stream(page, "/api/topics/live") as answers:
            first = next(answers)
            assert first["is_whole"]
            assert len(first["rows"]) > 10
            producer.send(Message("orders", b"x"))
            for answer in answers:
                assert {row["name"] for row in answer["rows"]} <= {"orders"}
                if any(row["messages"] == 1 for row in answer["rows"]):
                    break


def test_a_topic_is_told_by_its_queues(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("orders", 1)
        for number in range(8):
            producer.send(Message("orders", str(number).encode()))
    told = get(page, _topic("orders"))
    assert told["messages"] == 8
    assert [(row["broker"], row["queue"], row["messages"], row["share"]) for row in told["queues"]] == [
        ("broker-0", 0, 4, 0.5),
        ("broker-1", 0, 4, 0.5),
    ]
    assert [part["may"] for part in told["brokers"]] == ["read and write", "read and write"]
    assert told["skew"] == "messages lie evenly: 4 in each of 2 queues"
    assert told["groups"] == []


def test_its_command_lines_are_ones(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 1)
    for command in (get(page, "/api/topics")["command"], *get(page, _topic("orders"))["commands"]):
        check_command(command)


def test_who_reads_it_is_told_with_what_waits_there(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("orders", 1)
        with members(cluster.namesrv, "billing", "orders", "till"):
            producer.send(Message("orders", b"x"))
            with stream(page, f"{_topic('orders')}/live") as answers:
                row = next(row for answer in answers for row in answer["groups"] if row["lag"] == 0)
    assert (row["name"], row["members"], row["problem"]) == ("billing", 1, None)


def test_rates_and_a_rush_are_told_while_messages_come(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("orders", 4)
        with stream(page, f"{_topic('orders')}/live") as answers:
            assert next(answers)["rush"] is None
            for _ in range(200):
                producer.send(Message("orders", b"x"), key="one")
            told = next(answer for answer in answers if answer["rush"])
    assert "8.0 times its share" in told["rush"]
    assert sum(row["in_share"] for row in told["queues"]) == 1.0


def test_a_topic_that_is_not_there_is_missing(page: Page) -> None:
    assert get(page, _topic("nowhere"), status=404)["kind"] == "TopicNotFound"


def test_a_retry_topic_can_be_looked_at(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 1)
        with members(cluster.namesrv, "billing", "orders", "till"):
            assert get(page, _topic("%RETRY%billing"))["kind"] == "retry"
