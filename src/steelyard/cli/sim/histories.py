"""Many simulated histories on all cores: each is one seed, and no two of them share anything.

Worker processes are started afresh, so that nothing of the parent leaks into a history, and are given a few seeds at a
time. Outcomes come back in any order; whoever adds them up sorts.
"""

import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steelyard.sim.outcome import Outcome
    from steelyard.sim.planted.hunt import Catch

__all__ = ["hunt_all", "run_all"]

A = TypeVar("A")
B = TypeVar("B")

_MOST_AT_ONCE = 16


def run_all(
    seeds: range, *, only: str | None = None, planted: str | None = None, jobs: int | None = None
) -> "Iterator[Outcome]":
    """Run the histories of these seeds, and yield each outcome when it is there."""
    wanted = _wanted(jobs, len(seeds))
    size = max(1, min(_MOST_AT_ONCE, len(seeds) // (4 * wanted)))
    if wanted == 1 or planted is not None:
        size = 1  # whoever waits for the first that fails need not wait for others
    pieces = [tuple(seeds[start : start + size]) for start in range(0, len(seeds), size)]
    for outcomes in _spread(partial(_run, only=only, planted=planted), pieces, wanted):
        yield from outcomes


def hunt_all(names: "Sequence[str]", *, jobs: int | None = None) -> "Iterator[tuple[str, Catch | None]]":
    """Hunt the planted bugs of these names, and yield each with what caught it when it is there."""
    return _spread(_hunt, names, _wanted(jobs, len(names)))


def _wanted(jobs: int | None, pieces: int) -> int:
    return max(1, min(jobs or os.cpu_count() or 1, pieces))


def _spread(work: "Callable[[A], B]", pieces: "Sequence[A]", jobs: int) -> "Iterator[B]":
    """Do some work to each piece, in so many processes, and yield what came of it."""
    if jobs == 1:
        yield from map(work, pieces)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(work, piece) for piece in pieces]):
            yield future.result()
    finally:
        # Whoever stops listening, or interrupts, does not wait for pieces that nobody wants any more.
        pool.shutdown(wait=True, cancel_futures=True)


def _run(seeds: tuple[int, ...], only: str | None, planted: str | None) -> "list[Outcome]":
    from steelyard.sim.history import run_history

    return [run_history(seed, only, planted=planted) for seed in seeds]


def _hunt(name: str) -> "tuple[str, Catch | None]":
    from steelyard.sim.planted.hunt import hunt
    from steelyard.sim.planted.table import BUGS

    return name, hunt(BUGS[name])
