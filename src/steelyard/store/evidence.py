"""What is still known of messages that are gone: how many there were, and which numbers they had.

A number is never given twice while anything remembers the first time, because a consumer may have seen it. Sums tell
where records began, older indexes tell which offsets a queue had given. Both may be damaged or belong to another log:
an index is believed only entry by entry, in order, and only about places where something was lost.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from steelyard.store.index_files import Indexes, can_be_folder
from steelyard.store.queues import HOLE_SIZE, QueueIndex
from steelyard.store.sums import Sums
from steelyard.store.walk import Damage
from steelyard.wire.record_layout import SMALLEST_BYTES

__all__ = ["MOST_HOLES", "Evidence"]

MOST_HOLES = 1 << 20
"""How many lost messages of a queue are believed on weak grounds; each takes twenty bytes of memory."""


class Evidence:
    """Older indexes, and the sums of all segments by their start."""

    def __init__(self, known: Indexes, sums: dict[int, Sums], segment_bytes: int) -> None:
        self._known, self._sums, self._segment_bytes = known, sums, segment_bytes

    def count(self, start: int, end: int) -> int | None:
        """Count the messages that are known to have begun between two positions; None if nothing can tell."""
        by_sums = [sums.count(start, end) for first, sums in self._sums.items() if first < end]
        by_index = [_count(index, start, end) for index in self._known.values()]
        return max(sum(by_sums), sum(by_index)) if by_sums or by_index else None

    def has(self, topic: bytes, queue_id: int, offset: int, position: int) -> bool | None:
        """Say whether an older index has a message at an offset and a position; None if it knows nothing of it."""
        index = self._known.get((topic, queue_id))
        if index is None or not index.start <= offset < index.shown:
            return None
        return index.entry(offset).position == position

    def has_sum(self, segment_start: int, position: int) -> bool:
        """Say whether the record at a position has a sum, which then was held against it."""
        sums = self._sums.get(segment_start)
        return sums is not None and sums.get(position) is not None

    def keep_numbers(self, indexes: Indexes, damages: Sequence[Damage], log_start: int, log_end: int) -> None:
        """Let the indexes go on behind all offsets that are known to have been given."""
        places = _Places(damages, log_start, log_end, self._segment_bytes)
        for (topic, queue_id), old in self._known.items():
            index = indexes.get((topic, queue_id))
            if index is not None:
                index.add_holes(_known_to(old, index.end, places) - index.end)
                continue
            end = _known_to(old, _expired_to(old, places), places)
            if 0 < end <= log_end // SMALLEST_BYTES + MOST_HOLES and can_be_folder(topic):
                indexes[topic, queue_id] = QueueIndex(end)


class _Places:
    """Where messages were lost: in damage, and outside of the log."""

    def __init__(self, damages: Iterable[Damage], log_start: int, log_end: int, segment_bytes: int) -> None:
        spans = sorted((damage.position, damage.position + damage.size) for damage in damages)
        self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]
        self.log_start, self._log_end = log_start, log_end
        self._segment_bytes = segment_bytes

    def can_have_had(self, position: int, size: int) -> bool:
        """Say whether a message that is not there any more can have been at a place."""
        place = bisect_right(self._starts, position) - 1
        in_damage = place >= 0 and position < self._ends[place]
        is_gone = in_damage or 0 <= position < self.log_start or position >= self._log_end
        return is_gone and SMALLEST_BYTES <= size < self._segment_bytes


def _expired_to(old: QueueIndex, places: _Places) -> int:
    """Return the offset behind the messages of an older index that went with the oldest files of the log."""
    end = old.first_from(places.log_start)
    last = old.entry(end - 1) if old.start < end <= old.shown else None
    is_believed = last is not None and (last.is_hole or places.can_have_had(last.position, last.size))
    return end if is_believed else old.start


def _known_to(old: QueueIndex, at: int, places: _Places) -> int:
    """Return up to which offset an older index knows of messages that were lost, from an offset on."""
    if not old.start <= at <= old.shown:
        return at
    last = -1
    for position, size, _ in old.slice(at, min(old.shown, at + MOST_HOLES)):
        if size != HOLE_SIZE:
            if position <= last or not places.can_have_had(position, size):
                break
            last = position
        at += 1
    return at


def _count(index: QueueIndex, start: int, end: int) -> int:
    count = 0
    for position, size, _ in index.slice(index.first_from(start), index.shown):
        if size != HOLE_SIZE:
            if position >= end:
                break
            count += position >= start
    return count
