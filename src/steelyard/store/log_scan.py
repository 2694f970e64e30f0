"""Log scan: reads the log record by record, and skips what is damaged.

A record counts only if it is whole: its structure, the checksum of its body, the position that it claims, and its own
checksum where there is one. Where no record begins, the scan looks for the next one, in this file and those that
follow: what lies between is reported as damage. What follows the last whole record is the tail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct as Layout
from typing import Protocol
from zlib import crc32

from msgspec import Struct

from steelyard.model.formatting import pluralize
from steelyard.store.checksums import RecordChecksums, record_checksum
from steelyard.store.commit_log import COMMIT_LOG_FOLDER, Segment, segment_name
from steelyard.store.disk import File
from steelyard.wire.record import (
    BLANK_BYTES,
    BLANK_MAGIC,
    HEAD_LAYOUTS,
    IPV4_HEAD_LAYOUT,
    IPV6_BITS,
    MIN_RECORD_BYTES,
    V1_MAGIC,
    V2_MAGIC,
    peek_record,
)

_read_head = IPV4_HEAD_LAYOUT.layout.unpack_from
_HEAD_BYTES = IPV4_HEAD_LAYOUT.size
_read_one_byte = Layout(">b").unpack_from
_read_two_bytes = Layout(">h").unpack_from
_MAGIC_START = (V1_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")[:3]
_BLANK_MAGIC = (BLANK_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")
_MAGIC_AT = 4
_CHUNK = 1 << 20
_PROBE_BYTES = 1 << 12
"""How much is read to judge one record: most are shorter."""
_SECTOR_BYTES = 512
"""The unit that a disk writes whole or not at all."""

# The fields of the head that a scan needs; those in between are skipped.
_read_main_fields = Layout(">iiii4xqqi16xq20xi").unpack_from
_read_stored_fields = Layout(">ii20xqi16xq").unpack_from
_MAX_HEAD_BYTES = max(layout.size for layout in HEAD_LAYOUTS.values())


class ScannedRecord(Struct, frozen=True, gc=False):
    """A whole record: its position, and what the indexes need of it."""

    position: int
    size: int
    topic: bytes
    queue_id: int
    offset: int
    stored_ms: int
    properties: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no longer a message: in which file, where, how many, and how many messages as far as known."""

    path: str
    position: int
    size: int
    records: int | None = None
    what: str = "damaged"

    def __str__(self) -> str:
        lost = "" if self.records is None else f", {pluralize(self.records, 'message')} lost"
        return f"{self.path}, position {self.position}: {self.size} bytes are {self.what}{lost}"


class ChecksumsBySegment(Protocol):
    """The checksums of each segment, by its start."""

    def get(self, segment_start: int, /) -> RecordChecksums | None:
        """Return the checksums of a segment, or None if it has none."""


def check_record(
    view: bytes | memoryview,
    at: int,
    position: int,
    checksums: RecordChecksums | None = None,
    *,
    check_body: bool = True,
    may_be_torn: bool = True,
) -> ScannedRecord | None:
    """Read the record that begins at a byte if it is whole and claims to lie at ``position``; else None.

    What this process wrote cannot be torn by a power loss.
    """
    left = len(view) - at
    if left < MIN_RECORD_BYTES:
        return None
    (size, magic, crc, queue_id, _, offset, claimed, sys_flag, _, _, stored_ms, _, _, _, body_bytes) = _read_head(
        view, at
    )
    if claimed != position or size > left:
        return None
    body_at = at + _HEAD_BYTES
    if sys_flag & IPV6_BITS:
        head = HEAD_LAYOUTS[sys_flag & IPV6_BITS]
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
    if checksums is not None and not checksums.accepts(
        position, record_checksum(view[at:body_at], view[body_end:end]), stored_ms
    ):
        return None
    has_zeros = may_be_torn and (b"\0" in topic or b"\0" in properties)
    if has_zeros and _is_torn(view, at, body_end, end, position, checksums):
        return None
    return ScannedRecord(position, size, topic, queue_id, offset, stored_ms, properties)


def read_record(
    segment: Segment,
    at: int,
    checksums: RecordChecksums | None = None,
    *,
    check_body: bool = True,
    may_be_torn: bool = True,
    limit: int | None = None,
) -> ScannedRecord | None:
    """Read the record that begins at a byte of a file if it is whole, and if it ends before ``limit``; else None.

    By `File.read` and not by the view: the bytes may never have been written.
    """
    most = segment.size if limit is None else limit
    start = at - at % _SECTOR_BYTES
    data = segment.file.read(start, min(_PROBE_BYTES, most - start))
    size = _claimed_size(data, at - start, segment.start + at)
    if at + size > start + len(data) and at + size <= most:
        data = segment.file.read(start, at + size - start)
    return check_record(data, at - start, segment.start + at, checksums, check_body=check_body, may_be_torn=may_be_torn)


def read_stored_ms(segment: Segment, at: int, size: int) -> int | None:
    """Return when the record at a byte was stored; None if no head of a record of this size is there.

    The rest of it is neither read nor checked: some requests ask for the times of many thousand records.
    """
    data = segment.file.read(at, _MAX_HEAD_BYTES)
    if len(data) < _HEAD_BYTES:
        return None
    found_bytes, magic, claimed, sys_flag, stored_ms = _read_stored_fields(data)
    if claimed != segment.start + at or found_bytes != size or magic not in (V1_MAGIC, V2_MAGIC):
        return None
    if sys_flag & IPV6_BITS:
        head = HEAD_LAYOUTS[sys_flag & IPV6_BITS]
        if len(data) < head.size:
            return None
        stored_ms = head.layout.unpack_from(data)[10]
    return int(stored_ms)


def _claimed_size(data: bytes, at: int, position: int) -> int:
    """Return the size that the record at a byte claims, if it claims to lie at ``position``; else 0."""
    if len(data) - at < MIN_RECORD_BYTES:
        return 0
    size, magic, _, _, _, claimed, _, _, _ = _read_main_fields(data, at)
    return max(size, 0) if claimed == position and magic in (V1_MAGIC, V2_MAGIC) else 0


def _is_torn(
    view: bytes | memoryview, at: int, body_end: int, end: int, position: int, checksums: RecordChecksums | None
) -> bool:
    """Return whether a record without a checksum lacks a sector of what follows its body.

    A power loss leaves zeros for each sector that was not written yet. The sizes in the head and the checksum of the
    body detect that; for topic and properties nothing does. But no text has a whole sector of zeros.
    """
    if checksums is not None and checksums.get(position) is not None:
        return False
    first = max(body_end - body_end % _SECTOR_BYTES, at + 1)
    places = range(first + -first % _SECTOR_BYTES, end, _SECTOR_BYTES)
    return any(not any(view[place : min(place + _SECTOR_BYTES, end)]) for place in places)


def _is_blank(segment: Segment, at: int) -> bool:
    """Return whether a blank begins at a byte: its size must be what is left of the file."""
    start = peek_record(segment.file.read(at, BLANK_BYTES))
    return start is not None and start.magic == BLANK_MAGIC and start.size == segment.size - at >= BLANK_BYTES


def _scan_checksummed(window: bytes, at: int, base: int, checksums: RecordChecksums) -> Iterator[ScannedRecord]:
    """Yield records while each is of the usual kind and matches the next checksum; `check_record` judges the rest.

    The same judgement, made fast: a record that matches its checksum is what we wrote, so only its body needs a check.
    """
    limit, is_next = len(window), checksums.matches_next
    while at + MIN_RECORD_BYTES <= limit:
        size, magic, crc, queue_id, offset, position, sys_flag, stored_ms, body_bytes = _read_main_fields(window, at)
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
        yield ScannedRecord(position, size, topic, queue_id, offset, stored_ms, properties)
        at = end


def _candidate_starts(file: File, after: int, limit: int, magic: bytes) -> Iterator[int]:
    """Yield the bytes in a range where a record or blank with this magic may begin."""
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


class LogScan:
    """One scan of all segments, or from one position to another. `damages` and `end` are complete once it is done."""

    def __init__(
        self,
        segments: Sequence[Segment],
        checksums: ChecksumsBySegment,
        start: int | None = None,
        stop: int | None = None,
        *,
        may_be_torn: bool = True,
    ) -> None:
        self.segments = segments
        self.checksums = checksums
        self.damages: list[Damage] = []
        self.lost_bytes = 0
        """The total size of all damages."""
        self.start = start if start is not None or not segments else segments[0].start
        self._stop, self._may_be_torn = stop, may_be_torn
        self.end = self.start or 0
        """The position after the last whole record, or after the blank that follows it."""
        self.body_damaged: list[ScannedRecord] = []
        """Records of which only the body is damaged: their place in a queue is known, and that they are lost."""
        self._gap: list[Damage] = []
        """Damage only if a whole record follows; otherwise part of the tail."""

    def __iter__(self) -> Iterator[ScannedRecord]:
        expected = segments[0].start if (segments := self.segments) else 0
        for segment in segments:
            if segment.start > expected:
                self._add_gap(f"{COMMIT_LOG_FOLDER}/{segment_name(expected)}", expected, segment.start, "missing")
            expected = segment.end
            yield from self._scan_segment(segment)

    def _scan_segment(self, segment: Segment) -> Iterator[ScannedRecord]:
        checksums = self.checksums.get(segment.start)
        base, limit = segment.start, min(segment.file.size, segment.size)
        if self._stop is not None:
            limit = max(0, min(limit, self._stop - base))
        at = max(0, (self.start or 0) - base)
        # A window begins at a sector, because torn records are recognised by whole sectors.
        window, window_at = b"", at
        while at < limit:
            if at >= window_at + len(window):
                window_at = at - at % _SECTOR_BYTES
                window = segment.file.read(window_at, min(_CHUNK, limit - window_at))
            for found in (
                _scan_checksummed(window, at - window_at, base + window_at, checksums) if checksums is not None else ()
            ):
                if self._gap:
                    self._confirm_gap()
                yield found
                at += found.size
                self.end = base + at
            if at >= limit:
                break
            # The record may reach beyond the window.
            may_be_torn = self._may_be_torn
            record = check_record(window, at - window_at, base + at, checksums, may_be_torn=may_be_torn) or read_record(
                segment, at, checksums, may_be_torn=may_be_torn, limit=limit
            )
            if record is not None:
                self._confirm_gap()
                yield record
                at += record.size
                self.end = base + at
                continue
            if at + BLANK_BYTES <= limit and _is_blank(segment, at):
                if not self._gap:
                    self.end = segment.end
                return
            resume_at = self._find_next(segment, at, limit, checksums)
            if resume_at is None:
                self._add_gap(segment.path, base + at, segment.end, "damaged")
                return
            self._add_gap(segment.path, base + at, base + resume_at, "damaged")
            at = resume_at
        if at < segment.size and self._stop is None:
            self._add_gap(segment.path, base + at, segment.end, "missing")  # the file was truncated

    def _confirm_gap(self) -> None:
        """Report the gap as damage, since a whole record followed."""
        if self._gap:
            self.lost_bytes += sum(damage.size for damage in self._gap)
            self.damages += self._gap
            self._gap.clear()

    def _find_next(self, segment: Segment, at: int, limit: int, checksums: RecordChecksums | None) -> int | None:
        """Return where to continue after a position that holds no whole record, or None."""
        base = segment.start
        if checksums is not None and checksums.get(base + at) is not None:
            hit = read_record(segment, at, checksums, check_body=False, limit=limit)
            if hit is not None and hit.position not in checksums.stale:
                self.body_damaged.append(hit)
                # Only the body is damaged, so this is where it ends. A search inside it could find a record that its
                # sender has put there.
                return at + hit.size
        searched = min(limit, segment.written_bytes)
        for start in _candidate_starts(segment.file, at, searched, _MAGIC_START):
            if read_record(segment, start, checksums, limit=limit) is not None:
                return start
        # A blank is not damage; its size and position must match.
        blanks = (
            start for start in _candidate_starts(segment.file, at, searched, _BLANK_MAGIC) if _is_blank(segment, start)
        )
        return next(blanks, None)

    def _add_gap(self, path: str, start: int, end: int, what: str) -> None:
        self._gap.append(Damage(path, start, end - start, what=what))
