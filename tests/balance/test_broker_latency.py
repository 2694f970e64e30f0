"""Broker latency: what an attempt leads to, when an exclusion ends, and which broker is used when all are bad."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.producer.broker_latency import CLASSIC, MODERN, LatencyTable, LatencyTracker, latency_table
from steelyard.errors import ConfigurationError
from tests.balance.producer_fixtures import brokers_of, rotation, traffic_share

_TABLES = st.sampled_from([CLASSIC, MODERN])
_NOTES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40_000), st.booleans(), st.integers(0, 20_000)), max_size=30
)


@pytest.mark.parametrize(
    ("table", "latency_ms", "avoid_ms"),
    [
        *((CLASSIC, took, wanted) for took, wanted in [(0, 0), (49, 0), (99, 0), (549, 0), (550, 30_000)]),
        *((CLASSIC, took, wanted) for took, wanted in [(1_000, 60_000), (2_000, 120_000), (2_999, 120_000)]),
        *((CLASSIC, took, wanted) for took, wanted in [(3_000, 180_000), (14_999, 180_000), (15_000, 600_000)]),
        *((MODERN, took, wanted) for took, wanted in [(0, 0), (549, 0), (550, 2_000), (1_799, 2_000), (1_800, 5_000)]),
        *((MODERN, took, wanted) for took, wanted in [(3_000, 6_000), (5_000, 10_000), (14_999, 10_000)]),
        *((MODERN, took, wanted) for took, wanted in [(15_000, 30_000), (10**9, 30_000)]),
    ],
)
def test_the_largest_step_that_is_reached_counts(table: LatencyTable, latency_ms: int, avoid_ms: int) -> None:
    tracker = LatencyTracker(table)
    tracker.record_latency("a", took_ms=latency_ms, failed=False, now_ms=1_000)
    assert tracker.is_avoided("a", 1_000) is (avoid_ms > 0)
    assert not tracker.is_avoided("a", 1_000 + avoid_ms)
    assert avoid_ms == 0 or tracker.is_avoided("a", 1_000 + avoid_ms - 1)


def test_a_failure_counts_as_a_fixed_long_latency_however_quick_it_was() -> None:
    for table, avoid_ms in ((CLASSIC, 600_000), (MODERN, 10_000)):
        tracker = LatencyTracker(table)
        tracker.record_latency("a", took_ms=1, failed=True, now_ms=0)
        assert tracker.is_avoided("a", avoid_ms - 1)
        assert not tracker.is_avoided("a", avoid_ms)


def test_a_broker_that_nothing_is_known_of_is_available() -> None:
    assert not LatencyTracker().is_avoided("a", 0)
    assert LatencyTracker().admits("a", 0)


@given(_TABLES, _NOTES)
def test_every_exclusion_ends_by_time(table: LatencyTable, notes: list[tuple[str, int, bool, int]]) -> None:
    tracker, now_ms = LatencyTracker(table), 0
    for broker, took_ms, failed, later_ms in notes:
        now_ms += later_ms
        tracker.record_latency(broker, took_ms, failed, now_ms)
    end_ms = now_ms + max(table.avoid_for_ms)
    assert not any(tracker.is_avoided(broker, end_ms) for broker in "abc")
    assert tracker.are_all_available(end_ms + tracker.ramp_ms)
    assert all(traffic_share(tracker, broker, end_ms + tracker.ramp_ms) == 1 for broker in "abc")


@given(_TABLES, _NOTES)
def test_a_clock_that_was_set_back_ends_exclusions_too(
    table: LatencyTable, notes: list[tuple[str, int, bool, int]]
) -> None:
    tracker = LatencyTracker(table)
    for broker, took_ms, failed, later_ms in notes:
        tracker.record_latency(broker, took_ms, failed, 10**9 + later_ms)
    assert not any(tracker.is_avoided(broker, 0) for broker in "abc")
    tracker.record_latency("a", took_ms=0, failed=True, now_ms=0)
    assert not tracker.is_avoided("a", max(table.avoid_for_ms))


def test_a_quick_answer_ends_an_exclusion_by_the_classic_table_and_not_by_the_modern_one() -> None:
    for table, is_still_avoided in ((CLASSIC, False), (MODERN, True)):
        tracker = LatencyTracker(table)
        tracker.record_latency("a", took_ms=0, failed=True, now_ms=0)
        tracker.record_latency("a", took_ms=3, failed=False, now_ms=100)
        assert tracker.is_avoided("a", 100) is is_still_avoided


def test_a_returning_broker_gets_a_growing_part_of_its_turns() -> None:
    tracker = LatencyTracker(ramp_ms=5_000)
    turns = rotation(tracker=tracker, a=4, b=4)
    tracker.record_latency("a", took_ms=600, failed=False, now_ms=0)

    def part_of_a(now_ms: int) -> float:
        return Counter(brokers_of([turns.next_queue(now_ms) for _ in range(1_000)]))["a"] / 1_000

    assert part_of_a(1_999) == 0
    tracker.record_latency("a", took_ms=3, failed=False, now_ms=2_000)
    parts = [part_of_a(2_000 + part * 1_000) for part in range(6)]
    assert parts == sorted(parts)
    assert 0.05 < parts[0] < 0.16, "an eighth of its turns"
    assert parts[-1] == 0.5, "and in the end all of them"


def test_a_broker_that_fails_while_it_comes_back_is_avoided_again() -> None:
    tracker = LatencyTracker()
    tracker.record_latency("a", took_ms=600, failed=False, now_ms=0)
    tracker.record_latency("a", took_ms=600, failed=False, now_ms=3_000)
    assert tracker.is_avoided("a", 4_999)
    assert traffic_share(tracker, "a", 5_000) == 0.125


def test_without_a_ramp_a_broker_is_back_at_once() -> None:
    tracker = LatencyTracker(ramp_ms=0)
    tracker.record_latency("a", took_ms=600, failed=False, now_ms=0)
    assert traffic_share(tracker, "a", 2_000) == 1
    assert tracker.are_all_available(2_000)


def test_a_cluster_that_is_slow_as_a_whole_goes_on_and_optionally_no_broker_is_avoided() -> None:
    for relative_to_median in (False, True):
        tracker = LatencyTracker(relative_to_median=relative_to_median)
        turns = rotation(tracker=tracker, a=2, b=2, c=2, d=2)
        used: Counter[str] = Counter()
        for now_ms in range(0, 80 * 700, 700):
            chosen = turns.next_queue(now_ms)
            used[chosen.broker] += 1
            tracker.record_latency(chosen.broker, took_ms=700, failed=False, now_ms=now_ms + 700)
        assert sum(used.values()) == 80
        assert len(used) == 4
    assert used == dict.fromkeys("abcd", 20), "judged against the others, they take turns"


def test_against_the_median_only_the_one_that_is_slower_than_the_others_is_avoided() -> None:
    tracker = LatencyTracker(relative_to_median=True)
    for now_ms in range(5):
        for broker in "abc":
            tracker.record_latency(broker, took_ms=700, failed=False, now_ms=now_ms)
    tracker.record_latency("d", took_ms=1_100, failed=False, now_ms=10)
    assert not tracker.is_avoided("d", 10), "400 ms more than the others"
    tracker.record_latency("d", took_ms=1_300, failed=False, now_ms=20)
    assert [broker for broker in "abcd" if tracker.is_avoided(broker, 20)] == ["d"]
    tracker.record_latency("a", took_ms=1, failed=True, now_ms=30)
    assert tracker.is_avoided("a", 30), "a failure counts whatever the others do"


@given(_TABLES, _NOTES, st.integers(0, 100))
def test_the_least_bad_is_available_if_any_is_else_of_the_better_half(
    table: LatencyTable, notes: list[tuple[str, int, bool, int]], turn: int
) -> None:
    tracker, now_ms = LatencyTracker(table), 0
    for broker, took_ms, failed, later_ms in notes:
        now_ms += later_ms // 10
        tracker.record_latency(broker, took_ms, failed, now_ms)
    chosen = tracker.least_bad("abc", turn, now_ms)
    available = [broker for broker in "abc" if not tracker.is_avoided(broker, now_ms)]
    if available:
        assert chosen in available
    else:
        health = {each.broker: each for each in tracker.snapshot(now_ms)}
        assert health[chosen].latency_ms == min(each.latency_ms for each in health.values())


def test_the_state_of_brokers_can_be_read() -> None:
    tracker = LatencyTracker()
    tracker.record_latency("b", took_ms=20, failed=False, now_ms=100)
    tracker.record_latency("a", took_ms=40, failed=False, now_ms=100)
    tracker.record_latency("a", took_ms=5, failed=True, now_ms=200)
    tracker.record_latency("a", took_ms=5, failed=True, now_ms=300)
    first, second = tracker.snapshot(400)
    assert (first.broker, first.latency_ms, first.usual_ms, first.share) == ("a", 10_000, 40, 0)
    assert (first.avoided_since_ms, first.avoided_until_ms, first.why) == (200, 10_300, "it failed")
    assert (second.broker, second.avoided_until_ms, second.share, second.why) == ("b", None, 1, "")
    assert tracker.snapshot(20_000)[0].why == ""


def test_a_broker_that_is_in_no_route_any_more_is_forgotten() -> None:
    tracker = LatencyTracker()
    for broker in "abc":
        tracker.record_latency(broker, took_ms=0, failed=broker == "c", now_ms=0)
    tracker.retain({"b"}, now_ms=0)
    assert [each.broker for each in tracker.snapshot(0)] == ["b", "c"], "what is avoided may be restarting"
    tracker.retain({"b"}, now_ms=14_999)
    assert [each.broker for each in tracker.snapshot(14_999)] == ["b", "c"], "it is coming back"
    tracker.retain({"b"}, now_ms=15_000)
    assert [each.broker for each in tracker.snapshot(15_000)] == ["b"]


def test_a_broker_that_is_in_the_route_again_comes_back_step_by_step() -> None:
    tracker = LatencyTracker(ramp_ms=5_000)
    tracker.broker_appeared("a", now_ms=100)
    assert [traffic_share(tracker, "a", now_ms) for now_ms in (100, 2_600, 5_100)] == [0.125, 0.5, 1]
    assert tracker.snapshot(100)[0].why == "it was not in the route"
    tracker.record_latency("b", took_ms=0, failed=True, now_ms=100)
    tracker.broker_appeared("b", now_ms=200)
    assert tracker.is_avoided("b", 10_099), "what it did before is not forgotten"


def test_a_broker_that_was_avoided_is_tried_with_one_message_and_the_others_wait_for_it() -> None:
    tracker = LatencyTracker(ramp_ms=5_000)
    turns = rotation(tracker=tracker, a=2, b=2)
    tracker.record_latency("a", took_ms=2_000, failed=True, now_ms=0)

    def on_a(now_ms: int) -> int:
        return brokers_of([turns.next_queue(now_ms) for _ in range(100)]).count("a")

    assert on_a(9_999) == 0
    assert on_a(10_000) == 1
    assert on_a(12_999) == 0
    tracker.record_latency("a", took_ms=2_000, failed=True, now_ms=12_999)
    assert on_a(22_998) == 0
    assert on_a(22_999) == 1
    tracker.record_latency("a", took_ms=3, failed=False, now_ms=23_002)
    assert 5 < on_a(23_002) < 16, "an eighth of its turns, now that it answers"
    assert on_a(28_002) == 50


def test_a_message_without_an_outcome_does_not_shut_a_broker_out() -> None:
    tracker = LatencyTracker(ramp_ms=5_000)
    tracker.record_latency("a", took_ms=2_000, failed=True, now_ms=0)
    assert [tracker.admits("a", now_ms) for now_ms in (10_000, 10_001, 12_999, 13_000, 13_001)] == [1, 0, 0, 1, 0]
    assert tracker.admits("a", 15_000)


def test_tables_have_names_and_can_be_made() -> None:
    assert latency_table(" Classic ") is CLASSIC
    assert latency_table("modern") is MODERN
    with pytest.raises(ConfigurationError, match="classic, modern"):
        latency_table("ancient")
    own = LatencyTable("mine", (10,), (77,), failure_ms=10)
    assert (own.avoid_ms(9), own.avoid_ms(10)) == (0, 77)
    for steps, times in (((10, 10), (1, 2)), ((10,), (1, 2)), ((10,), (-1,))):
        with pytest.raises(ConfigurationError, match="rising steps"):
            LatencyTable("mine", steps, times, failure_ms=1)
    with pytest.raises(ConfigurationError, match="ramp_ms"):
        LatencyTracker(ramp_ms=-1)


def test_failures_are_counted_and_answers_are_not() -> None:
    tracker = LatencyTracker()
    for failed in (True, False, True):
        tracker.record_latency("a", took_ms=1, failed=failed, now_ms=0)
    tracker.record_latency("b", took_ms=1, failed=False, now_ms=0)
    assert [each.failures for each in tracker.snapshot(0)] == [2, 0]


def test_changes_are_new_brokers_and_avoided_ones_and_nothing_else() -> None:
    class Watched(LatencyTracker):
        news = 0

        def _on_change(self) -> None:
            self.news += 1

    tracker = Watched()
    tracker.record_latency("a", took_ms=5, failed=False, now_ms=0)
    assert tracker.news == 1, "it is new"
    for now_ms in range(1, 100):
        tracker.record_latency("a", took_ms=5, failed=False, now_ms=now_ms)
    assert tracker.news == 1
    tracker.record_latency("a", took_ms=5, failed=True, now_ms=100)
    assert tracker.news == 2, "it is avoided"
    tracker.broker_appeared("b", 100)
    assert tracker.news == 3, "another is new"


@given(st.integers(0, 30), st.integers(0, 30))
def test_what_is_usual_becomes_what_always_happens(first_ms: int, then_ms: int) -> None:
    tracker = LatencyTracker()
    tracker.record_latency("a", took_ms=first_ms, failed=False, now_ms=0)
    for now_ms in range(40):
        tracker.record_latency("a", took_ms=then_ms, failed=False, now_ms=now_ms)
    assert tracker.snapshot(40)[0].usual_ms == then_ms
