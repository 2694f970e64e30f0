"""Commit log: every message once, in order of arrival, in files of one size that Apache RocketMQ can open.

A position counts bytes from the very first message; a file is named after the position of its first byte. Records are
buffered until `flush` and then written joined, one write per file, which is what makes it fast. What was not written
did not happen. After a failed write the file may hold parts of it: they are zeroed and synced before anything else is
written there, so that nothing stale can be taken for a message. A failed sync is never retried: `sync_error` is set,
and the owner of the log stops writing.
"""

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from steelyard.errors import DiskFailed
from steelyard.store.disk import Disk, File, write_all
from steelyard.wire.record import BLANK_BYTES, pack_blank

COMMIT_LOG_FOLDER = "commitlog"
_CHUNK = 1 << 20


def segment_name(start: int) -> str:
    """Return the name of the file that begins at a position."""
    return f"{start:020d}"


def segment_starts(disk: Disk, folder: str) -> list[int]:
    """Return the positions that the files of a folder are named after, ascending; other names are skipped."""
    return [int(name) for name in disk.names(folder) if name.isascii() and name.isdigit() and len(name) == 20]


@dataclass(slots=True)
class Segment:
    """One file of the log: ``size`` bytes from position ``start`` on."""

    start: int
    size: int
    file: File
    view: memoryview
    """The whole file; only read where a record is known to be (see `File.view`). All else goes through `file`."""
    path: str = ""
    """The file's path, by default that in the store's directory."""

    def __post_init__(self) -> None:
        self.path = self.path or f"{COMMIT_LOG_FOLDER}/{segment_name(self.start)}"

    @property
    def end(self) -> int:
        """The position after its last byte."""
        return self.start + self.size

    @property
    def written_bytes(self) -> int:
        """How much of it was ever written, as far as the disk knows; only zeros follow."""
        return min(self.file.zeros_from(), self.size)

    def nonzero_size(self, at: int) -> int:
        """Return how many bytes follow ``at`` before only zeros are left."""
        end = self.written_bytes
        while end > at:
            start = max(at, end - _CHUNK)
            chunk = self.file.read(start, end - start).rstrip(b"\0")
            if chunk:
                return start - at + len(chunk)
            end = start
        return 0


@dataclass(slots=True)
class _WriteBuffer:
    """Records for one file, back to back, from a position on."""

    segment_start: int
    start: int
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class CommitLog:
    """Segments in order, and buffered records behind them."""

    def __init__(self, disk: Disk, segment_bytes: int, segments: list[Segment], end: int) -> None:
        self._disk = disk
        self.segment_bytes = segment_bytes
        self.segments = segments
        self.starts = [segment.start for segment in segments]
        self.end = end
        """The position after the last record that was written."""
        self._buffers: list[_WriteBuffer] = []
        self._append_end = end
        self._buffer: _WriteBuffer | None = None
        self._dirty_to = end
        """A failed write may have left bytes up to this position."""
        self.is_tail_clean = True
        """Whether no failed write has left bytes behind the end."""
        self.sync_error: DiskFailed | None = None
        """The failed sync, if any: since then the contents of the disk are unknown."""

    @property
    def start(self) -> int:
        """The position of the oldest byte."""
        return self.segments[0].start if self.segments else self.end

    def next_position(self, size: int) -> int:
        """Return the position of the next record if it has this size: in the next file if it does not fit."""
        position = self._append_end
        room = self.segment_bytes - position % self.segment_bytes
        return position if size + BLANK_BYTES <= room else position + room

    def append(self, parts: Iterable[bytes], size: int, position: int) -> None:
        """Buffer the parts of one or more records for the next flush, at the position that `next_position` returned."""
        buffer = self._buffer
        if position != self._append_end:
            buffer = self._roll_to(position)
        elif buffer is None:
            buffer = self._begin_buffer(position)
        buffer.parts += parts
        buffer.size += size
        self._append_end = position + size

    def _roll_to(self, position: int) -> _WriteBuffer:
        """Continue in the next file, after a blank that fills this one."""
        room = position - self._append_end
        buffer = self._buffer or self._begin_buffer(self._append_end)
        buffer.parts.append(pack_blank(room))
        buffer.size += room
        self._append_end = position
        return self._begin_buffer(position)

    def _begin_buffer(self, start: int) -> _WriteBuffer:
        self._buffer = _WriteBuffer(start - start % self.segment_bytes, start)
        self._buffers.append(self._buffer)
        return self._buffer

    def flush(self) -> DiskFailed | None:
        """Write the buffers. Return the error, if any: then everything behind `end` did not happen."""
        waiting, self._buffers, self._buffer = self._buffers, [], None
        error: DiskFailed | None = None
        try:
            for part in waiting:
                is_last = self.starts and self.starts[-1] == part.segment_start
                segment = self.segments[-1] if is_last else self._create_segment(part.segment_start)
                if not self.is_tail_clean:
                    self.repair_tail()
                data = b"".join(part.parts)
                self._dirty_to, self.is_tail_clean = part.start + len(data), False
                write_all(segment.file, part.start - segment.start, data, segment.path)
                self.end = self._dirty_to = part.start + part.size
                self.is_tail_clean = True
        except DiskFailed as failure:
            error = failure
            with suppress(DiskFailed):
                self.repair_tail()  # at once if possible: a crash should find as little as possible of it
        self._append_end = self.end
        return error

    def repair_tail(self) -> None:
        """Zero what a failed write left behind the end, and sync that."""
        if self.is_tail_clean:
            return
        segment = self.segments[-1]
        at = self.end - segment.start
        left = segment.file.read(at, self._dirty_to - self.end).rstrip(b"\0")
        if left:
            write_all(segment.file, at, bytes(len(left)), segment.path)
            self._sync(segment.file)
        self._dirty_to, self.is_tail_clean = self.end, True

    def _create_segment(self, start: int) -> Segment:
        path = f"{COMMIT_LOG_FOLDER}/{segment_name(start)}"
        self._disk.mkdir(COMMIT_LOG_FOLDER)
        file = self._disk.open(path, create=True)
        try:
            if file.size:
                file.truncate(0)  # a failed attempt left it
            file.truncate(self.segment_bytes)
            self._sync(file, COMMIT_LOG_FOLDER, "")
            segment = Segment(start, self.segment_bytes, file, file.view())
        except DiskFailed:
            file.close()
            raise
        self.segments.append(segment)
        self.starts.append(start)
        return segment

    def _sync(self, file: File, *folders: str) -> None:
        try:
            file.sync()
            for folder in folders:
                self._disk.sync_folder(folder)
        except DiskFailed as error:
            self.sync_error = error
            raise

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment that holds a position, or None."""
        place = bisect_right(self.starts, position) - 1
        if place < 0 or position >= self.segments[place].end:
            return None
        return self.segments[place]

    def segments_from(self, position: int) -> list[Segment]:
        """Return the segments that hold bytes behind a position: its own, and those that follow."""
        first = bisect_right(self.starts, position) - 1
        return [segment for segment in self.segments[max(0, first) :] if segment.end > position]

    def read(self, position: int, size: int) -> memoryview | None:
        """Return bytes of the log as a view of the file; None if they are not all in one file."""
        segment = self.segment_at(position)
        if segment is None or position + size > min(segment.end, self.end):
            return None
        at = position - segment.start
        return segment.view[at : at + size]

    def remove_oldest(self) -> Segment:
        """Remove the oldest segment and its file. Readers that hold views of it keep them."""
        oldest = self.segments[0]
        self._disk.remove(oldest.path)
        self._disk.sync_folder(COMMIT_LOG_FOLDER)
        del self.segments[0], self.starts[0]
        oldest.file.close()
        return oldest

    def close(self) -> None:
        """Close the files; views that are still held stay valid."""
        for segment in self.segments:
            segment.file.close()
