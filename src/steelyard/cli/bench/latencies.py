"""How long things took, as numbers: any number of them in a few kilobytes.

Times are kept by size: in steps of a microsecond below 64 of them, and above in steps of a thirty-second of what they
are, so that a percentile is at most three percent too high. The least, the greatest and the average are exact.
"""

__all__ = ["Latencies"]

_STEPS_BITS = 5
_STEPS = 1 << _STEPS_BITS
_MOST_US = 1 << 40
"""Twelve days."""


class Latencies:
    """Many times, in microseconds.

    >>> times = Latencies()
    >>> for took_us in range(1, 1001):
    ...     times.note(took_us)
    >>> times.count, times.least_us, times.average_us, times.percentile_us(50), times.greatest_us
    (1000, 1, 500.5, 503, 1000)
    """

    __slots__ = ("_counts", "_sum", "count", "greatest_us", "least_us")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._sum = 0
        self.count = 0
        self.least_us: int | None = None
        self.greatest_us: int | None = None

    def note(self, took_us: int) -> None:
        """Add one; a time below zero, as clocks may have it, is zero."""
        took_us = min(max(0, took_us), _MOST_US)
        shift = max(0, took_us.bit_length() - _STEPS_BITS - 1)
        step = (shift << _STEPS_BITS) + (took_us >> shift)
        self._counts[step] = self._counts.get(step, 0) + 1
        self._sum += took_us
        self.count += 1
        if self.least_us is None or took_us < self.least_us:
            self.least_us = took_us
        if self.greatest_us is None or took_us > self.greatest_us:
            self.greatest_us = took_us

    @property
    def average_us(self) -> float | None:
        """What they took on average."""
        return self._sum / self.count if self.count else None

    def percentile_us(self, percent: float) -> int | None:
        """Return the time that so many percent of them did not exceed."""
        if self.greatest_us is None:
            return None
        wanted, seen = percent / 100 * self.count, 0
        for step in sorted(self._counts):
            seen += self._counts[step]
            if seen >= wanted:
                return min(_end(step), self.greatest_us)
        return self.greatest_us


def _end(step: int) -> int:
    """Return the greatest time of a step."""
    shift = max(0, (step >> _STEPS_BITS) - 1)
    return ((step - (shift << _STEPS_BITS) + 1) << shift) - 1
