"""Apache's files about timers: how far it is with them, and which still wait.

``config/timercheck`` says that of the timers before a *queue offset* all are done whose second ended before the *read
time*, save those that Apache finds in ``timerlog`` at that second or a later one. A timer at or behind that offset was
not looked at yet: Apache delivers it at once if its second is over. ``timerwheel`` only finds entries of ``timerlog``
by their second, and is made again from them where it is missing.

Ours keeps its progress elsewhere (broker/deliveries.py) and writes these for the Java broker that may open the
directory next. While it runs there is no list of those that wait: then all from the first open one on count as not
looked at. No moment in between makes Apache lose one; a crash may make it deliver some again.

Left out: a list too long for one file, and other precisions than whole seconds (Apache's ``timerPrecisionMs``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct as Layout
from typing import NamedTuple

from steelyard.store.disk import Disk
from steelyard.store.log import segment_name, write_all
from steelyard.store.replace import make_folder, replace_file

__all__ = [
    "SECOND_MS",
    "TIMER_CHECK_PATH",
    "TIMER_LOG_FOLDER",
    "TIMER_WHEEL_PATH",
    "TimerCheck",
    "WaitingTimer",
    "read_timer_check",
    "whole_second",
    "write_all_open",
    "write_waiting",
]

TIMER_CHECK_PATH = "config/timercheck"
TIMER_LOG_FOLDER = "timerlog"
TIMER_WHEEL_PATH = "timerwheel"
SECOND_MS = 1_000

_PAGE_BYTES = 4096
# Read time, how far the timer log is flushed, the queue offset, and the same as the master of a replica has it.
_CHECK = Layout(">qqqq")
_FILE_BYTES = 100 << 20
# Size, position of the one before of the same second, magic, time of writing, delay, position and size of the message,
# hash of its topic (for statistics), reserved.
_ENTRY = Layout(">iqiqiqiiq")
_BLANK_BYTES = 16
"""What Apache leaves free at the end of a file."""
_NONE_BEFORE = -1
_DEFAULT, _ROLLED = 1, 3
_MOST_MS = (7 * 24 * 3600 - 60) * SECOND_MS
"""What the wheel has room for: a timer that waits longer is looked at again then, which Apache calls rolling."""


@dataclass(frozen=True, slots=True)
class TimerCheck:
    """Of the timers before an offset, those whose second ended before a time are done."""

    read_ms: int
    queue_offset: int

    def has_done(self, offset: int, out_ms: int) -> bool:
        """Say whether a timer is done, given by its offset and the second it is due in."""
        return offset < self.queue_offset and out_ms < self.read_ms


class WaitingTimer(NamedTuple):
    """A timer that waits, and where its message lies."""

    due_ms: int
    position: int
    size: int


def whole_second(time_ms: int) -> int:
    """Return the start of the second that a time lies in."""
    return time_ms // SECOND_MS * SECOND_MS


def read_timer_check(disk: Disk) -> TimerCheck | None:
    """Read how far timers are; None if nothing says it."""
    content = disk.read(TIMER_CHECK_PATH) or b""
    if len(content) < _CHECK.size:
        return None
    read_ms, _, queue_offset, master_offset = _CHECK.unpack_from(content)
    return TimerCheck(read_ms, min(queue_offset, master_offset))


def write_all_open(disk: Disk, read_ms: int, first_open: int) -> None:
    """Let Apache look at every timer from an offset on, whatever it knew of them."""
    # In this order: a list without what is said here would lose none, but what is said without the list would.
    _write_check(disk, read_ms, first_open)
    names = disk.names(TIMER_LOG_FOLDER)
    for name in names:
        disk.remove(f"{TIMER_LOG_FOLDER}/{name}")
    if names:
        disk.sync_folder(TIMER_LOG_FOLDER)
    if TIMER_WHEEL_PATH in disk.names(""):
        disk.remove(TIMER_WHEEL_PATH)
        disk.sync_folder("")


def write_waiting(
    disk: Disk, waiting: Iterable[WaitingTimer], last: WaitingTimer, *, now_ms: int, first_open: int, end: int
) -> bool:
    """Let Apache know which timers before ``end`` wait, so that it delivers these and no others; say if they fitted.

    ``waiting`` come in the order in which they are due. ``last`` is the one before ``end``, whether it waits or not:
    Apache goes on behind the last one that its list has.
    """
    file_bytes = _file_bytes(disk)
    timers = list(waiting)
    read_ms = whole_second(min([now_ms, *(timer.due_ms - 1 for timer in timers[:1])]))
    write_all_open(disk, read_ms, first_open)
    content = _timer_log([*timers, last._replace(due_ms=read_ms)], read_ms, now_ms)
    if len(content) + _BLANK_BYTES > file_bytes:
        return False
    if timers:
        _write_log(disk, content, file_bytes)
    _write_check(disk, read_ms, end)
    return True


def _file_bytes(disk: Disk) -> int:
    """Return how large a file of the list is: those that are there tell how Apache is set up."""
    for name in disk.names(TIMER_LOG_FOLDER):
        file = disk.open(f"{TIMER_LOG_FOLDER}/{name}")
        size = file.size
        file.close()
        if size:
            return size
    return _FILE_BYTES


def _timer_log(timers: list[WaitingTimer], read_ms: int, now_ms: int) -> bytes:
    """Return the entries; the last timer gets the second before the read time, where nobody looks."""
    entries = bytearray()
    newest: dict[int, int] = {}
    for due_ms, position, size in timers:
        out_ms, magic = due_ms - 1, _DEFAULT
        if out_ms - now_ms >= _MOST_MS:
            out_ms, magic = now_ms + _MOST_MS, _ROLLED
        second = out_ms // SECOND_MS
        before, newest[second] = newest.get(second, _NONE_BEFORE), len(entries)
        entries += _ENTRY.pack(_ENTRY.size, before, magic, read_ms, out_ms - read_ms, position, size, 0, 0)
    return bytes(entries)


def _write_log(disk: Disk, content: bytes, file_bytes: int) -> None:
    # Written elsewhere: Apache does not start with a file in its folder that has another size.
    beside = "steelyard/timerlog.tmp"
    file = disk.open(beside, create=True)
    try:
        file.truncate(0)
        write_all(file, 0, content, beside)
        file.truncate(file_bytes)
        file.sync()
    finally:
        file.close()
    make_folder(disk, TIMER_LOG_FOLDER)
    disk.rename(beside, f"{TIMER_LOG_FOLDER}/{segment_name(0)}")
    disk.sync_folder(TIMER_LOG_FOLDER)


def _write_check(disk: Disk, read_ms: int, queue_offset: int) -> None:
    """Write the file; what Apache keeps behind these numbers stays as it is."""
    page = (disk.read(TIMER_CHECK_PATH) or b"")[:_PAGE_BYTES].ljust(_PAGE_BYTES, b"\0")
    numbers = _CHECK.pack(read_ms, 0, queue_offset, queue_offset)
    if page[: _CHECK.size] != numbers:
        make_folder(disk, TIMER_CHECK_PATH.rpartition("/")[0])
        replace_file(disk, TIMER_CHECK_PATH, numbers + page[_CHECK.size :])
