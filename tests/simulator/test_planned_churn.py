"""From one member to eight and back: nothing handled twice, nothing lost, minimal moves, quickly."""

import os
from functools import cache

import pytest

from simulator.facts import ProcessStarted
from simulator.history import RecordedHistory, run_scenario
from simulator.scenario import (
    Scenario,
    ScenarioBroker,
    ScenarioGroup,
    ScenarioHandler,
    ScenarioMember,
    ScenarioProducer,
    ScenarioTopic,
)
from tests.simulator.measurements import MeasuredChange, handled_twice, percentile

MEMBERS = 8
QUEUES = 16
STEP_MS = 2_000
SEEDS = range(8 if "STEELYARD_SLOW" in os.environ else 2)
FIRST_MS = 4_000
"""After three seconds: until then a broker that is not ours counts as just restarted."""
LAST_MS = FIRST_MS + (2 * MEMBERS - 1) * STEP_MS

# All tests use the same histories, which are cached.
pytestmark = pytest.mark.xdist_group("planned churn")


def up_and_down(seed: int, *, is_ours: bool) -> Scenario:
    work = ScenarioHandler(max_ms=15)
    members = tuple(
        ScenarioMember(
            f"m{number + 1}",
            "g1",
            joins_ms=FIRST_MS + number * STEP_MS,
            # The first one stays; the others leave in the order in which they joined.
            leaves_ms=None if number == 0 else FIRST_MS + (MEMBERS + number - 1) * STEP_MS,
            handler=work,
        )
        for number in range(MEMBERS)
    )
    return Scenario(
        seed,
        "churn",
        heals_ms=LAST_MS,
        brokers=(ScenarioBroker("b1", is_steelyard=is_ours),),
        topics=(ScenarioTopic("t1", QUEUES, ("b1",)),),
        groups=(ScenarioGroup("g1", ("t1",)),),
        members=members,
        producers=(ScenarioProducer("p1", "t1", 300, 1_000, (LAST_MS - 2_000) // 300),),
    )


@cache
def played(seed: int, is_ours: bool) -> RecordedHistory:
    return run_scenario(up_and_down(seed, is_ours=is_ours))


def changes(history: RecordedHistory) -> list[tuple[MeasuredChange, set[str]]]:
    """Return every join but the first and every leave, with the members afterwards."""
    joined = [fact.member for fact in history.facts if isinstance(fact, ProcessStarted) and fact.kind == "ours"]
    found = []
    for number in range(1, 2 * MEMBERS - 1):
        begins_ms = FIRST_MS + number * STEP_MS
        there = joined[: number + 1] if number < MEMBERS else [joined[0], *joined[number - MEMBERS + 2 :]]
        found.append((MeasuredChange(history.facts, begins_ms, begins_ms + STEP_MS), set(there)))
    return found


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "apache"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_handled_twice_or_lost_by_joins_and_leaves(seed: int, is_ours: bool) -> None:
    history = played(seed, is_ours)
    assert history.outcome.error is None
    assert history.outcome.findings == ()
    assert handled_twice(history.facts) == 0
    assert history.end is not None
    assert history.end.drained
    assert history.outcome.counts["messages"] == history.outcome.counts["handlers"] == 300


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "apache"])
def test_no_queue_moves_without_need(is_ours: bool) -> None:
    for seed in SEEDS:
        for change, members in changes(played(seed, is_ours)):
            assert set(change.after.values()) == members
            assert change.moved == change.least(members)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "apache"])
def test_a_change_is_over_within_a_second(is_ours: bool) -> None:
    took_ms = [change.took_ms for seed in SEEDS for change, _ in changes(played(seed, is_ours))]
    assert len(took_ms) == len(SEEDS) * (2 * MEMBERS - 2)
    assert percentile(took_ms, 99) <= 1_000
