"""AVG_BY_CIRCLE: queues are dealt out like cards, one to each member in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from steelyard.balance.allocate.by_place import ByPlace
from steelyard.model import Queue

__all__ = ["Circle"]


@dataclass(frozen=True, slots=True)
class Circle(ByPlace):
    """Queue j goes to member j mod n.

    >>> seven = [Queue("orders", "broker-a", number) for number in range(7)]
    >>> [queue.queue_id for queue in Circle()("billing", "c2", seven, ["c1", "c2"])]
    [1, 3, 5]
    """

    name: ClassVar[str] = "AVG_BY_CIRCLE"

    def part(self, queues: Sequence[Queue], place: int, of: int) -> list[Queue]:
        """Return every n-th queue from the member's place on."""
        return list(queues[place::of])
