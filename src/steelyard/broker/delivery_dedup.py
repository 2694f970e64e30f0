"""Delivery deduplication: what an earlier process delivered before a crash, and progress saved only when durable.

A delayed message that was delivered is in its real queue with the position of the waiting one as its *prepared offset*,
where a committed message has that of its half. So after a crash nothing has to be trusted: the queue itself shows what
was delivered, from the time on at which it can have been. Apache leaves no such trace, but records in a message when it
was taken off the timers: one with the same unique key, birth and body is a copy.

A job that reads one topic and writes another saves how far it read. If that reached the disk and what it wrote did not,
a power loss would make messages vanish. So progress is recorded together with the end of the log, and released once the
log is durable up to there. What was done since is found by the deduplication above.
"""

from collections import deque
from typing import Generic, TypeVar

from steelyard.store.store import Store
from steelyard.wire.properties import find_property
from steelyard.wire.property_names import TIMER_DEQUEUED_MS, UNIQUE_KEY
from steelyard.wire.record import MessageRecord, decode_records

_READ_MESSAGES = 256
_READ_BYTES = 4 << 20
_DEQUEUED, _UNIQUE_KEY = TIMER_DEQUEUED_MS.encode(), UNIQUE_KEY.encode()

CopyFingerprint = tuple[bytes, int, int]
"""What a timer and Apache's copy of it have in common: unique key, born time, checksum of the body."""

_CopyMarker = int | CopyFingerprint


def copy_marker(position: int) -> int:
    """Return the prepared offset of a copy; not 0, which all other messages have and which is the first position.

    >>> copy_marker(512), copy_marker(0)
    (512, -1)
    """
    return position or -1


class DeliveredCopies:
    """Scans queues, each once, and again only for an earlier time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[str, int], tuple[int, set[_CopyMarker]]] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def has_copy(
        self, topic: str, queue_id: int, position: int, since_ms: int, fingerprint: CopyFingerprint | None = None
    ) -> bool:
        """Return whether a queue had a copy, stored at a time or later, of the message at a log position.

        What counts is the queue at the first call.
        """
        queue = topic, queue_id
        known = self._found.get(queue)
        if known is None or since_ms < known[0]:
            known = self._found[queue] = since_ms, self._scan_queue(queue, since_ms)
        return copy_marker(position) in known[1] or fingerprint in known[1]

    def clear(self) -> None:
        """Drop the results, because they are no longer needed."""
        self._found.clear()
        self._ends.clear()

    def _scan_queue(self, queue: tuple[str, int], since_ms: int) -> set[_CopyMarker]:
        store, found = self._store, set[_CopyMarker]()
        topic, queue_id = queue[0].encode(), queue[1]
        end = self._ends.setdefault(queue, store.bounds(topic, queue_id)[1])
        offset = store.lookup.offset_by_time(topic, queue_id, since_ms)
        while offset < end:
            part = store.read(topic, queue_id, offset, max_messages=_READ_MESSAGES, max_bytes=_READ_BYTES)
            for record in decode_records(part.joined()):
                if record.prepared_offset:
                    found.add(record.prepared_offset)
                elif _DEQUEUED in record.properties and (fingerprint := fingerprint_of(record)) is not None:
                    found.add(fingerprint)
            offset = part.next_offset
        return found


def fingerprint_of(record: MessageRecord) -> CopyFingerprint | None:
    """Return the fingerprint of a message; None without a unique key."""
    unique_key = find_property(record.properties, _UNIQUE_KEY)
    return (unique_key, record.born_ms, record.crc) if unique_key else None


T = TypeVar("T")


class DurableProgress(Generic[T]):
    """Values that count once the log is durable up to their position.

    >>> progress = DurableProgress[str]()
    >>> progress.record(100, "a"); progress.record(200, "b")
    >>> progress.pop_durable(150), progress.pop_durable(150), progress.pop_durable(200)
    ('a', None, 'b')
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, T]] = deque()

    def record(self, end: int, value: T) -> None:
        """Record a value that counts once the log is durable up to a position."""
        self._waiting.append((end, value))

    def pop_durable(self, durable: int) -> T | None:
        """Return the newest value that counts by now; None if there is no new one."""
        value = None
        while self._waiting and self._waiting[0][0] <= durable:
            _, value = self._waiting.popleft()
        return value
