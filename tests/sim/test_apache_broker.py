"""The model of Apache's broker does what the balancing protocol has to live with."""

import pytest
from tests.golden_frames import golden_frames
from tests.sim.apache_guest import GROUP, LEASE, TOPIC, Guest, facts_of, place

from steelyard.model import Queue
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.apache.pools import ADMIN_THREADS
from steelyard.sim.facts import Committed, Freed, Gone, Granted, Joined, Registered, Unregistered
from steelyard.sim.nameserver_process import NameServerProcess
from steelyard.sim.world import World
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter
from steelyard.wire.headers.common import Empty, Group, OffsetAnswer, QueueRequest
from steelyard.wire.headers.group import AskRunningState, CommitOffset
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.headers.send import SendBack

_BOTH = pytest.mark.parametrize("version", ["4.9", "5.x"])
_QUEUE = Queue(TOPIC, "b1", 0)


def guest_of(world: World, broker: ApacheBrokerProcess, name: str = "c1") -> Guest:
    return Guest(world, name, broker)


# -- pools ------------------------------------------------------------------------------------------------------------


def test_two_requests_of_one_line_may_be_executed_in_the_other_order() -> None:
    orders: set[tuple[int, ...]] = set()
    for seed in range(40):
        world, _, broker = place(seed)
        guest = guest_of(world, broker)
        guest.beat()
        for offset in (1, 2):
            guest.say(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(GROUP, TOPIC, 0, offset), oneway=True)
        guest.pass_time(200)
        orders.add(tuple(fact.offset for fact in facts_of(world, Committed) if isinstance(fact, Committed)))
    assert orders == {(1, 2), (2, 1)}


def test_a_request_of_a_closed_line_may_still_be_executed() -> None:
    late = 0
    for seed in range(60):
        world, _, broker = place(seed)
        guest = guest_of(world, broker)
        guest.beat()
        guest.say(RequestCode.LOCK_BATCH_MQ, Empty(), guest.lock_body(0))
        guest.line.close()
        guest.pass_time(300)
        ends = facts_of(world, Granted, Unregistered)
        late += isinstance(ends[-1], Granted)
        assert [type(fact) for fact in facts_of(world, Granted)] == [Granted]
    assert 0 < late < 60


def test_a_late_heartbeat_of_a_closed_line_is_believed() -> None:
    world, _, broker = place()
    guest, other = guest_of(world, broker), guest_of(world, broker, "c2")
    near_end = next(line for line in broker.lines.values() if line.remote == guest.line.local)
    guest.hang_up()
    broker.execute(near_end, Command(RequestCode.HEART_BEAT, Empty(), guest.beat_body()))
    assert other.ids() == ["c1"]
    answer = other.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, "c1"))
    assert answer.code == 1
    assert "Exception" in (answer.remark or "")


# -- members ----------------------------------------------------------------------------------------------------------


@_BOTH
def test_an_unknown_group_is_an_error_and_a_known_one_a_plain_list(version: str) -> None:
    world, _, broker = place(version=version)
    guest = guest_of(world, broker)
    assert guest.ids() is None
    beat = guest.beat()
    assert "steelyard" not in beat.texts()
    assert bool(beat.texts()) == (version == "5.x")
    assert guest.ids() == ["c1"]
    guest.leave()
    assert guest.ids() is None


def test_one_id_on_two_lines_counts_twice() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "p1"), guest_of(world, broker, "p2")
    one.beat("c1")
    two.beat("c1")
    assert one.ids() == ["c1", "c1"]
    one.hang_up()
    assert two.ids() == ["c1"]
    assert len(facts_of(world, Registered)) == 1
    assert not facts_of(world, Unregistered)


def test_notices_go_to_every_line_when_somebody_joins_leaves_or_closes() -> None:
    world, _, broker = place()
    one, two, three = (guest_of(world, broker, name) for name in ("c1", "c2", "c3"))
    one.beat()
    two.beat()
    three.beat()
    assert [len(each.requests) for each in (one, two, three)] == [3, 2, 1]
    three.leave()
    assert [len(each.requests) for each in (one, two, three)] == [4, 3, 1]
    two.hang_up()
    assert len(one.requests) == 5
    one.beat()
    assert len(one.requests) == 5
    one.beat(topics=(TOPIC, "refunds"))
    assert len(one.requests) == 6
    assert {request.code for request in one.requests} == {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}


def test_a_closed_line_leaves_the_list_at_once_but_keeps_its_locks() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    one.beat()
    two.beat()
    assert one.lock(0) == [0]
    one.hang_up()
    assert two.ids() == ["c2"]
    assert two.lock(0) == []
    assert not facts_of(world, Freed)
    two.pass_time(60_500)
    assert two.lock(0) == [0]
    (freed,) = facts_of(world, Freed)
    assert isinstance(freed, Freed)
    assert freed.how == "expired"


def test_a_silent_member_is_taken_out_after_two_minutes_and_nobody_is_told() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    one.beat()
    for _ in range(3):
        two.beat()
        two.pass_time(35_000)
    told = len(two.requests)
    two.beat()
    two.pass_time(35_000)
    assert two.ids() == ["c2"]
    assert len(two.requests) == told
    (gone,) = facts_of(world, Unregistered)
    assert isinstance(gone, Unregistered)
    assert (gone.member, gone.how) == ("c1", "silent")
    assert one.line.is_over


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
    assert broker.locks() == [("b1", LEASE, _QUEUE, "c1")]
    assert [fact.again for fact in facts_of(world, Granted) if isinstance(fact, Granted)] == [False, True]


def test_a_restarted_broker_knows_no_members_and_no_locks_but_its_log() -> None:
    world, _, broker = place()
    one = guest_of(world, broker)
    one.beat()
    one.lock(0)
    one.send("p1-1")
    before = broker.logged()
    broker.crash()
    assert [fact.how for fact in facts_of(world, Freed) if isinstance(fact, Freed)] == ["restart"]
    assert [fact.how for fact in facts_of(world, Unregistered) if isinstance(fact, Unregistered)] == ["restart"]
    broker.restart()
    two = guest_of(world, broker, "c2")
    assert two.ids() is None
    assert two.lock(0) == [0]
    assert [logged.uid for logged in before] == [logged.uid for logged in broker.logged()] == ["p1-1"]
    assert [fact.kind for fact in facts_of(world, Joined) if isinstance(fact, Joined)][-1] == "broker"
    assert [fact.how for fact in facts_of(world, Gone) if isinstance(fact, Gone)] == ["crashed"]
    uptime = decode_body(TextTable, two.ask(RequestCode.GET_BROKER_RUNTIME_INFO, Empty()).body).table
    assert broker.clock.wall_ms() - int(uptime["bootTimestamp"]) < 1_000
    assert uptime["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_commits_may_go_back_and_come_from_anybody() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    one.beat()
    one.commit(9)
    two.commit(4)
    assert one.committed().header(OffsetAnswer).offset == 4
    told = [fact for fact in facts_of(world, Committed) if isinstance(fact, Committed)]
    assert [(fact.offset, fact.before, fact.member) for fact in told] == [(9, None, "c1"), (4, 9, None)]


def test_up_to_five_seconds_of_commits_are_lost_when_it_is_killed() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    guest.beat()
    guest.commit(3)
    guest.pass_time(10_000)
    guest.commit(7)
    assert broker.committed() == {(GROUP, _QUEUE): 7}
    broker.crash()
    assert broker.committed() == {(GROUP, _QUEUE): 3}
    broker.restart()
    again = guest_of(world, broker, "c2")
    assert again.committed().header(OffsetAnswer).offset == 3
    again.commit(8)
    broker.stop()
    broker.restart()
    assert broker.committed() == {(GROUP, _QUEUE): 8}


def test_a_group_that_stored_nothing_is_told_so_by_release_5_alone() -> None:
    for version, code in (("4.9", 0), ("5.x", 22)):
        world, _, broker = place(version=version)
        guest = guest_of(world, broker)
        guest.beat()
        guest.send("p1-1")
        assert guest.committed().code == code


def test_release_5_takes_no_commit_of_a_group_that_it_does_not_know() -> None:
    for version, code in (("4.9", 0), ("5.x", 26)):
        world, _, broker = place(version=version)
        assert guest_of(world, broker).commit(1).code == code


# -- questions --------------------------------------------------------------------------------------------------------


def test_a_question_to_a_member_is_passed_on_untouched_and_so_is_the_answer() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    two.beat()
    two.requests.clear()
    header = AskRunningState(GROUP, "c2", steelyard_wants='[["orders","b1",0]]')
    answer = one.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header, b"a body")
    (question,) = two.requests
    assert question.header(AskRunningState) == header
    assert question.body == b"a body"
    assert (answer.code, answer.body, answer.remark) == (0, b"what I have", "a remark")
    assert answer.texts() == {"mine": "c2"}


def test_a_question_to_somebody_who_is_not_there_or_silent_is_answered_so() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    nobody = one.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, "c2"))
    assert nobody.code == 1
    assert "not online" in (nobody.remark or "")
    two.beat()
    two.is_answering = False
    asked = one.say(RequestCode.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, "c2"))
    one.pass_time(9_500)
    assert asked not in one.answers
    two.line.close()
    one.pass_time(1_000)
    assert one.answers[asked].code == 207


def test_locks_wait_while_every_thread_of_administration_waits_for_silent_members() -> None:
    world, _, broker = place()
    one, two = guest_of(world, broker, "c1"), guest_of(world, broker, "c2")
    two.beat()
    two.is_answering = False
    for _ in range(ADMIN_THREADS):
        one.say(RequestCode.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, "c2"))
    one.pass_time(500)
    lock = one.say(RequestCode.LOCK_BATCH_MQ, Empty(), one.lock_body(0))
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
    guest.line = world.network.connect(guest, names.address)
    assert guest.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(TOPIC)).code == 0


@_BOTH
def test_answers_have_the_fields_that_real_ones_have(version: str) -> None:
    real = _real_answers("4.9.7" if version == "4.9" else "5.5.0")
    world, _, broker = place(version=version)
    guest = guest_of(world, broker)
    asked = {
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: guest.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, Group(GROUP)),
        RequestCode.HEART_BEAT: guest.beat(),
        RequestCode.SEND_MESSAGE_V2: guest.send("p1-1", properties="UNIQ_KEY\x01A1\x02"),
        RequestCode.GET_MAX_OFFSET: guest.ask(RequestCode.GET_MAX_OFFSET, QueueRequest(TOPIC, 0)),
        RequestCode.GET_MIN_OFFSET: guest.ask(RequestCode.GET_MIN_OFFSET, QueueRequest(TOPIC, 0)),
        RequestCode.QUERY_CONSUMER_OFFSET: guest.committed(),
        RequestCode.LOCK_BATCH_MQ: guest.ask(RequestCode.LOCK_BATCH_MQ, Empty(), guest.lock_body(0)),
        RequestCode.UNLOCK_BATCH_MQ: guest.unlock(0),
        RequestCode.CONSUMER_SEND_MSG_BACK: guest.ask(
            RequestCode.CONSUMER_SEND_MSG_BACK, SendBack(0, GROUP, 0, "", TOPIC)
        ),
        RequestCode.UNREGISTER_CLIENT: guest.leave(),
    }
    guest.beat()
    for offset in (0, 7):
        found = guest.pull(offset)
        guest.pass_time(200)
        assert frozenset(guest.answers[found].texts()) in real[RequestCode.PULL_MESSAGE, guest.answers[found].code]
    for code, answer in asked.items():
        assert frozenset(answer.texts()) in real[code, answer.code], code
        assert answer.version == {"4.9": 407, "5.x": 513}[version]


def _real_answers(release: str) -> dict[tuple[int, int], set[frozenset[str]]]:
    """Return the names of the fields of recorded answers, by request and answer."""
    found: dict[tuple[int, int], set[frozenset[str]]] = {}
    for golden in golden_frames():
        if golden.is_answer and golden.release == release:
            (answer,) = Splitter().feed(golden.frame)
            found.setdefault((golden.request_code, golden.code), set()).add(frozenset(answer.texts()))
    return found


def test_the_same_seed_gives_the_same_history() -> None:
    digests = set()
    for _ in range(2):
        world, _, broker = place(5)
        guest = guest_of(world, broker)
        guest.beat()
        for number in range(20):
            guest.send(f"p1-{number}", number % 4)
        broker.crash()
        broker.restart()
        guest.pass_time(5_000)
        digests.add(world.journal.digest())
    assert len(digests) == 1
