"""A half-open range of offsets in one queue: ``start`` is in it, ``end`` is not."""

from dataclasses import dataclass

from steelyard.errors import ConfigurationError
from steelyard.model.queue import Queue

__all__ = ["OffsetRange"]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets ``start`` to ``end - 1`` of a queue; empty when both are equal.

    >>> part = OffsetRange(Queue("orders", "broker-a", 0), 10, 25)
    >>> len(part), 10 in part, 25 in part
    (15, True, False)
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
