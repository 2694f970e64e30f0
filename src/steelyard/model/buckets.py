"""How often a value was how large: counts in buckets with fixed upper bounds, a total and a sum.

A value counts in the first bucket whose bound it does not exceed, and in the last one, which has no bound, when it
exceeds them all. Counts are of each bucket alone; a reader who wants "so many or less" adds them up (`cumulative`).
Nothing is ever forgotten, and nothing but the counts is kept: no percentiles, no time.
"""

from bisect import bisect_left
from itertools import accumulate

from steelyard.errors import ConfigurationError

__all__ = ["Buckets"]


class Buckets:
    """Counts of values by how large they were.

    >>> gaps = Buckets((10, 100))
    >>> for gap_ms in (3, 10, 55, 4_000):
    ...     gaps.add(gap_ms)
    >>> gaps.counts, gaps.total, gaps.sum
    ([2, 1, 1], 4, 4068.0)
    >>> gaps.cumulative()
    [2, 3, 4]
    """

    __slots__ = ("bounds", "counts", "sum", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        if list(bounds) != sorted(set(bounds)):
            raise ConfigurationError(
                f"the bounds of buckets {bounds} do not grow", next_step="give each once, the smallest first"
            )
        self.bounds = bounds
        """The most that counts in each bucket; one more bucket, for what is larger, has no bound."""
        self.counts = [0] * (len(bounds) + 1)
        """How many values fell into each bucket, the one without a bound last."""
        self.total = 0
        """How many values there were."""
        self.sum = 0.0
        """All values together."""

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """Return for each bucket how many values were in it or in a smaller one; the last is the total."""
        return list(accumulate(self.counts))

    def __repr__(self) -> str:
        return f"Buckets({self.total} values, {self.sum:g} in sum)"
