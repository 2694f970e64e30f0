"""Rates of counters, and the order in which things are polled. Time is an argument."""

import heapq
from collections import deque
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_WINDOW_MS = 12_000  # Java's members commit every five seconds: a shorter window would show jumps and pauses


class RateMeter(Generic[K]):
    """How fast some counters grow, over the last polls.

    A counter counts from its first sample, and one that goes back, because it was reset, counts as 0.

    >>> meter = RateMeter[str]()
    >>> meter.add(0, {"orders": 100})
    >>> meter.rate
    >>> meter.add(2_000, {"orders": 160})
    >>> meter.rate
    30.0
    """

    def __init__(self, window_ms: int = _WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._samples: deque[tuple[int, Mapping[K, int]]] = deque()

    def add(self, at_ms: int, counts: Mapping[K, int]) -> None:
        """Add a sample."""
        self._samples.append((at_ms, counts))
        # The second is old enough to start the window: the first is not needed.
        while len(self._samples) > 2 and self._samples[1][0] <= at_ms - self._window_ms:
            self._samples.popleft()

    @property
    def span_ms(self) -> int:
        """The time between the first and the last sample."""
        return self._samples[-1][0] - self._samples[0][0] if self._samples else 0

    def growth(self) -> dict[K, int]:
        """Return how much each counter grew in that time."""
        if not self._samples:
            return {}
        first, last = self._samples[0][1], self._samples[-1][1]
        return {key: max(0, count - first[key]) for key, count in last.items() if key in first}

    @property
    def rate(self) -> float | None:
        """How much all of them grow per second; None after one sample."""
        return sum(self.growth().values()) * 1_000 / self.span_ms if self.span_ms > 0 else None


class PollQueue:
    """What is polled next: the name that has been due for longest."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []
        self._names: set[str] = set()
        self._unpolled: set[str] = set()

    def set_names(self, names: Collection[str]) -> None:
        """Poll these from now on, new ones at once, and no others."""
        kept = set(names)
        for name in sorted(kept - self._names):
            heapq.heappush(self._due, (0, name))
        self._unpolled = (self._unpolled & kept) | (kept - self._names)
        self._names = kept

    def next_due(self, now_ms: int) -> str | None:
        """Return the name that is due, or None; `reschedule` says when it is due again."""
        while self._due and self._due[0][0] <= now_ms:
            name = heapq.heappop(self._due)[1]
            if name in self._names:
                return name
        return None

    def reschedule(self, name: str, due_ms: int) -> None:
        """Set when a name that was polled is due again."""
        self._unpolled.discard(name)
        if name in self._names:
            heapq.heappush(self._due, (due_ms, name))

    @property
    def has_polled_all(self) -> bool:
        """Whether every name was polled."""
        return not self._unpolled

    def __len__(self) -> int:
        """How many names are polled."""
        return len(self._names)
