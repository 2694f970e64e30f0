"""What the protocol promises after a fault, in numbers: how soon, and at what cost."""

import os
from collections.abc import Iterable

import pytest

from simulator.facts import Fact, MemberUnregistered, ProcessGone, ProcessPaused, ProcessStarted, QueueStateChanged
from simulator.history import RecordedHistory, run_scenario
from simulator.scenario import (
    FaultKind,
    Scenario,
    ScenarioBroker,
    ScenarioFault,
    ScenarioGroup,
    ScenarioHandler,
    ScenarioMember,
    ScenarioProducer,
    ScenarioTopic,
)
from steelyard.model import Queue
from tests.simulator.measurements import handled_twice, owners_at, percentile

SEEDS = range(12 if "STEELYARD_SLOW" in os.environ else 6)  # `make sim` runs all
FAULT_MS = 6_000
BROKERS = pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "apache"])


def group_of_three(
    seed: int, kind: FaultKind, target: str, *, is_ours: bool, for_ms: int = 0, mode: str = "concurrent", java: int = 0
) -> Scenario:
    """Return a scenario of three quiet members and one fault."""
    work = ScenarioHandler(max_ms=15)
    members = tuple(
        ScenarioMember(f"m{number}", "g1", 300 * number, is_steelyard=number > java, handler=work)
        for number in (1, 2, 3)
    )
    return Scenario(
        seed,
        "bounds",
        heals_ms=FAULT_MS + max(for_ms, 18_000),
        brokers=(ScenarioBroker("b1", is_steelyard=is_ours),),
        topics=(ScenarioTopic("t1", 12, ("b1",)),),
        groups=(ScenarioGroup("g1", ("t1",), mode=mode),),
        members=members,
        producers=(ScenarioProducer("p1", "t1", 150, 1_000, 80),),
        faults=(ScenarioFault("f1", FAULT_MS, kind, target, for_ms=for_ms),),
    )


def played(scenario: Scenario) -> RecordedHistory:
    history = run_scenario(scenario)
    assert history.outcome.error is None
    assert history.outcome.findings == ()
    assert history.end is not None
    assert history.end.drained
    return history


def owned_again_ms(facts: Iterable[Fact], lost: dict[Queue, str], since_ms: int) -> int:
    """Return how long after a time the last of some queues got a new owner."""
    again: dict[Queue, int] = {}
    for fact in facts:
        if not isinstance(fact, QueueStateChanged) or fact.after != "OWNED" or fact.at_ms <= since_ms:
            continue
        if lost.get(fact.queue, fact.member) != fact.member:
            again.setdefault(fact.queue, fact.at_ms)
    assert again.keys() == lost.keys()
    return max(again.values()) - since_ms


def of(member: str, owners: dict[Queue, str]) -> dict[Queue, str]:
    return {queue: owner for queue, owner in owners.items() if owner == member}


@BROKERS
@pytest.mark.timeout(300)
def test_queues_of_a_killed_member_are_owned_again_within_a_second_of_its_disconnect(is_ours: bool) -> None:
    took_ms = []
    for seed in SEEDS:
        facts = played(group_of_three(seed, FaultKind.KILL, "m2", is_ours=is_ours)).facts
        (gone,) = (fact for fact in facts if isinstance(fact, ProcessGone) and fact.how == "killed")
        # The broker has noticed; ours then waited for a moment whether the member comes back.
        (noticed,) = (fact for fact in facts if isinstance(fact, MemberUnregistered) and fact.member == gone.name)
        took_ms.append(owned_again_ms(facts, of(gone.name, owners_at(facts, FAULT_MS - 1)), noticed.at_ms))
    assert percentile(took_ms, 99) <= 1_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [FaultKind.PAUSE, FaultKind.VANISH])
def test_what_a_silent_member_had_is_owned_again_within_fifteen_seconds(kind: FaultKind) -> None:
    for seed in SEEDS[: len(SEEDS) // 2]:
        scenario = group_of_three(seed, kind, "m2", is_ours=True, for_ms=18_000 if kind is FaultKind.PAUSE else 0)
        facts = played(scenario).facts
        silent = next(
            fact.name
            for fact in facts
            if isinstance(fact, ProcessPaused) or (isinstance(fact, ProcessGone) and fact.how != "left")
        )
        assert owned_again_ms(facts, of(silent, owners_at(facts, FAULT_MS - 1)), FAULT_MS) < 15_000


@pytest.mark.timeout(300)
def test_in_order_what_a_killed_member_had_is_owned_again_within_three_seconds_on_our_broker() -> None:
    for seed in SEEDS[: len(SEEDS) // 2]:
        facts = played(group_of_three(seed, FaultKind.KILL, "m2", is_ours=True, mode="orderly")).facts
        (gone,) = (fact for fact in facts if isinstance(fact, ProcessGone) and fact.how == "killed")
        (noticed,) = (fact for fact in facts if isinstance(fact, MemberUnregistered) and fact.member == gone.name)
        assert owned_again_ms(facts, of(gone.name, owners_at(facts, FAULT_MS - 1)), noticed.at_ms) <= 3_000


@BROKERS
@pytest.mark.timeout(300)
def test_a_broker_that_restarts_changes_no_owner_and_makes_nothing_twice(is_ours: bool) -> None:
    for seed in SEEDS[: len(SEEDS) * 2 // 3]:
        history = played(group_of_three(seed, FaultKind.KILL, "b1", is_ours=is_ours, for_ms=500))
        before, after = owners_at(history.facts, FAULT_MS - 1), owners_at(history.facts, FAULT_MS + 18_000)
        assert before == after
        assert handled_twice(history.facts) == 0


@BROKERS
@pytest.mark.timeout(300)
def test_beside_java_every_queue_has_an_owner_and_nothing_is_lost(is_ours: bool) -> None:
    for seed in SEEDS[: len(SEEDS) // 2]:
        history = played(group_of_three(seed, FaultKind.CLOCK_SKEW, "m2", is_ours=is_ours, java=1))
        assert {fact.kind for fact in history.facts if isinstance(fact, ProcessStarted) and fact.group} == {
            "ours",
            "java",
        }
        assert history.end is not None
        assert history.end.settled
