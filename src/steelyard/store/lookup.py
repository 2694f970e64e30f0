"""Messages by their place in the log, by the time they were stored, and by their keys.

Nothing is kept for the first two: a place is a place, and times grow along a queue, so that a search by halves finds
one. Keys have an index of their own, which follows the log in its own time: whoever asks first waits for the rest.
"""

from bisect import bisect_right
from collections.abc import Iterable

from steelyard.store.disk import Disk
from steelyard.store.index_files import Indexes
from steelyard.store.keys import KEYS_FOLDER, KeyIndex, record_keys
from steelyard.store.log import Log, Segment
from steelyard.store.queues import HOLE_SIZE, QueueIndex
from steelyard.store.replace import make_folder
from steelyard.store.walk import Found, SumsBySegment, Walk, read_whole

__all__ = ["Lookup"]


class Lookup:
    """Questions about messages that are there."""

    def __init__(self, disk: Disk, log: Log, queues: Indexes, sums: SumsBySegment) -> None:
        self._disk, self._log, self._queues, self._sums = disk, log, queues, sums
        self._opened_at = log.end
        self._keys: dict[int, KeyIndex] = {}

    def at(self, position: int) -> memoryview | None:
        """Return the record that begins at a position of the log; None if no whole one does."""
        found = self._found(position)
        return None if found is None else self._log.read(position, found.size)

    def _found(self, position: int) -> Found | None:
        segment = self._log.segment_at(position) if 0 <= position < self._log.end else None
        if segment is None:
            return None
        return read_whole(segment, position - segment.start, self._sums.get(segment.start))

    def place(self, topic: bytes, queue_id: int, offset: int) -> tuple[int, int] | None:
        """Return position and size of the message at an offset, or None if it is not there."""
        index = self._queues.get((topic, queue_id))
        if index is None or not index.start <= offset < index.shown:
            return None
        entry = index.entry(offset)
        return None if entry.is_hole else (entry.position, entry.size)

    def offset_at(self, topic: bytes, queue_id: int, stored_ms: int) -> int:
        """Return the first offset whose message was stored at or after a time; the next to be written if none was."""
        index = self._queues.get((topic, queue_id))
        if index is None:
            return 0
        low, high = index.start, index.shown
        while low < high:
            middle = (low + high) // 2
            seen, time_ms = self._first_time(index, middle, high)
            if time_ms is None or time_ms >= stored_ms:
                high = middle
            else:
                low = seen + 1
        return self._first_time(index, low, index.shown)[0]

    def stored_ms(self, topic: bytes, queue_id: int, offset: int) -> int | None:
        """Return when the message at an offset was stored, or None if it is not there."""
        index = self._queues.get((topic, queue_id))
        if index is None or not index.start <= offset < index.shown:
            return None
        return self._first_time(index, offset, offset + 1)[1]

    def first_stored_ms(self, topic: bytes, places: Iterable[tuple[int, int]]) -> int | None:
        """Return when the first of some messages was stored, each given by its queue and offset; None without any.

        Times grow along the log, so the one that lies first is the first, and only that one is looked at.
        """
        first = None
        for queue_id, offset in places:
            index = self._queues.get((topic, queue_id))
            if index is not None and index.start <= offset < index.shown:
                position, size, _ = index.entry(offset)
                if size != HOLE_SIZE and (first is None or position < first):
                    first = position
        found = None if first is None else self._found(first)
        return None if found is None else found.stored_ms

    def earliest_ms(self) -> int | None:
        """Return when the oldest message of the log was stored, or None if there is none."""
        found = self._found(self._log.start)
        return None if found is None else found.stored_ms

    def _first_time(self, index: QueueIndex, start: int, end: int) -> tuple[int, int | None]:
        """Return the first offset from one on whose message is still there, and when it was stored."""
        for offset, (position, size, _) in enumerate(index.slice(start, end), start):
            found = self._found(position) if size != HOLE_SIZE else None
            if found is not None:
                return offset, found.stored_ms
        return end, None

    def by_key(self, topic: bytes, key: bytes, *, most: int, start_ms: int, end_ms: int) -> list[memoryview]:
        """Return records of a topic that have a key and were stored within two times, the newest first."""
        records: list[memoryview] = []
        for segment in reversed(self._log.segments):
            positions = self._followed(segment).find(topic, key)
            # One key may be that of a million messages: those that are too new are passed by halves, like all times.
            for position in reversed(positions[: bisect_right(positions, end_ms, key=self._time_at)]):
                found = self._found(position)
                if found is None or found.topic != topic or key not in record_keys(found.properties):
                    continue
                if found.stored_ms < start_ms:
                    return records
                record = self._log.read(position, found.size)
                if record is not None and found.stored_ms <= end_ms:
                    records.append(record)
                    if len(records) >= most:
                        return records
        return records

    def _time_at(self, position: int) -> int:
        found = self._found(position)
        return -1 if found is None else found.stored_ms

    def _followed(self, segment: Segment) -> KeyIndex:
        """Return the key index of a segment, fed with all that is in it."""
        index = self._index(segment)
        self._feed(segment, index, None)
        return index

    def _index(self, segment: Segment) -> KeyIndex:
        index = self._keys.get(segment.start)
        if index is None:
            index = KeyIndex.load(self._disk, segment.start) or KeyIndex(segment.start)
            index.cut(self._log.end)
            self._keys[segment.start] = index
        return index

    def _feed(self, segment: Segment, index: KeyIndex, most: int | None) -> int:
        """Feed an index with at most so many records, and return how many there were."""
        end, fed = min(segment.end, self._log.end), 0
        if index.indexed_to < end:
            for found in Walk([segment], self._sums, index.indexed_to, end):
                if fed == most:
                    return fed
                index.add(found.topic, found.properties, found.position, found.position + found.size)
                fed += 1
            index.indexed_to = end
        return fed

    def follow(self, most: int | None = None, *, recent: bool = False) -> bool:
        """Let the key indexes catch up with the log, by at most so many records; say whether they have.

        ``recent`` leaves those alone that were complete before this process wrote anything: they stay on the disk until
        somebody asks for a key.
        """
        fed = 0
        for segment in self._log.segments:
            if recent and segment.end <= self._opened_at:
                continue
            fed += self._feed(segment, self._index(segment), None if most is None else most - fed)
            if most is not None and fed >= most:
                return False
        return True

    def save(self) -> None:
        """Write the key indexes that are in memory; call it when the log is synced."""
        if self._keys:
            make_folder(self._disk, KEYS_FOLDER)
        for index in self._keys.values():
            index.save(self._disk)

    def forget_before(self, position: int) -> None:
        """Forget the keys of segments that are gone."""
        for start in [start for start in self._keys if start < position]:
            del self._keys[start]
        for name in self._disk.names(KEYS_FOLDER):
            if name.isascii() and name.isdigit() and int(name) < position:
                self._disk.remove(f"{KEYS_FOLDER}/{name}")
