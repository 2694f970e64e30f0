"""Makes a failing history smaller: what it does not need in order to fail is removed, part by part.

First messages, because fewer of them make every further run quicker; then halves of what is left; then single parts,
until nothing more can go. A smaller history counts if the same checker still complains. Randomness is drawn while a
history runs, so a part may be needed only for what it shifts: the result is small, not minimal.
"""

from collections.abc import Callable

from simulator.outcome import HistoryOutcome
from simulator.scenario import Scenario, part_names

_MAX_RUNS = 150


def shrink(
    scenario: Scenario,
    failed: HistoryOutcome,
    run: Callable[[tuple[str, ...]], HistoryOutcome],
    *,
    max_runs: int = _MAX_RUNS,
) -> HistoryOutcome:
    """Return the outcome of the smallest history found; ``run`` runs the one without the given parts."""
    return _Shrinker(failed, run, max_runs).shrink(scenario)


class _Shrinker:
    def __init__(self, failed: HistoryOutcome, run: Callable[[tuple[str, ...]], HistoryOutcome], max_runs: int) -> None:
        self._run, self._runs_left = run, max_runs
        self._signature = failed.signature
        self._best = failed
        self._message_limit: int | None = None
        self._dropped: tuple[str, ...] = failed.dropped

    def shrink(self, scenario: Scenario) -> HistoryOutcome:
        self._reduce_messages(max((producer.messages for producer in scenario.producers), default=0))
        kept = [name for name in part_names(scenario) if name not in self._dropped]
        size = max(1, len(kept) // 2)
        while kept:
            before = len(kept)
            for start in range(0, len(kept), size):
                piece = kept[start : start + size]
                if piece and self._still_fails((*self._dropped, *piece), self._message_limit):
                    self._dropped += tuple(piece)
            kept = [name for name in kept if name not in self._dropped]
            if size > 1:
                size //= 2
            elif len(kept) == before or not self._runs_left:
                break
        self._reduce_messages(
            self._message_limit or max((producer.messages for producer in scenario.producers), default=0)
        )
        return self._best

    def _reduce_messages(self, max_messages: int) -> None:
        # Bisects to the least number of messages that fails. Failing is not monotonic, so the last failing one counts.
        low, high = 0, max_messages
        while low < high and self._runs_left:
            middle = (low + high) // 2
            if self._still_fails(self._dropped, middle):
                high = self._message_limit = middle
            else:
                low = middle + 1

    def _still_fails(self, dropped: tuple[str, ...], message_limit: int | None) -> bool:
        if not self._runs_left:
            return False
        self._runs_left -= 1
        names = tuple(name for name in dropped if name[:1] != "n")
        outcome = self._run(names if message_limit is None else (*names, f"n{message_limit}"))
        if outcome.signature != self._signature:
            return False
        self._best = outcome
        return True
