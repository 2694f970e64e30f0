"""A failing history made smaller: what it does not need to fail is taken away, part by part.

First messages, since fewer of them make every further try quicker, then halves of what is left, then single parts, over
and over until nothing more can go. A smaller history counts if the same checker still complains. The chance in a
history is drawn as it runs, so a part may be needed only for the luck it brings: a small history is small, not least.
"""

from collections.abc import Callable

from steelyard.sim.outcome import Outcome
from steelyard.sim.plan import Plan, parts

__all__ = ["shrink"]

_MOST_RUNS = 150


def shrink(
    plan: Plan, failed: Outcome, run: Callable[[tuple[str, ...]], Outcome], *, most_runs: int = _MOST_RUNS
) -> Outcome:
    """Return the outcome of the smallest history found; ``run`` runs the one without the given parts."""
    return _Shrinking(failed, run, most_runs).shrink(plan)


class _Shrinking:
    def __init__(self, failed: Outcome, run: Callable[[tuple[str, ...]], Outcome], most_runs: int) -> None:
        self._run, self._left = run, most_runs
        self._signature = failed.signature
        self._best = failed
        self._limit: int | None = None
        self._gone: tuple[str, ...] = failed.dropped

    def shrink(self, plan: Plan) -> Outcome:
        self._fewer_messages(max((producer.messages for producer in plan.producers), default=0))
        kept = [name for name in parts(plan) if name not in self._gone]
        size = max(1, len(kept) // 2)
        while kept:
            before = len(kept)
            for start in range(0, len(kept), size):
                piece = kept[start : start + size]
                if piece and self._fails((*self._gone, *piece), self._limit):
                    self._gone += tuple(piece)
            kept = [name for name in kept if name not in self._gone]
            if size > 1:
                size //= 2
            elif len(kept) == before or not self._left:
                break
        self._fewer_messages(self._limit or max((producer.messages for producer in plan.producers), default=0))
        return self._best

    def _fewer_messages(self, most: int) -> None:
        # The least number of messages that fails, found by halving: it may jump, so the last one that failed counts.
        low, high = 0, most
        while low < high and self._left:
            middle = (low + high) // 2
            if self._fails(self._gone, middle):
                high = self._limit = middle
            else:
                low = middle + 1

    def _fails(self, gone: tuple[str, ...], limit: int | None) -> bool:
        if not self._left:
            return False
        self._left -= 1
        names = tuple(name for name in gone if name[:1] != "n")
        outcome = self._run(names if limit is None else (*names, f"n{limit}"))
        if outcome.signature != self._signature:
            return False
        self._best = outcome
        return True
