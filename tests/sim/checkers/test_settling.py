"""How soon a change of members has to be over, and that who hangs, hangs alone."""

import pytest
from tests.sim.checkers.told import Q0, Q1, cut, gone, joined, judge, moved, owned, terms

from steelyard.sim.checkers.checker import End
from steelyard.sim.checkers.healthy_stay_read import HealthyStayRead
from steelyard.sim.checkers.settles_in_time import SettlesInTime
from steelyard.sim.facts import Fact, Paused, Resumed

APACHE = terms(apache_brokers=frozenset({"b"}))
SHARED: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2"), *owned("m1", 100), *owned("m2", 100, Q1)]


def paused(name: str, at_ms: int) -> Paused:
    return Paused(at_ms=at_ms, name=name)


def resumed(name: str, at_ms: int) -> Resumed:
    return Resumed(at_ms=at_ms, name=name)


# -- a bound for each kind of change ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "ours_ms", "apache_ms"),
    [
        (joined("m3", 10_000), 3_500, 4_500),
        (gone("m1", 10_000, "left"), 3_000, 4_000),
        (gone("m1", 10_000), 3_000, 4_000),
        (gone("m1", 10_000, "vanished"), 18_000, 161_000),
        (paused("m1", 10_000), 18_000, 161_000),
    ],
    ids=["joined", "left", "killed", "vanished", "hung"],
)
def test_a_change_that_is_not_over_in_time_is_found(change: Fact, ours_ms: int, apache_ms: int) -> None:
    waits = moved("m2", 10_500, "absent", "WANTED")
    for under, bound_ms in ((terms(), ours_ms), (APACHE, apache_ms)):
        story = [*SHARED, change, waits]
        assert not judge(SettlesInTime, story, under, End(10_000 + bound_ms))
        found = judge(SettlesInTime, story, under, End(10_001 + bound_ms))
        assert found
        assert "WANTED at m2" in found[0].sentence
        over = [*story, moved("m1", 11_000, "OWNED", "absent"), moved("m2", 11_000, "WANTED", "OWNED")]
        assert not judge(SettlesInTime, over, under, End(10_001 + bound_ms))


def test_who_comes_back_has_or_gives_up_its_queues_soon() -> None:
    story = [*SHARED, paused("m1", 10_000), resumed("m1", 16_000)]
    assert not judge(SettlesInTime, story, APACHE, End(30_000))
    unsure = [*story, moved("m1", 16_001, "OWNED", "UNSURE")]
    assert not judge(SettlesInTime, unsure, APACHE, End(21_000))
    assert judge(SettlesInTime, unsure, APACHE, End(21_001))


def test_a_change_is_timed_only_where_nothing_else_happened() -> None:
    end = End(60_000)
    story = [*SHARED, gone("m1", 10_000)]
    assert judge(SettlesInTime, story, end=end)
    assert not judge(SettlesInTime, [*story, cut("m2", 10_100)], end=end)
    assert not judge(SettlesInTime, [*SHARED, joined("m3", 7_000), gone("m1", 10_000)], end=end)
    assert not judge(SettlesInTime, [*SHARED, joined("m3", 1_000, "java"), gone("m1", 10_000)], end=end)
    haunted = [*SHARED, joined("m3", 200), gone("m3", 10_000, "vanished"), paused("m1", 20_000), resumed("m1", 28_000)]
    assert not judge(SettlesInTime, [*haunted, moved("m1", 28_001, "OWNED", "UNSURE")], APACHE, end)


# -- who hangs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [paused("m1", 10_000), gone("m1", 10_000, "vanished")], ids=["hung", "vanished"])
def test_a_queue_that_is_given_up_since_another_member_stands_still_is_found(stop: Fact) -> None:
    given_up = moved("m2", 20_000, "OWNED", "DRAINING", Q1)
    (found,) = judge(HealthyStayRead, [*SHARED, stop, given_up], APACHE)
    assert (found.kind, found.half) == ("liveness", "balance")
    assert "m1 stood still at 10000 ms" in found.sentence


def test_giving_up_a_queue_is_excused_where_something_else_happened() -> None:
    stop, given_up = paused("m1", 10_000), moved("m2", 20_000, "OWNED", "DRAINING", Q1)
    for other in (joined("m3", 15_000), gone("m2", 15_000, "left"), cut("m2", 15_000), resumed("m1", 15_000)):
        assert not judge(HealthyStayRead, [*SHARED, stop, other, given_up], APACHE)
    assert not judge(HealthyStayRead, [*SHARED, joined("m3", 9_000), stop, given_up], APACHE)
    assert not judge(HealthyStayRead, [*SHARED, stop, moved("m1", 20_000, "OWNED", "UNSURE", Q0)], APACHE)
    assert not judge(HealthyStayRead, [*SHARED, joined("m3", 1_000, "java"), stop, given_up], APACHE)
