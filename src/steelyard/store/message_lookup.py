"""Message lookup: messages by position, by store time and by key.

The first two need no index: store times grow along a queue, so a binary search finds one. Keys have an index of their
own, which follows the log in the background: the first query waits for the rest of it.
"""

from collections.abc import Iterable

from steelyard.store.commit_log import CommitLog, Segment
from steelyard.store.consume_queue import HOLE_SIZE, ConsumeQueue, ConsumeQueues
from steelyard.store.disk import Disk, make_folder
from steelyard.store.key_index import KEY_INDEX_FOLDER, KeyIndex, record_keys
from steelyard.store.log_scan import ChecksumsBySegment, LogScan, ScannedRecord, read_record, read_stored_ms

# What it costs to index a record, where a key costs 1.
_RECORD_COST, _BYTES_PER_COST = 10, 1_024
_CHECKED_BYTES = 4_096
"""A larger record is not read whole only to see whether its body is sound: a reset by time concerns many queues."""


class MessageLookup:
    """Finds messages that are in the log."""

    def __init__(self, disk: Disk, log: CommitLog, queues: ConsumeQueues, checksums: ChecksumsBySegment) -> None:
        self._disk, self._log, self._queues, self._checksums = disk, log, queues, checksums
        self._opened_at = log.end
        self._key_indexes: dict[int, KeyIndex] = {}

    def record_at(self, position: int) -> memoryview | None:
        """Return the record that begins at a log position; None if no whole record does."""
        found = self._read_record(position)
        return None if found is None else self._log.read(position, found.size)

    def _read_record(self, position: int) -> ScannedRecord | None:
        segment = self._log.segment_at(position) if 0 <= position < self._log.end else None
        if segment is None:
            return None
        may_be_torn, checksums = position < self._opened_at, self._checksums.get(segment.start)
        return read_record(segment, position - segment.start, checksums, may_be_torn=may_be_torn)

    def position_of(self, topic: bytes, queue_id: int, offset: int) -> tuple[int, int] | None:
        """Return position and size of the message at an offset, or None if there is none."""
        index = self._queues.get((topic, queue_id))
        if index is None or not index.start <= offset < index.visible_end:
            return None
        entry = index.entry(offset)
        return None if entry.is_hole else (entry.position, entry.size)

    def offset_by_time(self, topic: bytes, queue_id: int, stored_ms: int) -> int:
        """Return the first offset whose message was stored at or after a time; the end of the queue if none was."""
        index = self._queues.get((topic, queue_id))
        if index is None:
            return 0
        low, high = index.start, index.visible_end
        while low < high:
            middle = (low + high) // 2
            seen, time_ms = self._first_stored(index, middle, high)
            if time_ms is None or time_ms >= stored_ms:
                high = middle
            else:
                low = seen + 1
        for offset, (position, size, _) in enumerate(index.iter_entries(low, index.visible_end), low):
            is_large = size > _CHECKED_BYTES and self._head_stored_ms(position, size) is not None
            if is_large or (size != HOLE_SIZE and self._read_record(position) is not None):
                return offset
        return index.visible_end

    def stored_ms(self, topic: bytes, queue_id: int, offset: int) -> int | None:
        """Return when the message at an offset was stored, or None if there is none; its body may be damaged."""
        index = self._queues.get((topic, queue_id))
        if index is None or not index.start <= offset < index.visible_end:
            return None
        return self._first_stored(index, offset, offset + 1)[1]

    def first_stored_ms(self, topic: bytes, places: Iterable[tuple[int, int]]) -> int | None:
        """Return when the oldest of some messages was stored, each given by queue and offset; None if there is none.

        Store times grow along the log, so only the record at the lowest position is read.
        """
        first = None
        for queue_id, offset in places:
            index = self._queues.get((topic, queue_id))
            if index is not None and index.start <= offset < index.visible_end:
                position, size, _ = index.entry(offset)
                if size != HOLE_SIZE and (first is None or position < first):
                    first = position
        found = None if first is None else self._read_record(first)
        return None if found is None else found.stored_ms

    def earliest_ms(self) -> int | None:
        """Return when the oldest message of the log was stored, or None if there is none."""
        found = self._read_record(self._log.start)
        return None if found is None else found.stored_ms

    def _first_stored(self, queue: ConsumeQueue, start: int, end: int) -> tuple[int, int | None]:
        """Return the first offset from ``start`` on whose message is still readable, and when it was stored."""
        for offset, (position, size, _) in enumerate(queue.iter_entries(start, end), start):
            stored_ms = self._head_stored_ms(position, size)
            if stored_ms is not None:
                return offset, stored_ms
        return end, None

    def _head_stored_ms(self, position: int, size: int) -> int | None:
        segment = self._log.segment_at(position) if size != HOLE_SIZE else None
        return None if segment is None else read_stored_ms(segment, position - segment.start, size)

    def find_by_key(
        self, topic: bytes, key: bytes, *, max_messages: int, start_ms: int, end_ms: int
    ) -> list[memoryview]:
        """Return records of a topic that have a key and were stored between two times, the newest first."""
        records: list[memoryview] = []
        for segment in reversed(self._log.segments):
            index = self._key_index(segment)
            self._index_records(segment, index, None)
            # A million messages may share one key: those that are too new are skipped by binary search.
            for position in index.find(topic, key, index.count_until(end_ms, self._stored_ms_at)):
                found = self._read_record(position)
                if found is None or found.topic != topic or key not in record_keys(found.properties):
                    continue
                if found.stored_ms < start_ms:
                    return records
                record = self._log.read(position, found.size)
                if record is not None and found.stored_ms <= end_ms:
                    records.append(record)
                    if len(records) >= max_messages:
                        return records
        return records

    def _stored_ms_at(self, position: int) -> int:
        found = self._read_record(position)
        return -1 if found is None else found.stored_ms

    def _key_index(self, segment: Segment) -> KeyIndex:
        index = self._key_indexes.get(segment.start)
        if index is None:
            index = KeyIndex.load(self._disk, segment.start) or KeyIndex(segment.start)
            index.truncate(self._log.end)
            self._key_indexes[segment.start] = index
        return index

    def _index_records(self, segment: Segment, key_index: KeyIndex, max_cost: int | None) -> int:
        """Add records to a key index until they cost ``max_cost``, and return what they cost."""
        end, cost = min(segment.end, self._log.end), 0
        if key_index.indexed_to < end:
            # What this process wrote needs no checksums; those that are in memory may be from before it was written.
            is_ours = key_index.indexed_to >= self._opened_at
            checksums = {} if is_ours else self._checksums
            for found in LogScan([segment], checksums, key_index.indexed_to, end, may_be_torn=not is_ours):
                if max_cost is not None and cost >= max_cost:
                    return cost
                keys = key_index.add(found.topic, found.properties, found.position, found.position + found.size)
                cost += keys + _RECORD_COST + found.size // _BYTES_PER_COST
            key_index.indexed_to = end
        return cost

    def build_key_index(self, max_cost: int | None = None, *, recent_only: bool = False) -> bool:
        """Extend the key indexes until that costs ``max_cost``; return whether they are complete.

        A key costs 1; a record costs more if it is large, since its body is checked. ``recent_only`` skips indexes that
        were complete before this process wrote anything: they stay on disk until a query needs them.
        """
        cost = 0
        for segment in self._log.segments:
            if recent_only and segment.end <= self._opened_at:
                continue
            cost += self._index_records(
                segment, self._key_index(segment), None if max_cost is None else max_cost - cost
            )
            if max_cost is not None and cost >= max_cost:
                return False
        return True

    def save_key_index(self) -> None:
        """Save the key indexes that are in memory; call it when the log is synced."""
        if self._key_indexes:
            make_folder(self._disk, KEY_INDEX_FOLDER)
        for index in self._key_indexes.values():
            index.save(self._disk)

    def drop_before(self, position: int) -> None:
        """Drop the key indexes of removed segments."""
        for start in [start for start in self._key_indexes if start < position]:
            del self._key_indexes[start]
        for name in self._disk.names(KEY_INDEX_FOLDER):
            if name.isascii() and name.isdigit() and int(name) < position:
                self._disk.remove(f"{KEY_INDEX_FOLDER}/{name}")
