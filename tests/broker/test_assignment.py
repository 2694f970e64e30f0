"""400, 401: assignments for Java's clients that leave balancing to the broker."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model import Queue
from steelyard.model.route import BrokerAddresses, QueueCounts, TopicRoute
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.bodies.queue_assignment import (
    AssignmentRequest,
    AssignmentResponse,
    MessageRequestMode,
    MessageRequestModeSetting,
)
from steelyard.wire.codes import RequestCode as Code
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer


def plan(
    harness: BrokerHarness,
    client_id: str,
    strategy: str = "AVG",
    model: MessageModel = MessageModel.CLUSTERING,
    topic: str = "orders",
) -> list[str] | None:
    """Ask for a member's queues; None means that it is to keep what it has."""
    body = AssignmentRequest(client_id=client_id, group=GROUP, topic=topic, strategy=strategy, model=model)
    answer = harness.request(Code.QUERY_ASSIGNMENT, body=encode_body(body))
    assert answer.code == 0
    queues = decode_body(AssignmentResponse, answer.body).queues
    assert all(each.mode is MessageRequestMode.PULL for each in queues or ())
    return None if queues is None else [str(each.queue.queue) for each in queues]


def routed(harness: BrokerHarness, *, a: int = 3, b: int = 2) -> None:
    """Let the name server have told where the topic lives."""
    places = tuple(BrokerAddresses(name, "DefaultCluster", {0: "127.0.0.1:1"}) for name in ("a", "b"))
    counts = QueueCounts("b", read=b, write=b), QueueCounts("a", read=a, write=a)
    harness.state.routes["orders"] = TopicRoute("orders", places, counts)


def joined(harness: BrokerHarness, *names: str) -> None:
    for name in names:
        FakeConsumer(harness, name, ours=False).heartbeat()


def test_queues_of_all_brokers_are_shared_as_java_does() -> None:
    harness = BrokerHarness()
    routed(harness)
    joined(harness, "c2", "c1")
    assert plan(harness, "c1") == ["orders@a:0", "orders@a:1", "orders@a:2"]
    assert plan(harness, "c2") == ["orders@b:0", "orders@b:1"]
    assert plan(harness, "c1", "AVG_BY_CIRCLE") == ["orders@a:0", "orders@a:2", "orders@b:1"]


def test_an_unknown_route_keeps_what_members_have_and_is_looked_up() -> None:
    harness = BrokerHarness()
    joined(harness, "c1")
    assert plan(harness, "c1") is None
    assert harness.state.wanted_routes == {"orders"}
    routed(harness)
    assert len(plan(harness, "c1") or ()) == 5


def test_a_topic_that_nobody_wants_is_not_looked_up() -> None:
    harness = BrokerHarness()
    joined(harness, "c1")
    assert plan(harness, "c1", topic="nonsense") is None
    assert harness.state.wanted_routes == set()


def test_an_unknown_strategy_or_group_keeps_and_an_unknown_member_drops() -> None:
    harness = BrokerHarness()
    routed(harness)
    assert plan(harness, "c1") is None
    joined(harness, "c1")
    assert plan(harness, "c1", "CONSISTENT_HASH") is None
    assert plan(harness, "stranger") == []


def test_broadcasting_gets_everything() -> None:
    harness = BrokerHarness()
    routed(harness)
    assert len(plan(harness, "anybody", model=MessageModel.BROADCASTING) or ()) == 5


def test_a_member_that_leaves_is_planned_for_no_more() -> None:
    harness = BrokerHarness()
    routed(harness)
    joined(harness, "c1")
    ours = FakeConsumer(harness, "c2")
    ours.heartbeat()
    assert len(plan(harness, "c1") or ()) == 3
    ours.heartbeat(leaving=True)
    assert len(plan(harness, "c1") or ()) == 5
    assert plan(harness, "c2") == []


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 6), st.sampled_from(["AVG", "AVG_BY_CIRCLE"]))
def test_every_queue_has_one_owner_whatever_the_numbers(a: int, b: int, members: int, strategy: str) -> None:
    harness = BrokerHarness()
    routed(harness, a=a, b=b)
    names = [f"c{number}" for number in range(members)]
    joined(harness, *names)
    shares = [plan(harness, name, strategy) for name in names]
    everything = [
        str(Queue("orders", broker, number)) for broker, size in (("a", a), ("b", b)) for number in range(size)
    ]
    if everything:
        assert sorted(queue for share in shares if share is not None for queue in share) == sorted(everything)
        assert max(len(share or ()) for share in shares) - min(len(share or ()) for share in shares) <= 1
    else:
        assert shares == [None] * members


def mode(harness: BrokerHarness, topic: str, wanted: MessageRequestMode) -> tuple[int, str]:
    body = MessageRequestModeSetting(group=GROUP, topic=topic, mode=wanted)
    answer = harness.request(Code.SET_MESSAGE_REQUEST_MODE, body=encode_body(body))
    return answer.code, answer.remark or ""


def test_only_pull_is_taken() -> None:
    harness = BrokerHarness()
    harness.state.topics.get_or_create("orders", 1, harness.now_ms)
    assert mode(harness, "orders", MessageRequestMode.PULL) == (0, "")
    code, remark = mode(harness, "orders", MessageRequestMode.POP)
    assert code == 29
    assert "POP" in remark
    assert mode(harness, f"%RETRY%{GROUP}", MessageRequestMode.PULL)[0] == 16
    assert mode(harness, "nowhere", MessageRequestMode.PULL)[0] == 17
