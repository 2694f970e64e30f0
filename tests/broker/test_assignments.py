"""400, 401: plans for Java's clients that leave balancing to the broker."""

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.client import GROUP, Client
from tests.broker.desk import Desk

from steelyard.model import Queue
from steelyard.model.route import BrokerPlace, QueueCounts, Route
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.assignment import AssignmentAnswer, AssignmentRequest, RequestMode, RequestModeSetting
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.codes import RequestCode as Code


def plan(
    desk: Desk,
    client_id: str,
    strategy: str = "AVG",
    model: MessageModel = MessageModel.CLUSTERING,
    topic: str = "orders",
) -> list[str] | None:
    """Ask for a member's queues; None means that it is to keep what it has."""
    body = AssignmentRequest(client_id=client_id, group=GROUP, topic=topic, strategy=strategy, model=model)
    answer = desk.ask(Code.QUERY_ASSIGNMENT, body=encode_body(body))
    assert answer.code == 0
    queues = decode_body(AssignmentAnswer, answer.body).queues
    assert all(each.mode is RequestMode.PULL for each in queues or ())
    return None if queues is None else [str(each.queue.queue) for each in queues]


def routed(desk: Desk, *, a: int = 3, b: int = 2) -> None:
    """Let the name server have told where the topic lives."""
    places = tuple(BrokerPlace(name, "DefaultCluster", {0: "127.0.0.1:1"}) for name in ("a", "b"))
    counts = QueueCounts("b", read=b, write=b), QueueCounts("a", read=a, write=a)
    desk.state.routes["orders"] = Route("orders", places, counts)


def joined(desk: Desk, *names: str) -> None:
    for name in names:
        Client(desk, name, ours=False).beat()


def test_queues_of_all_brokers_are_shared_as_java_does() -> None:
    desk = Desk()
    routed(desk)
    joined(desk, "c2", "c1")
    assert plan(desk, "c1") == ["orders@a:0", "orders@a:1", "orders@a:2"]
    assert plan(desk, "c2") == ["orders@b:0", "orders@b:1"]
    assert plan(desk, "c1", "AVG_BY_CIRCLE") == ["orders@a:0", "orders@a:2", "orders@b:1"]


def test_an_unknown_route_keeps_what_members_have_and_is_looked_up() -> None:
    desk = Desk()
    joined(desk, "c1")
    assert plan(desk, "c1") is None
    assert desk.state.wanted_routes == {"orders"}
    routed(desk)
    assert len(plan(desk, "c1") or ()) == 5


def test_a_topic_that_nobody_wants_is_not_looked_up() -> None:
    desk = Desk()
    joined(desk, "c1")
    assert plan(desk, "c1", topic="nonsense") is None
    assert desk.state.wanted_routes == set()


def test_an_unknown_strategy_or_group_keeps_and_a_stranger_drops() -> None:
    desk = Desk()
    routed(desk)
    assert plan(desk, "c1") is None
    joined(desk, "c1")
    assert plan(desk, "c1", "CONSISTENT_HASH") is None
    assert plan(desk, "stranger") == []


def test_broadcasting_gets_everything() -> None:
    desk = Desk()
    routed(desk)
    assert len(plan(desk, "anybody", model=MessageModel.BROADCASTING) or ()) == 5


def test_a_member_that_leaves_is_planned_for_no_more() -> None:
    desk = Desk()
    routed(desk)
    joined(desk, "c1")
    ours = Client(desk, "c2")
    ours.beat()
    assert len(plan(desk, "c1") or ()) == 3
    ours.beat(leaving=True)
    assert len(plan(desk, "c1") or ()) == 5
    assert plan(desk, "c2") == []


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 6), st.sampled_from(["AVG", "AVG_BY_CIRCLE"]))
def test_every_queue_has_one_owner_whatever_the_numbers(a: int, b: int, members: int, strategy: str) -> None:
    desk = Desk()
    routed(desk, a=a, b=b)
    names = [f"c{number}" for number in range(members)]
    joined(desk, *names)
    shares = [plan(desk, name, strategy) for name in names]
    everything = [
        str(Queue("orders", broker, number)) for broker, size in (("a", a), ("b", b)) for number in range(size)
    ]
    if everything:
        assert sorted(queue for share in shares if share is not None for queue in share) == sorted(everything)
        assert max(len(share or ()) for share in shares) - min(len(share or ()) for share in shares) <= 1
    else:
        assert shares == [None] * members


def mode(desk: Desk, topic: str, wanted: RequestMode) -> tuple[int, str]:
    body = RequestModeSetting(group=GROUP, topic=topic, mode=wanted)
    answer = desk.ask(Code.SET_MESSAGE_REQUEST_MODE, body=encode_body(body))
    return answer.code, answer.remark or ""


def test_only_pull_is_taken() -> None:
    desk = Desk()
    desk.state.topics.own("orders", desk.now_ms)
    assert mode(desk, "orders", RequestMode.PULL) == (0, "")
    code, remark = mode(desk, "orders", RequestMode.POP)
    assert code == 29
    assert "POP" in remark
    assert mode(desk, f"%RETRY%{GROUP}", RequestMode.PULL)[0] == 16
    assert mode(desk, "nowhere", RequestMode.PULL)[0] == 17
