"""Opening and closing a directory: is it a store, is it ours alone, was it left in order.

While a process has it, a file called ``abort`` lies in it, as with Apache's broker: whoever finds it knows that the
last one did not get to close. What a clean close leaves behind is believed only as far as it fits what is there.
"""

from dataclasses import dataclass

from steelyard.errors import NotAStore
from steelyard.store.disk import Disk, Lock
from steelyard.store.log import LOG_FOLDER, Segment
from steelyard.store.recovery import open_segments
from steelyard.store.state import CLOSED, FORMAT, Closed, Format, load, save

__all__ = ["Opened", "look_at", "take"]

_ABORT = "abort"
_KNOWN_FORMAT = 1
# What a broker of either kind may leave in its directory before there is any log.
_HARMLESS = frozenset({"lock", "lost+found"})


@dataclass(slots=True)
class Opened:
    """A directory as it was found."""

    segments: list[Segment]
    segment_bytes: int
    closed: Closed | None
    """What the last clean close said, if there was one and the log is still as it left it."""
    is_ours: bool


def look_at(disk: Disk, segment_bytes: int) -> Opened:
    """Look at a directory without changing anything; `NotAStore` if it holds something else."""
    names = set(disk.names("")) - _HARMLESS
    form = load(disk, FORMAT)
    if form.value is not None and form.value.v > _KNOWN_FORMAT:
        raise NotAStore(
            f"the directory has format {form.value.v}, this release knows {_KNOWN_FORMAT}",
            next_step="use the newer release that wrote it",
        )
    if names and LOG_FOLDER not in names and "steelyard" not in names:
        raise NotAStore(f"the directory holds {', '.join(sorted(names)[:3])}, which no broker wrote")
    closed = None if _ABORT in names else load(disk, CLOSED).value
    sizes = [disk.open(f"{LOG_FOLDER}/{name}").size for name in disk.names(LOG_FOLDER)]
    size = closed.segment_bytes if closed is not None else max(sizes, default=0) or segment_bytes
    segments = open_segments(disk, size)
    if closed is not None and not _fits(segments, closed):
        closed = None
    return Opened(segments, size, closed, is_ours=form.value is not None)


def _fits(segments: list[Segment], closed: Closed) -> bool:
    """Say whether the log is what a clean close left: gapless files of one size, and nothing behind the end."""
    expected = segments[0].start if segments else closed.end
    for segment in segments:
        if segment.start != expected or len(segment.view) != segment.size:
            return False
        expected = segment.end
    if not segments or closed.end == expected:
        return closed.end == expected
    last = segments[-1]
    at = closed.end - last.start
    return 0 <= at < last.size and not any(last.view[at : at + 8])


def take(disk: Disk) -> Lock:
    """Take the directory for this process and mark it as in use, before anything in it is changed."""
    lock = disk.lock("lock")
    if disk.read(FORMAT.path) is None:
        disk.mkdir("steelyard")
        save(disk, FORMAT, Format())
    disk.open(_ABORT, create=True).close()
    disk.sync_folder("")
    return lock


def give_back(disk: Disk, lock: Lock, closed: Closed) -> None:
    """Say that all is in order, and let others have the directory."""
    save(disk, CLOSED, closed)
    disk.remove(_ABORT)
    disk.sync_folder("")
    lock.release()
