"""Sixteen histories of every kind, and those that once failed, without findings; `make sim` runs thousands."""

from collections import Counter
from collections.abc import Iterable

import pytest

from simulator.coverage import CORPUS
from simulator.generators import SCENARIO_KINDS, kind_of_seed
from simulator.history import run_history
from simulator.outcome import HistoryOutcome, HistoryVerdict, format_findings, replay_command
from tests.docs.docs_pages import read

pytestmark = pytest.mark.thorough

CHUNK = 16
SEEDS = range(CHUNK * len(SCENARIO_KINDS))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_no_history_finds_anything(first: int) -> None:
    complain(run_history(seed) for seed in range(first, first + CHUNK))


def test_the_page_says_how_many_histories_there_are() -> None:
    assert f"| `make test` | {len(SEEDS)}, " in read("docs/reliability.md")


def test_every_kind_of_history_comes_equally_often() -> None:
    assert Counter(kind_of_seed(seed) for seed in SEEDS) == dict.fromkeys(SCENARIO_KINDS, CHUNK)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "seed", "why"), CORPUS)
def test_a_history_that_once_failed_is_fine(kind: str, seed: int, why: str) -> None:
    outcome = run_history(seed, kind)
    assert outcome.verdict is HistoryVerdict.FINE, why
    complain([outcome])


def complain(outcomes: Iterable[HistoryOutcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.verdict is not HistoryVerdict.FINE]
    if failed:
        text = ("\n".join((*format_findings(outcome), replay_command(outcome))) for outcome in failed)
        pytest.fail("\n\n".join(text), pytrace=False)
