"""What a survey counts with: how fast counters grow, and whose turn it is to be looked at. Time is an argument."""

import heapq
from collections import deque
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

__all__ = ["Meter", "Turns"]

K = TypeVar("K", bound=Hashable)

_WINDOW_MS = 12_000
"""Java's members tell every five seconds how far they are: over less they would seem to jump and to rest."""


class Meter(Generic[K]):
    """How fast some counters grow, over the last looks.

    A counter counts from when it was seen first, and one that goes back, because somebody reset it, counts for nothing.

    >>> meter = Meter[str]()
    >>> meter.note(0, {"orders": 100})
    >>> meter.rate
    >>> meter.note(2_000, {"orders": 160})
    >>> meter.rate
    30.0
    """

    def __init__(self, window_ms: int = _WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._looks: deque[tuple[int, Mapping[K, int]]] = deque()

    def note(self, at_ms: int, counts: Mapping[K, int]) -> None:
        """Take what was counted at a time."""
        self._looks.append((at_ms, counts))
        # The second is old enough to count from: the first is not needed.
        while len(self._looks) > 2 and self._looks[1][0] <= at_ms - self._window_ms:
            self._looks.popleft()

    @property
    def span_ms(self) -> int:
        """How far the looks are apart that are counted between."""
        return self._looks[-1][0] - self._looks[0][0] if self._looks else 0

    def grown(self) -> dict[K, int]:
        """Return how much each counter grew meanwhile."""
        if not self._looks:
            return {}
        first, last = self._looks[0][1], self._looks[-1][1]
        return {key: max(0, count - first[key]) for key, count in last.items() if key in first}

    @property
    def rate(self) -> float | None:
        """How much all of them grow in a second; None after one look."""
        return sum(self.grown().values()) * 1_000 / self.span_ms if self.span_ms > 0 else None


class Turns:
    """Who is looked at next: whoever has waited longest since its time came."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []
        self._names: set[str] = set()
        self._unseen: set[str] = set()

    def keep(self, names: Collection[str]) -> None:
        """Look at these from now on, at new ones at once, and at others no more."""
        kept = set(names)
        for name in sorted(kept - self._names):
            heapq.heappush(self._due, (0, name))
        self._unseen = (self._unseen & kept) | (kept - self._names)
        self._names = kept

    def take(self, now_ms: int) -> str | None:
        """Return whose turn it is, if it is anybody's; `again` says when it will be next."""
        while self._due and self._due[0][0] <= now_ms:
            name = heapq.heappop(self._due)[1]
            if name in self._names:
                return name
        return None

    def again(self, name: str, due_ms: int) -> None:
        """Say when somebody's turn comes again who has just been looked at."""
        self._unseen.discard(name)
        if name in self._names:
            heapq.heappush(self._due, (due_ms, name))

    @property
    def has_seen_all(self) -> bool:
        """Whether everybody had a turn."""
        return not self._unseen

    def __len__(self) -> int:
        """How many take turns."""
        return len(self._names)
