"""Looking for a planted bug as for any other: histories are run until one of them fails.

A history that fails without the bug, too, says nothing about it, and is passed over.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.sim.history import run_history
from steelyard.sim.outcome import Outcome, Verdict
from steelyard.sim.planted.bug import Bug

__all__ = ["Catch", "hunt"]

MOST_HISTORIES = 1_000
"""A bug that shows in none of so many histories counts as not caught."""


@dataclass(frozen=True, slots=True)
class Catch:
    """The history in which a bug showed first."""

    outcome: Outcome
    histories: int
    """How many were run, this one too."""


def hunt(bug: Bug, seeds: Iterable[int] = range(MOST_HISTORIES)) -> Catch | None:
    """Run the histories of these seeds, each of the next of the bug's kinds, until one fails because of it."""
    for count, seed in enumerate(seeds, 1):
        outcome = run_history(seed, planted=bug.name)
        is_caught = outcome.verdict in (Verdict.SAFETY, Verdict.LIVENESS)
        if is_caught and run_history(seed, outcome.kind).verdict is Verdict.FINE:
            return Catch(outcome, count)
    return None
