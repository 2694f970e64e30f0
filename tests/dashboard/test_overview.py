"""The overview's answers: short however large the cluster is, and the past once, then only what is new."""

from tests.dashboard.asking import get, stream
from tests.dashboard.scenes import check_command
from tests.live.clusters import until

from steelyard import Admin, Message, Producer
from steelyard.dashboard.api.overview import overview_of
from steelyard.dashboard.page import Page
from steelyard.dashboard.survey.values import GroupRow, HazardRow, Point, Seen, TopicRow
from steelyard.serve.embedded import Cluster


def test_it_tells_of_brokers_and_counts(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 2)
        admin.create_group("billing")
    told = get(page, "/api/overview")
    assert [each["name"] for each in told["brokers"]] == ["broker-0", "broker-1"]
    assert (told["topics"], told["groups"], told["groups_seen"], told["lag"]) == (1, 1, 1, 0)
    assert told["hazards"] == []


def test_its_command_line_is_one(cluster: Cluster, page: Page) -> None:
    command = get(page, "/api/overview")["command"]
    assert command == f"steelyard cluster stats --namesrv {cluster.namesrv}"
    check_command(command)


def test_an_empty_cluster_comes_with_first_steps(cluster: Cluster, page: Page) -> None:
    steps = get(page, "/api/overview")["first_steps"]
    assert [step.split()[1] for step in steps] == ["send", "consume"]
    for step in steps:
        check_command(step)
    assert get(page, "/api/topics")["topics_seen_ms"] is not None
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 2)
        until(lambda: get(page, "/api/overview")["topics"] == 1, "the topic was seen")
    assert get(page, "/api/overview")["first_steps"] == []


def test_the_past_comes_once_and_then_only_what_is_new(cluster: Cluster, page: Page) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("orders", 2)
        with stream(page, "/api/overview/live") as answers:
            first = next(answers)
            for _ in range(100):
                producer.send(Message("orders", b"x"))
            second, third = next(answers), next(answers)
        assert first["is_whole"]
        assert not second["is_whole"]
        times = [point[0] for answer in (first, second, third) for point in answer["points"]]
        assert times == sorted(set(times))
        assert max(second["in_rate"], third["in_rate"]) > 0
        # A second browser sees the past, too.
        with stream(page, "/api/overview/live") as answers:
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
    hazards = tuple(HazardRow("group", name, "nobody online", f"nobody of {name}") for name in groups)
    hazards += tuple(HazardRow("group", name, f"not progressing {name}:0", f"{name} stands", True) for name in groups)
    seen = Seen(at_ms=9, topics=topics, groups=groups, hazards=hazards, points=(Point(9, 1.0, 2.0, 3),))
    told = overview_of(seen, "steelyard cluster stats")
    assert [each.name for each in told.behind][:2] == ["group-499", "group-498"]
    assert [each.name for each in told.busiest][:2] == ["topic-499", "topic-498"]
    assert {each.kind.split()[0] for each in told.hazards} == {"nobody", "not"}
    assert len(told.hazards) < 20
    assert told.hazards_more == 1_000 - len(told.hazards)
    assert told.lag == sum(range(500))
    assert not overview_of(seen, "", since_ms=9).points
