"""One send: how many attempts, where, for how long, and what the outcome lists."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.balance.producer.send_attempts import (
    AttemptLimit,
    SendAttempt,
    SendAttempts,
    SendGaveUp,
    SendOptions,
    SendStep,
    SendStored,
)
from steelyard.errors import ConfigurationError, ConnectionClosed, Fault, Retry, SteelyardError, TimedOut, error_for
from steelyard.model import PublishList, Queue
from tests.balance.producer_fixtures import publish_lists, rotation

_CLOSED = ConnectionClosed("the line was closed")
_LATE = TimedOut("no answer came")
_ERRORS: Sequence[SteelyardError] = (_CLOSED, _LATE, *(error_for(code) for code in (1, 2, 13, 14, 16, 17, 215, 1500)))


def _tried(step: SendStep) -> list[str]:
    assert not isinstance(step, SendAttempt)
    return [each.queue.broker for each in step.failed_attempts]


def test_a_send_makes_up_to_three_attempts_each_on_another_broker() -> None:
    send = SendAttempts(rotation(a=4, b=4, c=4, d=4))
    brokers = [send.begin(0).queue.broker]
    for now_ms in (10, 20):
        step = send.failed(_CLOSED, now_ms)
        assert isinstance(step, SendAttempt)
        brokers.append(step.queue.broker)
    assert brokers == ["a", "b", "c"]
    end = send.failed(_CLOSED, 30)
    assert isinstance(end, SendGaveUp)
    assert end.limit is AttemptLimit.ATTEMPTS
    assert _tried(end) == brokers


def test_the_first_that_stores_it_ends_the_send() -> None:
    send = SendAttempts(rotation(a=1, b=1))
    send.begin(0)
    send.failed(error_for(14), 5)
    assert send.succeeded(9) == SendStored(Queue("orders", "b", 0), failed_attempts=send.failed_attempts)
    assert [each.took_ms for each in send.failed_attempts] == [5]


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_these_answers_are_tried_on_another_broker(code: int) -> None:
    send = SendAttempts(rotation(a=1, b=1))
    send.begin(0)
    assert isinstance(send.failed(error_for(code), 1), SendAttempt)


@pytest.mark.parametrize("code", [3, 13, 15, 18, 26, 29, 215, 501, 4711])
def test_these_answers_end_the_send_at_once(code: int) -> None:
    send = SendAttempts(rotation(a=1, b=1))
    send.begin(0)
    end = send.failed(error_for(code, "it says so"), 1)
    assert isinstance(end, SendGaveUp)
    assert end.limit is AttemptLimit.ANSWER
    assert (end.error.fault, end.error.retry) == (error_for(code).fault, error_for(code).retry)


@given(
    publish_lists(),
    st.integers(1, 10_000),
    st.integers(0, 5),
    st.integers(0, 300),
    st.lists(st.tuples(st.sampled_from(_ERRORS), st.integers(0, 100)), min_size=8, max_size=8),
)
def test_all_attempts_fit_under_one_deadline(
    chosen_from: PublishList, timeout_ms: int, retries: int, pause_ms: int, ends: list[tuple[SteelyardError, int]]
) -> None:
    options = SendOptions(timeout_ms=timeout_ms, retries=retries, retry_pause_ms=pause_ms)
    turns = QueueRotation(chosen_from, 0)
    send, now_ms = SendAttempts(turns, options), 1_000
    step: SendStep = send.begin(now_ms)
    tried: set[str] = set()
    for error, percent in ends:
        if not isinstance(step, SendAttempt):
            break
        assert step.timeout_ms > 0, "none is begun without time"
        assert now_ms + step.pause_ms + step.timeout_ms <= 1_000 + timeout_ms
        untried = set(turns.brokers) - tried - {step.queue.broker}
        if step.number <= retries and untried and timeout_ms > 10:
            left_ms = 1_000 + timeout_ms - now_ms - step.pause_ms
            assert step.timeout_ms < left_ms or left_ms < 3, "another broker gets its chance"
        assert step.queue.broker not in tried or tried.issuperset(turns.brokers)
        assert (step.pause_ms > 0) <= (step.queue.broker in tried)
        tried.add(step.queue.broker)
        now_ms += step.pause_ms + step.timeout_ms * percent // 100
        step = send.failed(error, now_ms)
    assert isinstance(step, SendGaveUp)
    assert len(step.failed_attempts) <= 1 + retries
    assert [(each.queue.broker, each.took_ms, each.why) for each in step.failed_attempts] == list(step.error.attempts)


def test_an_attempt_does_not_eat_the_budget_while_another_broker_is_untried() -> None:
    send = SendAttempts(rotation(a=1, b=1))
    first = send.begin(0)
    assert first.timeout_ms == 2_000
    second = send.failed(_LATE, 2_000)
    assert isinstance(second, SendAttempt)
    assert (second.queue.broker, second.timeout_ms) == ("b", 1_000), "the rest: nobody is left to keep time for"
    end = send.failed(_LATE, 3_000)
    assert isinstance(end, SendGaveUp)
    assert end.limit is AttemptLimit.DEADLINE
    assert SendAttempts(rotation(a=4)).begin(0).timeout_ms == 3_000, "one broker alone gets all"


def test_a_broker_that_has_just_failed_is_given_a_moment() -> None:
    send = SendAttempts(rotation(a=2))
    send.begin(0)
    step = send.failed(_CLOSED, 1)
    assert isinstance(step, SendAttempt)
    assert (step.queue.broker, step.pause_ms, step.timeout_ms) == ("a", 100, 2_899)


def test_the_error_lists_every_attempt_and_says_what_ended_it() -> None:
    send = SendAttempts(rotation(a=1, b=1), SendOptions(timeout_ms=1_000, retries=1))
    send.begin(0)
    send.failed(error_for(14, "disk full", server="a"), 12)
    end = send.failed(_LATE, 999)
    assert isinstance(end, SendGaveUp)
    assert end.error.attempts == (("a", 12, "a answered 14: it cannot store now (disk full)"), ("b", 987, _LATE.what))
    assert str(end.error) == (
        "the message to 'orders' was not stored, and 2 attempts were made: "
        "a after 12 ms (a answered 14: it cannot store now (disk full)), b after 987 ms (no answer came)"
    )
    assert end.error.limit == "no attempt is left"
    assert end.error.retry is Retry.ELSEWHERE


def test_stored_but_late_is_a_result() -> None:
    send = SendAttempts(rotation(a=1, b=1))
    send.begin(0)
    end = send.succeeded(5, is_late=True)
    assert isinstance(end, SendStored)
    assert (end.is_late, end.queue.broker) == (True, "a")


def test_by_option_another_broker_is_tried_when_it_is_late_and_the_first_result_is_kept() -> None:
    options = SendOptions(retry_other_broker_if_not_stored=True)
    send = SendAttempts(rotation(a=1, b=1), options)
    send.begin(0)
    step = send.succeeded(5, is_late=True)
    assert isinstance(step, SendAttempt)
    assert step.queue.broker == "b"
    end = send.succeeded(6)
    assert isinstance(end, SendStored)
    assert (end.is_late, end.queue.broker) == (False, "b")
    send = SendAttempts(rotation(a=1, b=1), options)
    send.begin(0)
    send.succeeded(5, is_late=True)
    end = send.failed(error_for(13), 6)
    assert isinstance(end, SendStored), "it is stored, whatever became of the second attempt"
    assert (end.is_late, end.queue.broker) == (True, "a")


def test_a_one_way_message_is_tried_once() -> None:
    send = SendAttempts(rotation(a=1, b=1), SendOptions(is_oneway=True))
    send.begin(0)
    assert isinstance(send.failed(_CLOSED, 1), SendGaveUp)


def test_a_chosen_queue_is_used_as_it_is_and_no_other_broker_is_tried() -> None:
    chosen = Queue("orders", "b", 3)
    send = SendAttempts(rotation(a=4, b=4), chosen=chosen)
    assert send.begin(0).queue == chosen
    assert isinstance(send.failed(_CLOSED, 1), SendGaveUp)
    again = SendAttempts(rotation(a=4, b=4), SendOptions(retry_same_queue=True), chosen=chosen)
    assert again.begin(0).timeout_ms == 3_000
    step = again.failed(_CLOSED, 1)
    assert isinstance(step, SendAttempt)
    assert step.queue == chosen
    assert isinstance(again.failed(error_for(17), 200), SendGaveUp), "a caller's fault stays one"


def test_every_finished_attempt_is_logged_once_it_is_finished() -> None:
    tracker = LatencyTracker()
    send = SendAttempts(rotation(tracker=tracker, a=1, b=1))
    send.begin(1_000)
    assert tracker.snapshot(1_000) == ()
    send.failed(_CLOSED, 1_040)
    (first,) = tracker.snapshot(1_040)
    assert (first.broker, first.latency_ms, first.why) == ("a", 10_000, "it failed")
    send.succeeded(1_100)
    assert [(each.broker, each.latency_ms) for each in tracker.snapshot(1_100)] == [("a", 10_000), ("b", 60)]


@pytest.mark.parametrize("error", _ERRORS, ids=str)
def test_a_callers_fault_is_not_the_brokers(error: SteelyardError) -> None:
    tracker = LatencyTracker()
    send = SendAttempts(rotation(tracker=tracker, a=1, b=1))
    send.begin(0)
    send.failed(error, 1)
    assert [each.broker for each in tracker.snapshot(1)] == ([] if error.fault is Fault.CALLER else ["a"])


def test_a_one_way_message_that_left_says_nothing_about_its_broker() -> None:
    tracker = LatencyTracker()
    send = SendAttempts(rotation(tracker=tracker, a=1), SendOptions(is_oneway=True))
    send.begin(0)
    send.succeeded(0)
    assert tracker.snapshot(0) == ()


def test_an_attempt_ends_once() -> None:
    send = SendAttempts(rotation(a=1))
    with pytest.raises(ConfigurationError, match="no attempt under way"):
        send.failed(_CLOSED, 0)
    send.begin(0)
    send.failed(error_for(13), 1)
    with pytest.raises(ConfigurationError, match="no attempt under way"):
        send.succeeded(2)


@pytest.mark.parametrize(("timeout_ms", "retries", "pause_ms"), [(0, 2, 100), (3_000, -1, 100), (3_000, 2, -1)])
def test_options_that_cannot_be_are_refused(timeout_ms: int, retries: int, pause_ms: int) -> None:
    with pytest.raises(ConfigurationError, match="no negative numbers"):
        SendOptions(timeout_ms=timeout_ms, retries=retries, retry_pause_ms=pause_ms)


def test_a_new_route_makes_all_brokers_new_and_the_attempts_before_it_stay_listed() -> None:
    turns = rotation(a=1)
    send = SendAttempts(turns)
    send.begin(0)
    assert not send.have_all_brokers_failed
    send.failed(_CLOSED, 10)
    assert send.have_all_brokers_failed
    turns.replace_queues(PublishList("orders", (Queue("orders", "b", 0), Queue("orders", "c", 0))))
    assert not send.have_all_brokers_failed
    brokers = []
    step = send.route_renewed(20)
    for now_ms in (30, 40, 50):
        assert isinstance(step, SendAttempt)
        brokers.append(step.queue.broker)
        step = send.failed(_CLOSED, now_ms)
    assert set(brokers[:2]) == {"b", "c"}
    assert isinstance(step, SendGaveUp)
    assert step.limit is AttemptLimit.ATTEMPTS
    assert _tried(step) == ["a", *brokers]


def test_a_new_route_gives_no_more_time() -> None:
    send = SendAttempts(rotation(a=1), SendOptions(timeout_ms=100))
    send.begin(0)
    send.failed(_CLOSED, 10)
    end = send.route_renewed(100)
    assert isinstance(end, SendGaveUp)
    assert end.limit is AttemptLimit.DEADLINE


def test_a_chosen_queue_is_shut_out_with_its_broker() -> None:
    send = SendAttempts(rotation(a=1, b=1), SendOptions(retry_same_queue=True), chosen=Queue("orders", "b", 0))
    send.begin(0)
    send.failed(_CLOSED, 10)
    assert send.have_all_brokers_failed
    again = send.route_renewed(20)
    assert isinstance(again, SendAttempt)
    assert again.queue.broker == "b"
    assert again.pause_ms == 0
