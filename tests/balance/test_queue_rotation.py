"""Turns over a publish list: exact, around failed and avoided brokers, never without an answer."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.errors import NoRoute
from steelyard.model import PublishList
from tests.balance.producer_fixtures import brokers_of, listed, publish_lists, rotation, traffic_share

_STARTS = st.one_of(st.integers(), st.sampled_from([-(2**31), -1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]))


@given(publish_lists(), _STARTS, st.integers(1, 5))
def test_n_times_k_sends_put_k_on_each_of_n_queues(chosen_from: PublishList, start: int, k: int) -> None:
    turns = QueueRotation(chosen_from, start)
    counts = Counter(turns.next_queue() for _ in range(k * len(chosen_from.queues)))
    assert counts == dict.fromkeys(chosen_from.queues, k)


@pytest.mark.parametrize("wrap", [2**31, 2**32, 2**63, 0])
def test_the_turns_go_on_where_a_32_bit_counter_would_wrap(wrap: int) -> None:
    turns = rotation(start=wrap - 4, a=3)
    numbers = [turns.next_queue().queue_id for _ in range(9)]
    assert all((later - earlier) % 3 == 1 for earlier, later in pairwise(numbers))


@given(publish_lists(), _STARTS, st.sets(st.sampled_from("abcdefg")))
def test_a_retry_skips_every_broker_that_failed_in_this_send(
    chosen_from: PublishList, start: int, failed: set[str]
) -> None:
    turns = QueueRotation(chosen_from, start)
    chosen = turns.next_queue(failed=failed)
    if failed.issuperset(turns.brokers):
        assert chosen == chosen_from.queues[start % len(chosen_from.queues)], "the next anyway"
    else:
        assert chosen.broker not in failed


@given(publish_lists(), _STARTS, st.data())
def test_what_is_left_is_still_used_evenly(chosen_from: PublishList, start: int, data: st.DataObject) -> None:
    brokers = sorted({queue.broker for queue in chosen_from.queues})
    failed = data.draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 1))
    turns = QueueRotation(chosen_from, start)
    left = [queue for queue in chosen_from.queues if queue.broker not in failed]
    counts = Counter(turns.next_queue(failed=failed) for _ in range(3 * len(left)))
    assert counts == dict.fromkeys(left, 3)


def test_a_rotation_without_a_tracker_and_one_whose_tracker_knows_nothing_bad_choose_alike() -> None:
    tracker = LatencyTracker()
    plain, careful = rotation(start=7, a=3, b=2), rotation(start=7, tracker=tracker, a=3, b=2)
    for now_ms in range(50):
        tracker.record_latency("a", took_ms=now_ms, failed=False, now_ms=now_ms)
        assert plain.next_queue(now_ms) == careful.next_queue(now_ms)


def test_the_first_queue_is_taken_whose_broker_is_available_and_has_not_failed_in_this_send() -> None:
    tracker = LatencyTracker()
    turns = rotation(tracker=tracker, a=2, b=2, c=2)
    tracker.record_latency("a", took_ms=0, failed=True, now_ms=0)
    assert [str(turns.next_queue(1, failed={"b"})) for _ in range(3)] == ["orders@c:0", "orders@c:1", "orders@c:0"]
    assert brokers_of([turns.next_queue(1) for _ in range(4)]) == "cbbc"


def test_with_none_available_the_least_bad_takes_turns_and_all_its_queues_do() -> None:
    tracker = LatencyTracker()
    turns = rotation(tracker=tracker, a=2, b=2, c=2, d=2)
    for broker, took_ms in (("a", 4_000), ("b", 600), ("c", 2_000), ("d", 9_000)):
        tracker.record_latency(broker, took_ms=took_ms, failed=False, now_ms=0)
    chosen = [turns.next_queue(1) for _ in range(40)]
    assert Counter(queue.broker for queue in chosen) == {"b": 20, "c": 20}, "the better half"
    assert set(chosen) <= set(turns.queues)
    assert brokers_of([turns.next_queue(1, failed={"b"}) for _ in range(3)]) == "ccc"


def test_a_broker_that_comes_back_is_taken_at_once_where_no_other_is_available() -> None:
    tracker = LatencyTracker()
    turns = rotation(tracker=tracker, a=1, b=1)
    tracker.record_latency("a", took_ms=600, failed=False, now_ms=0)
    tracker.record_latency("b", took_ms=0, failed=True, now_ms=0)
    assert traffic_share(tracker, "a", 2_001) < 1
    assert brokers_of([turns.next_queue(2_001) for _ in range(8)]) == "aaaaaaaa"


def test_a_new_route_is_used_at_once_and_the_turn_goes_on() -> None:
    turns = rotation(start=5, a=4)
    turns.next_queue()
    turns.replace_queues(listed(a=4, b=4))
    assert [str(turns.next_queue()) for _ in range(3)] == ["orders@b:2", "orders@b:3", "orders@a:0"]
    assert list(turns.brokers) == ["a", "b"]


def test_a_topic_without_a_queue_that_takes_messages_is_an_error() -> None:
    with pytest.raises(NoRoute, match="'orders' has no queue that takes messages"):
        QueueRotation(PublishList("orders", ()), 0)
