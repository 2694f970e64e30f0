"""Checksums of records without their bodies, beside the log.

A record carries a checksum of its body and none of anything else: a flipped bit in its offset or its properties would
be served as if it were true. So each record has a sum here: position, checksum of all its bytes but the body, and a
checksum of these two, so that a damaged sum is not mistaken for a damaged record. Sums are an addition: a record
without one (another program wrote it, or the end of the log before a crash) is judged by what it carries.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import add
from struct import Struct as Layout
from zlib import crc32

__all__ = ["SUMS_FOLDER", "SUM_BYTES", "Sums", "pack_sum", "pack_sums", "record_sum", "sums_before", "sums_path"]

_SUM = Layout(">qI")
_WHOLE = Layout(">qII")
SUM_BYTES = _WHOLE.size
SUMS_FOLDER = "steelyard/sums"

_pack = _SUM.pack
_pack_check = Layout(">I").pack
_read = _WHOLE.unpack_from
_read_position = Layout(">q").unpack_from


def sums_path(segment_start: int) -> str:
    """Return the path of the sums of a segment."""
    return f"{SUMS_FOLDER}/{segment_start:020d}"


def record_sum(head: bytes | memoryview, rest: bytes | memoryview) -> int:
    """Return the checksum of a record without its body: what is before it, and what follows it."""
    return crc32(rest, crc32(head))


def pack_sums(records: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """Write the sums of some records: of each, its position and what is before and behind its body."""
    if len(records) == 1:
        ((position, head, tail),) = records
        return pack_sum(position, crc32(tail, crc32(head)))
    # Column by column: a loop in C for all that a flush brings, instead of one here for every message.
    positions, heads, tails = zip(*records, strict=True)
    entries = list(map(_pack, positions, map(crc32, map(add, heads, tails))))
    return b"".join(chain.from_iterable(zip(entries, map(_pack_check, map(crc32, entries)), strict=True)))


def pack_sum(position: int, value: int) -> bytes:
    """Write the sum of one record."""
    entry = _pack(position, value)
    return entry + _pack_check(crc32(entry))


def sums_before(data: bytes, end: int) -> int:
    """Return how many bytes of a file of sums belong to records that lie before a position."""
    size = len(data) // SUM_BYTES * SUM_BYTES
    # A damaged sum says nothing about those before it, so it must not end the search.
    while size and not (_is_whole(data, size - SUM_BYTES) and _read_position(data, size - SUM_BYTES)[0] < end):
        size -= SUM_BYTES
    return size


def _is_whole(data: bytes, at: int) -> bool:
    return crc32(data[at : at + _SUM.size]) == int.from_bytes(data[at + _SUM.size : at + SUM_BYTES], "big")


class Sums:
    """The sums of one segment, as read from its file: in the order of positions, damaged ones aside.

    >>> sums = Sums(pack_sum(0, 17) + pack_sum(120, 4711))
    >>> sums.get(120), sums.get(50), sums.get(0)
    (4711, None, 17)
    """

    __slots__ = ("_data", "_is_all_whole", "_next", "_ours_to", "_ours_to_ms", "damaged", "stale")

    def __init__(self, data: bytes, ours_to: int | None = None, ours_to_ms: int = 0) -> None:
        self._data = data
        self._next = 0
        self._is_all_whole = False
        self._ours_to, self._ours_to_ms = ours_to, ours_to_ms
        self.damaged = 0
        """How many entries were met that were not what was written."""
        self.stale: set[int] = set()
        """The positions where another program has put a record since."""

    def __len__(self) -> int:
        return len(self._data) // SUM_BYTES

    def get(self, position: int) -> int | None:
        """Return the sum of the record at a position, or None if there is none. Quick for positions in order."""
        data, at = self._data, self._next
        if at + SUM_BYTES <= len(data):
            said, value, check = _read(data, at)
            if crc32(data[at : at + _SUM.size]) != check:
                self._drop_damaged()
            elif said == position:
                self._next = at + SUM_BYTES
                return int(value)
        return self._find(position)

    def _drop_damaged(self) -> None:
        """Go on with the sums that are whole, since a search by halves must not meet others."""
        if self._is_all_whole:
            return
        whole: list[bytes] = []
        for at in range(0, len(self) * SUM_BYTES, SUM_BYTES):
            entry = self._data[at : at + SUM_BYTES]
            if _is_whole(entry, 0):
                whole.append(entry)
            else:
                self.damaged += any(entry)  # zeros were never written
        self._data, self._next, self._is_all_whole = b"".join(whole), 0, True

    def is_next(self, position: int, value: int) -> bool:
        """Say whether the next sum in order is whole and this one. Quick: if not, `agree` looks closer."""
        at, entry = self._next, _pack(position, value)
        if self._data[at : at + SUM_BYTES] != entry + _pack_check(crc32(entry)):
            return False
        self._next = at + SUM_BYTES
        return True

    def _find(self, position: int) -> int | None:
        """Search for a sum out of order."""
        data, place = self._data, self._place(position)
        at = place * SUM_BYTES
        if place >= len(self) or _read_position(data, at)[0] != position or not _is_whole(data, at):
            return None
        self._next = at + SUM_BYTES
        return int(_read(data, at)[1])

    def _place(self, position: int) -> int:
        """Return how many sums are of records before a position."""
        data = self._data
        return bisect_left(range(len(self)), position, key=lambda each: _read_position(data, each * SUM_BYTES)[0])

    def agree(self, position: int, value: int, stored_ms: int) -> bool:
        """Say whether a record may be what it was: it has no sum, or this one, or another program wrote it since."""
        said = self.get(position)
        if said is None or said == value:
            return True
        if self._ours_to is None or (position < self._ours_to and stored_ms <= self._ours_to_ms):
            return False
        self.stale.add(position)
        return True

    def some(self, most: int) -> Iterator[int]:
        """Yield the positions of some sums that are whole, from all over the file."""
        for place in range(0, len(self), max(1, len(self) // most)):
            if _is_whole(self._data, place * SUM_BYTES):
                yield _read_position(self._data, place * SUM_BYTES)[0]

    def count(self, start: int, end: int) -> int:
        """Count the records that began between two positions, as far as sums are left."""
        last = (len(self) - 1) * SUM_BYTES
        if last < 0 or (_is_whole(self._data, last) and _read_position(self._data, last)[0] < start):
            return 0  # what is asked at every start: is anything known behind the end of the log
        self._drop_damaged()
        return self._place(end) - self._place(start)

    def without_stale(self) -> bytes:
        """Return the sums that are true: whole, and of records that are still there."""
        places = range(0, len(self) * SUM_BYTES, SUM_BYTES)
        return b"".join(
            self._data[at : at + SUM_BYTES]
            for at in places
            if _is_whole(self._data, at) and _read_position(self._data, at)[0] not in self.stale
        )
