"""Held pulls: what answers them, when they time out, and that each is answered once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from steelyard.broker.filters import compile_filter
from steelyard.broker.held_pulls import HeldPull, HeldPulls, PullSpec
from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Peer, Reply
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import FakeConsumer
from tests.broker.pull_requests import (
    WAITS,
    bodies,
    held_pulls,
    make_topic,
    pull,
    pull_fields,
    pull_header,
    send_heartbeat,
    start_pull,
    store_messages,
)


@pytest.fixture
def harness() -> BrokerHarness:
    """Open a broker with one topic of two queues."""
    found = BrokerHarness()
    make_topic(found, queues=2)
    return found


def test_a_pull_that_finds_nothing_waits_and_is_answered_when_a_message_comes(harness: BrokerHarness) -> None:
    number = start_pull(harness, pull_header())
    assert (harness.pop_response(number), len(held_pulls(harness))) == (None, 1)
    store_messages(harness, [b"a", b"b"])
    answer = harness.pop_response(number)
    assert answer is not None
    assert (bodies(answer), answer.remark, pull_fields(answer).next_begin_offset) == ([b"a", b"b"], "FOUND", 2)
    assert len(held_pulls(harness)) == 0


def test_members_of_another_make_are_reported_when_the_broker_stops_and_ours_see_it_themselves(
    harness: BrokerHarness,
) -> None:
    for number, is_ours in enumerate((True, False)):
        client = FakeConsumer(harness, f"client-{number}", ours=is_ours)
        client.heartbeat()
        start_pull(harness, pull_header(flags=WAITS, group=client.group), peer=client.connection)
    start_pull(harness, pull_header(), peer=harness.connect())  # of nobody's
    reported = [(each.peer, each.command.code) for each in harness.broker.notify_stopping() if isinstance(each, Reply)]
    assert reported == [(client.connection, 14)]
    assert len(held_pulls(harness)) == 2


def test_a_message_wakes_nobody_before_it_is_in_the_log(harness: BrokerHarness) -> None:
    number = start_pull(harness, pull_header())
    store_messages(harness, [b"a"], flush=False)
    assert harness.pop_response(number) is None
    harness.flush()
    assert harness.pop_response(number) is not None


def test_a_message_of_the_same_read_of_the_socket_wakes_a_pull_that_came_after_it(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a"], flush=False)
    number = start_pull(harness, pull_header())
    answer = harness.pop_response(number)
    assert answer is not None
    assert bodies(answer) == [b"a"]


def test_a_message_wakes_only_the_pulls_of_its_queue_and_all_of_them(harness: BrokerHarness) -> None:
    peers = [harness.connect() for _ in range(3)]
    same = [
        start_pull(harness, pull_header(group=f"g{number}"), peer=peer_number)
        for number, peer_number in enumerate(peers)
    ]
    other = start_pull(harness, pull_header(queue_id=1))
    store_messages(harness, [b"a"])
    assert all(harness.pop_response(number, peer_number) for number, peer_number in zip(same, peers, strict=True))
    assert harness.pop_response(other) is None


def test_a_pull_is_answered_when_its_time_is_over_and_not_before(harness: BrokerHarness) -> None:
    number = start_pull(harness, pull_header(wait_ms=3_000))
    harness.advance(2_900)
    assert harness.pop_response(number) is None
    harness.advance(100)
    answer = harness.pop_response(number)
    assert answer is not None
    assert (answer.code, answer.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    harness.advance(60_000, step_ms=5_000)
    assert harness.sent_to() == []


def test_no_message_that_does_not_match_wakes_a_pull_and_at_its_end_it_goes_on_behind_them(
    harness: BrokerHarness,
) -> None:
    number = start_pull(harness, pull_header(wanted="A", wait_ms=3_000))
    for _ in range(30):
        store_messages(harness, [b"x"] * 100, tag="B")
    assert harness.pop_response(number) is None
    harness.advance(3_000)
    answer = harness.pop_response(number)
    assert answer is not None
    assert (answer.code, answer.remark, pull_fields(answer).next_begin_offset) == (20, "NO_MATCHED_MESSAGE", 3_000)


def test_the_message_that_matches_is_found_behind_any_number_that_do_not(harness: BrokerHarness) -> None:
    for kind, wanted in (("TAG", "A"), ("SQL92", "TAGS = 'A'")):
        _, high = harness.state.store.bounds(b"orders", 0)
        number = start_pull(harness, pull_header(high, wanted=wanted, kind=kind))
        store_messages(harness, [b"x"] * 2_500, tag="B", flush=False)
        store_messages(harness, [b"found"], tag="A")
        answer = harness.pop_response(number)
        assert answer is not None
        assert (bodies(answer), pull_fields(answer).next_begin_offset) == ([b"found"], high + 2_501)


def test_a_group_that_changes_its_mind_gets_what_came_while_it_waited_for_something_else(
    harness: BrokerHarness,
) -> None:
    send_heartbeat(
        harness, "one", harness.peer, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=1)]
    )
    number = start_pull(harness, pull_header(flags=0, version=1))
    store_messages(harness, [b"b"], tag="B")
    assert harness.pop_response(number) is None
    send_heartbeat(
        harness, "one", harness.peer, subscriptions=[SubscriptionBody(topic="orders", expression="B", version=2)]
    )
    harness.advance(15_000, step_ms=1_000)
    answer = harness.pop_response(number)
    assert answer is not None
    assert bodies(answer) == [b"b"]


def test_nobody_waits_without_the_flag_or_without_time_or_one_way(harness: BrokerHarness) -> None:
    assert pull(harness, pull_header(flags=4)).code == 19
    for wait_ms in (0, -1, -(1 << 63)):
        assert pull(harness, pull_header(flags=WAITS, wait_ms=wait_ms)).code == 19
    harness.send(RequestCode.PULL_MESSAGE, pull_header(flags=WAITS), oneway=True)
    assert len(held_pulls(harness)) == 0


def test_nobody_waits_for_ever(harness: BrokerHarness) -> None:
    number = start_pull(harness, pull_header(wait_ms=(1 << 63) - 1))
    harness.advance(300_000, step_ms=10_000)
    assert harness.pop_response(number) is not None


def test_one_pull_too_many_is_answered_at_once() -> None:
    harness = BrokerHarness(BrokerOptions(max_held_pulls=3))
    make_topic(harness)
    waiting = [start_pull(harness, pull_header()) for _ in range(3)]
    assert pull(harness, pull_header(flags=WAITS)).code == 19
    store_messages(harness, [b"a"])
    assert all(harness.pop_response(number) for number in waiting)
    assert len(held_pulls(harness)) == 0


def test_the_pulls_of_a_connection_that_closed_are_dropped(harness: BrokerHarness) -> None:
    gone, stays = harness.connect(), harness.connect()
    start_pull(harness, pull_header(), peer=gone)
    start_pull(harness, pull_header(queue_id=1), peer=gone)
    number = start_pull(harness, pull_header(), peer=stays)
    harness.disconnect(gone)
    assert len(held_pulls(harness)) == 1
    store_messages(harness, [b"a"])
    store_messages(harness, [b"b"], queue_id=1)
    assert harness.sent_to(gone) == []
    assert harness.pop_response(number, stays) is not None


def test_pulls_of_a_topic_that_is_deleted_are_told_so(harness: BrokerHarness) -> None:
    number = start_pull(harness, pull_header())
    harness.state.topics.remove("orders", harness.now_ms)
    harness.tick()
    answer = harness.pop_response(number)
    assert answer is not None
    assert answer.code == 17


def test_pulls_of_a_queue_that_is_taken_away_or_shut_are_told_so(harness: BrokerHarness) -> None:
    number, first = start_pull(harness, pull_header(queue_id=1)), start_pull(harness, pull_header())
    make_topic(harness, queues=1)
    harness.tick()
    answer = harness.pop_response(number)
    assert answer is not None
    assert answer.code == 29
    assert harness.pop_response(first) is None
    make_topic(harness, queues=1, permission=2)
    harness.tick()
    shut = harness.pop_response(first)
    assert shut is not None
    assert (shut.code, shut.texts()["forbiddenType"]) == (16, "3")


def test_pulls_of_a_group_that_may_not_read_any_more_are_told_so(harness: BrokerHarness) -> None:
    number = start_pull(harness, pull_header())
    harness.state.groups.put(SubscriptionGroupConfig(name="billing", consume_enabled=False), harness.now_ms)
    harness.tick()
    answer = harness.pop_response(number)
    assert answer is not None
    assert answer.code == 16


def test_a_commit_is_taken_before_the_waiting_and_once(harness: BrokerHarness) -> None:
    start_pull(harness, pull_header(flags=5, commit=7))
    assert harness.state.offsets.get("billing", "orders", 0) == 7
    harness.state.offsets.put("billing", "orders", 0, 9)
    store_messages(harness, [b"a"])
    assert harness.state.offsets.get("billing", "orders", 0) == 9


# -- the table ----------------------------------------------------------------------------------------------------

EVERYTHING = compile_filter("TAG", "*")


def held_pull(peer_number: int = 1, queue_id: int = 0, until_ms: int = 100) -> HeldPull:
    """Make a pull that waits."""
    ask = PullSpec("g", "t", queue_id, 0, 32, 1 << 18, EVERYTHING, 0)
    return HeldPull(
        ask, b"t", Peer.at("127.0.0.1", 1, connection_id=peer_number), 0, HeaderType.JSON, until_ms, EVERYTHING, 0
    )


def test_what_was_answered_early_does_not_pile_up() -> None:
    table = HeldPulls()
    for _ in range(10_000):
        each = held_pull(until_ms=1_000_000)
        table.hold(each)
        assert table.release(each)
    assert len(table._deadlines) < 1_000
    assert table.pop_expired(2_000_000, 10) == []


class HeldPullsMachine(RuleBasedStateMachine):
    """Pulls come, are woken, expire and lose their connections in any order; each leaves once."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.now_ms = HeldPulls(), 0
        self.waiting: dict[int, HeldPull] = {}

    @rule(peer_number=st.integers(1, 3), queue_id=st.integers(0, 2), wait_ms=st.integers(1, 50))
    def start_hold(self, peer_number: int, queue_id: int, wait_ms: int) -> None:
        """Let a pull come."""
        each = held_pull(peer_number, queue_id, self.now_ms + wait_ms)
        self.table.hold(each)
        self.waiting[each.number] = each

    @rule(queue_id=st.integers(0, 2))
    def arrive(self, queue_id: int) -> None:
        """Let a message come, and all who wait there go."""
        self.table.notify_arrival(b"t", queue_id)
        expected = [each for each in self.waiting.values() if each.spec.queue_id == queue_id]
        assert self.table.pop_arrived_queues() == ([(b"t", queue_id)] if expected else [])
        assert self.table.in_queue(b"t", queue_id) == expected
        for each in expected:
            self.gone(each)
            assert self.table.release(each)
            assert not self.table.release(each)

    @rule(passed_ms=st.integers(0, 40))
    def advance(self, passed_ms: int) -> None:
        """Let time pass."""
        self.now_ms += passed_ms
        due = self.table.pop_expired(self.now_ms, 1_000)
        expected = [each for each in self.waiting.values() if each.deadline_ms <= self.now_ms]
        assert sorted(map(id, due)) == sorted(map(id, expected))
        assert [each.deadline_ms for each in due] == sorted(each.deadline_ms for each in due)
        for each in expected:
            self.gone(each)

    @rule(peer_number=st.integers(1, 3))
    def close(self, peer_number: int) -> None:
        """Let a connection close."""
        self.table.drop_connection(peer_number)
        for each in [each for each in self.waiting.values() if each.peer.connection_id == peer_number]:
            self.gone(each)

    def gone(self, each: HeldPull) -> None:
        """Note that a pull left."""
        (number,) = [number for number, known in self.waiting.items() if known is each]
        del self.waiting[number]

    @invariant()
    def counts(self) -> None:
        """Check that the table holds those that wait and nothing of the others."""
        assert len(self.table) == len(self.waiting)
        assert set(self.table.queues()) == {(b"t", each.spec.queue_id) for each in self.waiting.values()}


TestHeldPullsMachine = HeldPullsMachine.TestCase


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_pull_is_answered_once_by_an_arrival_or_by_its_end(data: st.DataObject) -> None:
    harness = BrokerHarness()
    make_topic(harness, queues=2)
    peers = [harness.connect() for _ in range(2)]
    open_pulls: dict[tuple[int, int], int] = {}
    sent: dict[int, int] = {0: 0, 1: 0}
    for _ in range(data.draw(st.integers(5, 40))):
        step = data.draw(st.sampled_from(["pull", "pull", "put", "time"]))
        queue_id = data.draw(st.integers(0, 1))
        if step == "pull":
            peer_number = data.draw(st.sampled_from(peers))
            header = pull_header(
                sent[queue_id],
                queue_id=queue_id,
                wanted=data.draw(st.sampled_from(["*", "A"])),
                wait_ms=data.draw(st.integers(100, 2_000)),
            )
            open_pulls[start_pull(harness, header, peer=peer_number), peer_number.connection_id] = (
                harness.now_ms + header.suspend_timeout_millis
            )
        elif step == "put":
            store_messages(harness, [b"x"], queue_id=queue_id, tag=data.draw(st.sampled_from("AB")))
            sent[queue_id] += 1
        else:
            harness.advance(data.draw(st.integers(1, 1_500)))
        for peer_number in peers:
            for answer in harness.sent_to(peer_number):
                assert answer.code in {0, 19, 20}
                del open_pulls[answer.opaque, peer_number.connection_id]
        assert all(harness.now_ms < until_ms for until_ms in open_pulls.values())
        assert len(held_pulls(harness)) == len(open_pulls)
