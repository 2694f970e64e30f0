"""MACHINE_ROOM: only queues of brokers in allowed rooms are shared, the others stay unassigned.

The name of a broker has its room: ``room@name``. The rule is that of Java 4.8 and later, which shares the queues that
passed the filter; before that the unfiltered list was indexed by mistake.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from steelyard.balance.assignors.strategy import PositionalStrategy
from steelyard.model import Queue


@dataclass(frozen=True, slots=True)
class MachineRoom(PositionalStrategy):
    """Equal pages of the allowed queues; what is left over goes one each to the first members.

    >>> queues = [Queue("orders", broker, n) for broker in ("east@a", "west@b") for n in range(3)]
    >>> mine = MachineRoom(frozenset({"east"}))("billing", "c1", queues, ["c1", "c2"])
    >>> print(*mine)
    orders@east@a:0 orders@east@a:2
    """

    rooms: frozenset[str]

    name: ClassVar[str] = "MACHINE_ROOM"

    def usable_queues(self, queues: Sequence[Queue]) -> Sequence[Queue]:
        """Return the queues of brokers in the allowed rooms."""
        allowed = {broker for broker in {queue.broker for queue in queues} if self._allows(broker)}
        return [queue for queue in queues if queue.broker in allowed]

    def queues_at(self, queues: Sequence[Queue], index: int, count: int) -> list[Queue]:
        """Return one page, and one of the queues left over."""
        size, more = divmod(len(queues), count)
        page = list(queues[index * size : (index + 1) * size])
        if index < more:
            page.append(queues[count * size + index])
        return page

    def _allows(self, broker: str) -> bool:
        # Java's split forgets empty parts at the end, so that "room@name@" is still two parts and "room@" is one.
        parts = broker.rstrip("@").split("@")
        return len(parts) == 2 and parts[0] in self.rooms
