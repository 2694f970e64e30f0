from simulator.checkers.checker import CheckerFinding
from simulator.generators import draw_scenario
from simulator.outcome import HistoryOutcome
from simulator.scenario import Scenario, part_names, without_parts
from simulator.shrink import shrink

SEED = 15  # a wild one: many faults


def failing(scenario: Scenario, needed: set[str], messages: int) -> list[HistoryOutcome]:
    """Shrink a history that fails as long as it has some parts and enough messages; return all runs."""
    ran: list[HistoryOutcome] = []

    def run(dropped: tuple[str, ...]) -> HistoryOutcome:
        left = without_parts(scenario, dropped)
        most = max((producer.messages for producer in left.producers), default=0)
        finding = CheckerFinding(
            checker="lost", kind="safety", subsystem="delivery", sentence="a message is gone", at_ms=7
        )
        fails = needed <= set(part_names(left)) and most >= messages
        ran.append(HistoryOutcome(scenario.seed, scenario.kind, findings=(finding,) if fails else (), dropped=dropped))
        return ran[-1]

    ran.append(shrink(scenario, run(()), run))
    return ran


def test_only_what_is_needed_to_fail_is_left() -> None:
    scenario = draw_scenario(SEED)
    fault = scenario.faults[1]
    *_, small = failing(scenario, {fault.name, fault.target}, messages=3)
    left = without_parts(scenario, small.dropped)
    producers = {producer.name for producer in left.producers}
    assert set(part_names(left)) - producers == {fault.name, fault.target} | (
        {fault.other} - {""} & set(part_names(scenario))
    )
    assert len(producers) == 1
    assert left.producers[0].messages == 3


def test_a_history_that_needs_nothing_becomes_empty() -> None:
    scenario = draw_scenario(SEED)
    *_, small = failing(scenario, set(), messages=0)
    assert not list(part_names(without_parts(scenario, small.dropped)))


def test_a_history_that_needs_everything_stays_as_it_is() -> None:
    scenario = draw_scenario(SEED)
    most = max(producer.messages for producer in scenario.producers)
    *_, small = failing(scenario, set(part_names(scenario)), messages=most)
    assert small.dropped == ()


def test_another_failure_does_not_count() -> None:
    scenario = draw_scenario(SEED)

    def run(dropped: tuple[str, ...]) -> HistoryOutcome:
        checker = "lost" if not dropped else "twice"
        finding = CheckerFinding(checker=checker, kind="safety", subsystem="delivery", sentence="…", at_ms=7)
        return HistoryOutcome(scenario.seed, scenario.kind, findings=(finding,), dropped=dropped)

    assert shrink(scenario, run(()), run).dropped == ()


def test_shrinking_ends_after_so_many_runs() -> None:
    scenario = draw_scenario(SEED)
    runs = 0

    def run(dropped: tuple[str, ...]) -> HistoryOutcome:
        nonlocal runs
        runs += 1
        return HistoryOutcome(scenario.seed, scenario.kind, dropped=dropped, error="Traceback\nValueError: no")

    first = run(())
    shrink(scenario, first, run, max_runs=5)
    assert runs == 6
