"""Walking the log from record to record, and over what is damaged.

A record counts only if it is whole: its structure, the checksum of its body, the place it says it is at, and its sum
where there is one. Where none begins, the walk looks for the next one, in this file and in those that follow: what lies
between is damage, and is told. What comes after the last whole record is the tail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct as Layout
from typing import Protocol
from zlib import crc32

from msgspec import Struct

from steelyard.store.disk import File
from steelyard.store.log import LOG_FOLDER, Segment, segment_name
from steelyard.store.sums import Sums, record_sum
from steelyard.wire.record_layout import (
    BLANK_BYTES,
    BLANK_MAGIC,
    HEADS,
    IPV4_HEAD,
    IPV6_BITS,
    SMALLEST_BYTES,
    V1_MAGIC,
    V2_MAGIC,
    peek_record,
)

__all__ = ["Damage", "Found", "SumsBySegment", "Walk", "find_whole", "read_whole"]

_read_head = IPV4_HEAD.layout.unpack_from
_HEAD_BYTES = IPV4_HEAD.size
_read_one_byte = Layout(">b").unpack_from
_read_two_bytes = Layout(">h").unpack_from
_MAGIC_START = (V1_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")[:3]
_BLANK_MAGIC = (BLANK_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")
_MAGIC_AT = 4
_CHUNK = 1 << 20
_PIECE = 1 << 12
"""What is read to judge one record: most are shorter."""
_SECTOR_BYTES = 512
"""What a disk writes whole or not at all."""

# The fields of the head that are asked for most; those in between are skipped.
_read_some = Layout(">iiii4xqqi16xq20xi").unpack_from


class Found(Struct, frozen=True, gc=False):
    """A whole record: where it lies and what an index needs of it."""

    position: int
    size: int
    topic: bytes
    queue_id: int
    offset: int
    stored_ms: int
    properties: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no message any more: in which file, where, how many, and how many messages as far as known."""

    path: str
    position: int
    size: int
    records: int | None = None
    what: str = "damaged"

    def __str__(self) -> str:
        lost = "" if self.records is None else f", {self.records} messages lost"
        return f"{self.path}, position {self.position}: {self.size} bytes are {self.what}{lost}"


class SumsBySegment(Protocol):
    """Where the sums of a segment are found, by its start."""

    def get(self, segment_start: int, /) -> Sums | None:
        """Return the sums of a segment, or None if it has none."""


def find_whole(
    view: bytes | memoryview, at: int, position: int, sums: Sums | None = None, *, check_body: bool = True
) -> Found | None:
    """Read the record that begins at a byte if it is whole and says that it lies at ``position``; else None."""
    left = len(view) - at
    if left < SMALLEST_BYTES:
        return None
    (size, magic, crc, queue_id, _, offset, said, sys_flag, _, _, stored_ms, _, _, _, body_bytes) = _read_head(view, at)
    if said != position or size > left:
        return None
    body_at = at + _HEAD_BYTES
    if sys_flag & IPV6_BITS:
        head = HEADS[sys_flag & IPV6_BITS]
        if left < head.size:
            return None
        stored_ms, body_bytes = head.layout.unpack_from(view, at)[10::4]
        body_at = at + head.size
    end, body_end = at + size, body_at + body_bytes
    if magic == V1_MAGIC:
        topic_at = body_end + 1
    elif magic == V2_MAGIC:
        topic_at = body_end + 2
    else:
        return None
    if body_bytes < 0 or topic_at + 2 > end:
        return None
    (topic_bytes,) = (_read_one_byte if magic == V1_MAGIC else _read_two_bytes)(view, body_end)
    topic_end = topic_at + topic_bytes
    properties_at = topic_end + 2
    if not 0 <= topic_bytes <= end - topic_at - 2 or properties_at + _read_two_bytes(view, topic_end)[0] != end:
        return None
    if queue_id < 0 or offset < 0 or (check_body and crc32(view[body_at:body_end]) & 0x7FFFFFFF != crc):
        return None
    topic, properties = bytes(view[topic_at:topic_end]), bytes(view[properties_at:end])
    if sums is not None and not sums.agree(position, record_sum(view[at:body_at], view[body_end:end]), stored_ms):
        return None
    if (b"\0" in topic or b"\0" in properties) and _is_torn(view, at, body_end, end, position, sums):
        return None
    return Found(position, size, topic, queue_id, offset, stored_ms, properties)


def read_whole(
    segment: Segment, at: int, sums: Sums | None = None, *, check_body: bool = True, limit: int | None = None
) -> Found | None:
    """Read the record that begins at a byte of a file if it is whole, and if it ends before ``limit``; else None.

    It is read and not looked at: nobody knows yet that anything was written there.
    """
    most = segment.size if limit is None else limit
    start = at - at % _SECTOR_BYTES
    data = segment.file.read(start, min(_PIECE, most - start))
    size = _claimed_size(data, at - start, segment.start + at)
    if at + size > start + len(data) and at + size <= most:
        data = segment.file.read(start, at + size - start)
    return find_whole(data, at - start, segment.start + at, sums, check_body=check_body)


def _claimed_size(data: bytes, at: int, position: int) -> int:
    """Return how long the record at a byte says it is, if it says that it lies at ``position``; else 0."""
    if len(data) - at < SMALLEST_BYTES:
        return 0
    size, magic, _, _, _, said, _, _, _ = _read_some(data, at)
    return max(size, 0) if said == position and magic in (V1_MAGIC, V2_MAGIC) else 0


def _is_torn(view: bytes | memoryview, at: int, body_end: int, end: int, position: int, sums: Sums | None) -> bool:
    """Say whether a record without a sum lacks a piece of what follows its body.

    A loss of power leaves zeros for each sector that was not written yet. The head's own sizes, and the checksum of the
    body, tell if they lack one; in names and properties nothing does. But no text has a sector's worth of zeros.
    """
    if sums is not None and sums.get(position) is not None:
        return False
    first = max(body_end - body_end % _SECTOR_BYTES, at + 1)
    places = range(first + -first % _SECTOR_BYTES, end, _SECTOR_BYTES)
    return any(not any(view[place : min(place + _SECTOR_BYTES, end)]) for place in places)


def _is_blank(segment: Segment, at: int) -> bool:
    """Say whether a blank begins at a byte: it tells its size, which is what is left of the file."""
    start = peek_record(segment.file.read(at, BLANK_BYTES))
    return start is not None and start.magic == BLANK_MAGIC and start.size == segment.size - at >= BLANK_BYTES


def _find_summed(window: bytes, at: int, base: int, sums: Sums) -> Iterator[Found]:
    """Yield records as long as each is the usual kind and its sum is the next; the rest is for `find_whole` to judge.

    This is the same judgement made quickly. A record that agrees with its sum is what we wrote, so that no part of it
    needs a check of its own, but for the body.
    """
    limit, is_next = len(window), sums.is_next
    while at + SMALLEST_BYTES <= limit:
        size, magic, crc, queue_id, offset, position, sys_flag, stored_ms, body_bytes = _read_some(window, at)
        body_at = at + _HEAD_BYTES
        body_end, end = body_at + body_bytes, at + size
        if magic != V1_MAGIC or sys_flag & IPV6_BITS or position != base + at or not body_at <= body_end < end <= limit:
            return
        if crc32(window[body_at:body_end]) & 0x7FFFFFFF != crc:
            return
        if not is_next(position, crc32(window[at:body_at] + window[body_end:end])):
            return
        topic_at = body_end + 1
        topic_end = topic_at + window[body_end]
        topic, properties = window[topic_at:topic_end], window[topic_end + 2 : end]
        yield Found(position, size, topic, queue_id, offset, stored_ms, properties)
        at = end


def _starts(file: File, after: int, limit: int, magic: bytes) -> Iterator[int]:
    """Yield where something with a magic may begin, between two bytes."""
    at = after + 1 + _MAGIC_AT
    while at < limit:
        chunk = file.read(at, min(_CHUNK, limit - at))
        if not chunk:
            return
        found = chunk.find(magic)
        while found >= 0:
            yield at + found - _MAGIC_AT
            found = chunk.find(magic, found + 1)
        # A magic may lie across two chunks.
        at += len(chunk) - (len(magic) - 1) if len(chunk) == _CHUNK else len(chunk)


class Walk:
    """One walk over all segments, or from one position to another. Complete once it is through: `damages`, `end`."""

    def __init__(
        self, segments: Sequence[Segment], sums: SumsBySegment, start: int | None = None, stop: int | None = None
    ) -> None:
        self.segments = segments
        self.sums = sums
        self.damages: list[Damage] = []
        self.lost_bytes = 0
        """How many bytes all damages have."""
        self.start = start if start is not None or not segments else segments[0].start
        self._stop = stop
        self.end = self.start or 0
        """The position after the last whole record, or after the blank that follows it."""
        self.hit: list[Found] = []
        """Records of which only the body was hit: what they were is known, and that they are lost."""
        self._gap: list[Damage] = []
        """What is damage only if a whole record follows; otherwise it belongs to the tail."""

    def __iter__(self) -> Iterator[Found]:
        expected = segments[0].start if (segments := self.segments) else 0
        for segment in segments:
            if segment.start > expected:
                self._lost(f"{LOG_FOLDER}/{segment_name(expected)}", expected, segment.start, "missing")
            expected = segment.end
            yield from self._one(segment)

    def _one(self, segment: Segment) -> Iterator[Found]:
        sums = self.sums.get(segment.start)
        base, limit = segment.start, min(segment.file.size, segment.size)
        if self._stop is not None:
            limit = max(0, min(limit, self._stop - base))
        at = max(0, (self.start or 0) - base)
        # A window begins where a sector does, since whether a record is torn is a matter of sectors.
        window, window_at = b"", at
        while at < limit:
            if at >= window_at + len(window):
                window_at = at - at % _SECTOR_BYTES
                window = segment.file.read(window_at, min(_CHUNK, limit - window_at))
            for found in _find_summed(window, at - window_at, base + window_at, sums) if sums is not None else ():
                if self._gap:
                    self._close_gap()
                yield found
                at += found.size
                self.end = base + at
            if at >= limit:
                break
            # It may not be all in the window.
            careful = find_whole(window, at - window_at, base + at, sums) or read_whole(segment, at, sums, limit=limit)
            if careful is not None:
                self._close_gap()
                yield careful
                at += careful.size
                self.end = base + at
                continue
            if at + BLANK_BYTES <= limit and _is_blank(segment, at):
                if not self._gap:
                    self.end = segment.end
                return
            again = self._next_place(segment, at, limit, sums)
            if again is None:
                self._lost(segment.path, base + at, segment.end, "damaged")
                return
            self._lost(segment.path, base + at, base + again, "damaged")
            at = again
        if at < segment.size and self._stop is None:
            self._lost(segment.path, base + at, segment.end, "missing")  # the file was cut short

    def _close_gap(self) -> None:
        """Note that a whole record followed what was in between."""
        self.lost_bytes += sum(damage.size for damage in self._gap)
        self.damages += self._gap
        self._gap.clear()

    def _next_place(self, segment: Segment, at: int, limit: int, sums: Sums | None) -> int | None:
        """Return where to go on after a place that holds no whole record, or None."""
        base = segment.start
        if sums is not None and sums.get(base + at) is not None:
            hit = read_whole(segment, at, sums, check_body=False, limit=limit)
            if hit is not None and hit.position not in sums.stale:
                self.hit.append(hit)
                # Only the body was hit, so this is where it ends. Looking for a record in it would find what its
                # sender may have put there.
                return at + hit.size
        searched = min(limit, segment.written)
        for start in _starts(segment.file, at, searched, _MAGIC_START):
            if read_whole(segment, start, sums, limit=limit) is not None:
                return start
        # A blank is not damage, and its size and place must fit.
        blanks = (start for start in _starts(segment.file, at, searched, _BLANK_MAGIC) if _is_blank(segment, start))
        return next(blanks, None)

    def _lost(self, path: str, start: int, end: int, what: str) -> None:
        self._gap.append(Damage(path, start, end - start, what=what))
