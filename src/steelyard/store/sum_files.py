"""The files of sums: written after the log, read when a record has to be judged.

A disk that does not take a sum costs nothing but the sum. Sums that were put here from another log would condemn every
record; so a file whose sums disagree with all records that are whole otherwise is not believed.
"""

from collections.abc import Sequence

from steelyard.errors import DiskFailed
from steelyard.store.disk import Disk, File
from steelyard.store.log import Log, Segment, write_all
from steelyard.store.replace import replace_file
from steelyard.store.sums import SUM_BYTES, SUMS_FOLDER, Sums, sums_path
from steelyard.store.walk import read_whole

__all__ = ["SumFiles", "SumsByNeed", "drop_foreign_sums", "drop_stale_sums", "load_sums"]

_LOOKED_AT = 16
_ENOUGH = 3
"""One flipped bit makes one record disagree with its sum. If none of more agrees, they were never of this log."""


def _are_of(sums: Sums, segment: Segment) -> bool:
    """Say whether sums are those of a segment, by a look at some of its records."""
    looked_at = 0
    for position in sums.some(_LOOKED_AT):
        at = position - segment.start
        found = read_whole(segment, at, sums) if 0 <= at < segment.size else None
        if found is not None and position not in sums.stale:
            return True
        looked_at += 1
    # A segment that is damaged all over says nothing about its sums.
    return looked_at < _ENOUGH or read_whole(segment, 0) is None


def load_sums(
    disk: Disk, segments: Sequence[Segment], ours_to: int | None = None, ours_to_ms: int = 0
) -> dict[int, Sums]:
    """Read all sums that can be believed, also of segments that are missing. Those of another log are removed."""
    loaded: dict[int, Sums] = {}
    by_start = {segment.start: segment for segment in segments}
    for name in disk.names(SUMS_FOLDER):
        if name.isascii() and name.isdigit() and len(name) == 20:
            sums = Sums(disk.read(f"{SUMS_FOLDER}/{name}") or b"", ours_to, ours_to_ms)
            segment = by_start.get(int(name))
            if segment is None or _are_of(sums, segment):
                loaded[int(name)] = sums
            else:
                disk.remove(f"{SUMS_FOLDER}/{name}")
    return loaded


def drop_foreign_sums(disk: Disk, segment: Segment) -> None:
    """Remove the sums of a segment if they are of another log, before ours are added to them."""
    data = disk.read(sums_path(segment.start))
    if data and not _are_of(Sums(data), segment):
        disk.remove(sums_path(segment.start))


def drop_stale_sums(disk: Disk, loaded: dict[int, Sums]) -> None:
    """Write files of sums again without those of records that another program has replaced."""
    for start, sums in loaded.items():
        if sums.stale:
            replace_file(disk, sums_path(start), sums.without_stale())


class SumsByNeed:
    """The sums of each segment, read when they are first asked for."""

    def __init__(self, disk: Disk, log: Log) -> None:
        self._disk, self._log = disk, log
        self._sums: dict[int, Sums | None] = {}

    def get(self, segment_start: int) -> Sums | None:
        """Return the sums of a segment, or None if it has none."""
        if segment_start not in self._sums:
            data = self._disk.read(sums_path(segment_start))
            segment = self._log.segment_at(segment_start)
            sums = Sums(data) if data else None
            self._sums[segment_start] = sums if sums and segment is not None and _are_of(sums, segment) else None
        return self._sums[segment_start]

    def forget_before(self, position: int) -> None:
        """Forget the sums of segments that are gone."""
        for start in [start for start in self._sums if start < position]:
            del self._sums[start]


class SumFiles:
    """The files that sums are written to, one for each segment."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[int, tuple[File, int]] = {}

    def write(self, segment_start: int, data: bytes) -> None:
        """Add the sums of some records. A disk that does not take them costs nothing but them."""
        try:
            file, at = self._files.get(segment_start) or self._open(segment_start)
            write_all(file, at, data, sums_path(segment_start))
            self._files[segment_start] = file, at + len(data)
        except DiskFailed:
            self.close(segment_start)

    def _open(self, segment_start: int) -> tuple[File, int]:
        self._disk.mkdir(SUMS_FOLDER)
        file = self._disk.open(sums_path(segment_start), create=True)
        # A write that failed may have left a part of a sum.
        self._files[segment_start] = file, file.size // SUM_BYTES * SUM_BYTES
        return self._files[segment_start]

    def remove(self, segment_start: int) -> None:
        """Remove the sums of a segment before it goes itself: sums alone would tell of messages that were lost."""
        self.close(segment_start)
        self._disk.remove(sums_path(segment_start))
        if self._disk.names(SUMS_FOLDER):
            self._disk.sync_folder(SUMS_FOLDER)

    def sync(self) -> None:
        """Make all sums safe from a loss of power."""
        for file, _ in self._files.values():
            file.sync()

    def close(self, segment_start: int | None = None) -> None:
        """Let go of the file of a segment, or of all."""
        for start in list(self._files) if segment_start is None else [segment_start]:
            if start in self._files:
                self._files.pop(start)[0].close()
