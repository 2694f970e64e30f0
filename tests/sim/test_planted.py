"""Every planted bug is caught, and the history that shows it is fine without it.

The seed that is recorded is tried first. When something else in the program changed, its history is another one and may
not show the bug any more: then the hunt goes on, and only a bug that nothing finds is a failure.
"""

from contextlib import suppress

import pytest

from steelyard.errors import ConfigurationError
from steelyard.sim.checkers.table import ALL
from steelyard.sim.history import run_history
from steelyard.sim.outcome import Verdict, tell_findings
from steelyard.sim.planted.bug import Bug, Swap, planted, swap
from steelyard.sim.planted.catches import CATCHES
from steelyard.sim.planted.hunt import MOST_HISTORIES, hunt
from steelyard.sim.planted.table import BUGS, find_bug


@pytest.mark.thorough
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught_and_its_history_is_fine_without_it(name: str) -> None:
    _, seed = CATCHES.get(name, ("", 0))
    recorded = [seed] if name in CATCHES else []
    catch = hunt(BUGS[name], (*recorded, *range(MOST_HISTORIES)))
    assert catch is not None, f"nothing finds it: steelyard sim --hunt --plant {name}"
    assert catch.outcome.verdict in (Verdict.SAFETY, Verdict.LIVENESS), "\n".join(tell_findings(catch.outcome))
    assert {finding.checker for finding in catch.outcome.findings} <= {checker.name for checker in ALL}


def test_what_is_recorded_is_a_bug_that_there_is_and_a_checker_too() -> None:
    assert CATCHES.keys() == BUGS.keys()
    assert {checker for checker, _ in CATCHES.values()} <= {checker.name for checker in ALL}


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
    assert catch.outcome.signature == "halves invisible"
    assert catch.outcome.kind == bug.kind_of(catch.outcome.seed)
    assert hunt(bug, range(catch.outcome.seed)) is None


def test_a_bug_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="gremlin"):
        run_history(0, planted="gremlin")
    assert find_bug(None) is None
