"""Many simulated histories on all cores: each is one seed, and no two of them share anything.

Worker processes are started afresh, so that nothing of the parent leaks into a history, and are given a few seeds at a
time. Outcomes come back in any order; whoever adds them up sorts.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.sim.outcome import Outcome

__all__ = ["run_all"]

_MOST_AT_ONCE = 16


def run_all(
    seeds: range, *, only: str | None = None, planted: str | None = None, jobs: int | None = None
) -> "Iterator[Outcome]":
    """Run the histories of these seeds, and yield each outcome when it is there."""
    wanted = min(jobs or os.cpu_count() or 1, len(seeds))
    if wanted <= 1:
        for seed in seeds:
            yield from _run((seed,), only, planted)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    size = max(1, min(_MOST_AT_ONCE, len(seeds) // (4 * wanted)))
    pool = ProcessPoolExecutor(wanted, mp_context=get_context("spawn"))
    try:
        pieces = [tuple(seeds[start : start + size]) for start in range(0, len(seeds), size)]
        for future in as_completed([pool.submit(_run, piece, only, planted) for piece in pieces]):
            yield from future.result()
    finally:
        # Whoever stops listening, or interrupts, does not wait for seeds that nobody wants any more.
        pool.shutdown(wait=True, cancel_futures=True)


def _run(seeds: tuple[int, ...], only: str | None, planted: str | None) -> "list[Outcome]":
    from steelyard.sim.history import run_history

    return [run_history(seed, only, planted=planted) for seed in seeds]
