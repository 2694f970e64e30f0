"""The model of Apache's broker does what the balancing protocol has to live with."""

import pytest

from simulator.actors.name_server import NameServerProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.apache.state import ADMIN_THREADS
from simulator.facts import (
    LockFreed,
    LockGranted,
    MemberRegistered,
    MemberUnregistered,
    OffsetCommitted,
    ProcessGone,
    ProcessStarted,
)
from simulator.world import World
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder
from steelyard.wire.headers.common import EmptyHeader, GroupRequest, OffsetResponse, QueueRequest
from steelyard.wire.headers.group import CommitOffset, GetConsumerRunningState
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.headers.send import SendMessageBack
from tests.golden_frames import golden_frames
from tests.simulator.apache_client import GROUP, LEASE, TOPIC, ApacheTestClient, facts_of, place

_BOTH = pytest.mark.parametrize("version", ["4.9", "5.x"])
_QUEUE = Queue(TOPIC, "b1", 0)


def guest_of(world: World, broker: ApacheBrokerProcess, name: str = "c1") -> ApacheTestClient:
    return ApacheTestClient(world, name, broker)


# -- pools ------------------------------------------------------------------------------------------------------------


def test_two_requests_of_one_connection_may_be_executed_in_the_other_order() -> None:
    orders: set[tuple[int, ...]] = set()
    for seed in range(40):
        world, _, broker = place(seed)
        guest = guest_of(world, broker)
        guest.heartbeat()
        for offset in (1, 2):
            guest.send_request(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(GROUP, TOPIC, 0, offset), oneway=True)
        guest.pass_time(200)
        orders.add(tuple(fact.offset for fact in facts_of(world, OffsetCommitted) if isinstance(fact, OffsetCommitted)))
    assert orders == {(1, 2), (2, 1)}


def test_a_request_of_a_closed_connection_may_still_be_executed() -> None:
    late = 0
    for seed in range(60):
        world, _, broker = place(seed)
        guest = guest_of(world, broker)
        guest.heartbeat()
        guest.send_request(RequestCode.LOCK_BATCH_MQ, EmptyHeader(), guest.lock_body(0))
        guest.connection.close()
        guest.pass_time(300)
        ends = facts_of(world, LockGranted, MemberUnregistered)
        late += isinstance(ends[-1], LockGranted)
        assert [type(fact) for fact in facts_of(world, LockGranted)] == [LockGranted]
    assert 0 < late < 60


def test_a_late_heartbeat_of_a_closed_connection_is_believed() -> None:
    world, _, broker = place()
    guest, other = guest_of(world, broker), guest_of(world, broker, "c2")
    near_end = next(
        connection for connection in broker.connections.values() if connection.remote == guest.connection.local
    )
    guest.disconnect()
    broker.execute(near_end, Command(RequestCode.HEART_BEAT, EmptyHeader(), guest.heartbeat_body()))
    assert other.ids() == ["c1"]
    answer = other.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, "c1"))
    assert answer.code == 1
    assert "Exception" in (answer.remark or "")


# -- members ----------------------------------------------------------------------------------------------------------


@_BOTH
def test_an_unknown_group_is_an_error_and_a_known_one_a_plain_list(version: str) -> None:
    world, _, broker = place(version=version)
    guest = guest_of(world, broker)
    assert guest.ids() is None
    heartbeat = guest.heartbeat()
    assert "steelyard" not in heartbeat.texts()
    assert bool(heartbeat.texts()) == (version == "5.x")
    assert guest.ids() == ["c1"]
    guest.leave()
    assert guest.ids() is None


def test_one_id_on_two_connections_counts_twice() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "p1"), guest_of(world, broker, "p2")
    one.heartbeat("c1")
    two.heartbeat("c1")
    assert one.ids() == ["c1", "c1"]
    one.disconnect()
    assert two.ids() == ["c1"]
    assert len(facts_of(world, MemberRegistered)) == 1
    assert not facts_of(world, MemberUnregistered)


def test_every_connection_is_notified_when_a_member_joins_leaves_or_disconnects() -> None:
    world, _, broker = place()
    one, two, three = (guest_of(world, broker, name) for name in ("c1", "c2", "c3"))
    one.heartbeat()
    two.heartbeat()
    three.heartbeat()
    assert [len(each.requests) for each in (one, two, three)] == [3, 2, 1]
    three.leave()
    assert [len(each.requests) for each in (one, two, three)] == [4, 3, 1]
    two.disconnect()
    assert len(one.requests) == 5
    one.heartbeat()
    assert len(one.requests) == 5
    one.heartbeat(topics=(TOPIC, "refunds"))
    assert len(one.requests) == 6
    assert {request.code for request in one.requests} == {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}


def test_a_closed_connection_leaves_the_list_at_once_but_keeps_its_locks() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    one.heartbeat()
    two.heartbeat()
    assert one.lock(0) == [0]
    one.disconnect()
    assert two.ids() == ["c2"]
    assert two.lock(0) == []
    assert not facts_of(world, LockFreed)
    two.pass_time(60_500)
    assert two.lock(0) == [0]
    (freed,) = facts_of(world, LockFreed)
    assert isinstance(freed, LockFreed)
    assert freed.how == "expired"


def test_a_silent_member_is_removed_after_two_minutes_without_notification() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    one.heartbeat()
    for _ in range(3):
        two.heartbeat()
        two.pass_time(35_000)
    text = len(two.requests)
    two.heartbeat()
    two.pass_time(35_000)
    assert two.ids() == ["c2"]
    assert len(two.requests) == text
    (gone,) = facts_of(world, MemberUnregistered)
    assert isinstance(gone, MemberUnregistered)
    assert (gone.member, gone.how) == ("c1", "silent")
    assert one.connection.is_closed


# -- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_takes_any_group_and_any_client_and_believes_the_body() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    assert guest.lock(0, 1, client="somebody", group="no such group") == [0, 1]
    assert guest.lock(0, group="no such group") == []
    assert guest.lock(0) == [0]
    guest.unlock(0, group="no such group")
    assert guest.lock(0, group="no such group") == []
    guest.unlock(0, client="somebody", group="no such group")
    assert guest.lock(0, group="no such group") == [0]


def test_a_lock_lives_from_the_last_time_it_was_asked_for() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    assert one.lock(0) == [0]
    one.pass_time(40_000)
    assert one.lock(0) == [0]
    one.pass_time(40_000)
    assert two.lock(0) == []
    assert broker.held_locks() == [("b1", LEASE, _QUEUE, "c1")]
    assert [fact.again for fact in facts_of(world, LockGranted) if isinstance(fact, LockGranted)] == [False, True]


def test_a_restarted_broker_knows_no_members_and_no_locks_but_its_log() -> None:
    world, _, broker = place()
    one = guest_of(world, broker)
    one.heartbeat()
    one.lock(0)
    one.send("p1-1")
    before = broker.logged_messages()
    broker.crash()
    assert [fact.how for fact in facts_of(world, LockFreed) if isinstance(fact, LockFreed)] == ["restart"]
    assert [fact.how for fact in facts_of(world, MemberUnregistered) if isinstance(fact, MemberUnregistered)] == [
        "restart"
    ]
    broker.restart()
    two = guest_of(world, broker, "c2")
    assert two.ids() is None
    assert two.lock(0) == [0]
    assert [logged.uid for logged in before] == [logged.uid for logged in broker.logged_messages()] == ["p1-1"]
    assert [fact.kind for fact in facts_of(world, ProcessStarted) if isinstance(fact, ProcessStarted)][-1] == "broker"
    assert [fact.how for fact in facts_of(world, ProcessGone) if isinstance(fact, ProcessGone)] == ["crashed"]
    uptime = decode_body(KVTable, two.ask(RequestCode.GET_BROKER_RUNTIME_INFO, EmptyHeader()).body).table
    assert broker.clock.wall_ms() - int(uptime["bootTimestamp"]) < 1_000
    assert uptime["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_commits_may_go_back_and_come_from_anybody() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    one.heartbeat()
    one.commit(9)
    two.commit(4)
    assert one.committed().header(OffsetResponse).offset == 4
    text = [fact for fact in facts_of(world, OffsetCommitted) if isinstance(fact, OffsetCommitted)]
    assert [(fact.offset, fact.before, fact.member) for fact in text] == [(9, None, "c1"), (4, 9, None)]


def test_up_to_five_seconds_of_commits_are_lost_when_it_is_killed() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    guest.heartbeat()
    guest.commit(3)
    guest.pass_time(10_000)
    guest.commit(7)
    assert broker.committed_offsets() == {(GROUP, _QUEUE): 7}
    broker.crash()
    assert broker.committed_offsets() == {(GROUP, _QUEUE): 3}
    broker.restart()
    again = guest_of(world, broker, "c2")
    assert again.committed().header(OffsetResponse).offset == 3
    again.commit(8)
    broker.stop()
    broker.restart()
    assert broker.committed_offsets() == {(GROUP, _QUEUE): 8}


def test_only_release_5_reports_that_nothing_is_stored() -> None:
    for version, code in (("4.9", 0), ("5.x", 22)):
        world, _, broker = place(version=version)
        guest = guest_of(world, broker)
        guest.heartbeat()
        guest.send("p1-1")
        assert guest.committed().code == code


def test_release_5_takes_no_commit_of_a_group_that_it_does_not_know() -> None:
    for version, code in (("4.9", 0), ("5.x", 26)):
        world, _, broker = place(version=version)
        assert guest_of(world, broker).commit(1).code == code


# -- forwarded requests -----------------------------------------------------------------------------------------------


def test_a_question_to_a_member_is_passed_on_untouched_and_so_is_the_answer() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    two.heartbeat()
    two.requests.clear()
    header = GetConsumerRunningState(GROUP, "c2", steelyard_wants='[["orders","b1",0]]')
    answer = one.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header, b"a body")
    (question,) = two.requests
    assert question.header(GetConsumerRunningState) == header
    assert question.body == b"a body"
    assert (answer.code, answer.body, answer.remark) == (0, b"what I have", "a remark")
    assert answer.texts() == {"mine": "c2"}


def test_a_question_to_somebody_who_is_not_there_or_silent_is_answered_so() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    nobody = one.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, "c2"))
    assert nobody.code == 1
    assert "not online" in (nobody.remark or "")
    two.heartbeat()
    two.is_answering = False
    asked = one.send_request(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, "c2"))
    one.pass_time(9_500)
    assert asked not in one.answers
    two.connection.close()
    one.pass_time(1_000)
    assert one.answers[asked].code == 207


def test_locks_wait_while_every_thread_of_administration_waits_for_silent_members() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    two.heartbeat()
    two.is_answering = False
    for _ in range(ADMIN_THREADS):
        one.send_request(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, "c2"))
    one.pass_time(500)
    lock = one.send_request(RequestCode.LOCK_BATCH_MQ, EmptyHeader(), one.lock_body(0))
    one.pass_time(5_000)
    assert lock not in one.answers
    one.pass_time(5_000)
    assert one.answers[lock].code == 0


def test_what_only_administrators_ask_is_not_known() -> None:
    world, _, broker = place()
    answer = guest_of(world, broker).ask(RequestCode.GET_EARLIEST_MSG_STORETIME, QueueRequest(TOPIC, 0))
    assert answer.code == 3


def test_a_name_server_that_comes_back_learns_of_the_broker_again() -> None:
    world, names, broker = place()
    assert isinstance(names, NameServerProcess)
    names.crash()
    world.run(world.now_ms() + 3_000)
    names.restart()
    world.run(world.now_ms() + 5_000)
    guest = guest_of(world, broker)
    guest.connection = world.network.connect(guest, names.address)
    assert guest.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(TOPIC)).code == 0


@_BOTH
def test_answers_have_the_fields_that_real_ones_have(version: str) -> None:
    real = _real_answers("4.9.7" if version == "4.9" else "5.5.0")
    world, _, broker = place(version=version)
    guest = guest_of(world, broker)
    asked = {
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: guest.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(GROUP)),
        RequestCode.HEART_BEAT: guest.heartbeat(),
        RequestCode.SEND_MESSAGE_V2: guest.send("p1-1", properties="UNIQ_KEY\x01A1\x02"),
        RequestCode.GET_MAX_OFFSET: guest.ask(RequestCode.GET_MAX_OFFSET, QueueRequest(TOPIC, 0)),
        RequestCode.GET_MIN_OFFSET: guest.ask(RequestCode.GET_MIN_OFFSET, QueueRequest(TOPIC, 0)),
        RequestCode.QUERY_CONSUMER_OFFSET: guest.committed(),
        RequestCode.LOCK_BATCH_MQ: guest.ask(RequestCode.LOCK_BATCH_MQ, EmptyHeader(), guest.lock_body(0)),
        RequestCode.UNLOCK_BATCH_MQ: guest.unlock(0),
        RequestCode.CONSUMER_SEND_MSG_BACK: guest.ask(
            RequestCode.CONSUMER_SEND_MSG_BACK, SendMessageBack(0, GROUP, 0, "", TOPIC)
        ),
        RequestCode.UNREGISTER_CLIENT: guest.leave(),
    }
    guest.heartbeat()
    for offset in (0, 7):
        found = guest.pull(offset)
        guest.pass_time(200)
        assert frozenset(guest.answers[found].texts()) in real[RequestCode.PULL_MESSAGE, guest.answers[found].code]
    for code, answer in asked.items():
        assert frozenset(answer.texts()) in real[code, answer.code], code
        assert answer.version == {"4.9": 407, "5.x": 513}[version]


def _real_answers(release: str) -> dict[tuple[int, int], set[frozenset[str]]]:
    """Return the field names of recorded responses, by request and response code."""
    found: dict[tuple[int, int], set[frozenset[str]]] = {}
    for golden in golden_frames():
        if golden.is_answer and golden.release == release:
            (answer,) = FrameDecoder().feed(golden.frame)
            found.setdefault((golden.request_code, golden.code), set()).add(frozenset(answer.texts()))
    return found


def test_the_same_seed_gives_the_same_history() -> None:
    digests = set()
    for _ in range(2):
        world, _, broker = place(5)
        guest = guest_of(world, broker)
        guest.heartbeat()
        for number in range(20):
            guest.send(f"p1-{number}", number % 4)
        broker.crash()
        broker.restart()
        guest.pass_time(5_000)
        digests.add(world.journal.digest())
    assert len(digests) == 1
