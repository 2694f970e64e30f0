"""A history is its seed: run again, in any process, it is the same to the last byte."""

import os
import subprocess
import sys

import pytest

from steelyard.sim.history import run_history

SEEDS = range(50)
CHUNK = 5


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_the_same_seed_gives_the_same_history(first: int) -> None:
    for seed in range(first, first + CHUNK):
        one, other = run_history(seed), run_history(seed, trace=True)
        assert one.digest == other.digest, f"history {seed} differs from itself"
        assert one.findings == other.findings
        assert one.situations == other.situations


@pytest.mark.timeout(600)
def test_the_same_seed_gives_the_same_history_in_every_process() -> None:
    code = (
        "from steelyard.sim.history import run_history\n"
        f"for seed in range({SEEDS.start}, {SEEDS.stop}):\n"
        "    print(seed, run_history(seed).digest)"
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
    printed = [process.communicate()[0].splitlines() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(printed[0]) == len(SEEDS)
    assert printed[0] == printed[1] == printed[2]


def test_seeds_differ() -> None:
    assert run_history(0, "churn").digest != run_history(1, "churn").digest
