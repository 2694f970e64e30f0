"""How soon a change of members has to be over, and that a hanging member affects no other."""

import pytest

from simulator.checkers.checker import HistoryEnd
from simulator.checkers.healthy_stay_read import HealthyStayRead
from simulator.checkers.settles_in_time import SettlesInTime
from simulator.facts import Fact, ProcessPaused, ProcessResumed
from tests.simulator.checkers.fact_builders import Q0, Q1, conditions, cut, gone, joined, moved, owned, run_checker

APACHE = conditions(apache_brokers=frozenset({"b"}))
SHARED: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2"), *owned("m1", 100), *owned("m2", 100, Q1)]


def paused(name: str, at_ms: int) -> ProcessPaused:
    return ProcessPaused(at_ms=at_ms, name=name)


def resumed(name: str, at_ms: int) -> ProcessResumed:
    return ProcessResumed(at_ms=at_ms, name=name)


# -- a bound for each kind of change ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "ours_ms", "apache_ms"),
    [
        (joined("m3", 10_000), 3_500, 4_500),
        (gone("m1", 10_000, "left"), 3_000, 4_000),
        (gone("m1", 10_000), 4_000, 5_000),
        (gone("m1", 10_000, "vanished"), 18_000, 161_000),
        (paused("m1", 10_000), 18_000, 161_000),
    ],
    ids=["joined", "left", "killed", "vanished", "hung"],
)
def test_a_change_that_is_not_over_in_time_is_found(change: Fact, ours_ms: int, apache_ms: int) -> None:
    waits = moved("m2", 10_500, "absent", "WANTED")
    for under, bound_ms in ((conditions(), ours_ms), (APACHE, apache_ms)):
        facts = [*SHARED, change, waits]
        assert not run_checker(SettlesInTime, facts, under, HistoryEnd(10_000 + bound_ms))
        found = run_checker(SettlesInTime, facts, under, HistoryEnd(10_001 + bound_ms))
        assert found
        assert "WANTED at m2" in found[0].sentence
        over = [*facts, moved("m1", 11_000, "OWNED", "absent"), moved("m2", 11_000, "WANTED", "OWNED")]
        assert not run_checker(SettlesInTime, over, under, HistoryEnd(10_001 + bound_ms))


def test_who_comes_back_has_or_gives_up_its_queues_soon() -> None:
    facts = [*SHARED, paused("m1", 10_000), resumed("m1", 16_000)]
    assert not run_checker(SettlesInTime, facts, APACHE, HistoryEnd(30_000))
    unsure = [*facts, moved("m1", 16_001, "OWNED", "UNSURE")]
    assert not run_checker(SettlesInTime, unsure, APACHE, HistoryEnd(21_000))
    assert run_checker(SettlesInTime, unsure, APACHE, HistoryEnd(21_001))


def test_a_change_is_timed_only_where_nothing_else_happened() -> None:
    end = HistoryEnd(60_000)
    facts = [*SHARED, gone("m1", 10_000)]
    assert run_checker(SettlesInTime, facts, end=end)
    assert not run_checker(SettlesInTime, [*facts, cut("m2", 10_100)], end=end)
    assert not run_checker(SettlesInTime, [*SHARED, joined("m3", 7_000), gone("m1", 10_000)], end=end)
    assert not run_checker(SettlesInTime, [*SHARED, joined("m3", 1_000, "java"), gone("m1", 10_000)], end=end)
    haunted = [*SHARED, joined("m3", 200), gone("m3", 10_000, "vanished"), paused("m1", 20_000), resumed("m1", 28_000)]
    assert not run_checker(SettlesInTime, [*haunted, moved("m1", 28_001, "OWNED", "UNSURE")], APACHE, end)


# -- hanging members --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [paused("m1", 10_000), gone("m1", 10_000, "vanished")], ids=["hung", "vanished"])
def test_a_queue_that_is_given_up_since_another_member_stands_still_is_found(stop: Fact) -> None:
    given_up = moved("m2", 20_000, "OWNED", "DRAINING", Q1)
    (found,) = run_checker(HealthyStayRead, [*SHARED, stop, given_up], APACHE)
    assert (found.kind, found.subsystem) == ("liveness", "balance")
    assert "m1 stopped at 10000 ms" in found.sentence


def test_giving_up_a_queue_is_excused_where_something_else_happened() -> None:
    stop, given_up = paused("m1", 10_000), moved("m2", 20_000, "OWNED", "DRAINING", Q1)
    for other in (joined("m3", 15_000), gone("m2", 15_000, "left"), cut("m2", 15_000), resumed("m1", 15_000)):
        assert not run_checker(HealthyStayRead, [*SHARED, stop, other, given_up], APACHE)
    assert not run_checker(HealthyStayRead, [*SHARED, joined("m3", 9_000), stop, given_up], APACHE)
    assert not run_checker(HealthyStayRead, [*SHARED, stop, moved("m1", 20_000, "OWNED", "UNSURE", Q0)], APACHE)
    assert not run_checker(HealthyStayRead, [*SHARED, joined("m3", 1_000, "java"), stop, given_up], APACHE)
