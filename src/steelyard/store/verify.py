"""Verification: checks a whole directory, ours or Apache's, without changing it or taking its lock.

The log is scanned from end to end, then everything beside it is compared with it: consume queues both ways, checksums,
key indexes, and the JSON documents by their own checksums. *Damage* is what is not as it was written: a message is or
may be lost, or a file is wrong about the log. A *note* is what a crash or another program left, and the next start
repairs without loss. What follows the last whole message is an unfinished write, and a note, unless something knew of
a message there (the last close, a consume queue, a checksum): otherwise none was acknowledged.

Beside a running broker the report is a moment old; a range that looked broken is checked again at the end. Left out:
Apache's own key index (``index/``) and its queues of other kinds, which its broker rebuilds from the log; messages that
a power loss took before anything else knew of them.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from struct import Struct as Layout
from typing import Any
from zlib import crc32

from msgspec import Struct

from steelyard.errors import NotAStore
from steelyard.model.formatting import pluralize
from steelyard.store.checksums import CHECKSUM_BYTES, CHECKSUMS_FOLDER, RecordChecksums, checksums_path
from steelyard.store.commit_log import COMMIT_LOG_FOLDER, Segment, segment_name, segment_starts
from steelyard.store.consume_queue import (
    CONSUME_QUEUE_FOLDER,
    DELETED_QUEUES,
    ENTRY_BYTES,
    HOLE_SIZE,
    ConsumeQueue,
    ConsumeQueues,
    deleted_queue_ends,
    load_consume_queues,
)
from steelyard.store.directory import inspect_directory
from steelyard.store.disk import Disk
from steelyard.store.json_documents import (
    CLEAN_SHUTDOWN,
    DELAY_OFFSETS,
    GROUP_OFFSETS,
    GROUPS,
    STORE_FORMAT,
    SUBSCRIPTIONS,
    TOPICS,
    CleanShutdown,
    JsonDocument,
    LoadedDocument,
    load_document,
)
from steelyard.store.key_index import KeyIndex, key_index_path
from steelyard.store.log_scan import Damage, LogScan, ScannedRecord, read_record
from steelyard.store.tags_code import SCHEDULE_TOPIC, compute_tags_code
from steelyard.wire.record import MIN_RECORD_BYTES


class StoreFinding(Struct, frozen=True, gc=False):
    """One finding. A position counts from the very first byte, as file names do.

    >>> print(StoreFinding("commitlog/00000000000000000000", 4096, 180, "no message", lost=1))
    commitlog/00000000000000000000, position 4096, 180 bytes: no message, 1 message lost
    """

    path: str
    position: int
    size: int
    what: str
    lost: int | None = None
    """How many messages it cost; None if that is unknown."""
    is_damage: bool = True

    def __str__(self) -> str:
        lost = "" if self.lost is None else f", {pluralize(self.lost, 'message')} lost"
        return f"{self.path}, position {self.position}, {pluralize(self.size, 'byte')}: {self.what}{lost}"


class VerificationReport(Struct, frozen=True):
    """The contents of a directory, and whether it is sound."""

    state: str
    """How it was closed, in words."""
    segments: int
    bytes: int
    """The size of the log, from its oldest message to its end."""
    messages: int
    topics: int
    queues: int
    findings: tuple[StoreFinding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there is no damage; notes do not count."""
        return not any(finding.is_damage for finding in self.findings)


_pack_place = Layout(">qi").pack
_read_tags_code = Layout(">q").unpack_from
_PLACE_BYTES = 12

_UNSEEN, _CONFIRMED, _MISMATCHED = 0, 1, 2

# Lower than any tag's hash: Apache writes such codes when it keeps more about a message in files of its own.
_EXT_ADDRESS_LIMIT = -(1 << 31)


class _ConsumeQueueCheck:
    """One consume queue compared with the log, both ways: entries without a message, and messages without an entry.

    The entries are a copy made before the scan: what a running broker adds meanwhile has messages and no entry here,
    which is a note and no damage. A queue that restarts at a lower offset belongs to a topic that was deleted and
    created again: older messages have no entry and need none. Nor do messages that our broker deleted with their topic.
    """

    __slots__ = ("_deleted_to", "_entry_states", "_first_missing", "_next", "_path", "_queue", "_seen_to", "missing")

    def __init__(self, topic: bytes, queue_id: int, queue: ConsumeQueue | None, deleted_to: int = 0) -> None:
        self._path = f"{CONSUME_QUEUE_FOLDER}/{topic.decode(errors='backslashreplace')}/{queue_id}"
        self._queue = queue if queue is not None else ConsumeQueue()
        self._deleted_to = deleted_to
        self._queue.drop_below(min(deleted_to, self._queue.end))
        self._entry_states = bytearray(self._queue.end - self._queue.start)
        self.missing = 0
        """The number of messages without an entry."""
        self._first_missing = 0
        self._next = -1
        self._seen_to = 0

    def compare(self, record: ScannedRecord) -> tuple[int, int]:
        """Compare with one message of the log; return how many are missing before it, and since which position.

        Those with an entry do not count: their entry says where they were.
        """
        index, offset = self._queue, record.offset
        gap, since = offset - self._next if self._next >= 0 else 0, self._seen_to
        missing = gap - self._entries_between(self._next, offset) if gap > 0 else 0
        self._next, self._seen_to = offset + 1, record.position
        at = offset - index.start
        if offset < self._deleted_to:
            return missing, since
        if not 0 <= at < len(self._entry_states):
            self._first_missing = self._first_missing if self.missing else offset
            self.missing += 1
        elif _matches_entry(record, index.entries, at * ENTRY_BYTES):
            if gap < 0:
                self.missing = 0
                self._entry_states[at:] = self._entry_states[at:].replace(bytes((_MISMATCHED,)), bytes((_UNSEEN,)))
            self._entry_states[at] = _CONFIRMED
        elif self._entry_states[at] == _UNSEEN:
            self._entry_states[at] = _MISMATCHED
        return missing, since

    def _entries_between(self, start: int, end: int) -> int:
        start, end = max(start, self._queue.start), min(end, self._queue.end)
        return sum(size != HOLE_SIZE for _, size, _ in self._queue.iter_entries(start, end)) if start < end else 0

    def unseen_positions(self, log_start: int) -> Iterator[int]:
        """Yield the positions of entries whose message the scan did not find."""
        if _UNSEEN in self._entry_states:
            for offset, state in enumerate(self._entry_states, self._queue.start):
                if state == _UNSEEN and self._should_exist(offset, log_start):
                    yield self._queue.entry(offset).position

    def _should_exist(self, offset: int, log_start: int) -> bool:
        entry = self._queue.entry(offset)
        return not entry.is_hole and entry.position >= log_start

    def missing_entries(self) -> Iterator[StoreFinding]:
        """Yield a finding if messages have no entry: damage after a clean close, usual after a crash."""
        if self.missing:
            what = f"{pluralize(self.missing, 'message')} without entry, from offset {self._first_missing} on"
            yield self._finding(self._first_missing, self.missing, what)

    def mismatched_entries(self, log_start: int, is_reported: Callable[[int], bool]) -> Iterator[StoreFinding]:
        """Yield entries that do not match the log; ``is_reported`` tells whether the loss at a position is reported."""
        if _UNSEEN not in self._entry_states and _MISMATCHED not in self._entry_states:
            return
        for state, run in groupby(enumerate(self._entry_states, self._queue.start), key=lambda pair: pair[1]):
            offsets = [offset for offset, _ in run]
            if state == _UNSEEN:
                offsets = [
                    offset
                    for offset in offsets
                    if self._should_exist(offset, log_start) and not is_reported(self._queue.entry(offset).position)
                ]
            if state != _CONFIRMED and offsets:
                verb = "point elsewhere than at their messages" if state == _MISMATCHED else "point at no message"
                what = f"entries from offset {offsets[0]} on {verb} ({len(offsets)} of them)"
                yield self._finding(offsets[0], len(offsets), what, None if state == _MISMATCHED else len(offsets))

    def _finding(self, offset: int, count: int, what: str, lost: int | None = None) -> StoreFinding:
        return StoreFinding(self._path, offset * ENTRY_BYTES, count * ENTRY_BYTES, what, lost)


def _matches_entry(record: ScannedRecord, entries: bytearray, at: int) -> bool:
    """Return whether the entry at a byte is that of a message."""
    if entries[at : at + _PLACE_BYTES] != _pack_place(record.position, record.size):
        return False
    tags_code: int = _read_tags_code(entries, at + _PLACE_BYTES)[0]
    if record.topic == SCHEDULE_TOPIC and tags_code >= record.stored_ms:
        return True  # the delay of each level is a setting of the broker that wrote it
    # Apache's 4.9 writes the tag's hash for delayed messages too when it repairs a consume queue.
    return tags_code < _EXT_ADDRESS_LIMIT or tags_code == compute_tags_code(b"", record.properties, record.stored_ms)


ProgressCallback = Callable[[int, int], None]
"""Called now and then with the bytes of the log that are done, and their total."""

_REPORT_EVERY = 4096
_iter_checksums = Layout(">q4x4s").iter_unpack
_DOCUMENTS: tuple[JsonDocument[Any], ...] = (
    TOPICS,
    GROUPS,
    GROUP_OFFSETS,
    DELAY_OFFSETS,
    SUBSCRIPTIONS,
    DELETED_QUEUES,
    STORE_FORMAT,
    CLEAN_SHUTDOWN,
)
_LMQ_PREFIX = b"%LMQ%"
"""Apache's light message queues: their entries point at messages of other topics."""


@contextmanager
def open_read_only(disk: Disk) -> Iterator[list[Segment]]:
    """Open the log of a directory for reading; `NotAStore` if there is none."""
    names = disk.names("")
    if COMMIT_LOG_FOLDER not in names and "steelyard" not in names:
        holds = f"holds {', '.join(names[:3])}, which no broker wrote" if names else "is empty, or not there"
        raise NotAStore(f"the directory {holds}", next_step="give one that a broker wrote")
    segments = inspect_directory(disk, 0).segments
    try:
        yield segments
    finally:
        for segment in segments:
            segment.file.close()


def verify_store(disk: Disk, report_progress: ProgressCallback) -> VerificationReport:
    """Check everything in a directory."""
    # Consume queues first: while a broker writes, the log is ahead of everything beside it, and never behind.
    known = load_consume_queues(disk)
    with open_read_only(disk) as segments:
        verification = _Verification(disk, known, segments, is_clean="abort" not in disk.names(""))
        messages = verification.scan(report_progress)
        findings = tuple(verification.findings())
    return VerificationReport(
        verification.describe_state(),
        len(segments),
        max(0, verification.end - segments[0].start) if segments else 0,
        messages,
        len({topic for topic, _ in verification.checks}),
        len(verification.checks),
        findings,
    )


@dataclass(slots=True)
class _Verification:
    """One verification: what was loaded before the scan, and what the scan found."""

    disk: Disk
    known_queues: ConsumeQueues
    segments: list[Segment]
    is_clean: bool
    end: int = 0
    checks: dict[tuple[bytes, int], _ConsumeQueueCheck] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)
    """Known lost messages by the position of the damage."""
    checksums: dict[int, bytes] = field(default_factory=dict)
    closed: LoadedDocument[CleanShutdown] = field(default_factory=lambda: LoadedDocument(None))
    topics: frozenset[str] | None = None
    deleted: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """The offset below which a queue was deleted with its topic."""

    def scan(self, report_progress: ProgressCallback) -> int:
        """Scan the log, comparing on the way; return the number of messages."""
        disk = self.disk
        self.closed = load_document(disk, CLEAN_SHUTDOWN)
        table = load_document(disk, TOPICS).value
        self.topics = None if table is None else frozenset(table.topics)
        # Checksums of a missing file prove that it existed.
        starts = {each.start for each in self.segments} | set(segment_starts(disk, CHECKSUMS_FOLDER))
        self.checksums = {start: disk.read(checksums_path(start)) or b"" for start in sorted(starts)}
        self.deleted = deleted_queue_ends(disk)
        self.checks = {
            queue: _ConsumeQueueCheck(*queue, index, self.deleted.get(queue, 0))
            for queue, index in self.known_queues.items()
            if not queue[0].startswith(_LMQ_PREFIX)
        }
        scan = LogScan(self.segments, {start: RecordChecksums(data) for start, data in self.checksums.items() if data})
        first = self.segments[0].start if self.segments else 0
        size = sum(len(segment.view) for segment in self.segments)
        messages = 0
        for found in scan:
            self._compare(found, scan.damages)
            messages += 1
            if messages % _REPORT_EVERY == 0:
                report_progress(found.position - first, size)
        report_progress(size, size)
        self.end = scan.end
        self.damages = [damage for damage in scan.damages if not self._is_intact_now(damage)]
        return messages

    def _compare(self, record: ScannedRecord, damages: list[Damage]) -> None:
        queue = record.topic, record.queue_id
        check = self.checks.get(queue)
        if check is None:
            check = self.checks[queue] = _ConsumeQueueCheck(*queue, None, self.deleted.get(queue, 0))
        missing, since = check.compare(record)
        if missing and damages:
            # The queue's offsets tell what was lost: in the first damage since its last message that is large enough.
            for damage in damages:
                if since < damage.position < record.position and missing <= damage.size // MIN_RECORD_BYTES:
                    self.lost[damage.position] = self.lost.get(damage.position, 0) + missing
                    break

    def _is_intact_now(self, damage: Damage) -> bool:
        """Return whether a range that looked broken is whole by now: a broker was just writing there."""
        segment = next((each for each in self.segments if each.path == damage.path), None)
        position, end = damage.position, damage.position + damage.size
        checksums = RecordChecksums(self.checksums[segment.start]) if segment is not None else None
        while segment is not None and segment.start <= position < end:
            found = read_record(segment, position - segment.start, checksums)
            if found is None:
                return False
            position += found.size
        return position == end

    def describe_state(self) -> str:
        """Return how the directory was closed."""
        if not self.is_clean:
            return "not closed: a broker has it open, or the last one crashed"
        closed = self.closed.value
        is_longer = closed is not None and closed.end < self.end
        return "closed cleanly, and used by another program since" if is_longer else "closed cleanly"

    def findings(self) -> Iterator[StoreFinding]:
        """Yield all findings, the log first."""
        beyond = self._count_known_beyond()
        start = self.segments[0].start if self.segments else 0
        for damage in self.damages:
            what = "is missing" if damage.what == "missing" else "no message"
            yield StoreFinding(damage.path, damage.position, damage.size, what, self.lost.get(damage.position))
        yield from self._check_tail(beyond)
        for segment in self.segments:
            if len(segment.view) != segment.size:
                what = f"the file should have {segment.size} bytes and has {len(segment.view)}"
                yield StoreFinding(segment.path, segment.start, len(segment.view), what, is_damage=self.is_clean)
        yield from self._check_consume_queues(start)
        yield from self._check_unread_queues()
        yield from self._check_checksums()
        yield from self._check_documents()
        for segment in self.segments:
            content = self.disk.read(key_index_path(segment.start))
            if content is not None and KeyIndex.load(self.disk, segment.start) is None:
                what = "the key index is damaged; it is rebuilt from the log"
                yield StoreFinding(key_index_path(segment.start), 0, len(content), what, 0)

    def _is_reported(self, position: int) -> bool:
        """Return whether the loss at a position is reported with the log."""
        return position >= self.end or self._damage_at(position) is not None

    def _damage_at(self, position: int) -> Damage | None:
        place = bisect_right(self.damages, position, key=lambda damage: damage.position) - 1
        damage = self.damages[place] if place >= 0 else None
        return damage if damage is not None and position < damage.position + damage.size else None

    def _count_known_beyond(self) -> int:
        """Count known messages behind the end of the log, and add those that queues knew to the damage they are in."""
        start = self.segments[0].start if self.segments else 0
        beyond = 0
        for check in self.checks.values():
            for position in check.unseen_positions(start):
                damage = self._damage_at(position)
                if damage is not None:
                    self.lost[damage.position] = self.lost.get(damage.position, 0) + 1
                beyond += position >= self.end
        by_checksums = sum(
            position >= self.end
            for data in self.checksums.values()
            for position, whole in _parse_checksums(data)
            if whole
        )
        return max(beyond, by_checksums)

    def _check_tail(self, beyond: int) -> Iterator[StoreFinding]:
        closed = self.closed.value
        was_longer = self.is_clean and closed is not None and closed.end > self.end
        reach = [each for each in self.segments if each.end > self.end]
        size = sum(each.nonzero_size(max(0, self.end - each.start)) for each in reach)
        path = reach[0].path if reach else f"{COMMIT_LOG_FOLDER}/{segment_name(self._start_of_next(closed))}"
        if was_longer or beyond:
            gone = "messages are gone from the end of the log"
            what = gone if reach else f"is missing: {gone}"
            yield StoreFinding(path, self.end, size, what, beyond or None)
        elif size:
            what = "an unfinished write, which the next start truncates"
            yield StoreFinding(path, self.end, size, what, 0, is_damage=False)

    def _start_of_next(self, closed: CleanShutdown | None) -> int:
        """Return where the first missing log file behind the present ones began."""
        known = [start for start in self.checksums if start >= self.end]
        if self.segments or not known:
            return self.end if self.segments or closed is None else closed.end - closed.end % closed.segment_bytes
        return min(known)

    def _check_consume_queues(self, log_start: int) -> Iterator[StoreFinding]:
        others = frozenset(self.disk.names("batchconsumequeue"))
        missing = queues = 0
        for (topic, queue_id), check in self.checks.items():
            yield from check.mismatched_entries(log_start, self._is_reported)
            name = topic.decode(errors="backslashreplace")
            has_index = (topic, queue_id) in self.known_queues
            if not has_index and (name in others or (self.topics is not None and name not in self.topics)):
                continue  # of another kind, or deleted: its messages expire with their log files
            if self.is_clean:
                yield from check.missing_entries()
            elif check.missing:
                missing, queues = missing + check.missing, queues + 1
        if missing:
            counts = f"{pluralize(missing, 'message')} of {pluralize(queues, 'queue')}"
            what = f"{counts} without entry, which the next start adds"
            yield StoreFinding(CONSUME_QUEUE_FOLDER, 0, missing * ENTRY_BYTES, what, 0, is_damage=False)

    def _check_unread_queues(self) -> Iterator[StoreFinding]:
        for topic in self.disk.names(CONSUME_QUEUE_FOLDER):
            for queue in self.disk.names(f"{CONSUME_QUEUE_FOLDER}/{topic}"):
                path = f"{CONSUME_QUEUE_FOLDER}/{topic}/{queue}"
                known = (
                    queue.isascii()
                    and queue.isdigit()
                    and (topic.encode(errors="surrogateescape"), int(queue)) in self.known_queues
                )
                if not known and self.disk.names(path):
                    yield StoreFinding(path, 0, 0, "the files of the consume queue do not fit together")

    def _check_checksums(self) -> Iterator[StoreFinding]:
        for start, data in self.checksums.items():
            damaged = sum(not whole for _, whole in _parse_checksums(data))
            if damaged:
                what = "checksums are damaged; the messages are judged by what they carry"
                yield StoreFinding(checksums_path(start), 0, damaged * CHECKSUM_BYTES, what, 0)
            if rest := len(data) % CHECKSUM_BYTES:
                what = "an unfinished checksum"
                yield StoreFinding(checksums_path(start), len(data) - rest, rest, what, 0, is_damage=self.is_clean)

    def _check_documents(self) -> Iterator[StoreFinding]:
        for document in _DOCUMENTS:
            yield from _check_document(self.disk, document)
            if document.keeps_backup:
                yield from _check_document(self.disk, replace(document, path=document.backup))


def _check_document(disk: Disk, document: JsonDocument[Any]) -> Iterator[StoreFinding]:
    problem = load_document(disk, replace(document, keeps_backup=False)).problem
    if problem is not None:
        size = len(disk.read(document.path) or b"")
        yield StoreFinding(document.path, 0, size, problem.removeprefix(f"{document.path} "))


def _parse_checksums(data: bytes) -> Iterator[tuple[int, bool]]:
    """Yield position and soundness of each checksum; zeros at the end were never written."""
    whole = min(len(data), len(data.rstrip(b"\0")) + CHECKSUM_BYTES - 1) // CHECKSUM_BYTES * CHECKSUM_BYTES
    for place, (position, check) in enumerate(_iter_checksums(data[:whole])):
        at = place * CHECKSUM_BYTES
        yield position, crc32(data[at : at + CHECKSUM_BYTES - 4]).to_bytes(4, "big") == check
