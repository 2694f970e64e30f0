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
    reported = get(dashboard, "/api/overview")
    assert [each["name"] for each in reported["brokers"]] == ["broker-0", "broker-1"]
    assert (reported["topics"], reported["groups"], reported["groups_seen"], reported["lag"]) == (1, 1, 1, 0)
    assert reported["warnings"] == []


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
    found = tuple(WarningRow("group", name, "nobody online", f"nobody of {name}") for name in groups)
    found += tuple(WarningRow("group", name, "stuck", f"{name} stands", True) for name in groups)
    seen = DashboardSnapshot(at_ms=9, topics=topics, groups=groups, warnings=found, points=(RatePoint(9, 1.0, 2.0, 3),))
    reported = make_overview(seen, "steelyard cluster stats")
    assert [each.name for each in reported.lagging_groups][:2] == ["group-499", "group-498"]
    assert [each.name for each in reported.busiest_topics][:2] == ["topic-499", "topic-498"]
    assert {each.kind for each in reported.warnings} == {"nobody online", "stuck"}
    assert len(reported.warnings) < 20
    assert reported.more_warnings == 1_000 - len(reported.warnings)
    assert reported.lag == sum(range(500))
    assert not make_overview(seen, "", since_ms=9).points
