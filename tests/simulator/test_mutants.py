"""Every mutant is caught, and the history that shows it is fine without it.

The recorded seed is tried first. When something else in the program changed, its history is another one and may not
show the mutant any more: then the hunt goes on, and only a mutant that nothing finds is a failure.
"""

from contextlib import suppress

import pytest

from simulator.checkers.runner import ALL_CHECKERS
from simulator.history import run_history
from simulator.mutants.catalog import MUTANTS, find_mutant
from simulator.mutants.hunt import CATCHES, MAX_HISTORIES, hunt
from simulator.mutants.mutant import AttributePatch, Mutant, mutated, patch_attribute
from simulator.outcome import HistoryVerdict, format_findings
from steelyard.errors import ConfigurationError


@pytest.mark.thorough
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_and_its_history_is_fine_without_it(name: str) -> None:
    _, seed = CATCHES.get(name, ("", 0))
    recorded = [seed] if name in CATCHES else []
    catch = hunt(MUTANTS[name], (*recorded, *range(MAX_HISTORIES)))
    assert catch is not None, f"nothing finds it: python -m simulator --hunt --plant {name}"
    assert catch.outcome.verdict in (HistoryVerdict.SAFETY, HistoryVerdict.LIVENESS), "\n".join(
        format_findings(catch.outcome)
    )
    assert {finding.checker for finding in catch.outcome.findings} <= {checker.name for checker in ALL_CHECKERS}


def test_catches_are_recorded_for_all_mutants_and_name_real_checkers() -> None:
    assert CATCHES.keys() == MUTANTS.keys()
    assert {checker for checker, _ in CATCHES.values()} <= {checker.name for checker in ALL_CHECKERS}


def test_a_mutant_has_a_sentence_and_leaves_no_trace_in_any_class() -> None:
    for bug in MUTANTS.values():
        assert bug.sentence.endswith(".")
        before = [vars(each.owner)[each.attribute] for each in bug.patches]
        with mutated(bug):
            assert all(
                vars(each.owner)[each.attribute] is not was for each, was in zip(bug.patches, before, strict=True)
            )
        assert [vars(each.owner)[each.attribute] for each in bug.patches] == before


class Greeter:
    @staticmethod
    def greet(name: str) -> str:
        return f"hello {name}"

    def part(self) -> str:
        return "bye"


def test_what_was_swapped_goes_back_as_it_was_whatever_happens() -> None:
    wrong = (AttributePatch(Greeter, "greet", lambda was: was), patch_attribute(Greeter, "part", lambda _: "stay"))
    bug = Mutant("rude", "Nobody may go.", ("churn",), wrong)
    before = dict(vars(Greeter))
    with mutated(bug):
        assert Greeter().part() == "stay"
    assert dict(vars(Greeter)) == before
    with suppress(KeyError), mutated(bug):
        raise KeyError
    assert dict(vars(Greeter)) == before
    with mutated(None):
        assert Greeter.greet("you") == "hello you"


def test_a_hunt_returns_the_first_history_that_shows_a_mutant() -> None:
    bug = MUTANTS["half-visible"]
    catch = hunt(bug)
    assert catch is not None
    assert catch.outcome.signature == "half messages invisible"
    assert catch.outcome.kind == bug.kind_of(catch.outcome.seed)
    assert hunt(bug, range(catch.outcome.seed)) is None


def test_an_unknown_mutant_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="gremlin"):
        run_history(0, mutant="gremlin")
    assert find_mutant(None) is None
