"""What the model of Apache's broker stores: its log, topics, committed offsets, delayed messages and half messages.

The log survives everything that happens to the process: power losses are not modelled. A record is written once, with
its position in it, and sent to consumers as these bytes. Topics are created by the first send, after the default topic.

Left out: Apache may deliver delayed messages of its last ten seconds again after it was killed.
"""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from msgspec import Struct

from simulator.facts import MessageLogged
from steelyard.model import Queue, tag_hash
from steelyard.model.reserved_names import DEFAULT_TOPIC, DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX
from steelyard.store.tags_code import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.properties import decode_properties, encode_properties, find_property
from steelyard.wire.property_names import DELAY_LEVEL, REAL_QUEUE_ID, REAL_TOPIC
from steelyard.wire.record import MessageRecord, decode_record, pack_record

TopicQueue = tuple[str, int]
"""Topic and queue id."""


class ApacheLogEntry(Struct, frozen=True, gc=False):
    """One record of the log, with its consume queue entry."""

    place: TopicQueue
    offset: int
    position: int
    tag: int
    raw: bytes

    def record(self) -> MessageRecord:
        """Decode the record."""
        return decode_record(self.raw)


class ApacheLog:
    """The log of one broker, and its consume queues.

    >>> log = ApacheLog(bytes(8))
    >>> log.append(("orders", 0), b"{}", b"", born_ms=1, born_host=bytes(8), stored_ms=2).offset, log.end("orders", 0)
    (0, 1)
    """

    def __init__(self, store_host: bytes) -> None:
        self._store_host = store_host
        self._queues: dict[TopicQueue, list[ApacheLogEntry]] = {}
        self._by_position: dict[int, ApacheLogEntry] = {}
        self._end = 0

    def append(
        self,
        place: TopicQueue,
        body: bytes,
        properties: bytes,
        *,
        born_ms: int,
        born_host: bytes,
        stored_ms: int,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
    ) -> ApacheLogEntry:
        """Append a message to a queue."""
        queue = self._queues.setdefault(place, [])
        raw = pack_record(
            place[0].encode(),
            place[1],
            len(queue),
            self._end,
            body,
            properties,
            born_ms=born_ms,
            born_host=born_host,
            stored_ms=stored_ms,
            store_host=self._store_host,
            flag=flag,
            sys_flag=sys_flag,
            reconsume_times=reconsume_times,
            prepared_offset=prepared_offset,
        )
        tag = find_property(properties, b"TAGS")
        entry = ApacheLogEntry(place, len(queue), self._end, tag_hash(tag.decode()) if tag else 0, raw)
        queue.append(entry)
        self._by_position[self._end] = entry
        self._end += len(raw)
        return entry

    def copy(
        self,
        record: MessageRecord,
        place: TopicQueue,
        properties: bytes,
        stored_ms: int,
        *,
        sys_flag: int | None = None,
        reconsume_times: int | None = None,
        prepared_offset: int = 0,
    ) -> ApacheLogEntry:
        """Append a copy of a message to another queue; what is not given stays as it was."""
        return self.append(
            place,
            record.body,
            properties,
            born_ms=record.born_ms,
            born_host=record.born_host,
            stored_ms=stored_ms,
            flag=record.flag,
            sys_flag=record.sys_flag if sys_flag is None else sys_flag,
            reconsume_times=record.reconsume_times if reconsume_times is None else reconsume_times,
            prepared_offset=prepared_offset,
        )

    def at(self, position: int) -> ApacheLogEntry | None:
        """Return the record at a position."""
        return self._by_position.get(position)

    def end(self, topic: str, queue_id: int) -> int:
        """Return the next offset of a queue; 0 if it is empty."""
        return len(self._queues.get((topic, queue_id), ()))

    def read(self, topic: str, queue_id: int, start: int, end: int) -> list[ApacheLogEntry]:
        """Return the records of a queue between two offsets."""
        return self._queues.get((topic, queue_id), [])[start:end]

    def logged_messages(self, broker: str, at_ms: int) -> Iterator[MessageLogged]:
        """Yield every message, by queue and offset."""
        for place in sorted(self._queues):
            queue = Queue(place[0], broker, place[1])
            for entry in self._queues[place]:
                record = entry.record()
                yield MessageLogged(
                    at_ms=at_ms,
                    queue=queue,
                    offset=entry.offset,
                    uid=record.body.decode(errors="replace"),
                    reconsume_times=record.reconsume_times,
                )


_INHERIT, _USUAL = 1, 6


class ApacheTopics:
    """The table of topics. ``changes`` grows with each change."""

    def __init__(self, broker: str, cluster: str, topics: Mapping[str, int]) -> None:
        self._table: dict[str, TopicConfig] = {}
        self.changes = 0
        self._put(DEFAULT_TOPIC, 8, _USUAL | _INHERIT)
        self._put(cluster, 16, _USUAL | _INHERIT)
        self._put(broker, 1, _USUAL | _INHERIT)
        for name, queues in topics.items():
            self._put(name, queues)

    def get(self, name: str) -> TopicConfig | None:
        """Return a topic, or None."""
        return self._table.get(name)

    def put(self, name: str, queues: int) -> TopicConfig:
        """Create a topic, or change its number of queues."""
        known = self._table.get(name)
        return known if known is not None and known.read_queues == queues else self._put(name, queues)

    def get_or_create_own(self, name: str) -> TopicConfig:
        """Return a retry or dead letter topic, which has one queue."""
        return self._table.get(name) or self._put(name, 1)

    def for_send(self, name: str, default: str, wanted: int) -> TopicConfig | None:
        """Return the topic of a send, created if that is allowed, or None."""
        known = self._table.get(name)
        if known is not None:
            return known
        pattern = self._table.get(default)
        if pattern is not None and pattern.permission & _INHERIT:
            return self._put(name, max(1, min(wanted, pattern.write_queues)), pattern.permission & ~_INHERIT)
        return self._put(name, 1) if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else None

    def table(self, now_ms: int) -> TopicConfigTable:
        """Return the table for name servers."""
        return TopicConfigTable(version=TableVersion(counter=self.changes, timestamp=now_ms), topics=dict(self._table))

    def _put(self, name: str, queues: int, permission: int = _USUAL) -> TopicConfig:
        self.changes += 1
        topic = TopicConfig(name=name, read_queues=queues, write_queues=queues, permission=permission)
        self._table[name] = topic
        return topic


FLUSH_MS = 5_000
FIRST_FLUSH_MS = 10_000


class ApacheOffsets:
    """Committed offsets: the last commit counts, higher or lower.

    The table is in memory. It is written to a file every `FLUSH_MS`, first after `FIRST_FLUSH_MS`, and at a clean
    shutdown. A broker that was killed starts with the file.

    >>> offsets, queue = ApacheOffsets({}), Queue("orders", "b1", 0)
    >>> offsets.commit("g", queue, 7), offsets.commit("g", queue, 3), offsets.get("g", queue)
    (None, 7, 3)
    """

    def __init__(self, file: dict[tuple[str, Queue], int]) -> None:
        self._file = file
        self._offsets = dict(file)
        self._is_dirty = False

    def get(self, group: str, queue: Queue) -> int | None:
        """Return the committed offset of a group, or None."""
        return self._offsets.get((group, queue))

    def commit(self, group: str, queue: Queue, offset: int) -> int | None:
        """Store an offset, and return the one before."""
        before = self._offsets.get((group, queue))
        if before != offset:
            self._offsets[group, queue] = offset
            self._is_dirty = True
        return before

    def flush(self) -> None:
        """Write the file."""
        if self._is_dirty:
            self._file.update(self._offsets)
            self._is_dirty = False

    def table(self) -> Mapping[tuple[str, Queue], int]:
        """Return all committed offsets."""
        return self._offsets


_TOPIC = SCHEDULE_TOPIC.decode()


class ApacheDelays:
    """Delayed messages, by when they are due on the broker's clock. They wait in Apache's schedule topic."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    @property
    def next_ms(self) -> int | None:
        """When the next message is due; None if none waits."""
        return self._heap[0][0] if self._heap else None

    def place_of(self, properties: dict[str, str], place: TopicQueue) -> TopicQueue:
        """Return where a message is stored; if it has a level, its real queue is added to its properties."""
        text = properties.get(DELAY_LEVEL, "0")
        level = int(text) if text.isdecimal() else 0
        if level <= 0:
            return place
        level = min(level, len(DELAY_LEVELS_MS))
        properties.update({DELAY_LEVEL: str(level), REAL_TOPIC: place[0], REAL_QUEUE_ID: str(place[1])})
        return _TOPIC, level - 1

    def schedule(self, entry: ApacheLogEntry, now_ms: int) -> bool:
        """Schedule a stored message; return whether it is delayed."""
        topic, queue_id = entry.place
        if topic != _TOPIC:
            return False
        heappush(self._heap, (now_ms + DELAY_LEVELS_MS[queue_id], entry.position))
        return True

    def deliver(self, log: ApacheLog, now_ms: int) -> list[ApacheLogEntry]:
        """Copy what is due to its real queue, and return the copies."""
        delivered = []
        while self._heap and self._heap[0][0] <= now_ms:
            entry = log.at(heappop(self._heap)[1])
            if entry is not None:
                record = entry.record()
                properties = decode_properties(record.properties)
                place = properties[REAL_TOPIC], int(properties[REAL_QUEUE_ID])
                # The copy keeps its level, as in Apache: it matters only when a message is sent.
                delivered.append(log.copy(record, place, encode_properties(properties), now_ms))
        return delivered


HALF_PLACE: TopicQueue = (HALF_TOPIC, 0)
_IMMUNITY_MS = 6_000
MAX_CHECKS = 15


class ApacheHalf(Struct, frozen=True, gc=False):
    """An open half message."""

    offset: int
    position: int
    stored_ms: int
    checks: int = 0


class ApacheHalfMessages:
    """The open half messages, by offset. They lie in a topic of their own.

    A commit copies the named half to its real queue, so a second commit stores a second copy. Each round of checks
    writes every half that is older than `_IMMUNITY_MS` anew; a commit that names the record before ends only that one.
    """

    def __init__(self) -> None:
        self._open: dict[int, ApacheHalf] = {}

    def add(self, entry: ApacheLogEntry, now_ms: int, checks: int = 0) -> None:
        """Add a stored half."""
        self._open[entry.offset] = ApacheHalf(entry.offset, entry.position, now_ms, checks)

    def end(self, offset: int) -> None:
        """Remove a half that was committed, rolled back, given up or written anew."""
        self._open.pop(offset, None)

    @property
    def open(self) -> int:
        """The number of open halves."""
        return len(self._open)

    def due(self, now_ms: int) -> list[ApacheHalf]:
        """Return the halves that have to be checked."""
        return [half for half in self._open.values() if half.checks or now_ms - half.stored_ms >= _IMMUNITY_MS]
