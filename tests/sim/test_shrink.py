from steelyard.sim.checkers.checker import Finding
from steelyard.sim.kinds.table import draw
from steelyard.sim.outcome import Outcome
from steelyard.sim.plan import Plan, parts, without
from steelyard.sim.shrink import shrink

SEED = 15  # a wild one: many faults


def failing(plan: Plan, needed: set[str], messages: int) -> list[Outcome]:
    """Shrink a history that fails as long as it has some parts and so many messages; return all that was run."""
    ran: list[Outcome] = []

    def run(dropped: tuple[str, ...]) -> Outcome:
        left = without(plan, dropped)
        most = max((producer.messages for producer in left.producers), default=0)
        finding = Finding(checker="lost", kind="safety", half="delivery", sentence="a message is gone", at_ms=7)
        fails = needed <= set(parts(left)) and most >= messages
        ran.append(Outcome(plan.seed, plan.kind, findings=(finding,) if fails else (), dropped=dropped))
        return ran[-1]

    ran.append(shrink(plan, run(()), run))
    return ran


def test_only_what_is_needed_to_fail_is_left() -> None:
    plan = draw(SEED)
    fault = plan.faults[1]
    *_, small = failing(plan, {fault.name, fault.target}, messages=3)
    left = without(plan, small.dropped)
    producers = {producer.name for producer in left.producers}
    assert set(parts(left)) - producers == {fault.name, fault.target} | ({fault.other} - {""} & set(parts(plan)))
    assert len(producers) == 1
    assert left.producers[0].messages == 3


def test_a_history_that_needs_nothing_becomes_empty() -> None:
    plan = draw(SEED)
    *_, small = failing(plan, set(), messages=0)
    assert not list(parts(without(plan, small.dropped)))


def test_a_history_that_needs_everything_stays_as_it_is() -> None:
    plan = draw(SEED)
    most = max(producer.messages for producer in plan.producers)
    *_, small = failing(plan, set(parts(plan)), messages=most)
    assert small.dropped == ()


def test_another_failure_does_not_count() -> None:
    plan = draw(SEED)

    def run(dropped: tuple[str, ...]) -> Outcome:
        checker = "lost" if not dropped else "twice"
        finding = Finding(checker=checker, kind="safety", half="delivery", sentence="…", at_ms=7)
        return Outcome(plan.seed, plan.kind, findings=(finding,), dropped=dropped)

    assert shrink(plan, run(()), run).dropped == ()


def test_shrinking_ends_after_so_many_runs() -> None:
    plan = draw(SEED)
    runs = 0

    def run(dropped: tuple[str, ...]) -> Outcome:
        nonlocal runs
        runs += 1
        return Outcome(plan.seed, plan.kind, dropped=dropped, error="Traceback\nValueError: no")

    first = run(())
    shrink(plan, first, run, most_runs=5)
    assert runs == 6
