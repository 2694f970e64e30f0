"""Bugs that other producers have had, each planted again: the rule holds, and its check sees the bug when it is there.

Every test runs twice, once with our rule and once with the rule as it was upstream put in its place: then the same
check must fail, or it would not have caught the bug.
"""

from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise, product

import pytest

from steelyard.balance.producer import send_attempts
from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.balance.producer.send_attempts import SendAttempt, SendAttempts, SendGaveUp, SendOptions, SendStep
from steelyard.errors import ConnectionClosed, SteelyardError, TimedOut, error_for
from steelyard.model import Queue
from tests.balance.producer_fixtures import brokers_of, rotation

_CLOSED = ConnectionClosed("the line was closed")

both = pytest.mark.parametrize("bug", [False, True], ids=["ours", "with the bug"])


def _expect(bug: bool, check: Callable[[], None]) -> None:
    """Let a check pass, or, with the bug planted, fail."""
    if bug:
        with pytest.raises(AssertionError):
            check()
    else:
        check()


# F1: the fallback wrote another broker and number into a queue that all senders shared.
@both
def test_choosing_the_least_bad_edits_no_shared_queue(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwriting(self: QueueRotation, now_ms: int, _failed: Collection[str]) -> Queue:
        worst = self._next_in_turn()
        assert self.latency is not None
        broker = self.latency.least_bad(list(self.brokers), 0, now_ms)
        at = self._queues.index(worst)
        self._queues = (*self._queues[:at], Queue("orders", broker, at % 2), *self._queues[at + 1 :])
        return self._queues[at]

    if bug:
        monkeypatch.setattr(QueueRotation, "_least_bad", overwriting)

    def check() -> None:
        tracker = LatencyTracker()
        turns = rotation(tracker=tracker, a=2, b=2)
        before = turns.queues
        for broker in "ab":
            tracker.record_latency(broker, took_ms=0, failed=True, now_ms=0)
        for _ in range(10):
            turns.next_queue(1)
        assert turns.queues == before
        counts = Counter(turns.next_queue(100_000) for _ in range(8))
        assert counts == dict.fromkeys(before, 2)

    _expect(bug, check)


# F2: up to 4.7.1 a retry preferred the broker that had just failed.
@both
def test_a_retry_leaves_the_broker_that_has_just_failed(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def preferring(self: QueueRotation, _now_ms: int, failed: Collection[str]) -> Queue | None:
        return next((queue for queue in self.queues if queue.broker in failed), None)

    if bug:
        monkeypatch.setattr(QueueRotation, "_first_available", preferring)

    def check() -> None:
        assert rotation(a=4, b=4).next_queue(failed={"a"}).broker == "b"

    _expect(bug, check)


# F3: 5.1.4 asked for a mark that nothing set again, and a broker was excluded for ever.
@both
def test_an_exclusion_ends_by_time_and_nothing_else_is_needed(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def for_ever(self: LatencyTracker, broker: str, now_ms: int) -> bool:
        return any(each.broker == broker and each.latency_ms >= self.table.failure_ms for each in self.snapshot(now_ms))

    if bug:
        monkeypatch.setattr(LatencyTracker, "is_avoided", for_ever)

    def check() -> None:
        tracker = LatencyTracker()
        tracker.record_latency("a", took_ms=0, failed=True, now_ms=0)
        assert not tracker.is_avoided("a", max(tracker.table.avoid_for_ms))

    _expect(bug, check)


# F4: a switch that was thrown after the producer was made had no effect.
@both
def test_a_switch_that_is_thrown_later_works(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(self: QueueRotation, now_ms: int = 0, failed: Collection[str] = ()) -> Queue:
        del now_ms, failed
        return self._next_in_turn()

    if bug:
        monkeypatch.setattr(QueueRotation, "next_queue", deaf)

    def check() -> None:
        turns, tracker = rotation(a=1, b=1), LatencyTracker()
        turns.latency = tracker
        tracker.record_latency("a", took_ms=0, failed=True, now_ms=0)
        assert brokers_of([turns.next_queue(1) for _ in range(4)]) == "bbbb"

    _expect(bug, check)


# F7: asynchronous and one-way sends noted a quick success before any answer, which ended an exclusion.
@both
def test_an_attempt_is_logged_when_it_is_finished_and_not_before(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = SendAttempts.begin

    def too_early(self: SendAttempts, now_ms: int) -> SendAttempt:
        attempt = begin(self, now_ms)
        self._record_latency(attempt.queue, failed=False, now_ms=now_ms)
        return attempt

    if bug:
        monkeypatch.setattr(SendAttempts, "begin", too_early)

    def check() -> None:
        for options in (SendOptions(), SendOptions(is_oneway=True)):
            tracker = LatencyTracker()
            SendAttempts(rotation(tracker=tracker, a=1), options).begin(0)
            assert tracker.snapshot(0) == ()

    _expect(bug, check)


# F8: every error response isolated the broker, also if the caller had sent nonsense.
@both
def test_a_callers_fault_does_not_make_a_broker_avoided(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug:
        monkeypatch.setattr(send_attempts, "counts_against_broker", lambda _error: True)

    def check() -> None:
        for code in (13, 16, 29):
            tracker = LatencyTracker()
            send = SendAttempts(rotation(tracker=tracker, a=1, b=1))
            broker = send.begin(0).queue.broker
            send.failed(error_for(code), 1)
            assert not tracker.is_avoided(broker, 1), code

    _expect(bug, check)


# F9: a retried asynchronous send kept the number of its first queue, and did not check error responses.
@both
def test_a_retry_goes_to_a_queue_that_the_other_broker_has(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    choose, first = QueueRotation.next_queue, Queue("orders", "a", 7)

    def same_number(self: QueueRotation, now_ms: int = 0, failed: Collection[str] = ()) -> Queue:
        chosen = choose(self, now_ms, failed)
        return Queue(chosen.topic, chosen.broker, first.queue_id) if failed else chosen

    if bug:
        monkeypatch.setattr(QueueRotation, "next_queue", same_number)

    def check() -> None:
        turns = rotation(start=7, a=8, b=2)
        send = SendAttempts(turns)
        assert send.begin(0).queue == first
        step = send.failed(error_for(14), 1)
        assert isinstance(step, SendAttempt)
        assert step.queue in turns.queues

    _expect(bug, check)


@both
def test_an_error_response_is_retried_for_every_kind_of_send(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug:
        monkeypatch.setattr(SendAttempts, "_may_retry", lambda _self, error: not hasattr(error, "remark"))

    def check() -> None:
        send = SendAttempts(rotation(a=1, b=1))
        send.begin(0)
        assert isinstance(send.failed(error_for(2), 1), SendAttempt)

    _expect(bug, check)


# F10: the number of retries and the time had no effect on asynchronous sends.
@both
@pytest.mark.parametrize("took_ms", [1, 1_500])
def test_retries_and_time_are_limits(bug: bool, took_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(self: SendAttempts, now_ms: int) -> SendStep:
        return self._attempt(3_000, now_ms)

    if bug:
        monkeypatch.setattr(SendAttempts, "_next", endless)

    def check() -> None:
        send = SendAttempts(rotation(a=1, b=1, c=1))
        step: SendStep = send.begin(0)
        for number in range(1, 5):
            if not isinstance(step, SendAttempt):
                break
            step = send.failed(TimedOut("no answer"), number * took_ms)
        assert isinstance(step, SendGaveUp)
        assert len(step.failed_attempts) == (3 if took_ms == 1 else 2)

    _expect(bug, check)


# F11: with three brokers and more a retry could go back and forth between two.
@both
def test_all_brokers_that_failed_in_this_send_are_remembered(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    end_attempt = SendAttempts._end_attempt

    def only_the_last(self: SendAttempts, error: SteelyardError | None, now_ms: int) -> Queue:
        self._failed_brokers.clear()
        return end_attempt(self, error, now_ms)

    if bug:
        monkeypatch.setattr(SendAttempts, "_end_attempt", only_the_last)

    def check() -> None:
        for others in product(range(3), repeat=2):
            turns = rotation(a=1, b=1, c=1)
            send = SendAttempts(turns)
            brokers = [send.begin(0).queue.broker]
            for now_ms, count in enumerate(others, 1):
                for _ in range(count):
                    turns.next_queue()  # somebody else sends in between
                step = send.failed(_CLOSED, now_ms)
                assert isinstance(step, SendAttempt)
                brokers.append(step.queue.broker)
            assert sorted(brokers) == ["a", "b", "c"]

    _expect(bug, check)


# F12: every thread had a counter of its own, and the absolute value of the smallest number is negative.
@both
def test_all_senders_share_one_counter(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [0, 0, 0, 0]

    def per_thread(self: QueueRotation) -> Queue:
        thread = sum(threads) % len(threads)
        threads[thread] += 1
        return self.queues[(threads[thread] - 1) % len(self.queues)]

    if bug:
        monkeypatch.setattr(QueueRotation, "_next_in_turn", per_thread)

    def check() -> None:
        turns = rotation(a=4, b=4)
        assert len({turns.next_queue() for _ in range(8)}) == 8

    _expect(bug, check)


@both
@pytest.mark.parametrize("wrap", [2**31, 2**32])
def test_no_queue_is_favoured_where_the_counter_wraps(bug: bool, wrap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def absolute(self: QueueRotation) -> Queue:
        value = (self._turn + 2**31) % 2**32 - 2**31
        self._turn += 1
        index = -1 if value == -(2**31) else abs(value) % len(self.queues)
        return self.queues[max(0, index)]

    if bug:
        monkeypatch.setattr(QueueRotation, "_next_in_turn", absolute)

    def check() -> None:
        turns = rotation(start=wrap - 6, a=3)
        numbers = [turns.next_queue().queue_id for _ in range(12)]
        assert all((later - earlier) % 3 == 1 for earlier, later in pairwise(numbers))

    _expect(bug, check)


# F13: times are absolute, so where all brokers are slow all are isolated.
@both
def test_where_all_are_slow_no_broker_is_avoided(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug:
        monkeypatch.setattr(LatencyTracker, "_effective_latency_ms", lambda _self, _broker, took_ms, _failed: took_ms)

    def check() -> None:
        tracker = LatencyTracker(relative_to_median=True)
        for now_ms in range(0, 9_000, 900):
            for broker in "abc":
                tracker.record_latency(broker, took_ms=900, failed=False, now_ms=now_ms)
        assert not any(tracker.is_avoided(broker, 8_100) for broker in "abc")

    _expect(bug, check)


# F14: a broker that was isolated got all its traffic back at once.
@both
def test_a_broker_that_comes_back_is_not_flooded(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug:
        monkeypatch.setattr(LatencyTracker, "admits", lambda _self, _broker, _now_ms: True)

    def check() -> None:
        tracker = LatencyTracker()
        turns = rotation(tracker=tracker, a=4, b=4)
        tracker.record_latency("a", took_ms=0, failed=True, now_ms=0)
        back = Counter(turns.next_queue(10_000).broker for _ in range(160))
        assert 0 < back["a"] <= 20

    _expect(bug, check)
