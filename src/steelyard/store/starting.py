"""What a process begins with: log and indexes as a clean close left them, or made again from the log.

After a clean close the indexes are read and held against their checksum, and no record is looked at before somebody
reads it. After anything else everything is: the log is walked (recovery.py), its tail cut (cutting.py), and the indexes
are written again, since they may know numbers that the log does not.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from steelyard.errors import DiskFailed
from steelyard.store.cutting import cut
from steelyard.store.disk import Disk
from steelyard.store.forgotten import forget_again
from steelyard.store.index_files import Indexes, checksum, load_indexes, remove_index, save_indexes
from steelyard.store.log import Log
from steelyard.store.marks import mark_of
from steelyard.store.opening import Opened, mark_as_ours
from steelyard.store.recovery import CUT_OFF, Rebuilt, rebuild
from steelyard.store.state import Closed
from steelyard.store.sum_files import drop_foreign_sums, drop_stale_sums, load_sums
from steelyard.store.walk import Damage, Found

__all__ = ["Recovery", "Started", "StartedFrom", "start"]


class StartedFrom(Enum):
    """What a process found when it began."""

    NOTHING = "nothing"
    """A directory without a log."""
    CLOSED = "closed"
    """What the last process closed in order: no record was looked at."""
    UNCLOSED = "unclosed"
    """What the last process did not close, or another broker changed: all of it was looked at."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What had to be done to begin, for people to look at; how long it took is for the shell to say."""

    found: StartedFrom
    records: int = 0
    """Whole records that were read."""
    read_bytes: int = 0
    """Bytes of the log that were looked at."""
    cut_bytes: int = 0
    """Bytes behind the last whole record, which were cut off."""
    damages: tuple[Damage, ...] = ()
    """What was lost, the tail that was cut off too."""


@dataclass(slots=True)
class Started:
    """A log and its indexes, ready for use."""

    log: Log
    indexes: Indexes
    trusted_from: int
    """Records from this position on need no check when they are read."""
    damages: list[Damage] = field(default_factory=list)
    recovery: Recovery = Recovery(StartedFrom.CLOSED)


def start(disk: Disk, found: Opened) -> Started:
    """Take up what the last process left. The directory is ours, and marked as in use."""
    clean = _trust(disk, found, found.closed) if found.closed is not None else None
    return clean or _make_again(disk, found)


def _trust(disk: Disk, found: Opened, closed: Closed) -> Started | None:
    """Believe the indexes if they are what the last close wrote."""
    indexes = load_indexes(disk)
    for index in indexes.values():
        index.forget_before(found.segments[0].start if found.segments else closed.end)
    forget_again(disk, indexes)
    if checksum(indexes) != closed.indexes_crc32:
        return None
    for last in found.segments[-1:]:
        drop_foreign_sums(disk, last)
    return Started(Log(disk, found.segment_bytes, found.segments, closed.end), indexes, closed.end)


def _make_again(disk: Disk, found: Opened) -> Started:
    known, size = load_indexes(disk), found.segment_bytes
    sums = load_sums(disk, found.segments, found.sums_to, found.sums_to_ms)
    rebuilt = rebuild(found.segments, known, sums, _mark)
    drop_stale_sums(disk, sums)
    segments = cut(disk, found.segments, rebuilt.end, size, found.unsure_from)
    mark_as_ours(disk, size)
    for topic, queue_id in sorted(known.keys() - rebuilt.indexes.keys()):
        remove_index(disk, topic, queue_id)
    forget_again(disk, rebuilt.indexes)
    with suppress(DiskFailed):
        save_indexes(
            disk, rebuilt.indexes, segments[0].start if segments else rebuilt.end
        )  # a full disk may still be read
    return Started(Log(disk, size, segments, rebuilt.end), rebuilt.indexes, 0, rebuilt.damages, _report(found, rebuilt))


def _report(found: Opened, rebuilt: Rebuilt) -> Recovery:
    read_bytes = rebuilt.end - found.segments[0].start if found.segments else 0
    cut_bytes = sum(damage.size for damage in rebuilt.damages if damage.what == CUT_OFF)
    how = StartedFrom.UNCLOSED if found.segments or rebuilt.damages else StartedFrom.NOTHING
    return Recovery(how, rebuilt.records, read_bytes, cut_bytes, tuple(rebuilt.damages))


def _mark(found: Found) -> int:
    return mark_of(found.topic, found.properties, found.stored_ms)
