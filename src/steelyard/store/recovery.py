"""Opening a directory: what is trusted, what is made again from the log, and where the tail is cut.

After a clean close the index files are believed and each old record is checked when it is first read. After anything
else the whole log is walked: indexes are made anew, damage is told, and what lies behind the last whole record is cut:
the file is shortened to it and lengthened again, so that it holds zeros, and synced, before anything is written. Doing
all this twice gives the same bytes, so a crash in the middle does no harm.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from steelyard.errors import NotAStore
from steelyard.store.disk import Disk
from steelyard.store.log import LOG_FOLDER, Segment
from steelyard.store.queues import QueueIndex
from steelyard.store.sums import SUM_BYTES, Sums, sums_before, sums_path
from steelyard.store.walk import Damage, Found, Walk
from steelyard.wire.record_layout import SMALLEST_BYTES

__all__ = ["Indexes", "Rebuilt", "cut", "open_segments", "rebuild"]

Indexes = dict[tuple[bytes, int], QueueIndex]
"""The index of each queue, by topic and number."""


@dataclass(slots=True)
class Rebuilt:
    """What a walk over the whole log gave."""

    end: int
    """The position after the last whole record."""
    indexes: Indexes
    damages: list[Damage]


def open_segments(disk: Disk, segment_bytes: int) -> list[Segment]:
    """Open the files of the log; what is no log file is refused, since nothing here may be overwritten by mistake."""
    segments: list[Segment] = []
    names = disk.names(LOG_FOLDER)
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) == 20):
            raise NotAStore(f"{LOG_FOLDER}/{name} is not a file of a log")
        file = disk.open(f"{LOG_FOLDER}/{name}")
        segments.append(Segment(int(name), segment_bytes, file, file.view()))
    return segments


def rebuild(disk: Disk, segments: list[Segment], known: Indexes, mark: Callable[[Found], int]) -> Rebuilt:
    """Walk the log and make the indexes again. ``known`` are older indexes, which may tell what was lost."""
    sums = {segment.start: Sums(data) for segment in segments if (data := disk.read(sums_path(segment.start)))}
    walk = Walk(segments, sums)
    indexes: Indexes = {}
    refused: list[Damage] = []
    for found in walk:
        index = indexes.get((found.topic, found.queue_id))
        if index is None:
            index = indexes[found.topic, found.queue_id] = QueueIndex(found.offset)
        gap = found.offset - index.end
        if gap:
            lost_bytes = sum(damage.size for damage in walk.damages)
            if gap < 0 or gap > lost_bytes // SMALLEST_BYTES:
                path = next(s.path for s in reversed(segments) if s.start <= found.position)
                refused.append(Damage(path, found.position, found.size, 1, "out of order"))
                continue
            index.add_holes(gap)
        index.add(found.position, found.size, mark(found))
    damages = [replace(damage, records=_lost_in(damage, known)) for damage in walk.damages] + refused
    _keep_numbers_of_the_lost(indexes, known, walk)
    for index in indexes.values():
        index.show()
        index.saved = index.start
    damages += [
        Damage(sums_path(start), 0, SUM_BYTES * each.damaged, 0, "damaged sums")
        for start, each in sums.items()
        if each.damaged
    ]
    return Rebuilt(walk.end, indexes, damages)


def _lost_in(damage: Damage, known: Indexes) -> int | None:
    """Count the messages that indexes knew in damaged bytes; None if no index can tell."""
    if not known:
        return None
    return sum(
        damage.position <= position < damage.position + damage.size
        for index in known.values()
        for position, _, _ in index.slice(index.start, index.shown)
    )


def _keep_numbers_of_the_lost(indexes: Indexes, known: Indexes, walk: Walk) -> None:
    """Let no offset be given twice: messages lost at the end of a queue, before the end of the log, leave holes."""
    if not walk.damages:
        return
    spans = [range(damage.position, damage.position + damage.size) for damage in walk.damages]
    for queue, old in known.items():
        index = indexes.setdefault(queue, QueueIndex(old.start))
        lost = 0
        for position, _, _ in old.slice(max(index.end, old.start), old.shown) if old.shown > index.end else ():
            lost += 1 if any(position in span for span in spans) else 0
        index.add_holes(lost)


def cut(disk: Disk, segments: list[Segment], end: int) -> list[Segment]:
    """Make everything behind the end of the log zero, and sync that; files that begin there are removed."""
    kept: list[Segment] = []
    for segment in segments:
        if segment.start >= end and segment.start != segments[0].start:
            segment.file.close()
            disk.remove(segment.path)
            disk.remove(sums_path(segment.start))
            continue
        if end < segment.end or len(segment.view) != segment.size:
            segment.view.release()
            segment.file.truncate(min(end - segment.start, segment.size))
            segment.file.truncate(segment.size)
            segment.file.sync()
            segment.view = segment.file.view()
            _cut_sums(disk, segment, end)
        kept.append(segment)
    if segments:
        disk.sync_folder(LOG_FOLDER)
    return kept


def _cut_sums(disk: Disk, segment: Segment, end: int) -> None:
    """Forget sums of records behind the end: other records will lie there."""
    path = sums_path(segment.start)
    data = disk.read(path)
    if data:
        file = disk.open(path)
        file.truncate(sums_before(data, end))
        file.sync()
        file.close()
