"""Queue reader: from a queue and an offset to runs of records as they lie in the log, without a copy.

After a clean start only the consume queues were checked. So a record of an earlier process is checked on its first
read, and the queue remembers that. A damaged one becomes a hole, is reported, and is skipped.
"""

from bisect import bisect_right
from itertools import accumulate, chain, compress, count
from operator import add, ne
from typing import TYPE_CHECKING

from msgspec import Struct

from steelyard.store.commit_log import CommitLog
from steelyard.store.consume_queue import ENTRY_WORDS, HOLE_SIZE, ConsumeQueue, ConsumeQueues
from steelyard.store.log_scan import ChecksumsBySegment, Damage, check_record

if TYPE_CHECKING:
    from array import array


class ReadResult(Struct, frozen=True, gc=False):
    """Messages of a queue. ``parts`` joined are records back to back; they are views of the log, not copies."""

    parts: list[memoryview]
    count: int
    size: int
    next_offset: int
    """Where to continue: behind the last message that was considered, returned or not."""
    min_offset: int
    """The first offset of the queue."""
    max_offset: int
    """The next offset of the queue."""

    def joined(self) -> bytes:
        """Return the records as one byte string."""
        return b"".join(self.parts)


_MAX_SCANNED_ENTRIES = 800
"""Entries that one read considers at most, unless more messages are requested: a filter may match none of them."""


class QueueReader:
    """Reads records of a queue. Those from log position ``trusted_from`` on need no check."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, checksums: ChecksumsBySegment, trusted_from: int) -> None:
        self._log, self._queues, self._checksums, self._trusted_from = log, queues, checksums, trusted_from
        self.damages: list[Damage] = []
        """What turned out to be lost since the store was opened."""

    def read(
        self,
        topic: bytes,
        queue_id: int,
        offset: int,
        max_messages: int,
        max_bytes: int,
        tags_codes: frozenset[int] | None,
    ) -> ReadResult:
        """Read messages from an offset on, with ``tags_codes`` only those that have one. The first always fits."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return ReadResult([], 0, 0, max(offset, 0), 0, 0)
        low, high = queue.start, queue.visible_end
        at = start = max(offset, low)
        if start >= high:
            return ReadResult([], 0, 0, start, low, high)
        if tags_codes is None and (views := self._read_all(queue, start, min(high, start + max_messages), max_bytes)):
            return ReadResult(*views, low, high)
        parts: list[memoryview] = []
        count = size = 0
        run_start = run_end = -1
        for position, length, tags_code in queue.iter_entries(
            start, min(high, start + max(_MAX_SCANNED_ENTRIES, max_messages))
        ):
            if count == max_messages or (count and size + length > max_bytes and length != HOLE_SIZE):
                break
            at += 1
            if length == HOLE_SIZE or (tags_codes is not None and tags_code not in tags_codes):
                continue
            if position < self._trusted_from and not self._check_on_first_read(
                queue, (topic, queue_id, at - 1), position, length
            ):
                continue
            if position != run_end:
                self._add_run(parts, run_start, run_end)
                run_start = position
            run_end = position + length
            count += 1
            size += length
        self._add_run(parts, run_start, run_end)
        return ReadResult(parts, count, size, at, low, high)

    def _read_all(
        self, queue: ConsumeQueue, start: int, end: int, max_bytes: int
    ) -> tuple[list[memoryview], int, int, int] | None:
        """Read all messages between two offsets up to ``max_bytes``: the usual case, at a fraction of the time.

        None if one of them is lost, not checked yet or in another file: then each entry has to be considered.
        """
        words = queue.entry_words(start, end)
        sizes = words[2::ENTRY_WORDS]
        size = sum(sizes)
        if not sizes or size >= HOLE_SIZE:
            return None
        if size > max_bytes:
            ends = list(accumulate(sizes))
            fitting = max(1, bisect_right(ends, max_bytes))
            end, size = start + fitting, ends[fitting - 1]
            del sizes[fitting:], words[fitting * ENTRY_WORDS :]
        first, last = words[0] << 32 | words[1], words[-ENTRY_WORDS] << 32 | words[1 - ENTRY_WORDS]
        if first < self._trusted_from and not queue.checked_start <= start < end <= queue.checked_end:
            return None
        segment = self._log.segment_at(first)
        if segment is None or last + sizes[-1] > segment.end:
            return None
        view, base = segment.view, segment.start
        if last + sizes[-1] - first == size:
            return [view[first - base : first - base + size]], len(sizes), size, end
        return _runs(view, base, words, sizes), len(sizes), size, end

    def _add_run(self, parts: list[memoryview], start: int, end: int) -> None:
        if end > start >= 0:
            view = self._log.read(start, end - start)
            if view is not None:
                parts.append(view)

    def _check_on_first_read(
        self, queue: ConsumeQueue, place: tuple[bytes, int, int], position: int, size: int
    ) -> bool:
        """Check a record of an earlier process on its first read; a damaged one is reported and becomes a hole."""
        offset = place[2]
        if queue.checked_start <= offset < queue.checked_end:
            return True
        segment = self._log.segment_at(position)
        if segment is None:
            return False
        found = check_record(segment.view, position - segment.start, position, self._checksums.get(segment.start))
        is_whole = found is not None and (found.topic, found.queue_id, found.offset) == place
        if not is_whole:
            # The queue matched its checksum, so it is the record that has changed.
            queue.mark_lost(offset)
            self.damages.append(Damage(segment.path, position, size, 1))
        if offset == queue.checked_end:
            queue.checked_end += 1
        elif queue.checked_start == queue.checked_end:
            queue.checked_start, queue.checked_end = offset, offset + 1
        return is_whole


def _runs(view: memoryview, base: int, words: "array[int]", sizes: "array[int]") -> list[memoryview]:
    """Return the records of some entries of one file; adjacent records share a view."""
    upper = words[0] << 32
    starts = words[1::ENTRY_WORDS].tolist()
    if words[-ENTRY_WORDS] << 32 != upper:
        # The file crosses a boundary of 4 GiB.
        starts = [high << 32 | low for high, low in zip(words[0::ENTRY_WORDS], starts, strict=True)]
        upper = 0
    base -= upper
    views: list[memoryview] = []
    run = 0
    for after in chain(compress(count(1), map(ne, map(add, starts, sizes), starts[1:])), (len(starts),)):
        views.append(view[starts[run] - base : starts[after - 1] + sizes[after - 1] - base])
        run = after
    return views
