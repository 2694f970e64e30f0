"""The overview's answers: short however large the cluster is, and the past once, then only what is new."""

from steelyard import Admin, Message, Producer
from steelyard.dashboard.api.overview import make_overview
from steelyard.dashboard.cluster_snapshot import DashboardSnapshot, GroupRow, RatePoint, TopicRow, WarningRow
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command
from tests.dashboard.http_client import get, stream
from tests.live.clusters import until


def test_it_tells_of_brokers_and_counts(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
        admin.groups.create("billing")
    told = get(dashboard, "/api/overview")
    assert [each["name"] for each in told["brokers"]] == ["broker-0", "broker-1"]
    assert (told["topics"], told["groups"], told["groups_seen"], told["lag"]) == (1, 1, 1, 0)
    assert told["warnings"] == []


def test_its_command_line_is_one(cluster: Cluster, dashboard: Dashboard) -> None:
    command = get(dashboard, "/api/overview")["command"]
    assert command == f"steelyard cluster stats --namesrv {cluster.namesrv}"
    check_command(command)


def test_an_empty_cluster_comes_with_first_steps(cluster: Cluster, dashboard: Dashboard) -> None:
    steps = get(dashboard, "/api/overview")["first_steps"]
    assert [step.split()[1] for step in steps] == ["send", "consume"]
    for step in steps:
        check_command(step)
    assert get(dashboard, "/api/topics")["topics_seen_ms"] is not None
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
        until(lambda: get(dashboard, "/api/overview")["topics"] == 1, "the topic was seen")
    assert get(dashboard, "/api/overview")["first_steps"] == []


def test_the_past_comes_once_and_then_only_what_is_new(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 2)
        with stream(dashboard, "/api/overview/live") as answers:
            first = next(answers)
            for _ in range(100):
                producer.send(Message("orders", b"x"))
            second, third = next(answers), next(answers)
        assert first["is_full"]
        assert not second["is_full"]
        times = [point[0] for answer in (first, second, third) for point in answer["points"]]
        assert times == sorted(set(times))
        assert max(second["in_rate"], third["in_rate"]) > 0
        # A second browser sees the past, too.
        with stream(dashboard, "/api/overview/live") as answers:
            assert {point[0] for point in next(answers)["points"]} >= set(times)


def test_it_is_short_however_large_the_cluster_is() -> None:
    groups = {
        name: GroupRow(name=name, members=0, lag=place, at_ms=0)
        for place, name in enumerate(f"group-{number}" for number in range(500))
    }
    topics = {
        name: TopicRow(name=name, kind="users", queues=1, brokers=("a",), permission="read", in_rate=float(place))
        for place, name in enumerate(f"topic-{number}" for number in range(500))
    }
    hazards = tuple(WarningRow("group", name, "nobody online", f"nobody of {name}") for name in groups)
    hazards += tuple(WarningRow("group", name, f"not progressing {name}:0", f"{name} stands", True) for name in groups)
    seen = DashboardSnapshot(
        at_ms=9, topics=topics, groups=groups, warnings=hazards, points=(RatePoint(9, 1.0, 2.0, 3),)
    )
    told = make_overview(seen, "steelyard cluster stats")
    assert [each.name for each in told.lagging_groups][:2] == ["group-499", "group-498"]
    assert [each.name for each in told.busiest_topics][:2] == ["topic-499", "topic-498"]
    assert {each.kind.split()[0] for each in told.warnings} == {"nobody", "not"}
    assert len(told.warnings) < 20
    assert told.more_warnings == 1_000 - len(told.warnings)
    assert told.lag == sum(range(500))
    assert not make_overview(seen, "", since_ms=9).points
