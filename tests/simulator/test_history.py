from dataclasses import replace

import pytest

from simulator import history
from simulator.facts import FaultsHealed, HandlerEnded, MessageAcked, ProcessGone, ProcessStarted
from simulator.generators import draw_scenario
from simulator.history import QuiescenceCheck, run_history, run_scenario
from simulator.outcome import HistoryVerdict
from simulator.scenario import (
    FaultKind,
    Scenario,
    ScenarioBroker,
    ScenarioFault,
    ScenarioGroup,
    ScenarioMember,
    ScenarioProducer,
    ScenarioTopic,
    conditions_of,
    time_to_rest_ms,
)

QUIET = Scenario(
    7,
    "quiet",
    heals_ms=4_000,
    brokers=(ScenarioBroker("b1"),),
    topics=(ScenarioTopic("t1", 4, ("b1",)),),
    groups=(ScenarioGroup("g1", ("t1",)),),
    members=(ScenarioMember("m1", "g1", 100), ScenarioMember("m2", "g1", 200)),
    producers=(ScenarioProducer("p1", "t1", 20, 1_000, 50),),
)


def struck(kind: FaultKind, target: str, for_ms: int = 0) -> Scenario:
    return replace(QUIET, faults=(ScenarioFault("f1", 2_000, kind, target, for_ms=for_ms),))


def test_a_quiet_history_handles_everything_once_and_ends_soon() -> None:
    played = run_scenario(QUIET)
    assert played.outcome.verdict is HistoryVerdict.FINE
    assert played.outcome.counts["messages"] == played.outcome.counts["handlers"] == 20
    assert played.end is not None
    assert played.end.drained
    assert played.end.settled
    assert played.end.at_ms < QUIET.heals_ms + 3_000
    owned = sorted(queue for states in played.end.states.values() for queue in states)
    assert owned == sorted((*played.end.queues["t1"], *played.end.queues["%RETRY%g1"]))


def test_facts_are_recorded_in_order_of_time() -> None:
    times = [fact.at_ms for fact in run_scenario(QUIET).facts]
    assert times == sorted(times)


def test_a_member_that_is_started_again_is_a_new_process() -> None:
    played = run_scenario(struck(FaultKind.KILL, "m1", for_ms=500))
    assert played.outcome.verdict is HistoryVerdict.FINE
    (gone,) = (fact.name for fact in played.facts if isinstance(fact, ProcessGone) and fact.how == "killed")
    joined = [fact.member for fact in played.facts if isinstance(fact, ProcessStarted) and fact.group]
    assert len(joined) == len(set(joined)) == 3
    assert gone in joined[:2]
    assert played.end is not None
    assert len(played.end.alive["g1"]) == 2


def test_a_group_without_members_gets_one_to_finish_its_work() -> None:
    scenario = replace(struck(FaultKind.KILL, "m1"), members=QUIET.members[:1])
    played = run_scenario(scenario)
    assert played.outcome.verdict is HistoryVerdict.FINE
    (healed_ms,) = (fact.at_ms for fact in played.facts if isinstance(fact, FaultsHealed))
    assert [fact.at_ms for fact in played.facts if isinstance(fact, ProcessStarted) and fact.group] == [100, healed_ms]
    stored = {fact.uid for fact in played.facts if isinstance(fact, MessageAcked)}
    assert stored == {fact.uid for fact in played.facts if isinstance(fact, HandlerEnded) and fact.ok}


def test_a_world_that_does_not_come_to_rest_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuiescenceCheck, "is_drained", lambda _: False)
    played = run_scenario(QUIET)
    assert played.end is not None
    assert not played.end.drained
    assert played.end.at_ms == QUIET.heals_ms + time_to_rest_ms(QUIET)
    assert played.outcome.verdict is HistoryVerdict.LIVENESS


def test_an_error_of_a_core_is_an_outcome_and_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: QuiescenceCheck) -> bool:
        raise ValueError("no such thing")

    monkeypatch.setattr(QuiescenceCheck, "is_settled", fail)
    outcome = run_scenario(QUIET).outcome
    assert outcome.verdict is HistoryVerdict.ERROR
    assert outcome.error is not None
    assert outcome.error.splitlines()[-1] == "ValueError: no such thing"
    assert "simulator/history.py" in outcome.error
    assert outcome.signature == "error: ValueError"


def test_a_seed_is_run_without_the_parts_that_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Scenario] = []
    real = history.run_scenario

    def noted(scenario: Scenario, **_: object) -> history.RecordedHistory:
        seen.append(scenario)
        return real(QUIET)

    monkeypatch.setattr(history, "run_scenario", noted)
    run_history(0, "crash", dropped=("f1", "n3"))
    (scenario,) = seen
    whole = draw_scenario(0, "crash")
    assert [fault.name for fault in scenario.faults] == [fault.name for fault in whole.faults[1:]]
    assert all(producer.messages <= 3 for producer in scenario.producers)


def test_terms_say_what_a_history_may_do() -> None:
    quiet = conditions_of(QUIET)
    assert quiet.planned_only
    assert not quiet.apache_brokers
    assert conditions_of(struck(FaultKind.POWER, "b1")).power_loss
    assert conditions_of(struck(FaultKind.PAUSE, "m1")).pauses
    assert not conditions_of(struck(FaultKind.KILL, "m1")).planned_only
    apache = conditions_of(replace(QUIET, brokers=(ScenarioBroker("b1", is_steelyard=False),)))
    assert apache.apache_brokers == {"b1"}
