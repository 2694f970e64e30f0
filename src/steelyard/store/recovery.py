"""Recovery: log and consume queues as a clean close left them, or rebuilt from the log.

After a clean close the queues are loaded and compared with their checksum, and no record is read. Otherwise the whole
log is scanned, damage is reported with the number of messages it cost, the tail behind the last whole record is
truncated, and the queues are rebuilt. Offsets are dense: what was lost leaves holes. A record with an impossible offset
is rejected, since one flipped bit must not cost a queue or fill the memory.

An offset is never reused while checksums or older consume queues remember it, because a consumer may have seen it. An
older queue is trusted only entry by entry, in order, and only about positions where something was lost. Each step of
the truncation is synced before the next, and repeating it gives the same bytes: a crash in the middle does no harm.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from enum import Enum

from steelyard.errors import DiskFailed
from steelyard.store.checksum_files import drop_foreign_checksums, drop_stale_checksums, load_checksums
from steelyard.store.checksums import (
    CHECKSUM_BYTES,
    CHECKSUMS_FOLDER,
    RecordChecksums,
    checksum_bytes_before,
    checksums_path,
)
from steelyard.store.commit_log import COMMIT_LOG_FOLDER, CommitLog, Segment, segment_name, segment_starts
from steelyard.store.consume_queue import (
    HOLE_SIZE,
    ConsumeQueue,
    ConsumeQueues,
    consume_queues_crc32,
    is_valid_folder,
    load_consume_queues,
    reapply_deletions,
    remove_consume_queue,
    save_consume_queues,
)
from steelyard.store.directory import DirectoryState, write_abort_file
from steelyard.store.disk import Disk, write_all
from steelyard.store.json_documents import CleanShutdown
from steelyard.store.key_index import KEY_INDEX_FOLDER
from steelyard.store.log_scan import Damage, LogScan, ScannedRecord
from steelyard.store.tags_code import compute_tags_code
from steelyard.wire.record import MIN_RECORD_BYTES

_MAX_HOLES = 1 << 20
"""Lost messages of a queue that are believed on weak evidence; each takes twenty bytes of memory."""


class _OffsetEvidence:
    """What older consume queues and checksums know of lost messages: how many, and with which offsets."""

    def __init__(self, known_queues: ConsumeQueues, checksums: dict[int, RecordChecksums], segment_bytes: int) -> None:
        self.known_queues, self.checksums, self._segment_bytes = known_queues, checksums, segment_bytes

    def count(self, start: int, end: int) -> int | None:
        """Count the messages that are known to have begun between two positions; None if nothing is known."""
        by_checksums = [each.count(start, end) for first, each in self.checksums.items() if first < end]
        by_queues = [_count_entries(queue, start, end) for queue in self.known_queues.values()]
        return max(sum(by_checksums), sum(by_queues)) if by_checksums or by_queues else None

    def preserve_offsets(
        self, consume_queues: ConsumeQueues, damages: Sequence[Damage], log_start: int, log_end: int
    ) -> None:
        """Make the queues continue behind all offsets that are known to have been used."""
        lost_ranges = _LostRanges(damages, log_start, log_end, self._segment_bytes)
        for (topic, queue_id), old in self.known_queues.items():
            queue = consume_queues.get((topic, queue_id))
            if queue is not None:
                queue.append_holes(_last_known_end(old, queue.end, lost_ranges) - queue.end)
                continue
            end = _last_known_end(old, _expired_end(old, lost_ranges), lost_ranges)
            if 0 < end <= log_end // MIN_RECORD_BYTES + _MAX_HOLES and is_valid_folder(topic):
                consume_queues[topic, queue_id] = ConsumeQueue(end)


class _LostRanges:
    """Where messages were lost: in damage, and outside the log."""

    def __init__(self, damages: Iterable[Damage], log_start: int, log_end: int, segment_bytes: int) -> None:
        spans = sorted((damage.position, damage.position + damage.size) for damage in damages)
        self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]
        self.log_start, self._log_end = log_start, log_end
        self._segment_bytes = segment_bytes

    def could_have_held(self, position: int, size: int) -> bool:
        """Return whether a lost message can have been at a position."""
        place = bisect_right(self._starts, position) - 1
        in_damage = place >= 0 and position < self._ends[place]
        is_gone = in_damage or 0 <= position < self.log_start or position >= self._log_end
        return is_gone and MIN_RECORD_BYTES <= size < self._segment_bytes


def _expired_end(old: ConsumeQueue, lost_ranges: _LostRanges) -> int:
    """Return the offset behind the messages of an older queue that expired with the oldest log files."""
    end = old.first_offset_at(lost_ranges.log_start)
    last = old.entry(end - 1) if old.start < end <= old.visible_end else None
    is_credible = last is not None and (last.is_hole or lost_ranges.could_have_held(last.position, last.size))
    return end if is_credible else old.start


def _last_known_end(old: ConsumeQueue, at: int, lost_ranges: _LostRanges) -> int:
    """Return up to which offset an older queue knows of lost messages, from an offset on."""
    if not old.start <= at <= old.visible_end:
        return at
    last = -1
    for position, size, _ in old.iter_entries(at, min(old.visible_end, at + _MAX_HOLES)):
        if size != HOLE_SIZE:
            if position <= last or not lost_ranges.could_have_held(position, size):
                break
            last = position
        at += 1
    return at


def _count_entries(queue: ConsumeQueue, start: int, end: int) -> int:
    count = 0
    for position, size, _ in queue.iter_entries(queue.first_offset_at(start), queue.visible_end):
        if size != HOLE_SIZE:
            if position >= end:
                break
            count += position >= start
    return count


CUT_OFF = "cut off"
"""The kind of damage that lies behind the last whole record."""


@dataclass(slots=True)
class RebuiltQueues:
    """The result of a scan of the whole log."""

    end: int
    """The position after the last whole record."""
    consume_queues: ConsumeQueues
    damages: list[Damage]
    records: int = 0
    """The number of whole records."""


def rebuild_consume_queues(
    segments: Sequence[Segment],
    known_queues: ConsumeQueues,
    checksums: dict[int, RecordChecksums],
    tags_code_of: Callable[[ScannedRecord], int],
) -> RebuiltQueues:
    """Scan the log and rebuild the consume queues. ``known_queues`` are older ones, which may know what was lost."""
    evidence = _OffsetEvidence(known_queues, checksums, segments[0].size if segments else 1 << 31)
    scan = LogScan(segments, checksums)
    sequence = _OffsetSequence(evidence, scan)
    queues = sequence.consume_queues
    records = 0
    for found in scan:
        records += 1
        queue = queues.get((found.topic, found.queue_id))
        if queue is None or found.offset != queue.end:
            queue = sequence.queue_for(found, queue)
            if queue is None:
                continue
        queue.append(found.position, found.size, tags_code_of(found))
    damages = [
        replace(damage, records=evidence.count(damage.position, damage.position + damage.size))
        for damage in scan.damages
    ]
    # Zeros behind the end are no damage, unless something is known to have been there.
    damages += [
        damage for damage in _outside_log(segments, checksums, scan.end, evidence) if damage.size or damage.records
    ]
    for lost in scan.body_damaged:
        sequence.preserve_offset(lost)
    evidence.preserve_offsets(queues, damages, segments[0].start if segments else 0, scan.end)
    for queue in queues.values():
        queue.publish()
        queue.drop_leading_holes()
        queue.saved_end, queue.needs_rewrite = queue.start, True
    return RebuiltQueues(scan.end, queues, damages + sequence.rejected + list(_damaged_checksums(checksums)), records)


class _OffsetSequence:
    """Decides which offsets may follow which."""

    def __init__(self, evidence: _OffsetEvidence, scan: LogScan) -> None:
        self._evidence, self._scan = evidence, scan
        self.consume_queues: ConsumeQueues = {}
        self.rejected: list[Damage] = []

    def queue_for(self, record: ScannedRecord, queue: ConsumeQueue | None) -> ConsumeQueue | None:
        """Return the queue that a record extends, after holes if needed; None rejects the record."""
        if not is_valid_folder(record.topic):
            self._reject(record, "of an invalid topic")
        elif queue is None and self._can_have_offset(record):
            return self._start_queue(record)
        elif queue is not None and record.offset > queue.end and self._can_have_gap(record, record.offset - queue.end):
            queue.append_holes(record.offset - queue.end)
            return queue
        elif queue is not None and record.offset < queue.end and self._is_recreated(record):
            return self._start_queue(record)
        else:
            self._reject(record, "out of order")
        return None

    def preserve_offset(self, lost: ScannedRecord) -> None:
        """Make a queue continue behind a message that is surely lost."""
        queue = self.consume_queues.get((lost.topic, lost.queue_id))
        if queue is None and is_valid_folder(lost.topic):
            queue = self._start_queue(lost)
        if queue is not None and lost.offset >= queue.end:
            queue.append_holes(lost.offset + 1 - queue.end)

    def _start_queue(self, record: ScannedRecord) -> ConsumeQueue:
        queue = self.consume_queues[record.topic, record.queue_id] = ConsumeQueue(record.offset)
        return queue

    def _can_have_offset(self, record: ScannedRecord) -> bool:
        """Return whether that many messages can have preceded a record."""
        return record.offset <= record.position // MIN_RECORD_BYTES + _MAX_HOLES or self._has_checksum(record)

    def _can_have_gap(self, record: ScannedRecord, gap: int) -> bool:
        """Return whether that many messages can have been lost before a record."""
        return gap <= max(_MAX_HOLES, self._scan.lost_bytes // MIN_RECORD_BYTES) or self._has_checksum(record)

    def _is_recreated(self, record: ScannedRecord) -> bool:
        """Return whether the topic was deleted and created again by Apache's broker, where offsets restart at 0."""
        known = self._evidence.known_queues.get((record.topic, record.queue_id))
        if known is None or not known.start <= record.offset < known.visible_end:
            return record.offset == 0
        return known.entry(record.offset).position == record.position

    def _has_checksum(self, record: ScannedRecord) -> bool:
        """Return whether a record has a checksum, which the scan then has verified."""
        checksums = self._evidence.checksums.get(_segment_of(self._scan.segments, record.position).start)
        return checksums is not None and checksums.get(record.position) is not None

    def _reject(self, record: ScannedRecord, what: str) -> None:
        path = _segment_of(self._scan.segments, record.position).path
        self.rejected.append(Damage(path, record.position, record.size, 1, what))


def _segment_of(segments: Sequence[Segment], position: int) -> Segment:
    return segments[bisect_right(segments, position, key=lambda segment: segment.start) - 1]


def _outside_log(
    segments: Sequence[Segment], checksums: dict[int, RecordChecksums], end: int, evidence: _OffsetEvidence
) -> Iterator[Damage]:
    """Yield what is outside the log: bytes behind its end, and files that only checksums know of."""
    for segment in segments:
        if segment.end > end:
            start = max(end, segment.start)
            size, records = segment.nonzero_size(start - segment.start), evidence.count(start, segment.end)
            yield Damage(segment.path, start, size, records, CUT_OFF)
    there = {segment.start for segment in segments}
    for start, each in checksums.items():
        if start not in there and (start >= end or start < segments[0].start):
            yield Damage(f"{COMMIT_LOG_FOLDER}/{segment_name(start)}", start, 0, each.count(start, 1 << 63), "missing")


def _damaged_checksums(checksums: dict[int, RecordChecksums]) -> Iterator[Damage]:
    for start, each in checksums.items():
        if each.damaged:
            yield Damage(checksums_path(start), 0, CHECKSUM_BYTES * each.damaged, 0, "damaged checksums")


_CHUNK = 1 << 20


def _truncate_log(
    disk: Disk, segments: list[Segment], end: int, segment_bytes: int, unsynced_from: int | None = None
) -> list[Segment]:
    """Zero everything behind the end of the log, and sync everything before it; return the segments that are left.

    From ``unsynced_from`` on a sync has failed. The kernel takes those pages for clean since, and syncs them only after
    they were written again. Checksums and keys behind the end are dropped too: other records will take the positions.
    """
    kept = [segment for segment in segments if segment.start < end or segment is segments[0]]
    for segment in kept:
        if end < segment.end or len(segment.view) != segment.size:
            segment.view.release()
            segment.file.truncate(min(end - segment.start, segment.size))
            segment.file.truncate(segment.size)
            segment.view = segment.file.view()
        if unsynced_from is not None:
            _rewrite(segment, max(unsynced_from - segment.start, 0), min(end - segment.start, segment.size))
        # A process that crashed may have left unsynced pages.
        segment.file.sync()
    for segment in segments[len(kept) :]:
        segment.file.close()
        disk.remove(segment.path)
    if segments:
        disk.sync_folder(COMMIT_LOG_FOLDER)
    first = segments[0].start if segments else end
    _truncate_checksums(disk, first, end, segment_bytes)
    keys = segment_starts(disk, KEY_INDEX_FOLDER)
    _remove_files(disk, KEY_INDEX_FOLDER, (start for start in keys if start < first or end < start + segment_bytes))
    return kept


def _rewrite(segment: Segment, start: int, end: int) -> None:
    for at in range(start, end, _CHUNK):
        write_all(segment.file, at, segment.file.read(at, min(_CHUNK, end - at)), segment.path)


def _truncate_checksums(disk: Disk, first: int, end: int, segment_bytes: int) -> None:
    starts = segment_starts(disk, CHECKSUMS_FOLDER)
    _remove_files(disk, CHECKSUMS_FOLDER, (start for start in starts if start < first or end <= start))
    for start in starts:
        if first <= start < end < start + segment_bytes:
            data = disk.read(checksums_path(start)) or b""
            with closing(disk.open(checksums_path(start))) as file:
                file.truncate(checksum_bytes_before(data, end))
                file.sync()


def _remove_files(disk: Disk, folder: str, starts: Iterable[int]) -> None:
    removed = list(starts)
    for start in removed:
        disk.remove(f"{folder}/{segment_name(start)}")
    if removed:
        disk.sync_folder(folder)


class PreviousShutdown(Enum):
    """How the previous process left the directory."""

    EMPTY = "nothing"
    """A directory without a log."""
    CLEAN = "closed"
    """Closed cleanly: no record was read."""
    UNCLEAN = "unclosed"
    """Not closed, or changed by another broker: the whole log was scanned."""


@dataclass(frozen=True, slots=True)
class RecoverySummary:
    """What recovery did, for operators; the shell measures how long it took."""

    previous_shutdown: PreviousShutdown
    records: int = 0
    """Whole records that were read."""
    read_bytes: int = 0
    """Bytes of the log that were scanned."""
    cut_bytes: int = 0
    """Bytes behind the last whole record, which were truncated."""
    damages: tuple[Damage, ...] = ()
    """What was lost, including the truncated tail."""


@dataclass(slots=True)
class RecoveredLog:
    """A log and its consume queues, ready for use."""

    log: CommitLog
    consume_queues: ConsumeQueues
    trusted_from: int
    """Records from this position on need no check on read."""
    damages: list[Damage] = field(default_factory=list)
    recovery: RecoverySummary = RecoverySummary(PreviousShutdown.CLEAN)


def recover(disk: Disk, directory: DirectoryState) -> RecoveredLog:
    """Recover what the last process left. The directory is locked and marked as in use."""
    clean = _load_clean(disk, directory, directory.clean_shutdown) if directory.clean_shutdown is not None else None
    return clean or _rebuild(disk, directory)


def _load_clean(disk: Disk, directory: DirectoryState, shutdown: CleanShutdown) -> RecoveredLog | None:
    """Load the consume queues if they are what the last close wrote."""
    queues = load_consume_queues(disk)
    for queue in queues.values():
        queue.drop_before_position(directory.segments[0].start if directory.segments else shutdown.end)
    reapply_deletions(disk, queues)
    if consume_queues_crc32(queues) != shutdown.indexes_crc32:
        return None
    for last in directory.segments[-1:]:
        drop_foreign_checksums(disk, last)
    return RecoveredLog(
        CommitLog(disk, directory.segment_bytes, directory.segments, shutdown.end), queues, shutdown.end
    )


def _rebuild(disk: Disk, directory: DirectoryState) -> RecoveredLog:
    known, size = load_consume_queues(disk), directory.segment_bytes
    checksums = load_checksums(disk, directory.segments, directory.checksums_to, directory.checksums_to_ms)
    rebuilt = rebuild_consume_queues(
        directory.segments,
        known,
        checksums,
        lambda record: compute_tags_code(record.topic, record.properties, record.stored_ms),
    )
    drop_stale_checksums(disk, checksums)
    segments = _truncate_log(disk, directory.segments, rebuilt.end, size, directory.unsynced_from)
    write_abort_file(disk, size)
    for topic, queue_id in sorted(known.keys() - rebuilt.consume_queues.keys()):
        remove_consume_queue(disk, topic, queue_id)
    reapply_deletions(disk, rebuilt.consume_queues)
    log_start = segments[0].start if segments else rebuilt.end
    with suppress(DiskFailed):  # a full disk can still be read
        save_consume_queues(disk, rebuilt.consume_queues, log_start)
    return RecoveredLog(
        CommitLog(disk, size, segments, rebuilt.end),
        rebuilt.consume_queues,
        0,
        rebuilt.damages,
        _summarize(directory, rebuilt),
    )


def _summarize(directory: DirectoryState, rebuilt: RebuiltQueues) -> RecoverySummary:
    read_bytes = rebuilt.end - directory.segments[0].start if directory.segments else 0
    cut_bytes = sum(damage.size for damage in rebuilt.damages if damage.what == CUT_OFF)
    how = PreviousShutdown.UNCLEAN if directory.segments or rebuilt.damages else PreviousShutdown.EMPTY
    return RecoverySummary(how, rebuilt.records, read_bytes, cut_bytes, tuple(rebuilt.damages))
