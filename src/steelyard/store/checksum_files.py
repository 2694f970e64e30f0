"""Checksum files: written after the log, read when a record has to be judged.

A disk that fails to write a checksum costs nothing but that checksum. Files copied here from another log would condemn
every record; so a file whose checksums disagree with all records that are otherwise whole is not trusted.
"""

from collections.abc import Sequence

from steelyard.errors import DiskFailed
from steelyard.store.checksums import CHECKSUM_BYTES, CHECKSUMS_FOLDER, RecordChecksums, checksums_path
from steelyard.store.commit_log import CommitLog, Segment, segment_starts
from steelyard.store.disk import Disk, File, replace_file, write_all
from steelyard.store.log_scan import read_record

_SAMPLED_RECORDS = 16
_MIN_SAMPLES = 3
"""One flipped bit makes one record disagree. If none of several agrees, the checksums are of another log."""


def _belong_to(checksums: RecordChecksums, segment: Segment) -> bool:
    """Return whether checksums belong to a segment, judged by some of its records."""
    sampled = 0
    for position in checksums.sample_positions(_SAMPLED_RECORDS):
        at = position - segment.start
        found = read_record(segment, at, checksums) if 0 <= at < segment.size else None
        if found is not None and position not in checksums.stale:
            return True
        sampled += 1
    # A segment that is damaged all over says nothing about its checksums.
    return sampled < _MIN_SAMPLES or read_record(segment, 0) is None


def load_checksums(
    disk: Disk, segments: Sequence[Segment], trusted_to: int | None = None, trusted_to_ms: int = 0
) -> dict[int, RecordChecksums]:
    """Read all trusted checksums, also of missing segments. Those of another log are removed."""
    loaded: dict[int, RecordChecksums] = {}
    by_start = {segment.start: segment for segment in segments}
    for start in segment_starts(disk, CHECKSUMS_FOLDER):
        checksums = RecordChecksums(disk.read(checksums_path(start)) or b"", trusted_to, trusted_to_ms)
        segment = by_start.get(start)
        if segment is None or _belong_to(checksums, segment):
            loaded[start] = checksums
        else:
            disk.remove(checksums_path(start))
    return loaded


def drop_foreign_checksums(disk: Disk, segment: Segment) -> None:
    """Remove the checksums of a segment if they are of another log, before ours are appended."""
    data = disk.read(checksums_path(segment.start))
    if data and not _belong_to(RecordChecksums(data), segment):
        disk.remove(checksums_path(segment.start))


def drop_stale_checksums(disk: Disk, loaded: dict[int, RecordChecksums]) -> None:
    """Rewrite checksum files without the entries of records that another program has replaced."""
    for start, checksums in loaded.items():
        if checksums.stale:
            replace_file(disk, checksums_path(start), checksums.encode_current())


class LazyChecksums:
    """The checksums of each segment, loaded on first use."""

    def __init__(self, disk: Disk, log: CommitLog) -> None:
        self._disk, self._log = disk, log
        self._checksums: dict[int, RecordChecksums | None] = {}

    def get(self, segment_start: int) -> RecordChecksums | None:
        """Return the checksums of a segment, or None if it has none."""
        if segment_start not in self._checksums:
            data = self._disk.read(checksums_path(segment_start))
            segment = self._log.segment_at(segment_start)
            checksums = RecordChecksums(data) if data else None
            self._checksums[segment_start] = (
                checksums if checksums and segment is not None and _belong_to(checksums, segment) else None
            )
        return self._checksums[segment_start]

    def drop_before(self, position: int) -> None:
        """Forget the checksums of removed segments."""
        for start in [start for start in self._checksums if start < position]:
            del self._checksums[start]


class ChecksumFiles:
    """The open checksum files, one per segment."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[int, tuple[File, int, str]] = {}
        """By segment: its file, where the next checksum goes, and the path."""

    def write(self, segment_start: int, data: bytes) -> None:
        """Append the checksums of some records. If the disk fails, only they are lost."""
        try:
            file, at, path = self._files.get(segment_start) or self._open(segment_start)
            write_all(file, at, data, path)
            self._files[segment_start] = file, at + len(data), path
        except DiskFailed:
            self.close(segment_start)

    def _open(self, segment_start: int) -> tuple[File, int, str]:
        self._disk.mkdir(CHECKSUMS_FOLDER)
        path = checksums_path(segment_start)
        file = self._disk.open(path, create=True)
        # A failed write may have left a part of an entry.
        self._files[segment_start] = file, file.size // CHECKSUM_BYTES * CHECKSUM_BYTES, path
        return self._files[segment_start]

    def remove(self, segment_start: int) -> None:
        """Remove the checksums of a segment before the segment itself: alone they would report lost messages."""
        self.close(segment_start)
        self._disk.remove(checksums_path(segment_start))
        if self._disk.names(CHECKSUMS_FOLDER):
            self._disk.sync_folder(CHECKSUMS_FOLDER)

    def sync(self) -> None:
        """Sync all files."""
        for file, *_ in self._files.values():
            file.sync()

    def close(self, segment_start: int | None = None) -> None:
        """Close the file of a segment, or all files."""
        for start in list(self._files) if segment_start is None else [segment_start]:
            if start in self._files:
                self._files.pop(start)[0].close()
