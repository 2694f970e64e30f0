"""AVG_BY_CIRCLE: queues are dealt like cards, one to each member in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from steelyard.balance.assignors.strategy import PositionalStrategy
from steelyard.model import Queue


@dataclass(frozen=True, slots=True)
class AverageByCircle(PositionalStrategy):
    """Queue j goes to member j mod n.

    >>> seven = [Queue("orders", "broker-a", number) for number in range(7)]
    >>> [queue.queue_id for queue in AverageByCircle()("billing", "c2", seven, ["c1", "c2"])]
    [1, 3, 5]
    """

    name: ClassVar[str] = "AVG_BY_CIRCLE"

    def queues_at(self, queues: Sequence[Queue], index: int, count: int) -> list[Queue]:
        """Return every n-th queue from the member's place on."""
        return list(queues[index::count])
