"""Topics as the page asks for them: the list, what changed of it, and one topic by its queues."""

from urllib.parse import quote

from steelyard import Admin, Message, Producer
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command, run_members
from tests.dashboard.http_client import get, stream


def _topic(name: str) -> str:
    return f"/api/topics/{quote(name, safe='')}"


def test_the_list_tells_kinds_apart(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    rows = {row["name"]: row for row in get(dashboard, "/api/topics")["rows"]}
    assert rows["orders"]["kind"] == "users"
    assert rows["orders"]["queues"] == 4
    assert rows["orders"]["permission"] == "read and write"
    assert rows["TBW102"]["kind"] == "system"


def test_after_the_first_answer_only_what_changed_comes(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 1)
        with stream(dashboard, "/api/topics/live") as answers:
            first = next(answers)
            assert first["is_full"]
            assert len(first["rows"]) > 10
            producer.send(Message("orders", b"x"))
            for answer in answers:
                assert {row["name"] for row in answer["rows"]} <= {"orders"}
                if any(row["messages"] == 1 for row in answer["rows"]):
                    break


def test_a_topic_is_reported_by_its_queues(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 1)
        for number in range(8):
            producer.send(Message("orders", str(number).encode()))
    reported = get(dashboard, _topic("orders"))
    assert reported["messages"] == 8
    assert [(row["broker"], row["queue"], row["messages"], row["share"]) for row in reported["queues"]] == [
        ("broker-0", 0, 4, 0.5),
        ("broker-1", 0, 4, 0.5),
    ]
    assert [part["permission"] for part in reported["brokers"]] == ["read and write", "read and write"]
    assert reported["skew"] == "messages lie evenly: 4 in each of 2 queues"
    assert reported["groups"] == []


def test_its_command_lines_are_ones(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 1)
    for command in (get(dashboard, "/api/topics")["command"], *get(dashboard, _topic("orders"))["commands"]):
        check_command(command)


def test_who_reads_it_is_told_with_what_waits_there(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 1)
        with run_members(cluster.namesrv, "billing", "orders", "till"):
            producer.send(Message("orders", b"x"))
            with stream(dashboard, f"{_topic('orders')}/live") as answers:
                row = next(row for answer in answers for row in answer["groups"] if row["lag"] == 0)
    assert (row["name"], row["members"], row["problem"]) == ("billing", 1, None)


def test_rates_and_a_rush_are_told_while_messages_come(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 4)
        with stream(dashboard, f"{_topic('orders')}/live") as answers:
            assert next(answers)["hot_queue"] is None
            for _ in range(200):
                producer.send(Message("orders", b"x"), key="one")
            reported = next(answer for answer in answers if answer["hot_queue"])
    assert "8.0 times its share" in reported["hot_queue"]
    assert sum(row["in_share"] for row in reported["queues"]) == 1.0


def test_a_topic_that_is_not_there_is_missing(dashboard: Dashboard) -> None:
    assert get(dashboard, _topic("nowhere"), status=404)["kind"] == "TopicNotFound"


def test_a_retry_topic_can_be_looked_at(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 1)
        with run_members(cluster.namesrv, "billing", "orders", "till"):
            assert get(dashboard, _topic("%RETRY%billing"))["kind"] == "retry"
