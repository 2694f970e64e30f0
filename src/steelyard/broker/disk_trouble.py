"""What goes wrong with the disk, told once when it begins and once when it is over.

Whoever sends is told each time. Whoever runs the broker reads a log, and must neither miss it nor drown in it: what was
lost is told at the start, and what is found to be lost later now and then; work that fails is told when it first does
and when it works again. What fails right now can be asked for (requests/runtime.py, measuring.py).
"""

from collections.abc import Sequence

from steelyard.broker.timing import has_come
from steelyard.store.recovery import CUT_OFF
from steelyard.store.store import Store
from steelyard.store.walk import Damage

__all__ = ["STORING", "DiskTrouble"]

STORING = "storing messages"
_PAUSE_MS = 60_000
"""How long it is silent at least between two tellings of the same: a nearly full disk fails for every large message."""


class DiskTrouble:
    """What fails, by what was tried. ``notes`` is where it is told."""

    def __init__(self, notes: list[str], store: Store, now_ms: int) -> None:
        self._notes, self._store = notes, store
        self._failing: dict[str, tuple[str, int]] = {}
        """Why, and since when."""
        self._told_ms: dict[str, int] = {}
        """When each was told of last."""
        self._unfinished: set[str] = set()
        """What was told to fail, and not yet to work again."""
        self._is_refusal_told = False
        self._damages_told = 0
        self._damages_due_ms = now_ms
        self.failures = 0
        """How often the disk refused something."""
        self.look(now_ms)

    @property
    def refusal(self) -> str | None:
        """Why messages are not stored right now; None if they are."""
        if self._store.refusal is not None:
            return self._store.refusal
        found = self._failing.get(STORING)
        return None if found is None else found[0]

    def failed(self, work: str, error: Exception, now_ms: int) -> None:
        """Take note that some work failed; it will be tried again."""
        self.failures += 1
        _, since_ms = self._failing.get(work, ("", now_ms))
        self._failing[work] = str(error), since_ms
        due_ms = self._told_ms[work] + _PAUSE_MS if work in self._told_ms else now_ms
        if work not in self._unfinished and has_come(due_ms, _PAUSE_MS, now_ms):
            self._told_ms[work] = now_ms
            self._unfinished.add(work)
            self._notes.append(f"{work} fails, and is tried again: {error}")

    def worked(self, work: str, now_ms: int) -> None:
        """Take note that some work succeeded; nothing is told unless it failed before."""
        found = self._failing.pop(work, None) if self._failing else None
        if found is not None and work in self._unfinished:
            self._unfinished.discard(work)
            self._notes.append(f"{work} works again, after {max(0, now_ms - found[1]) / 1_000:.1f} s")

    def look(self, now_ms: int) -> None:
        """Tell what the store has found since the last look: messages that are lost, a sync that failed."""
        store = self._store
        if store.refusal is not None and not self._is_refusal_told:
            self._is_refusal_told = True
            self.failures += 1
            step = "look at the disk, then restart the broker"
            self._notes.append(f"no more messages are taken: {store.refusal}; {step}")
        if len(store.damages) > self._damages_told and has_come(self._damages_due_ms, _PAUSE_MS, now_ms):
            self._damages_due_ms = now_ms + _PAUSE_MS
            lost = [each for each in store.damages[self._damages_told :] if each.what != CUT_OFF or each.records]
            self._damages_told = len(store.damages)
            if lost:
                self._notes.append(_sentence(lost))


def _sentence(damages: Sequence[Damage]) -> str:
    """Say what is lost, and where to look.

    >>> _sentence([Damage("commitlog/00000000000000000000", 4_096, 2_000, 7)])
    'the log is damaged, and 7 messages are lost: commitlog/00000000000000000000, position 4096: 2000 bytes are \
damaged, 7 messages lost; `steelyard store verify` tells more'
    """
    lost = sum(damage.records or 0 for damage in damages)
    least = "at least " if any(damage.records is None for damage in damages) else ""
    where = f"the log is damaged in {len(damages)} places" if len(damages) > 1 else "the log is damaged"
    first = "the first is at " if len(damages) > 1 else ""
    how_many = f"{least}{lost} message{'s are' if lost != 1 else ' is'} lost"
    return f"{where}, and {how_many}: {first}{damages[0]}; `steelyard store verify` tells more"
