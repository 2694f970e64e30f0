from dataclasses import replace

import pytest

from steelyard.sim import history
from steelyard.sim.facts import Acked, Ended, Gone, Healed, Joined
from steelyard.sim.history import play, run_history
from steelyard.sim.kinds.table import draw
from steelyard.sim.outcome import Verdict
from steelyard.sim.plan import BrokerPlan, FaultKind, FaultPlan, GroupPlan, MemberPlan, Plan, ProducerPlan, TopicPlan
from steelyard.sim.resting import Rest
from steelyard.sim.terms import rest_ms, terms_of

QUIET = Plan(
    7,
    "quiet",
    calm_ms=4_000,
    brokers=(BrokerPlan("b1"),),
    topics=(TopicPlan("t1", 4, ("b1",)),),
    groups=(GroupPlan("g1", ("t1",)),),
    members=(MemberPlan("m1", "g1", 100), MemberPlan("m2", "g1", 200)),
    producers=(ProducerPlan("p1", "t1", 20, 1_000, 50),),
)


def struck(kind: FaultKind, target: str, for_ms: int = 0) -> Plan:
    return replace(QUIET, faults=(FaultPlan("f1", 2_000, kind, target, for_ms=for_ms),))


def test_a_quiet_history_handles_everything_once_and_ends_soon() -> None:
    played = play(QUIET)
    assert played.outcome.verdict is Verdict.FINE
    assert played.outcome.counts["messages"] == played.outcome.counts["handlers"] == 20
    assert played.end is not None
    assert played.end.drained
    assert played.end.settled
    assert played.end.at_ms < QUIET.calm_ms + 3_000
    owned = sorted(queue for states in played.end.states.values() for queue in states)
    assert owned == sorted((*played.end.queues["t1"], *played.end.queues["%RETRY%g1"]))


def test_facts_are_told_in_order_of_time() -> None:
    times = [fact.at_ms for fact in play(QUIET).facts]
    assert times == sorted(times)


def test_a_member_that_is_started_again_is_a_new_process() -> None:
    played = play(struck(FaultKind.KILL, "m1", for_ms=500))
    assert played.outcome.verdict is Verdict.FINE
    (gone,) = (fact.name for fact in played.facts if isinstance(fact, Gone) and fact.how == "killed")
    joined = [fact.member for fact in played.facts if isinstance(fact, Joined) and fact.group]
    assert len(joined) == len(set(joined)) == 3
    assert gone in joined[:2]
    assert played.end is not None
    assert len(played.end.alive["g1"]) == 2


def test_a_group_of_which_nobody_is_left_gets_a_member_to_finish_its_work() -> None:
    plan = replace(struck(FaultKind.KILL, "m1"), members=QUIET.members[:1])
    played = play(plan)
    assert played.outcome.verdict is Verdict.FINE
    (healed_ms,) = (fact.at_ms for fact in played.facts if isinstance(fact, Healed))
    assert [fact.at_ms for fact in played.facts if isinstance(fact, Joined) and fact.group] == [100, healed_ms]
    stored = {fact.uid for fact in played.facts if isinstance(fact, Acked)}
    assert stored == {fact.uid for fact in played.facts if isinstance(fact, Ended) and fact.ok}


def test_a_world_that_does_not_come_to_rest_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rest, "is_drained", lambda _: False)
    played = play(QUIET)
    assert played.end is not None
    assert not played.end.drained
    assert played.end.at_ms == QUIET.calm_ms + rest_ms(QUIET)
    assert played.outcome.verdict is Verdict.LIVENESS


def test_an_error_of_a_core_is_an_outcome_and_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Rest) -> bool:
        raise ValueError("no such thing")

    monkeypatch.setattr(Rest, "is_settled", fail)
    outcome = play(QUIET).outcome
    assert outcome.verdict is Verdict.ERROR
    assert outcome.error is not None
    assert outcome.error.splitlines()[-1] == "ValueError: no such thing"
    assert "sim/resting.py" in outcome.error
    assert outcome.signature == "error: ValueError"


def test_a_seed_is_run_without_the_parts_that_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Plan] = []
    real = history.play

    def noted(plan: Plan, **_: object) -> history.Played:
        seen.append(plan)
        return real(QUIET)

    monkeypatch.setattr(history, "play", noted)
    run_history(0, "crash", dropped=("f1", "n3"))
    (plan,) = seen
    whole = draw(0, "crash")
    assert [fault.name for fault in plan.faults] == [fault.name for fault in whole.faults[1:]]
    assert all(producer.messages <= 3 for producer in plan.producers)


def test_terms_say_what_a_history_may_do() -> None:
    quiet = terms_of(QUIET)
    assert quiet.planned_only
    assert not quiet.apache_brokers
    assert terms_of(struck(FaultKind.POWER, "b1")).power_loss
    assert terms_of(struck(FaultKind.PAUSE, "m1")).pauses
    assert not terms_of(struck(FaultKind.KILL, "m1")).planned_only
    apache = terms_of(replace(QUIET, brokers=(BrokerPlan("b1", is_ours=False),)))
    assert apache.apache_brokers == {"b1"}
