"""Three hundred histories over all kinds, and those that once failed: nothing is found in any of them."""

from collections.abc import Iterable

import pytest

from steelyard.sim.corpus import CORPUS
from steelyard.sim.history import run_history
from steelyard.sim.outcome import Outcome, Verdict, replay_command, tell_findings

SEEDS = range(304)
CHUNK = 16


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_no_history_finds_anything(first: int) -> None:
    complain(run_history(seed) for seed in range(first, first + CHUNK))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "seed", "why"), CORPUS)
def test_a_history_that_once_failed_is_fine(kind: str, seed: int, why: str) -> None:
    outcome = run_history(seed, kind)
    assert outcome.verdict is Verdict.FINE, why
    complain([outcome])


def complain(outcomes: Iterable[Outcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.verdict is not Verdict.FINE]
    if failed:
        told = ("\n".join((*tell_findings(outcome), replay_command(outcome))) for outcome in failed)
        pytest.fail("\n\n".join(told), pytrace=False)
