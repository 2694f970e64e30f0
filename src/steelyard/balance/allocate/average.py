"""AVG, Java's default: contiguous pages, and the first members get one more where it does not come out even."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from steelyard.balance.allocate.by_place import ByPlace
from steelyard.model import Queue

__all__ = ["Average"]


@dataclass(frozen=True, slots=True)
class Average(ByPlace):
    """Pages of the sorted queues. Fewer queues than members: one each for the first members.

    >>> seven = [Queue("orders", "broker-a", number) for number in range(7)]
    >>> [queue.queue_id for queue in Average()("billing", "c2", seven, ["c1", "c2"])]
    [4, 5, 6]
    """

    name: ClassVar[str] = "AVG"

    def part(self, queues: Sequence[Queue], place: int, of: int) -> list[Queue]:
        """Return one page."""
        size, more = divmod(len(queues), of)
        start = place * size + min(place, more)
        return list(queues[start : start + size + (place < more)])
