"""Four histories of every kind, and those that once failed: nothing is found in any; `make sim` runs thousands."""

from collections import Counter
from collections.abc import Iterable

import pytest

from steelyard.sim.corpus import CORPUS
from steelyard.sim.history import run_history
from steelyard.sim.kinds.table import KINDS, kind_of
from steelyard.sim.outcome import Outcome, Verdict, replay_command, tell_findings

pytestmark = pytest.mark.thorough

CHUNK = 16
SEEDS = range(0, CHUNK * len(KINDS), 4)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", SEEDS[:: CHUNK // SEEDS.step])
def test_no_history_finds_anything(first: int) -> None:
    complain(run_history(seed) for seed in range(first, first + CHUNK, SEEDS.step))


def test_every_kind_of_history_comes_equally_often() -> None:
    assert Counter(kind_of(seed) for seed in SEEDS) == dict.fromkeys(KINDS, 4)


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
