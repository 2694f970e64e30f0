"""The log: every message once, in the order it came, in files of one size that Apache RocketMQ can open.

A position counts bytes from the very first message; a file is called after the position of its first byte. Records are
kept until `flush` and then written joined, one write a file: that is what makes it fast. What was not written did not
happen. After a failed write the file may hold parts of it: they are put back to zero and synced before anything else is
written there, so that nothing stale can ever be taken for a message. A sync that failed is never tried again: `unsure`
says so, and who owns the log takes no more writes.
"""

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from steelyard.errors import DiskFailed
from steelyard.store.disk import Disk, File
from steelyard.wire.record_layout import BLANK_BYTES, pack_blank

__all__ = ["LOG_FOLDER", "Log", "Segment", "segment_name", "write_all"]

LOG_FOLDER = "commitlog"
_CHUNK = 1 << 20


def segment_name(start: int) -> str:
    """Return the name of the file that begins at a position.

    >>> segment_name(1073741824)
    '00000000001073741824'
    """
    return f"{start:020d}"


@dataclass(slots=True)
class Segment:
    """One file of the log: ``size`` bytes from position ``start`` on."""

    start: int
    size: int
    file: File
    view: memoryview
    """All of it, to be looked at only where a record is known to be (disk.py); whatever else goes through `file`."""

    @property
    def end(self) -> int:
        """The position after its last byte."""
        return self.start + self.size

    @property
    def written(self) -> int:
        """How much of it was ever written, as far as the disk knows: behind it there are only zeros."""
        return min(self.file.zeros_from(), self.size)

    def trailing_size(self, at: int) -> int:
        """Return how many bytes from a byte on are not merely zeros at the end."""
        end = self.written
        while end > at:
            start = max(at, end - _CHUNK)
            chunk = self.file.read(start, end - start).rstrip(b"\0")
            if chunk:
                return start - at + len(chunk)
            end = start
        return 0

    @property
    def path(self) -> str:
        """The file's path in the store's directory."""
        return f"{LOG_FOLDER}/{segment_name(self.start)}"


@dataclass(slots=True)
class _Waiting:
    """Records that go into one file, one after the other, from a position on."""

    segment_start: int
    start: int
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class Log:
    """Segments in order, and what waits to be written behind them."""

    __slots__ = (
        "_dirty_to",
        "_disk",
        "_tail",
        "_waiting",
        "_wanted_end",
        "end",
        "segment_bytes",
        "segments",
        "starts",
        "unsure",
    )

    def __init__(self, disk: Disk, segment_bytes: int, segments: list[Segment], end: int) -> None:
        self._disk = disk
        self.segment_bytes = segment_bytes
        self.segments = segments
        self.starts = [segment.start for segment in segments]
        self.end = end
        """The position after the last record that was written."""
        self._waiting: list[_Waiting] = []
        self._wanted_end = end
        self._tail: _Waiting | None = None
        self._dirty_to = end
        """Up to here a failed write may have left something behind."""
        self.unsure: DiskFailed | None = None
        """The sync that failed, if one did: nobody knows what the disk holds since."""

    @property
    def start(self) -> int:
        """The position of the oldest byte."""
        return self.segments[0].start if self.segments else self.end

    def place(self, size: int) -> int:
        """Return the position that the next record will have if it is this long: in the next file if it has to be."""
        position = self._wanted_end
        room = self.segment_bytes - position % self.segment_bytes
        return position if size + BLANK_BYTES <= room else position + room

    def add(self, parts: Iterable[bytes], size: int, position: int) -> None:
        """Keep the parts of a record, or of several in a line, for the next flush, at the place that `place` gave."""
        tail = self._tail
        if tail is None or position != self._wanted_end:
            tail = self._turn_to(position)
        tail.parts += parts
        tail.size += size
        self._wanted_end = position + size

    def _turn_to(self, position: int) -> _Waiting:
        """Go on at a position: that of the end, or that of the next file after a blank that fills this one."""
        room = position - self._wanted_end
        if room:
            tail = self._tail or self._begin(self._wanted_end)
            tail.parts.append(pack_blank(room))
            tail.size += room
            self._wanted_end = position
        return self._begin(position)

    def _begin(self, start: int) -> _Waiting:
        self._tail = _Waiting(start - start % self.segment_bytes, start)
        self._waiting.append(self._tail)
        return self._tail

    def flush(self) -> DiskFailed | None:
        """Write what waits. Return what went wrong, if anything did: then what lies behind `end` did not happen."""
        waiting, self._waiting, self._tail = self._waiting, [], None
        error: DiskFailed | None = None
        try:
            for part in waiting:
                segment = self._segment(part.segment_start)
                if not self.is_healthy:
                    self.heal()
                data = b"".join(part.parts)
                self._dirty_to = part.start + len(data)
                write_all(segment.file, part.start - segment.start, data, segment.path)
                self.end = self._dirty_to = part.start + part.size
        except DiskFailed as failure:
            error = failure
            with suppress(DiskFailed):
                self.heal()  # at once if it can be: a crash must find as little as possible of what did not happen
        self._wanted_end = self.end
        return error

    def heal(self) -> None:
        """Put back to zero what a failed write left behind the end, and sync that."""
        if self.is_healthy:
            return
        segment = self.segments[-1]
        at = self.end - segment.start
        left = segment.file.read(at, self._dirty_to - self.end).rstrip(b"\0")
        if left:
            write_all(segment.file, at, bytes(len(left)), segment.path)
            self._sync(segment.file)
        self._dirty_to = self.end

    @property
    def is_healthy(self) -> bool:
        """Whether nothing of a failed write is left behind the end."""
        return self._dirty_to <= self.end

    def _segment(self, start: int) -> Segment:
        """Return the segment that begins at a position; the next one is made when it is first needed."""
        if self.segments and self.segments[-1].start == start:
            return self.segments[-1]
        path = f"{LOG_FOLDER}/{segment_name(start)}"
        self._disk.mkdir(LOG_FOLDER)
        file = self._disk.open(path, create=True)
        try:
            if file.size:
                file.truncate(0)  # left over from a try that failed
            file.truncate(self.segment_bytes)
            self._sync(file)
            for folder in (LOG_FOLDER, ""):
                self._sync_folder(folder)
            segment = Segment(start, self.segment_bytes, file, file.view())
        except DiskFailed:
            file.close()
            raise
        self.segments.append(segment)
        self.starts.append(start)
        return segment

    def _sync(self, file: File) -> None:
        try:
            file.sync()
        except DiskFailed as error:
            self.unsure = error
            raise

    def _sync_folder(self, folder: str) -> None:
        try:
            self._disk.sync_folder(folder)
        except DiskFailed as error:
            self.unsure = error
            raise

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment that holds a position, or None."""
        place = bisect_right(self.starts, position) - 1
        if place < 0 or position >= self.segments[place].end:
            return None
        return self.segments[place]

    def segments_from(self, position: int) -> list[Segment]:
        """Return the segments that hold anything behind a position: the one it is in, and those that follow."""
        first = bisect_right(self.starts, position) - 1
        return [segment for segment in self.segments[max(0, first) :] if segment.end > position]

    def read(self, position: int, size: int) -> memoryview | None:
        """Return some bytes of the log as they lie in the file; None where they are not all in one."""
        segment = self.segment_at(position)
        if segment is None or position + size > min(segment.end, self.end):
            return None
        at = position - segment.start
        return segment.view[at : at + size]

    def drop_first(self) -> Segment:
        """Remove the oldest segment and its file. Readers that hold views of it keep them."""
        oldest = self.segments[0]
        self._disk.remove(oldest.path)
        self._disk.sync_folder(LOG_FOLDER)
        del self.segments[0], self.starts[0]
        oldest.file.close()
        return oldest

    def close(self) -> None:
        """Let go of the files; views that somebody still holds stay valid."""
        for segment in self.segments:
            segment.file.close()


def write_all(file: File, at: int, data: bytes, path: str) -> None:
    """Write all bytes; a disk that takes none of them has failed."""
    done = file.write(at, data)
    while done < len(data):
        count = file.write(at + done, data[done:])
        if count <= 0:
            raise DiskFailed("write", path=path, why=f"{done} of {len(data)} bytes were taken")
        done += count
