"""Dump: all messages of a directory, read from the log alone. No index is needed, no lock taken, nothing changed.

Messages come in the order of the log, which within a queue is the order of its offsets. Damaged ranges are skipped and
reported among the messages, as `Damage`. A single file can be dumped too: of a log, or of a compacted topic of
Apache's, whose files have the same format.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from steelyard.errors import MissingExtra, NotAStore, ProtocolError
from steelyard.model import StoredMessage
from steelyard.store.checksums import RecordChecksums, checksums_path
from steelyard.store.commit_log import Segment
from steelyard.store.disk import Disk
from steelyard.store.log_scan import Damage, LogScan, ScannedRecord
from steelyard.store.verify import open_read_only
from steelyard.wire.record import IPV4_HEAD_LAYOUT, MIN_RECORD_BYTES, V1_MAGIC, V2_MAGIC, peek_record
from steelyard.wire.stored_messages import decode_messages

_RecordFilter = Callable[[ScannedRecord], bool]

_NAME_LENGTH = 20
_POSITION = 6
"""The field of a record's head that is its position."""
_PROBE_BYTES = 1 << 16
"""A file that was created and never written begins with at least this many zeros."""


def dump_messages(disk: Disk, is_wanted: _RecordFilter) -> Iterator[StoredMessage | Damage]:
    """Yield every wanted message, decoded and without a broker name, and every damaged range."""
    with open_read_only(disk) as segments:
        checksums = {
            each.start: RecordChecksums(data) for each in segments if (data := disk.read(checksums_path(each.start)))
        }
        yield from _scanned(segments, LogScan(segments, checksums), is_wanted)


def dump_file(disk: Disk, name: str, is_wanted: _RecordFilter) -> Iterator[StoredMessage | Damage]:
    """Yield the same of one file; `NotAStore` if it holds something else."""
    with closing(disk.open(name)) as file:
        start = file.read(0, _PROBE_BYTES)
        segment = Segment(_first_position(name, start), file.size, file, memoryview(b""), name)
        scan = LogScan([segment], {})
        yield from _scanned([segment], scan, is_wanted)
        if scan.end == segment.start and (not start or any(start)):
            raise NotAStore(
                f"the file {name} holds no message", next_step="give one of a commit log, or of a compacted topic"
            )


def _first_position(name: str, data: bytes) -> int:
    """Return the position that a file begins at: from its name, or else from its first message."""
    if len(name) == _NAME_LENGTH and name.isascii() and name.isdigit():
        return int(name)
    record = peek_record(data)
    if record is None or record.magic not in (V1_MAGIC, V2_MAGIC) or len(data) < MIN_RECORD_BYTES:
        return 0
    position: int = IPV4_HEAD_LAYOUT.layout.unpack_from(data)[_POSITION]
    return max(position, 0)


def _scanned(segments: Sequence[Segment], scan: LogScan, is_wanted: _RecordFilter) -> Iterator[StoredMessage | Damage]:
    reported, current = 0, 0
    for record in scan:
        yield from scan.damages[reported:]
        reported = len(scan.damages)
        while record.position >= segments[current].end:
            current += 1
        if is_wanted(record):
            segment = segments[current]
            try:
                yield from decode_messages(segment.file.read(record.position - segment.start, record.size), "")
            except (ProtocolError, MissingExtra) as error:
                yield Damage(segment.path, record.position, record.size, 1, f"not a readable message: {error.what}")
