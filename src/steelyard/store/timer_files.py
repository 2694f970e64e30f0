"""Apache's timer files: how far its timers are, and which ones still wait.

``config/timercheck`` says that of the timers before a *queue offset* all are done whose second ended before the *read
time*, except those that Apache finds in ``timerlog`` at that second or a later one. A timer at or behind that offset is
new to Apache, which delivers it at once if its second is over. ``timerwheel`` is rebuilt from ``timerlog`` if missing.

Ours keeps its progress elsewhere (broker/delayed_delivery.py) and writes these files for a Java broker that opens the
directory next. While it runs, all timers from the first open one on are new to Apache. No moment in between makes
Apache lose one; a crash may make it deliver some twice. Left out: a list too long for one file, and other precisions.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from struct import Struct as Layout
from typing import NamedTuple

from steelyard.store.commit_log import segment_name
from steelyard.store.disk import Disk, make_folder, replace_file, write_all

TIMER_CHECKPOINT_PATH = "config/timercheck"
TIMER_LOG_FOLDER = "timerlog"
TIMER_WHEEL_PATH = "timerwheel"
_SECOND_MS = 1_000

_PAGE_BYTES = 4096
# Read time, flushed end of the timer log, queue offset, queue offset of a replica's master.
_CHECKPOINT = Layout(">qqqq")
_FILE_BYTES = 100 << 20
# Size, previous entry of the same second, magic, time of writing, delay, position and size of the message,
# hash of its topic (for statistics), reserved.
_ENTRY = Layout(">iqiqiqiiq")
_BLANK_BYTES = 16
"""The space that Apache leaves free at the end of a file."""
_NO_PREVIOUS = -1
_DEFAULT, _ROLLED = 1, 3
_MAX_WHEEL_MS = (7 * 24 * 3600 - 60) * _SECOND_MS
"""The span of the wheel: a timer that waits longer is scheduled again then, which Apache calls rolling."""


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """Of the timers before an offset, those whose second ended before a time are done."""

    read_ms: int
    queue_offset: int

    def is_delivered(self, offset: int, out_ms: int) -> bool:
        """Return whether a timer, given by its offset and the second it is due in, is done."""
        return offset < self.queue_offset and out_ms < self.read_ms


class WaitingTimer(NamedTuple):
    """A waiting timer, and where its message lies."""

    due_ms: int
    position: int
    size: int


def floor_to_second(time_ms: int) -> int:
    """Return the start of the second that a time lies in."""
    return time_ms // _SECOND_MS * _SECOND_MS


def read_timer_checkpoint(disk: Disk) -> TimerCheckpoint | None:
    """Read how far timers are; None if that is unknown."""
    content = disk.read(TIMER_CHECKPOINT_PATH) or b""
    if len(content) < _CHECKPOINT.size:
        return None
    read_ms, _, queue_offset, master_offset = _CHECKPOINT.unpack_from(content)
    return TimerCheckpoint(read_ms, min(queue_offset, master_offset))


def write_open_timers(disk: Disk, read_ms: int, first_open: int) -> None:
    """Make every timer from an offset on new to Apache."""
    # In this order: this checkpoint with the old list would lose no timer, but the old checkpoint without it would.
    _write_checkpoint(disk, read_ms, first_open)
    names = disk.names(TIMER_LOG_FOLDER)
    for name in names:
        disk.remove(f"{TIMER_LOG_FOLDER}/{name}")
    if names:
        disk.sync_folder(TIMER_LOG_FOLDER)
    if TIMER_WHEEL_PATH in disk.names(""):
        disk.remove(TIMER_WHEEL_PATH)
        disk.sync_folder("")


def write_waiting_timers(
    disk: Disk, waiting: Iterable[WaitingTimer], last: WaitingTimer, *, now_ms: int, first_open: int, end: int
) -> bool:
    """Write the timers before ``end`` that wait, so that Apache delivers exactly these; return whether they fitted.

    ``waiting`` is ordered by due time. ``last`` is the timer before ``end``, whether it waits or not: Apache continues
    behind the last one of its list.
    """
    file_bytes = _file_bytes(disk)
    timers = list(waiting)
    read_ms = floor_to_second(min([now_ms, *(timer.due_ms - 1 for timer in timers[:1])]))
    write_open_timers(disk, read_ms, first_open)
    content = _timer_log([*timers, last._replace(due_ms=read_ms)], read_ms, now_ms)
    if len(content) + _BLANK_BYTES > file_bytes:
        return False
    if timers:
        _write_log(disk, content, file_bytes)
    _write_checkpoint(disk, read_ms, end)
    return True


def _file_bytes(disk: Disk) -> int:
    """Return the size of a timer log file, as Apache is configured if it has written any."""
    for name in disk.names(TIMER_LOG_FOLDER):
        file = disk.open(f"{TIMER_LOG_FOLDER}/{name}")
        size = file.size
        file.close()
        if size:
            return size
    return _FILE_BYTES


def _timer_log(timers: list[WaitingTimer], read_ms: int, now_ms: int) -> bytes:
    """Return the entries; the last timer gets the second before the read time, which is never read."""
    entries = bytearray()
    newest: dict[int, int] = {}
    for due_ms, position, size in timers:
        out_ms, magic = due_ms - 1, _DEFAULT
        if out_ms - now_ms >= _MAX_WHEEL_MS:
            out_ms, magic = now_ms + _MAX_WHEEL_MS, _ROLLED
        second = out_ms // _SECOND_MS
        previous, newest[second] = newest.get(second, _NO_PREVIOUS), len(entries)
        entries += _ENTRY.pack(_ENTRY.size, previous, magic, read_ms, out_ms - read_ms, position, size, 0, 0)
    return bytes(entries)


def _write_log(disk: Disk, content: bytes, file_bytes: int) -> None:
    # Written elsewhere: Apache does not start with a file of another size in its folder.
    temporary = "steelyard/timerlog.tmp"
    with closing(disk.open(temporary, create=True)) as file:
        file.truncate(0)
        write_all(file, 0, content, temporary)
        file.truncate(file_bytes)
        file.sync()
    make_folder(disk, TIMER_LOG_FOLDER)
    disk.rename(temporary, f"{TIMER_LOG_FOLDER}/{segment_name(0)}")
    disk.sync_folder(TIMER_LOG_FOLDER)


def _write_checkpoint(disk: Disk, read_ms: int, queue_offset: int) -> None:
    """Write the file; what Apache keeps behind these numbers is unchanged."""
    page = (disk.read(TIMER_CHECKPOINT_PATH) or b"")[:_PAGE_BYTES].ljust(_PAGE_BYTES, b"\0")
    numbers = _CHECKPOINT.pack(read_ms, 0, queue_offset, queue_offset)
    if page[: _CHECKPOINT.size] != numbers:
        make_folder(disk, TIMER_CHECKPOINT_PATH.rpartition("/")[0])
        replace_file(disk, TIMER_CHECKPOINT_PATH, numbers + page[_CHECKPOINT.size :])
