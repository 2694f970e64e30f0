"""Pulls that wait: who wakes them, when they are answered anyway, and that each is answered once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.client import Client
from tests.broker.desk import Desk
from tests.broker.reader import WAITS, beat, bodies, make_topic, parking, place, pull, pull_header, put, start_pull

from steelyard.broker.filters.compiled import compile_filter
from steelyard.broker.options import BrokerOptions
from steelyard.broker.parking import Ask, Parked, Parking
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.peers import Peer, Reply


@pytest.fixture
def desk() -> Desk:
    """Open a broker with one topic of two queues."""
    found = Desk()
    make_topic(found, queues=2)
    return found


def test_a_pull_that_finds_nothing_waits_and_is_answered_when_a_message_comes(desk: Desk) -> None:
    number = start_pull(desk, pull_header())
    assert (desk.answer(number), len(parking(desk))) == (None, 1)
    put(desk, [b"a", b"b"])
    answer = desk.answer(number)
    assert answer is not None
    assert (bodies(answer), answer.remark, place(answer).next_begin_offset) == ([b"a", b"b"], "FOUND", 2)
    assert len(parking(desk)) == 0


def test_members_of_another_make_are_told_when_the_broker_stops_and_ours_see_it_themselves(desk: Desk) -> None:
    for number, is_ours in enumerate((True, False)):
        client = Client(desk, f"client-{number}", ours=is_ours)
        client.beat()
        start_pull(desk, pull_header(flags=WAITS, group=client.group), peer=client.line)
    start_pull(desk, pull_header(), peer=desk.line())  # of nobody's
    told = [(each.peer, each.command.code) for each in desk.broker.dismiss() if isinstance(each, Reply)]
    assert told == [(client.line, 14)]
    assert len(parking(desk)) == 2


def test_a_message_wakes_nobody_before_it_is_in_the_log(desk: Desk) -> None:
    number = start_pull(desk, pull_header())
    put(desk, [b"a"], flush=False)
    assert desk.answer(number) is None
    desk.flush()
    assert desk.answer(number) is not None


def test_a_message_of_the_same_read_of_the_socket_wakes_a_pull_that_came_after_it(desk: Desk) -> None:
    put(desk, [b"a"], flush=False)
    number = start_pull(desk, pull_header())
    answer = desk.answer(number)
    assert answer is not None
    assert bodies(answer) == [b"a"]


def test_a_message_wakes_only_the_pulls_of_its_queue_and_all_of_them(desk: Desk) -> None:
    lines = [desk.line() for _ in range(3)]
    same = [start_pull(desk, pull_header(group=f"g{number}"), peer=line) for number, line in enumerate(lines)]
    other = start_pull(desk, pull_header(queue_id=1))
    put(desk, [b"a"])
    assert all(desk.answer(number, line) for number, line in zip(same, lines, strict=True))
    assert desk.answer(other) is None


def test_a_pull_is_answered_when_its_time_is_over_and_not_before(desk: Desk) -> None:
    number = start_pull(desk, pull_header(wait_ms=3_000))
    desk.advance(2_900)
    assert desk.answer(number) is None
    desk.advance(100)
    answer = desk.answer(number)
    assert answer is not None
    assert (answer.code, answer.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    desk.advance(60_000, step_ms=5_000)
    assert desk.sent_to() == []


def test_no_message_that_does_not_match_wakes_a_pull_and_at_its_end_it_goes_on_behind_them(desk: Desk) -> None:
    number = start_pull(desk, pull_header(wanted="A", wait_ms=3_000))
    for _ in range(30):
        put(desk, [b"x"] * 100, tag="B")
    assert desk.answer(number) is None
    desk.advance(3_000)
    answer = desk.answer(number)
    assert answer is not None
    assert (answer.code, answer.remark, place(answer).next_begin_offset) == (20, "NO_MATCHED_MESSAGE", 3_000)


def test_the_message_that_matches_is_found_behind_any_number_that_do_not(desk: Desk) -> None:
    for kind, wanted in (("TAG", "A"), ("SQL92", "TAGS = 'A'")):
        _, high = desk.state.store.bounds(b"orders", 0)
        number = start_pull(desk, pull_header(high, wanted=wanted, kind=kind))
        put(desk, [b"x"] * 2_500, tag="B", flush=False)
        put(desk, [b"found"], tag="A")
        answer = desk.answer(number)
        assert answer is not None
        assert (bodies(answer), place(answer).next_begin_offset) == ([b"found"], high + 2_501)


def test_a_group_that_changes_its_mind_gets_what_came_while_it_waited_for_something_else(desk: Desk) -> None:
    beat(desk, "one", desk.peer, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=1)])
    number = start_pull(desk, pull_header(flags=0, version=1))
    put(desk, [b"b"], tag="B")
    assert desk.answer(number) is None
    beat(desk, "one", desk.peer, subscriptions=[SubscriptionBody(topic="orders", expression="B", version=2)])
    desk.advance(15_000, step_ms=1_000)
    answer = desk.answer(number)
    assert answer is not None
    assert bodies(answer) == [b"b"]


def test_nobody_waits_without_the_flag_or_without_time_or_one_way(desk: Desk) -> None:
    assert pull(desk, pull_header(flags=4)).code == 19
    for wait_ms in (0, -1, -(1 << 63)):
        assert pull(desk, pull_header(flags=WAITS, wait_ms=wait_ms)).code == 19
    desk.say(RequestCode.PULL_MESSAGE, pull_header(flags=WAITS), oneway=True)
    assert len(parking(desk)) == 0


def test_nobody_waits_for_ever(desk: Desk) -> None:
    number = start_pull(desk, pull_header(wait_ms=(1 << 63) - 1))
    desk.advance(300_000, step_ms=10_000)
    assert desk.answer(number) is not None


def test_one_pull_too_many_is_answered_at_once() -> None:
    desk = Desk(BrokerOptions(parked_pulls=3))
    make_topic(desk)
    waiting = [start_pull(desk, pull_header()) for _ in range(3)]
    assert pull(desk, pull_header(flags=WAITS)).code == 19
    put(desk, [b"a"])
    assert all(desk.answer(number) for number in waiting)
    assert len(parking(desk)) == 0


def test_the_pulls_of_a_line_that_closed_are_dropped(desk: Desk) -> None:
    gone, stays = desk.line(), desk.line()
    start_pull(desk, pull_header(), peer=gone)
    start_pull(desk, pull_header(queue_id=1), peer=gone)
    number = start_pull(desk, pull_header(), peer=stays)
    desk.hang_up(gone)
    assert len(parking(desk)) == 1
    put(desk, [b"a"])
    put(desk, [b"b"], queue_id=1)
    assert desk.sent_to(gone) == []
    assert desk.answer(number, stays) is not None


def test_pulls_of_a_topic_that_is_deleted_are_told_so(desk: Desk) -> None:
    number = start_pull(desk, pull_header())
    desk.state.topics.remove("orders", desk.now_ms)
    desk.tick()
    answer = desk.answer(number)
    assert answer is not None
    assert answer.code == 17


def test_pulls_of_a_queue_that_is_taken_away_or_shut_are_told_so(desk: Desk) -> None:
    number, first = start_pull(desk, pull_header(queue_id=1)), start_pull(desk, pull_header())
    make_topic(desk, queues=1)
    desk.tick()
    answer = desk.answer(number)
    assert answer is not None
    assert answer.code == 29
    assert desk.answer(first) is None
    make_topic(desk, queues=1, permission=2)
    desk.tick()
    shut = desk.answer(first)
    assert shut is not None
    assert (shut.code, shut.texts()["forbiddenType"]) == (16, "3")


def test_pulls_of_a_group_that_may_not_read_any_more_are_told_so(desk: Desk) -> None:
    number = start_pull(desk, pull_header())
    desk.state.groups.put(GroupSettings(name="billing", consume_enabled=False), desk.now_ms)
    desk.tick()
    answer = desk.answer(number)
    assert answer is not None
    assert answer.code == 16


def test_a_commit_is_taken_before_the_waiting_and_once(desk: Desk) -> None:
    start_pull(desk, pull_header(flags=5, commit=7))
    assert desk.state.offsets.get("billing", "orders", 0) == 7
    desk.state.offsets.put("billing", "orders", 0, 9)
    put(desk, [b"a"])
    assert desk.state.offsets.get("billing", "orders", 0) == 9


# -- the table ----------------------------------------------------------------------------------------------------

EVERYTHING = compile_filter("TAG", "*")


def parked(line: int = 1, queue_id: int = 0, until_ms: int = 100) -> Parked:
    """Make a pull that waits."""
    ask = Ask("g", "t", queue_id, 0, 32, 1 << 18, EVERYTHING, 0)
    return Parked(ask, b"t", Peer.at("127.0.0.1", 1, number=line), 0, HeaderType.JSON, until_ms, EVERYTHING, 0)


def test_what_was_answered_early_does_not_pile_up() -> None:
    table = Parking()
    for _ in range(10_000):
        each = parked(until_ms=1_000_000)
        table.park(each)
        assert table.leave(each)
    assert len(table._times) < 1_000
    assert table.take_due(2_000_000) == []


class ParkingMachine(RuleBasedStateMachine):
    """Pulls come, are woken, expire and lose their lines in any order; each leaves once."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.now_ms = Parking(), 0
        self.waiting: dict[int, Parked] = {}

    @rule(line=st.integers(1, 3), queue_id=st.integers(0, 2), wait_ms=st.integers(1, 50))
    def park(self, line: int, queue_id: int, wait_ms: int) -> None:
        """Let a pull come."""
        each = parked(line, queue_id, self.now_ms + wait_ms)
        self.table.park(each)
        self.waiting[each.number] = each

    @rule(queue_id=st.integers(0, 2))
    def arrive(self, queue_id: int) -> None:
        """Let a message come, and all who wait there go."""
        self.table.arrived(b"t", queue_id)
        expected = [each for each in self.waiting.values() if each.ask.queue_id == queue_id]
        assert self.table.take_arrived() == ([(b"t", queue_id)] if expected else [])
        assert self.table.in_queue(b"t", queue_id) == expected
        for each in expected:
            self.gone(each)
            assert self.table.leave(each)
            assert not self.table.leave(each)

    @rule(passed_ms=st.integers(0, 40))
    def advance(self, passed_ms: int) -> None:
        """Let time pass."""
        self.now_ms += passed_ms
        due = self.table.take_due(self.now_ms)
        expected = [each for each in self.waiting.values() if each.until_ms <= self.now_ms]
        assert sorted(map(id, due)) == sorted(map(id, expected))
        assert [each.until_ms for each in due] == sorted(each.until_ms for each in due)
        for each in expected:
            self.gone(each)

    @rule(line=st.integers(1, 3))
    def close(self, line: int) -> None:
        """Let a line close."""
        self.table.forget_line(line)
        for each in [each for each in self.waiting.values() if each.peer.number == line]:
            self.gone(each)

    def gone(self, each: Parked) -> None:
        """Note that a pull left."""
        (number,) = [number for number, known in self.waiting.items() if known is each]
        del self.waiting[number]

    @invariant()
    def counts(self) -> None:
        """Check that the table holds those that wait and nothing of the others."""
        assert len(self.table) == len(self.waiting)
        assert set(self.table.queues()) == {(b"t", each.ask.queue_id) for each in self.waiting.values()}


TestParkingMachine = ParkingMachine.TestCase


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_pull_is_answered_once_by_an_arrival_or_by_its_end(data: st.DataObject) -> None:
    desk = Desk()
    make_topic(desk, queues=2)
    lines = [desk.line() for _ in range(2)]
    open_pulls: dict[tuple[int, int], int] = {}
    sent: dict[int, int] = {0: 0, 1: 0}
    for _ in range(data.draw(st.integers(5, 40))):
        step = data.draw(st.sampled_from(["pull", "pull", "put", "time"]))
        queue_id = data.draw(st.integers(0, 1))
        if step == "pull":
            line = data.draw(st.sampled_from(lines))
            header = pull_header(
                sent[queue_id],
                queue_id=queue_id,
                wanted=data.draw(st.sampled_from(["*", "A"])),
                wait_ms=data.draw(st.integers(100, 2_000)),
            )
            open_pulls[start_pull(desk, header, peer=line), line.number] = desk.now_ms + header.suspend_timeout_millis
        elif step == "put":
            put(desk, [b"x"], queue_id=queue_id, tag=data.draw(st.sampled_from("AB")))
            sent[queue_id] += 1
        else:
            desk.advance(data.draw(st.integers(1, 1_500)))
        for line in lines:
            for answer in desk.sent_to(line):
                assert answer.code in {0, 19, 20}
                del open_pulls[answer.opaque, line.number]
        assert all(desk.now_ms < until_ms for until_ms in open_pulls.values())
        assert len(parking(desk)) == len(open_pulls)
