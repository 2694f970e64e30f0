"""A half-open range of offsets in one queue: ``start`` is in it, ``end`` is not."""

from dataclasses import dataclass
from itertools import pairwise

from steelyard.errors import ConfigurationError
from steelyard.model.queue import Queue

__all__ = ["OffsetRange"]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets ``start`` to ``end - 1`` of a queue; empty when both are equal.

    >>> part = OffsetRange(Queue("orders", "broker-a", 0), 10, 25)
    >>> len(part), 10 in part, 25 in part
    (15, True, False)
    >>> [(piece.start, piece.end) for piece in part.split_at(12, 20)]
    [(10, 12), (12, 20), (20, 25)]
    """

    queue: Queue
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ConfigurationError(
                f"offsets [{self.start}, {self.end}) of {self.queue} are not a range",
                next_step="give 0 <= start <= end",
            )

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        return self.end > self.start

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def __str__(self) -> str:
        return f"{self.queue}[{self.start}, {self.end})"

    def overlap(self, other: "OffsetRange") -> "OffsetRange | None":
        """Return what both ranges share, or None: another queue, or nothing in common.

        >>> q = Queue("orders", "broker-a", 0)
        >>> print(OffsetRange(q, 0, 10).overlap(OffsetRange(q, 5, 20)))
        orders@broker-a:0[5, 10)
        """
        start, end = max(self.start, other.start), min(self.end, other.end)
        return OffsetRange(self.queue, start, end) if self.queue == other.queue and start < end else None

    def split_at(self, *offsets: int) -> "list[OffsetRange]":
        """Split the range at the given offsets; those outside it are ignored, and no piece is empty."""
        cuts = sorted({offset for offset in offsets if self.start < offset < self.end})
        edges = [self.start, *cuts, self.end]
        return [OffsetRange(self.queue, left, right) for left, right in pairwise(edges)]
