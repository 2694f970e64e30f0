"""AVG, Java's default: contiguous pages; the first members get one more if the number does not divide evenly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from steelyard.balance.assignors.strategy import PositionalStrategy
from steelyard.model import Queue


@dataclass(frozen=True, slots=True)
class Average(PositionalStrategy):
    """Pages of the sorted queues. Fewer queues than members: one each for the first members.

    >>> seven = [Queue("orders", "broker-a", number) for number in range(7)]
    >>> [queue.queue_id for queue in Average()("billing", "c2", seven, ["c1", "c2"])]
    [4, 5, 6]
    """

    name: ClassVar[str] = "AVG"

    def queues_at(self, queues: Sequence[Queue], index: int, count: int) -> list[Queue]:
        """Return one page."""
        size, more = divmod(len(queues), count)
        start = index * size + min(index, more)
        return list(queues[start : start + size + (index < more)])
