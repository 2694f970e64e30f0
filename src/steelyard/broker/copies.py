"""What an earlier process did before it died: found by looking for what it wrote.

A message that waited and was delivered is in its real queue with the position of the one that waited as its *prepared
offset*, the place where a committed message has that of its half. So after a crash nothing has to be believed: whether
a message was delivered is seen in the queue, from the time on at which it can have been.

Apache leaves no such trace, but it says in a message when it was taken off the timers: one with the same unique key,
birth and body is a copy.
"""

from steelyard.store.store import Store
from steelyard.wire.properties import find_property
from steelyard.wire.property_names import TIMER_DEQUEUED_MS, UNIQUE_KEY
from steelyard.wire.record import Record, read_records

__all__ = ["Copies", "Likeness", "likeness_of", "trace_of"]

_AT_ONCE = 256
_AT_ONCE_BYTES = 4 << 20
_DEQUEUED, _UNIQUE_KEY = TIMER_DEQUEUED_MS.encode(), UNIQUE_KEY.encode()

Likeness = tuple[bytes, int, int]
"""What a timer and Apache's copy of it have in common: unique key, time of birth, checksum of the body."""

_Trace = int | Likeness


def trace_of(position: int) -> int:
    """Return what a copy has as its prepared offset; 0 is what all other messages have, and the first one's position.

    >>> trace_of(512), trace_of(0)
    (512, -1)
    """
    return position or -1


class Copies:
    """Looks into queues, each once, and again only if somebody asks for an earlier time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[str, int], tuple[int, set[_Trace]]] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def has(self, topic: str, queue_id: int, position: int, since_ms: int, likeness: Likeness | None = None) -> bool:
        """Whether a queue had a copy, stored at a time or later, of the message at a position of the log.

        What counts is what the queue had when it was first asked about.
        """
        queue = topic, queue_id
        known = self._found.get(queue)
        if known is None or since_ms < known[0]:
            known = self._found[queue] = since_ms, self._look(queue, since_ms)
        return trace_of(position) in known[1] or likeness in known[1]

    def forget(self) -> None:
        """Forget what was seen, because nobody asks any more."""
        self._found.clear()
        self._ends.clear()

    def _look(self, queue: tuple[str, int], since_ms: int) -> set[_Trace]:
        store, found = self._store, set[_Trace]()
        topic, queue_id = queue[0].encode(), queue[1]
        end = self._ends.setdefault(queue, store.bounds(topic, queue_id)[1])
        offset = store.lookup.offset_at(topic, queue_id, since_ms)
        while offset < end:
            part = store.read(topic, queue_id, offset, most=_AT_ONCE, most_bytes=_AT_ONCE_BYTES)
            for record in read_records(part.joined()):
                if record.prepared_offset:
                    found.add(record.prepared_offset)
                elif _DEQUEUED in record.properties and (likeness := likeness_of(record)) is not None:
                    found.add(likeness)
            offset = part.next_offset
        return found


def likeness_of(record: Record) -> Likeness | None:
    """Return what a copy that Apache made of a message has as well; None for one without a unique key."""
    unique_key = find_property(record.properties, _UNIQUE_KEY)
    return (unique_key, record.born_ms, record.crc) if unique_key else None
