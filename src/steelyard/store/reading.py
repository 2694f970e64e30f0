"""Reading a queue: runs of records as they lie in the log, without a copy.

After a clean start nothing was checked yet but the indexes. So a record of an earlier process is checked when it is
first read, and the queue remembers that. One that is damaged becomes a hole, is told, and is stepped over.
"""

from bisect import bisect_right
from itertools import accumulate, chain, compress, count
from operator import add, ne
from typing import TYPE_CHECKING

from steelyard.store.index_files import Indexes
from steelyard.store.log import Log
from steelyard.store.queues import ENTRY_WORDS, HOLE_SIZE, QueueIndex
from steelyard.store.slices import Slice
from steelyard.store.walk import Damage, SumsBySegment, find_whole

if TYPE_CHECKING:
    from array import array

__all__ = ["Reader"]

_LOOKED_AT = 800
"""How many entries one read looks at, at most, unless more messages are asked for: a filter may match none of them."""


class Reader:
    """The way from a queue and an offset to records. Those from ``trusted_from`` on need no check."""

    def __init__(self, log: Log, queues: Indexes, sums: SumsBySegment, trusted_from: int) -> None:
        self._log, self._queues, self._sums, self._trusted_from = log, queues, sums, trusted_from
        self.damages: list[Damage] = []
        """What was found to be lost since the store was opened."""

    def read(
        self, topic: bytes, queue_id: int, offset: int, most: int, most_bytes: int, marks: frozenset[int] | None
    ) -> Slice:
        """Read messages from an offset on; with ``marks`` only those that have one of them. The first always fits."""
        index = self._queues.get((topic, queue_id))
        if index is None:
            return Slice([], 0, 0, max(offset, 0), 0, 0)
        low, high = index.start, index.shown
        at = start = max(offset, low)
        if start >= high:
            return Slice([], 0, 0, start, low, high)
        if marks is None and (views := self._read_all(index, start, min(high, start + most), most_bytes)):
            return Slice(*views, low, high)
        parts: list[memoryview] = []
        count = size = 0
        run_start = run_end = -1
        for position, length, mark in index.slice(start, min(high, start + max(_LOOKED_AT, most))):
            if count == most or (count and size + length > most_bytes and length != HOLE_SIZE):
                break
            at += 1
            if length == HOLE_SIZE or (marks is not None and mark not in marks):
                continue
            if position < self._trusted_from and not self._is_whole(index, (topic, queue_id, at - 1), position, length):
                continue
            if position != run_end:
                self._add_run(parts, run_start, run_end)
                run_start = position
            run_end = position + length
            count += 1
            size += length
        self._add_run(parts, run_start, run_end)
        return Slice(parts, count, size, at, low, high)

    def _read_all(
        self, index: QueueIndex, start: int, end: int, most_bytes: int
    ) -> tuple[list[memoryview], int, int, int] | None:
        """Read all messages between two offsets, as far as there is room, if nothing speaks against it.

        This is the usual case, at a fraction of the time. None if one is lost, not checked yet or in another file: then
        each has to be looked at.
        """
        words = index.words(start, end)
        sizes = words[2::ENTRY_WORDS]
        size = sum(sizes)
        if not sizes or size >= HOLE_SIZE:
            return None
        if size > most_bytes:
            ends = list(accumulate(sizes))
            fitting = max(1, bisect_right(ends, most_bytes))
            end, size = start + fitting, ends[fitting - 1]
            del sizes[fitting:], words[fitting * ENTRY_WORDS :]
        first, last = words[0] << 32 | words[1], words[-ENTRY_WORDS] << 32 | words[1 - ENTRY_WORDS]
        if first < self._trusted_from and not index.checked_start <= start < end <= index.checked_end:
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

    def _is_whole(self, index: QueueIndex, place: tuple[bytes, int, int], position: int, size: int) -> bool:
        """Check a record of an earlier process when it is first read; a damaged one is told, and a hole from now on."""
        offset = place[2]
        if index.checked_start <= offset < index.checked_end:
            return True
        segment = self._log.segment_at(position)
        if segment is None:
            return False
        found = find_whole(segment.view, position - segment.start, position, self._sums.get(segment.start))
        is_whole = found is not None and (found.topic, found.queue_id, found.offset) == place
        if not is_whole:
            # The index was held against its checksum, so it is the record that is not what it was.
            index.make_hole(offset)
            self.damages.append(Damage(segment.path, position, size, 1))
        if offset == index.checked_end:
            index.checked_end += 1
        elif index.checked_start == index.checked_end:
            index.checked_start, index.checked_end = offset, offset + 1
        return is_whole


def _runs(view: memoryview, base: int, words: "array[int]", sizes: "array[int]") -> list[memoryview]:
    """Return the records of some entries of one file, those that lie behind each other as one view."""
    upper = words[0] << 32
    starts = words[1::ENTRY_WORDS].tolist()
    if words[-ENTRY_WORDS] << 32 != upper:
        # The file lies across a border of four GiB.
        starts = [high << 32 | low for high, low in zip(words[0::ENTRY_WORDS], starts, strict=True)]
        upper = 0
    base -= upper
    views: list[memoryview] = []
    run = 0
    for after in chain(compress(count(1), map(ne, map(add, starts, sizes), starts[1:])), (len(starts),)):
        views.append(view[starts[run] - base : starts[after - 1] + sizes[after - 1] - base])
        run = after
    return views
