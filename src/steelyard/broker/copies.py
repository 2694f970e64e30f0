"""What an earlier process did before it died: found by looking for what it wrote.

A message that waited and was delivered is in its real queue with the position of the one that waited as its *prepared
offset*, the place where a committed message has that of its half. So after a crash nothing has to be believed: whether
a message was delivered is seen in the queue, from the time on at which it can have been.
"""

from steelyard.store.store import Store
from steelyard.wire.record import read_records

__all__ = ["Copies", "trace_of"]

_AT_ONCE = 256
_AT_ONCE_BYTES = 4 << 20


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
        self._found: dict[tuple[str, int], tuple[int, set[int]]] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def has(self, topic: str, queue_id: int, position: int, since_ms: int) -> bool:
        """Whether a queue had a copy, stored at a time or later, of the message at a position of the log.

        What counts is what the queue had when it was first asked about.
        """
        queue = topic, queue_id
        known = self._found.get(queue)
        if known is None or since_ms < known[0]:
            known = self._found[queue] = since_ms, self._look(queue, since_ms)
        return trace_of(position) in known[1]

    def forget(self) -> None:
        """Forget what was seen, because nobody asks any more."""
        self._found.clear()
        self._ends.clear()

    def _look(self, queue: tuple[str, int], since_ms: int) -> set[int]:
        store, found = self._store, set[int]()
        topic, queue_id = queue[0].encode(), queue[1]
        end = self._ends.setdefault(queue, store.bounds(topic, queue_id)[1])
        offset = store.lookup.offset_at(topic, queue_id, since_ms)
        while offset < end:
            part = store.read(topic, queue_id, offset, most=_AT_ONCE, most_bytes=_AT_ONCE_BYTES)
            found.update(record.prepared_offset for record in read_records(part.joined()) if record.prepared_offset)
            offset = part.next_offset
        return found
