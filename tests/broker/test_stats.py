"""Counters: what passed, in all and lately, and how fast."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker import stats as module
from steelyard.broker.stats import DAY, HOUR, MINUTE, TrafficCounter, TrafficStats

START_MS = 1_700_000_000_000 // 86_400_000 * 86_400_000
"""Midnight."""


def run(rates: TrafficStats, start_ms: int, end_ms: int, step_ms: int = 1_000, *, each: int = 0) -> None:
    """Let time pass, with a tick and some messages at each step."""
    for now_ms in range(start_ms, end_ms, step_ms):
        rates.tick(now_ms)
        if each:
            rates.record_stored("orders", each, 100 * each)
    rates.tick(end_ms)


def counted(counter: TrafficCounter | None) -> TrafficCounter:
    assert counter is not None
    return counter


def test_everything_is_counted() -> None:
    rates = TrafficStats(START_MS)
    rates.record_stored("orders", 1, 200)
    rates.record_stored("orders", 3, 500)
    rates.record_pulled("billing", "orders", 4, 700)
    rates.record_empty_pull()
    assert (rates.stored.messages, rates.stored.size, rates.stored.calls) == (4, 700, 2)
    assert (rates.delivered.messages, rates.delivered.size, rates.delivered.calls) == (4, 700, 1)
    assert rates.empty_pulls == 1
    assert rates.topic_counter("other") is rates.group_counter("billing", "other") is None


def test_a_steady_flow_has_its_speed_in_every_window() -> None:
    rates = TrafficStats(START_MS)
    end_ms = START_MS + 3 * 3_600_000
    run(rates, START_MS, end_ms, each=5)
    assert rates.rates(end_ms).stored == pytest.approx((5, 5, 5))
    counter = counted(rates.topic_counter("orders"))
    for window in (MINUTE, HOUR, DAY):
        assert counter.totals_within(window, end_ms).tps == pytest.approx(5, rel=0.02)
    assert 60 * 5 <= counter.totals_within(MINUTE, end_ms).messages <= 70 * 5
    assert counter.totals_within(DAY, end_ms).messages == 3 * 3600 * 5


def test_what_happened_since_the_last_sample_counts_too() -> None:
    rates = TrafficStats(START_MS)
    run(rates, START_MS, START_MS + 20_500)
    rates.record_stored("orders", 7, 700)
    flow = counted(rates.topic_counter("orders")).totals_within(MINUTE, START_MS + 20_600)
    assert (flow.messages, flow.size, flow.calls) == (7, 700, 1)
    assert rates.rates(START_MS + 20_600).stored[0] > 0


def test_one_message_is_no_speed() -> None:
    rates = TrafficStats(START_MS)
    rates.record_stored("orders", 10, 1)
    assert counted(rates.topic_counter("orders")).totals_within(MINUTE, START_MS + 1).tps == 1


def test_what_was_long_ago_is_forgotten_window_by_window() -> None:
    rates = TrafficStats(START_MS)
    rates.record_stored("orders", 9, 900)
    minute, hour, day = 60_000, 3_600_000, 86_400_000
    for passed_ms, known in (
        (minute // 2, (9, 9, 9)),
        (2 * minute, (0, 9, 9)),
        (2 * hour, (0, 0, 9)),
        (2 * day, (0, 0, 0)),
    ):
        now_ms = START_MS + passed_ms
        rates.tick(now_ms)
        counter = counted(rates.topic_counter("orders"))
        assert tuple(counter.totals_within(window, now_ms).messages for window in (MINUTE, HOUR, DAY)) == known


def test_speeds_fall_to_nothing_when_nothing_comes() -> None:
    rates = TrafficStats(START_MS)
    run(rates, START_MS, START_MS + 60_000, each=2)
    run(rates, START_MS + 60_000, START_MS + 90_000)
    ten_seconds, minute, _ = rates.rates(START_MS + 90_000).stored
    assert ten_seconds == 0
    assert minute == pytest.approx(1, abs=0.1)


def test_a_broker_that_just_started_has_speeds_too() -> None:
    rates = TrafficStats(START_MS)
    assert rates.rates(START_MS).stored == (0, 0, 0)
    rates.record_pulled("billing", "orders", 8, 1)
    assert rates.rates(START_MS + 10).delivered == (8, 8, 8)
    assert rates.rates(START_MS + 10).found == (1, 1, 1)


def test_mornings_are_remembered() -> None:
    rates = TrafficStats(START_MS)
    day = 86_400_000
    for number, messages in enumerate((5, 7, 11)):
        rates.tick(START_MS + number * day + 1_000)
        rates.record_stored("orders", messages, 1)
        rates.record_pulled("billing", "orders", 1, 1)
    stored, delivered = rates.daily_totals()
    assert stored == (5, 12, 23)
    assert delivered == (1, 2, 3)


def test_what_was_deleted_is_forgotten_and_the_totals_stay() -> None:
    rates = TrafficStats(START_MS)
    for topic in ("orders", "returns"):
        rates.record_stored(topic, 1, 1)
        for group in ("billing", "audit"):
            rates.record_pulled(group, topic, 1, 1)
    rates.forget_topic("orders")
    rates.forget_group("audit")
    assert (
        rates.topic_counter("orders")
        is rates.group_counter("billing", "orders")
        is rates.group_counter("audit", "returns")
        is None
    )
    assert counted(rates.group_counter("billing", "returns")).messages == 1
    assert (rates.stored.messages, rates.delivered.messages) == (2, 4)


def test_names_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_COUNTERS", 10)
    rates = TrafficStats(START_MS)
    for number in range(50):
        rates.record_stored(f"topic-{number}", 1, 1)
        rates.record_pulled(f"group-{number}", "orders", 1, 1)
    assert sum(rates.topic_counter(f"topic-{number}") is not None for number in range(50)) == 5
    assert rates.topic_counter("topic-49") is None
    assert (rates.stored.messages, rates.delivered.messages) == (50, 50)


@given(steps=st.lists(st.tuples(st.integers(0, 4_000_000), st.integers(0, 100)), max_size=30))
def test_no_message_is_counted_twice_or_lost_within_a_day(steps: list[tuple[int, int]]) -> None:
    rates = TrafficStats(START_MS)
    now_ms = START_MS
    for passed_ms, messages in steps[:20]:
        now_ms += passed_ms
        rates.tick(now_ms)
        rates.record_stored("orders", messages, messages)
    if steps:
        day = counted(rates.topic_counter("orders")).totals_within(DAY, now_ms)
        minute = counted(rates.topic_counter("orders")).totals_within(MINUTE, now_ms)
        assert day.messages == rates.stored.messages
        assert minute.messages <= day.messages
