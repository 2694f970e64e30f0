"""Held pulls: pulls that found nothing and wait, by queue, with a deadline.

Every send reports its queue (`notify_arrival`), which costs next to nothing where no pull is held. Held pulls are
answered once the messages are in the log (long_polling.py). Deadlines of all queues are in one heap; pulls that were
answered earlier stay in it, and are swept out once they are most of it. Each pull is answered once: `release` returns
whether the caller is the one to do it.
"""

from heapq import heapify, heappop, heappush

from msgspec import Struct

from steelyard.broker.filters import MessageFilter
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command, Peer

# A heap with fewer stale entries than this is not swept.
_HEAP_SLACK = 256


class PullSpec(Struct, frozen=True, gc=False):
    """What a pull requests. Its names are those of the tables: thousands of held pulls share them."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_messages: int
    max_bytes: int
    own_filter: MessageFilter | None
    """The filter that came with the pull; None: the group's subscription."""
    subscription_version: int
    """The version of the client's subscription."""


class HeldPull(Struct, gc=False):
    """A held pull."""

    spec: PullSpec
    topic_key: bytes
    """The encoded topic."""
    peer: Peer
    opaque: int
    header_type: HeaderType
    deadline_ms: int
    filter: MessageFilter
    """The filter that was applied so far."""
    scanned_to: int
    """Messages below this offset do not match that filter."""
    number: int = 0
    """Set by `HeldPulls`; 0 once released."""

    def request(self) -> Command:
        """Return what a response needs of the request."""
        return Command(RequestCode.PULL_MESSAGE, opaque=self.opaque, header_type=self.header_type)


class HeldPulls:
    """All held pulls of a broker."""

    def __init__(self) -> None:
        self._queues: dict[tuple[bytes, int], dict[int, HeldPull]] = {}
        self._by_connection: dict[int, dict[int, HeldPull]] = {}
        self._deadlines: list[tuple[int, int, HeldPull]] = []
        self._arrived: dict[tuple[bytes, int], None] = {}  # not a set: the first arrival is answered first
        self._number = self._count = 0
        self.checked_changes = (0, 0)
        """The change counts of topics and groups at the last check of all pulls."""

    def __len__(self) -> int:
        """Count the held pulls."""
        return self._count

    def notify_arrival(self, topic: bytes, queue_id: int) -> None:
        """Record that a message was added to a queue; cheap, since every send calls it."""
        if (topic, queue_id) in self._queues:
            self._arrived[topic, queue_id] = None

    def pop_arrived_queues(self) -> list[tuple[bytes, int]]:
        """Return the queues with held pulls where messages arrived, once each, in order of arrival."""
        if not self._arrived:
            return []
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def hold(self, pull: HeldPull) -> None:
        """Hold a pull."""
        self._number += 1
        self._count += 1
        number = pull.number = self._number
        self._queues.setdefault((pull.topic_key, pull.spec.queue_id), {})[number] = pull
        self._by_connection.setdefault(pull.peer.connection_id, {})[number] = pull
        heappush(self._deadlines, (pull.deadline_ms, number, pull))

    def release(self, pull: HeldPull) -> bool:
        """Remove a pull, to answer or to drop it; return False if that was done before."""
        number = pull.number
        if not number:
            return False
        pull.number = 0
        self._count -= 1
        queue, connection = (pull.topic_key, pull.spec.queue_id), pull.peer.connection_id
        in_queue, on_connection = self._queues[queue], self._by_connection[connection]
        del in_queue[number], on_connection[number]
        if not in_queue:
            del self._queues[queue]
        if not on_connection:
            del self._by_connection[connection]
        deadlines = self._deadlines
        if len(deadlines) > 2 * self._count + _HEAP_SLACK:
            deadlines[:] = [entry for entry in deadlines if entry[2].number]
            heapify(deadlines)
        return True

    def in_queue(self, topic: bytes, queue_id: int) -> list[HeldPull]:
        """List the held pulls of a queue, the oldest first."""
        return list(self._queues.get((topic, queue_id), {}).values())

    def queues(self) -> list[tuple[bytes, int]]:
        """List the queues with held pulls."""
        return list(self._queues)

    def pop_expired(self, now_ms: int, max_pulls: int) -> list[HeldPull]:
        """Remove and return at most ``max_pulls`` pulls whose deadline has passed, the earliest first."""
        due: list[HeldPull] = []
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now_ms and len(due) < max_pulls:
            pull = heappop(deadlines)[2]
            if self.release(pull):
                due.append(pull)
        return due

    def drop_connection(self, connection: int) -> None:
        """Drop the pulls of a closed connection."""
        for pull in list(self._by_connection.get(connection, {}).values()):
            self.release(pull)
