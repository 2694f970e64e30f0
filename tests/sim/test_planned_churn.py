"""From one member to eight and back: nothing handled twice, nothing lost, no queue moved without need, at once."""

import os
from functools import cache

import pytest
from tests.sim.measuring import Change, handled_twice, percentile

from steelyard.sim.facts import Joined
from steelyard.sim.history import Played, play
from steelyard.sim.plan import BrokerPlan, GroupPlan, MemberPlan, Plan, ProducerPlan, TopicPlan, Work

MEMBERS = 8
QUEUES = 16
STEP_MS = 2_000
SEEDS = range(8 if "STEELYARD_SLOW" in os.environ else 2)
FIRST_MS = 4_000
"""Later than three seconds: so long a broker that is not ours counts as just restarted."""
LAST_MS = FIRST_MS + (2 * MEMBERS - 1) * STEP_MS

# All of them look at the same histories, which are kept.
pytestmark = pytest.mark.xdist_group("planned churn")


def up_and_down(seed: int, *, is_ours: bool) -> Plan:
    work = Work(most_ms=15)
    members = tuple(
        MemberPlan(
            f"m{number + 1}",
            "g1",
            joins_ms=FIRST_MS + number * STEP_MS,
            # The first one stays; the others leave in the order in which they came.
            leaves_ms=None if number == 0 else FIRST_MS + (MEMBERS + number - 1) * STEP_MS,
            work=work,
        )
        for number in range(MEMBERS)
    )
    return Plan(
        seed,
        "churn",
        calm_ms=LAST_MS,
        brokers=(BrokerPlan("b1", is_ours=is_ours),),
        topics=(TopicPlan("t1", QUEUES, ("b1",)),),
        groups=(GroupPlan("g1", ("t1",)),),
        members=members,
        producers=(ProducerPlan("p1", "t1", 300, 1_000, (LAST_MS - 2_000) // 300),),
    )


@cache
def played(seed: int, is_ours: bool) -> Played:
    return play(up_and_down(seed, is_ours=is_ours))


def changes(history: Played) -> list[tuple[Change, set[str]]]:
    """Return every join but the first and every leave, with who is there afterwards."""
    joined = [fact.member for fact in history.facts if isinstance(fact, Joined) and fact.kind == "ours"]
    found = []
    for number in range(1, 2 * MEMBERS - 1):
        begins_ms = FIRST_MS + number * STEP_MS
        there = joined[: number + 1] if number < MEMBERS else [joined[0], *joined[number - MEMBERS + 2 :]]
        found.append((Change(history.facts, begins_ms, begins_ms + STEP_MS), set(there)))
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
