"""Walking the log from record to record, and over what is damaged.

A record counts only if it is whole: its structure, the checksum of its body, the place it says it is at, and its sum
where there is one. Where none begins, the walk looks for the next one, in this file and in those that follow: what lies
between is damage, and is told. What comes after the last whole record is the tail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct

from steelyard.store.log import Segment
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

__all__ = ["Damage", "Found", "Walk", "find_whole"]

_read_head = IPV4_HEAD.layout.unpack_from
_HEAD_BYTES = IPV4_HEAD.size
_read_two_bytes = Layout(">h").unpack_from
_MAGIC_START = (V1_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")[:3]
_MAGIC_AT = 4
_CHUNK = 1 << 20


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


def find_whole(view: bytes | memoryview, at: int, position: int, sums: Sums | None = None) -> Found | None:
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
    topic_bytes = view[body_end] if magic == V1_MAGIC else _read_two_bytes(view, body_end)[0]
    topic_end = topic_at + topic_bytes
    properties_at = topic_end + 2
    if not 0 <= topic_bytes <= end - topic_at - 2 or properties_at + _read_two_bytes(view, topic_end)[0] != end:
        return None
    if crc32(view[body_at:body_end]) & 0x7FFFFFFF != crc or queue_id < 0 or offset < 0:
        return None
    if sums is not None:
        value = sums.get(position)
        if value is not None and value != record_sum(view[at:body_at], view[body_end:end]):
            return None
    return Found(
        position, size, bytes(view[topic_at:topic_end]), queue_id, offset, stored_ms, bytes(view[properties_at:end])
    )


class Walk:
    """One walk over all segments. `damages` and `end` are complete once it is through."""

    def __init__(self, segments: Sequence[Segment], sums: dict[int, Sums], start: int | None = None) -> None:
        self.segments = segments
        self.sums = sums
        self.damages: list[Damage] = []
        self.start = start if start is not None or not segments else segments[0].start
        self.end = self.start or 0
        """The position after the last whole record, or after the blank that follows it."""
        self._gap: list[Damage] = []
        """What is damage only if a whole record follows; otherwise it belongs to the tail."""

    def __iter__(self) -> Iterator[Found]:
        expected = segments[0].start if (segments := self.segments) else 0
        for segment in segments:
            if segment.start > expected:
                self._lost(segment, expected, segment.start, "missing")
            expected = segment.end
            yield from self._one(segment)

    def _one(self, segment: Segment) -> Iterator[Found]:
        sums = self.sums.get(segment.start)
        view, base = segment.view, segment.start
        at, limit = max(0, (self.start or 0) - base), len(segment.view)
        while at < limit:
            found = find_whole(view, at, base + at, sums)
            if found is not None:
                if self._gap:
                    self.damages += self._gap
                    self._gap.clear()
                yield found
                at += found.size
                self.end = base + at
                continue
            start = peek_record(view, at)
            if start is not None and start.magic == BLANK_MAGIC and start.size == segment.size - at >= BLANK_BYTES:
                self.end = segment.end
                return
            again = self._next_whole(view, at + 1, base, sums)
            if again is None:
                self._lost(segment, base + at, segment.end, "damaged")
                return
            self._lost(segment, base + at, base + again, "damaged")
            at = again

    def _next_whole(self, view: memoryview, at: int, base: int, sums: Sums | None) -> int | None:
        """Return where the next whole record begins, or None."""
        limit = len(view)
        while at < limit:
            chunk = bytes(view[at : at + _CHUNK])
            magic = chunk.find(_MAGIC_START)
            while magic >= 0:
                start = at + magic - _MAGIC_AT
                if start >= 0 and find_whole(view, start, base + start, sums) is not None:
                    return start
                magic = chunk.find(_MAGIC_START, magic + 1)
            at += max(1, len(chunk) - len(_MAGIC_START) + 1) if len(chunk) == _CHUNK else len(chunk)
        return None

    def _lost(self, segment: Segment, start: int, end: int, what: str) -> None:
        self._gap.append(Damage(segment.path, start, end - start, what=what))
