"""Every planted bug is caught, by the checker and in the history that it names, and that history is fine without it."""

from contextlib import suppress

import pytest

from steelyard.errors import ConfigurationError
from steelyard.sim.checkers.table import ALL
from steelyard.sim.history import run_history
from steelyard.sim.outcome import Verdict, replay_command, tell_findings
from steelyard.sim.planted.bug import Bug, Swap, planted, swap
from steelyard.sim.planted.hunt import hunt
from steelyard.sim.planted.table import BUGS, find_bug


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_caught_and_nothing_else_is(name: str) -> None:
    bug = BUGS[name]
    assert bug.seed is not None, f"hunt it: steelyard sim --hunt --plant {name}"
    outcome = run_history(bug.seed, planted=name)
    found = {finding.checker for finding in outcome.findings}
    again = f"{replay_command(outcome, name)}; to find another seed: steelyard sim --hunt --plant {name}"
    assert bug.caught_by in found, "\n".join((*tell_findings(outcome), again))
    without = run_history(bug.seed, outcome.kind)
    assert without.verdict is Verdict.FINE, "\n".join((*tell_findings(without), replay_command(without)))


def test_bugs_are_caught_by_checkers_that_there_are() -> None:
    assert {bug.caught_by for bug in BUGS.values()} <= {checker.name for checker in ALL}


def test_a_bug_is_a_sentence_and_leaves_no_trace_in_any_class() -> None:
    for bug in BUGS.values():
        assert bug.sentence.endswith(".")
        before = [vars(each.owner)[each.attribute] for each in bug.swaps]
        with planted(bug):
            assert all(vars(each.owner)[each.attribute] is not was for each, was in zip(bug.swaps, before, strict=True))
        assert [vars(each.owner)[each.attribute] for each in bug.swaps] == before


class Greeter:
    @staticmethod
    def greet(name: str) -> str:
        return f"hello {name}"

    def part(self) -> str:
        return "bye"


def test_what_was_swapped_goes_back_as_it_was_whatever_happens() -> None:
    wrong = (Swap(Greeter, "greet", lambda was: was), swap(Greeter, "part", lambda _: "stay"))
    bug = Bug("rude", "Nobody may go.", ("churn",), wrong)
    before = dict(vars(Greeter))
    with planted(bug):
        assert Greeter().part() == "stay"
    assert dict(vars(Greeter)) == before
    with suppress(KeyError), planted(bug):
        raise KeyError
    assert dict(vars(Greeter)) == before
    with planted(None):
        assert Greeter.greet("you") == "hello you"


def test_a_hunt_returns_the_first_history_that_shows_a_bug() -> None:
    bug = BUGS["half-visible"]
    catch = hunt(bug)
    assert catch is not None
    assert catch.outcome.signature == bug.caught_by
    assert catch.outcome.kind == bug.kind_of(catch.outcome.seed)
    assert hunt(bug, range(catch.outcome.seed)) is None


def test_a_bug_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="gremlin"):
        run_history(0, planted="gremlin")
    assert find_bug(None) is None
