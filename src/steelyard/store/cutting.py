"""Cutting the tail: what lies behind the end of the log becomes zero, before anything is written there.

The file is shortened to the end and lengthened again, files that begin behind it are removed, and sums and keys of what
was there are forgotten: other records will take the places. Each step is safe on the disk before the next, and what
condemned a record is forgotten only when the record is gone. So a crash in the middle does no harm: doing all of it
again gives the same bytes.
"""

from collections.abc import Iterable

from steelyard.store.disk import Disk
from steelyard.store.keys import KEYS_FOLDER
from steelyard.store.log import LOG_FOLDER, Segment, write_all
from steelyard.store.sums import SUMS_FOLDER, sums_before

__all__ = ["cut"]

_CHUNK = 1 << 20


def cut(
    disk: Disk, segments: list[Segment], end: int, segment_bytes: int, unsure_from: int | None = None
) -> list[Segment]:
    """Make everything behind the end of the log zero, and all before it safe; return the segments that are left.

    From ``unsure_from`` on a sync has failed. The system takes those pages for clean since, and syncs them only after
    they were written again.
    """
    kept = [segment for segment in segments if segment.start < end or segment is segments[0]]
    for segment in kept:
        if end < segment.end or len(segment.view) != segment.size:
            segment.view.release()
            segment.file.truncate(min(end - segment.start, segment.size))
            segment.file.truncate(segment.size)
            segment.view = segment.file.view()
        if unsure_from is not None:
            _write_again(segment, max(unsure_from - segment.start, 0), min(end - segment.start, segment.size))
        # A process that crashed may have left pages that are not safe yet.
        segment.file.sync()
    for segment in segments[len(kept) :]:
        segment.file.close()
        disk.remove(segment.path)
    if segments:
        disk.sync_folder(LOG_FOLDER)
    first = segments[0].start if segments else end
    _cut_sums(disk, first, end, segment_bytes)
    keys = _starts(disk, KEYS_FOLDER)
    _remove(disk, KEYS_FOLDER, (start for start in keys if start < first or end < start + segment_bytes))
    return kept


def _write_again(segment: Segment, start: int, end: int) -> None:
    for at in range(start, end, _CHUNK):
        write_all(segment.file, at, segment.file.read(at, min(_CHUNK, end - at)), segment.path)


def _cut_sums(disk: Disk, first: int, end: int, segment_bytes: int) -> None:
    starts = _starts(disk, SUMS_FOLDER)
    _remove(disk, SUMS_FOLDER, (start for start in starts if start < first or end <= start))
    for start in starts:
        if first <= start < end < start + segment_bytes:
            path = f"{SUMS_FOLDER}/{start:020d}"
            data = disk.read(path) or b""
            file = disk.open(path)
            try:
                file.truncate(sums_before(data, end))
                file.sync()
            finally:
                file.close()


def _starts(disk: Disk, folder: str) -> list[int]:
    names = disk.names(folder)
    return [int(name) for name in names if name.isascii() and name.isdigit() and len(name) == 20]


def _remove(disk: Disk, folder: str, starts: Iterable[int]) -> None:
    gone = list(starts)
    for start in gone:
        disk.remove(f"{folder}/{start:020d}")
    if gone:
        disk.sync_folder(folder)
