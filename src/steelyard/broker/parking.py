"""Pulls that found nothing and wait: by queue, with the time at which they are answered anyway.

Every send says where a message went (`arrived`), which costs next to nothing where nobody waits. Who waits is looked at
once the messages are in the log (waking.py). Times of all queues are in one heap; what was answered before its time is
only marked in there, and swept out once that is most of the heap. Each pull is answered once: `leave` says who does it.
"""

from heapq import heapify, heappop, heappush

from msgspec import Struct

from steelyard.broker.filters.compiled import Filter
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["Ask", "Parked", "Parking"]

# Below this the heap is not swept: it is not worth it.
_FEW = 256


class Ask(Struct, frozen=True, gc=False):
    """What a pull asks for. The names are those of the tables: thousands of waiting pulls share them."""

    group: str
    topic: str
    queue_id: int
    offset: int
    most: int
    most_bytes: int
    wanted: Filter | None
    """The filter that came with the pull; None: what the group subscribed to."""
    version: int
    """The version of the subscription that the asker has."""


class Parked(Struct, gc=False):
    """A pull that waits."""

    ask: Ask
    key: bytes
    """The topic as the store knows it."""
    peer: Peer
    opaque: int
    header_type: HeaderType
    until_ms: int
    filter: Filter
    """What it was compared with so far."""
    scanned: int
    """Messages below this offset do not match that filter."""
    number: int = 0
    """Given by the parking; 0 once it left."""

    def request(self) -> Command:
        """Return what an answer needs of the request."""
        return Command(RequestCode.PULL_MESSAGE, opaque=self.opaque, header_type=self.header_type)


class Parking:
    """The pulls that wait."""

    def __init__(self) -> None:
        self._queues: dict[tuple[bytes, int], dict[int, Parked]] = {}
        self._lines: dict[int, dict[int, Parked]] = {}
        self._times: list[tuple[int, int, Parked]] = []
        self._arrived: dict[tuple[bytes, int], None] = {}  # and no set: whoever was there first is woken first
        self._number = self._count = 0
        self.seen_changes = (0, 0)
        """How often topics and groups had changed when the pulls were last held against them."""

    def __len__(self) -> int:
        """Count the pulls that wait."""
        return self._count

    def arrived(self, topic: bytes, queue_id: int) -> None:
        """Take note that a message was added to a queue; cheap, since every send calls it."""
        if (topic, queue_id) in self._queues:
            self._arrived[topic, queue_id] = None

    def take_arrived(self) -> list[tuple[bytes, int]]:
        """Return the queues to which messages came while pulls waited there, once each, in that order."""
        if not self._arrived:
            return []
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def park(self, parked: Parked) -> None:
        """Let a pull wait."""
        self._number += 1
        self._count += 1
        number = parked.number = self._number
        queue, line = (parked.key, parked.ask.queue_id), parked.peer.number
        waiting = self._queues.get(queue)
        if waiting is None:
            waiting = self._queues[queue] = {}
        waiting[number] = parked
        of_line = self._lines.get(line)
        if of_line is None:
            of_line = self._lines[line] = {}
        of_line[number] = parked
        heappush(self._times, (parked.until_ms, number, parked))

    def leave(self, parked: Parked) -> bool:
        """Take a pull out, to answer it or to drop it; False if that was done before."""
        number = parked.number
        if not number:
            return False
        parked.number = 0
        self._count -= 1
        queue, line = (parked.key, parked.ask.queue_id), parked.peer.number
        waiting, of_line = self._queues[queue], self._lines[line]
        del waiting[number], of_line[number]
        if not waiting:
            del self._queues[queue]
        if not of_line:
            del self._lines[line]
        times = self._times
        if len(times) > 2 * self._count + _FEW:
            times[:] = [entry for entry in times if entry[2].number]
            heapify(times)
        return True

    def in_queue(self, topic: bytes, queue_id: int) -> list[Parked]:
        """List the pulls that wait for a queue, the longest waiting first."""
        waiting = self._queues.get((topic, queue_id))
        return list(waiting.values()) if waiting is not None else []

    def queues(self) -> list[tuple[bytes, int]]:
        """List the queues that pulls wait for."""
        return list(self._queues)

    def take_due(self, now_ms: int) -> list[Parked]:
        """Take out the pulls whose time is over, the earliest first."""
        due: list[Parked] = []
        times = self._times
        while times and times[0][0] <= now_ms:
            parked = heappop(times)[2]
            if self.leave(parked):
                due.append(parked)
        return due

    def forget_line(self, line: int) -> None:
        """Drop the pulls of a line that closed."""
        for parked in list(self._lines.get(line, {}).values()):
            self.leave(parked)
