"""Checksums of records without their bodies, beside the log.

A record carries a checksum of its body and none of anything else: a flipped bit in its offset or its properties would
be served as if it were true. So each record has a sum here: position, checksum of all its bytes but the body, and a
checksum of these two, so that a damaged sum is not mistaken for a damaged record. Sums are an addition: a record
without one (another program wrote it, or the end of the log before a crash) is judged by what it carries.
"""

from struct import Struct as Layout
from zlib import crc32

from steelyard.store.disk import Disk
from steelyard.store.log import segment_name

__all__ = ["SUM_BYTES", "Sums", "SumsByNeed", "pack_sum", "record_sum", "sums_before", "sums_path"]

_SUM = Layout(">qI")
_WHOLE = Layout(">qII")
SUM_BYTES = _WHOLE.size
_FOLDER = "steelyard/sums"

_pack = _SUM.pack
_read_position = Layout(">q").unpack_from


def sums_path(segment_start: int) -> str:
    """Return the path of the sums of a segment."""
    return f"{_FOLDER}/{segment_name(segment_start)}"


def record_sum(head: bytes | memoryview, rest: bytes | memoryview) -> int:
    """Return the checksum of a record without its body: what is before it, and what follows it."""
    return crc32(rest, crc32(head))


def pack_sum(position: int, value: int) -> bytes:
    """Write the sum of one record."""
    entry = _pack(position, value)
    return entry + crc32(entry).to_bytes(4, "big")


def sums_before(data: bytes, end: int) -> int:
    """Return how many bytes of a file of sums belong to records that lie before a position."""
    size = len(data) // SUM_BYTES * SUM_BYTES
    while size and not 0 <= _read_position(data, size - SUM_BYTES)[0] < end:
        size -= SUM_BYTES
    return size


class Sums:
    """The sums of one segment, as read from its file: in the order of positions.

    >>> sums = Sums(pack_sum(0, 17) + pack_sum(120, 4711))
    >>> sums.get(120), sums.get(50), sums.get(0)
    (4711, None, 17)
    """

    __slots__ = ("_data", "_next", "damaged")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0
        self.damaged = 0
        """How many entries were met that were not what was written."""

    def get(self, position: int) -> int | None:
        """Return the sum of the record at a position, or None if there is none. Quick for positions in order."""
        data, at = self._data, self._next
        if at + SUM_BYTES > len(data) or _read_position(data, at)[0] != position:
            at = self._find(position)
            if at < 0:
                return None
        self._next = at + SUM_BYTES
        _, value, check = _WHOLE.unpack_from(data, at)
        if crc32(data[at : at + _SUM.size]) != check:
            self.damaged += 1
            return None
        return int(value)

    def _find(self, position: int) -> int:
        wanted = position.to_bytes(8, "big")
        at = self._data.find(wanted, self._next)
        if at < 0:
            at = self._data.find(wanted)
        while at >= 0 and at % SUM_BYTES:
            at = self._data.find(wanted, at + 1)
        return at


class SumsByNeed:
    """The sums of each segment, read when they are first asked for."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._sums: dict[int, Sums | None] = {}

    def of(self, segment_start: int) -> Sums | None:
        """Return the sums of a segment, or None if it has none."""
        if segment_start not in self._sums:
            data = self._disk.read(sums_path(segment_start))
            self._sums[segment_start] = Sums(data) if data else None
        return self._sums[segment_start]
