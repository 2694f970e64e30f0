"""Making the indexes again from the log, after anything but a clean close.

The whole log is walked. Damage is told, with how many messages it cost as far as anything can tell, and so is what lies
behind the last whole record, which will be cut off (cutting.py). Offsets must follow one another: what was lost leaves
holes. A record whose offset cannot be is refused, since one flipped bit must not cost a queue or fill the memory.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.store.evidence import MOST_HOLES, Evidence
from steelyard.store.index_files import Indexes, can_be_folder
from steelyard.store.log import LOG_FOLDER, Segment, segment_name
from steelyard.store.queues import QueueIndex
from steelyard.store.sums import SUM_BYTES, Sums, sums_path
from steelyard.store.walk import Damage, Found, Walk
from steelyard.wire.record_layout import SMALLEST_BYTES

__all__ = ["CUT_OFF", "Indexes", "Rebuilt", "rebuild"]

CUT_OFF = "cut off"
"""What a damage is called that lies behind the last whole record."""


@dataclass(slots=True)
class Rebuilt:
    """What a walk over the whole log gave."""

    end: int
    """The position after the last whole record."""
    indexes: Indexes
    damages: list[Damage]
    records: int = 0
    """How many whole records were found."""


def rebuild(
    segments: Sequence[Segment], known: Indexes, sums: dict[int, Sums], mark: Callable[[Found], int]
) -> Rebuilt:
    """Walk the log and make the indexes again. ``known`` are older indexes, which may tell what was lost."""
    evidence = Evidence(known, sums, segments[0].size if segments else 1 << 31)
    walk = Walk(segments, sums)
    numbering = _Numbering(evidence, walk)
    indexes = numbering.indexes
    records = 0
    for found in walk:
        records += 1
        index = indexes.get((found.topic, found.queue_id))
        if index is None or found.offset != index.end:
            index = numbering.index_for(found, index)
            if index is None:
                continue
        index.add(found.position, found.size, mark(found))
    damages = [
        replace(damage, records=evidence.count(damage.position, damage.position + damage.size))
        for damage in walk.damages
    ]
    # Zeros behind the end are no damage, unless something was there.
    damages += [damage for damage in _tail(segments, sums, walk.end, evidence) if damage.size or damage.records]
    for lost in walk.hit:
        numbering.keep_number(lost)
    evidence.keep_numbers(indexes, damages, segments[0].start if segments else 0, walk.end)
    for index in indexes.values():
        index.show()
        index.forget_holes()
        index.saved, index.is_anew = index.start, True
    return Rebuilt(walk.end, indexes, damages + numbering.refused + list(_damaged_sums(sums)), records)


class _Numbering:
    """Which offsets may follow which."""

    def __init__(self, evidence: Evidence, walk: Walk) -> None:
        self._evidence, self._walk = evidence, walk
        self.indexes: Indexes = {}
        self.refused: list[Damage] = []

    def index_for(self, found: Found, index: QueueIndex | None) -> QueueIndex | None:
        """Return the index that a record belongs at the end of, after holes if need be; None refuses the record."""
        if not can_be_folder(found.topic):
            self._refuse(found, "of a topic that cannot be")
        elif index is None and self._can_have_offset(found):
            return self._begin(found)
        elif index is not None and found.offset > index.end and self._can_have_gap(found, found.offset - index.end):
            index.add_holes(found.offset - index.end)
            return index
        elif index is not None and found.offset < index.end and self._begins_again(found):
            return self._begin(found)
        else:
            self._refuse(found, "out of order")
        return None

    def keep_number(self, lost: Found) -> None:
        """Let a queue go on behind a message that is surely lost."""
        index = self.indexes.get((lost.topic, lost.queue_id))
        if index is None and can_be_folder(lost.topic):
            index = self._begin(lost)
        if index is not None and lost.offset >= index.end:
            index.add_holes(lost.offset + 1 - index.end)

    def _begin(self, found: Found) -> QueueIndex:
        index = self.indexes[found.topic, found.queue_id] = QueueIndex(found.offset)
        return index

    def _can_have_offset(self, found: Found) -> bool:
        """Say whether so many messages can have been before a record."""
        return found.offset <= found.position // SMALLEST_BYTES + MOST_HOLES or self._has_sum(found)

    def _can_have_gap(self, found: Found, gap: int) -> bool:
        """Say whether so many messages can have been lost before a record."""
        return gap <= max(MOST_HOLES, self._walk.lost_bytes // SMALLEST_BYTES) or self._has_sum(found)

    def _begins_again(self, found: Found) -> bool:
        """Say whether the topic was removed and made again, as Apache's broker does it: numbers begin again then."""
        known = self._evidence.has(found.topic, found.queue_id, found.offset, found.position)
        return found.offset == 0 if known is None else known

    def _has_sum(self, found: Found) -> bool:
        segment = _segment_of(self._walk.segments, found.position)
        return self._evidence.has_sum(segment.start, found.position)

    def _refuse(self, found: Found, what: str) -> None:
        path = _segment_of(self._walk.segments, found.position).path
        self.refused.append(Damage(path, found.position, found.size, 1, what))


def _segment_of(segments: Sequence[Segment], position: int) -> Segment:
    return segments[bisect_right(segments, position, key=lambda segment: segment.start) - 1]


def _tail(segments: Sequence[Segment], sums: dict[int, Sums], end: int, evidence: Evidence) -> Iterator[Damage]:
    """Yield what is outside of the log: bytes behind its end, and files that only sums know of."""
    for segment in segments:
        if segment.end > end:
            start = max(end, segment.start)
            size, records = segment.trailing_size(start - segment.start), evidence.count(start, segment.end)
            yield Damage(segment.path, start, size, records, CUT_OFF)
    there = {segment.start for segment in segments}
    for start, each in sums.items():
        if start not in there and (start >= end or start < segments[0].start):
            yield Damage(f"{LOG_FOLDER}/{segment_name(start)}", start, 0, each.count(start, 1 << 63), "missing")


def _damaged_sums(sums: dict[int, Sums]) -> Iterator[Damage]:
    for start, each in sums.items():
        if each.damaged:
            yield Damage(sums_path(start), 0, SUM_BYTES * each.damaged, 0, "damaged sums")
