"""A history is its seed: run again, in any process, it is the same to the last byte."""

import os
import subprocess
import sys
from functools import cache

import pytest

from simulator.history import run_history
from simulator.outcome import HistoryOutcome

SEEDS = range(50)
CHUNK = 5

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("same seed")]


@cache
def first_run(seed: int) -> HistoryOutcome:
    return run_history(seed)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_the_same_seed_gives_the_same_history(first: int) -> None:
    for seed in SEEDS[first : first + CHUNK]:
        one, other = first_run(seed), run_history(seed, trace=True)
        assert one.digest == other.digest, f"history {seed} differs from itself"
        assert one.findings == other.findings
        assert one.situations == other.situations


@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_the_same_seed_gives_the_same_history_in_every_process(first: int) -> None:
    seeds = SEEDS[first : first + CHUNK]
    code = (
        "from simulator.history import run_history\n"
        f"for seed in range({seeds.start}, {seeds.stop}):\n"
        "    print(run_history(seed).digest)"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "random")
    ]
    here = [first_run(seed).digest for seed in seeds]
    printed = [process.communicate()[0].splitlines() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert printed == [here, here, here]


def test_seeds_differ() -> None:
    assert run_history(0, "churn").digest != run_history(1, "churn").digest
