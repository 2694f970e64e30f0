"""Checksums of records without their bodies, in files beside the log.

A record carries a checksum of its body and none of anything else: a flipped bit in its offset or its properties would
be served as if it were true. So each record has an entry here: position, checksum of all its bytes but the body, and a
checksum of these two, so that a damaged entry is not mistaken for a damaged record. Entries are an addition: a record
without one (written by another program, or at the end of the log before a crash) is judged by what it carries.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import add
from struct import Struct as Layout
from zlib import crc32

_CHECKSUM = Layout(">qI")
_ENTRY = Layout(">qII")
CHECKSUM_BYTES = _ENTRY.size
CHECKSUMS_FOLDER = "steelyard/sums"

_pack = _CHECKSUM.pack
_pack_check = Layout(">I").pack
_read = _ENTRY.unpack_from
_read_position = Layout(">q").unpack_from


def checksums_path(segment_start: int) -> str:
    """Return the path of the checksums of a segment."""
    return f"{CHECKSUMS_FOLDER}/{segment_start:020d}"


def record_checksum(head: bytes | memoryview, rest: bytes | memoryview) -> int:
    """Return the checksum of a record without its body: of the bytes before it and behind it."""
    return crc32(rest, crc32(head))


def pack_checksums(records: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """Encode the entries of some records, each given by position, bytes before and bytes behind its body."""
    if len(records) == 1:
        ((position, head, tail),) = records
        return pack_checksum(position, crc32(tail, crc32(head)))
    # Column by column: loops in C over a intact flush, instead of one in Python per message.
    positions, heads, tails = zip(*records, strict=True)
    entries = list(map(_pack, positions, map(crc32, map(add, heads, tails))))
    return b"".join(chain.from_iterable(zip(entries, map(_pack_check, map(crc32, entries)), strict=True)))


def pack_checksum(position: int, value: int) -> bytes:
    """Encode the entry of one record."""
    entry = _pack(position, value)
    return entry + _pack_check(crc32(entry))


def checksum_bytes_before(data: bytes, end: int) -> int:
    """Return how many bytes of a checksum file belong to records before a position."""
    size = len(data) // CHECKSUM_BYTES * CHECKSUM_BYTES
    # A damaged entry says nothing about those before it, so it must not end the search.
    while size and not (
        _is_intact(data, size - CHECKSUM_BYTES) and _read_position(data, size - CHECKSUM_BYTES)[0] < end
    ):
        size -= CHECKSUM_BYTES
    return size


def _is_intact(data: bytes, at: int) -> bool:
    return crc32(data[at : at + _CHECKSUM.size]) == int.from_bytes(
        data[at + _CHECKSUM.size : at + CHECKSUM_BYTES], "big"
    )


class RecordChecksums:
    """The checksums of one segment, as read from its file: ordered by position, damaged entries dropped."""

    __slots__ = ("_data", "_is_all_intact", "_next", "_trusted_to", "_trusted_to_ms", "damaged", "stale")

    def __init__(self, data: bytes, trusted_to: int | None = None, trusted_to_ms: int = 0) -> None:
        self._data = data
        self._next = 0
        self._is_all_intact = False
        self._trusted_to, self._trusted_to_ms = trusted_to, trusted_to_ms
        self.damaged = 0
        """How many damaged entries were found."""
        self.stale: set[int] = set()
        """The positions where another program has written a record since."""

    def __len__(self) -> int:
        return len(self._data) // CHECKSUM_BYTES

    def get(self, position: int) -> int | None:
        """Return the checksum of the record at a position, or None. Fast for positions in order."""
        data, at = self._data, self._next
        if at + CHECKSUM_BYTES <= len(data):
            found, value, check = _read(data, at)
            if crc32(data[at : at + _CHECKSUM.size]) != check:
                self._drop_damaged()
            elif found == position:
                self._next = at + CHECKSUM_BYTES
                return int(value)
        return self._find(position)

    def _drop_damaged(self) -> None:
        """Keep only intact entries: a binary search must not meet others."""
        if self._is_all_intact:
            return
        intact: list[bytes] = []
        for at in range(0, len(self) * CHECKSUM_BYTES, CHECKSUM_BYTES):
            entry = self._data[at : at + CHECKSUM_BYTES]
            if _is_intact(entry, 0):
                intact.append(entry)
            else:
                self.damaged += any(entry)  # zeros were never written
        self._data, self._next, self._is_all_intact = b"".join(intact), 0, True

    def matches_next(self, position: int, value: int) -> bool:
        """Return whether the next entry in order is intact and equal. Fast; if not, `accepts` decides."""
        at, entry = self._next, _pack(position, value)
        if self._data[at : at + CHECKSUM_BYTES] != entry + _pack_check(crc32(entry)):
            return False
        self._next = at + CHECKSUM_BYTES
        return True

    def _find(self, position: int) -> int | None:
        """Find an entry out of order."""
        data, place = self._data, self._count_before(position)
        at = place * CHECKSUM_BYTES
        if place >= len(self) or _read_position(data, at)[0] != position or not _is_intact(data, at):
            return None
        self._next = at + CHECKSUM_BYTES
        return int(_read(data, at)[1])

    def _count_before(self, position: int) -> int:
        """Return the number of entries for records before a position."""
        data = self._data
        return bisect_left(range(len(self)), position, key=lambda each: _read_position(data, each * CHECKSUM_BYTES)[0])

    def accepts(self, position: int, value: int, stored_ms: int) -> bool:
        """Return whether a record may be intact: it has no checksum, this one, or another program wrote it since."""
        found = self.get(position)
        if found is None or found == value:
            return True
        if self._trusted_to is None or (position < self._trusted_to and stored_ms <= self._trusted_to_ms):
            return False
        self.stale.add(position)
        return True

    def sample_positions(self, max_count: int) -> Iterator[int]:
        """Yield the positions of some intact entries, spread over the file."""
        for place in range(0, len(self), max(1, len(self) // max_count)):
            if _is_intact(self._data, place * CHECKSUM_BYTES):
                yield _read_position(self._data, place * CHECKSUM_BYTES)[0]

    def count(self, start: int, end: int) -> int:
        """Count the records that began between two positions, as far as entries are left."""
        last = (len(self) - 1) * CHECKSUM_BYTES
        if last < 0 or (_is_intact(self._data, last) and _read_position(self._data, last)[0] < start):
            return 0  # fast path of every start: is anything known behind the end of the log?
        self._drop_damaged()
        return self._count_before(end) - self._count_before(start)

    def encode_current(self) -> bytes:
        """Return the intact entries of records that were not replaced."""
        places = range(0, len(self) * CHECKSUM_BYTES, CHECKSUM_BYTES)
        return b"".join(
            self._data[at : at + CHECKSUM_BYTES]
            for at in places
            if _is_intact(self._data, at) and _read_position(self._data, at)[0] not in self.stale
        )
