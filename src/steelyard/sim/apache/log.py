"""Apache's log in memory: records as bytes, queues as lists of them, waiting messages by when they are due.

It survives whatever happens to the broker's process: what an Apache broker loses with its power is not modelled. A
record is written once, with its place in it, and sent to whoever pulls as the bytes it is.
"""

from collections.abc import Iterator

from msgspec import Struct

from steelyard.model import Queue, tag_hash
from steelyard.sim.facts import Logged
from steelyard.wire.properties import find_property
from steelyard.wire.record import Record, decode_record, pack_record

__all__ = ["Entry", "Log", "Place"]

Place = tuple[str, int]
"""A topic and the number of a queue."""


class Entry(Struct, frozen=True, gc=False):
    """One record of the log, and what the index of its queue knows of it."""

    place: Place
    offset: int
    position: int
    tag: int
    raw: bytes

    def record(self) -> Record:
        """Read the record."""
        return decode_record(self.raw)


class Log:
    """All that one broker stored.

    >>> log = Log(bytes(8))
    >>> log.append(("orders", 0), b"{}", b"", born_ms=1, born_host=bytes(8), stored_ms=2).offset, log.end("orders", 0)
    (0, 1)
    """

    def __init__(self, store_host: bytes) -> None:
        self._store_host = store_host
        self._queues: dict[Place, list[Entry]] = {}
        self._by_position: dict[int, Entry] = {}
        self._end = 0

    def append(
        self,
        place: Place,
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
    ) -> Entry:
        """Store a message at the end of a queue."""
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
        entry = Entry(place, len(queue), self._end, tag_hash(tag.decode()) if tag else 0, raw)
        queue.append(entry)
        self._by_position[self._end] = entry
        self._end += len(raw)
        return entry

    def copy(
        self,
        record: Record,
        place: Place,
        properties: bytes,
        stored_ms: int,
        *,
        sys_flag: int | None = None,
        reconsume_times: int | None = None,
        prepared_offset: int = 0,
    ) -> Entry:
        """Store a message again, elsewhere: what is not said stays as it was."""
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

    def at(self, position: int) -> Entry | None:
        """Return the record at a position."""
        return self._by_position.get(position)

    def end(self, topic: str, queue_id: int) -> int:
        """Return the next offset to be written; 0 in a queue that nobody wrote to."""
        return len(self._queues.get((topic, queue_id), ()))

    def read(self, topic: str, queue_id: int, start: int, end: int) -> list[Entry]:
        """Return the records of a queue between two offsets."""
        return self._queues.get((topic, queue_id), [])[start:end]

    def logged(self, broker: str, at_ms: int) -> Iterator[Logged]:
        """Tell of every message there is, by queue and offset."""
        for place in sorted(self._queues):
            queue = Queue(place[0], broker, place[1])
            for entry in self._queues[place]:
                record = entry.record()
                yield Logged(
                    at_ms=at_ms,
                    queue=queue,
                    offset=entry.offset,
                    uid=record.body.decode(errors="replace"),
                    reconsume_times=record.reconsume_times,
                )
