"""Opening and closing a directory: is it a store, is it ours alone, was it left in order.

While a process has it, a file called ``abort`` lies in it, as with Apache's broker: whoever finds it knows that the
last one did not get to close. Ours says in it that it was us, once all is settled: then the sums beside the log are of
the records in it. Where another broker ran last, they are so only up to our last clean close. What a clean close leaves
behind is believed only as far as it fits what is there.
"""

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from msgspec import Struct

from steelyard.errors import DiskFailed, NotAStore
from steelyard.store.disk import Disk, File
from steelyard.store.log import LOG_FOLDER, Segment
from steelyard.store.state import CLOSED, FORMAT, Closed, Document, Format, load, save

__all__ = ["Opened", "give_back", "is_left_open", "look_at", "mark_as_ours", "refuse_others", "take"]

_ABORT = "abort"
_KNOWN_FORMAT = 1
# What a broker of either kind may leave in its directory before there is any log.
_HARMLESS = frozenset({"lock", "lost+found"})


class _Running(Struct, frozen=True, kw_only=True):
    """What a process of ours writes down while it has a directory."""

    segment_bytes: int
    unsure_from: int | None = None
    """Where the log begins that a failed sync left unsafe, if one did."""


_RUNNING = Document(_ABORT, _Running, keeps_backup=False)


@dataclass(slots=True)
class Opened:
    """A directory as it was found."""

    segments: list[Segment]
    segment_bytes: int
    closed: Closed | None
    """What the last clean close said, if there was one and the log is still as it left it."""
    sums_to: int | None = None
    """Up to which position, and which time, sums are surely of the records that are there; None if all are."""
    sums_to_ms: int = 0
    unsure_from: int | None = None
    """From where on a sync of the last process failed: those pages count as clean, and are safe only once rewritten."""


def refuse_others(disk: Disk) -> None:
    """Refuse a directory that holds something else than a store, or a store of a newer release: `NotAStore`."""
    names = set(disk.names("")) - _HARMLESS
    form = load(disk, FORMAT)
    if form.value is not None and form.value.v > _KNOWN_FORMAT:
        raise NotAStore(
            f"the directory has format {form.value.v}, this release knows {_KNOWN_FORMAT}",
            next_step="use the newer release that wrote it",
        )
    if names - {_ABORT, f"{_ABORT}.tmp"} and LOG_FOLDER not in names and "steelyard" not in names:
        raise NotAStore(f"the directory holds {', '.join(sorted(names)[:3])}, which no broker wrote")


def is_left_open(disk: Disk) -> bool:
    """Say whether the last process, ours or another's, did not get to close the directory."""
    return _ABORT in disk.names("")


def look_at(disk: Disk, segment_bytes: int) -> Opened:
    """Look at a directory without changing anything; `NotAStore` if it holds something else."""
    refuse_others(disk)
    is_in_use = is_left_open(disk)
    running, closed = load(disk, _RUNNING).value if is_in_use else None, load(disk, CLOSED).value
    files = _open_files(disk)
    try:
        said = running.segment_bytes if running is not None else closed.segment_bytes if closed is not None else 0
        size = _segment_bytes(files, said) or segment_bytes
        segments = [Segment(start, size, file, file.view()) for start, file in files.items()]
    except BaseException:
        for file in files.values():
            file.close()
        raise
    if running is not None:
        return Opened(segments, size, None, unsure_from=running.unsure_from)
    if closed is None:
        return Opened(segments, size, None, 0)
    if is_in_use or not _fits(segments, closed):
        return Opened(segments, size, None, closed.end, closed.closed_ms)
    return Opened(segments, size, closed)


def _open_files(disk: Disk) -> dict[int, File]:
    """Open the files of the log; what is no log file is refused, since nothing here may be overwritten by mistake."""
    names = disk.names(LOG_FOLDER)
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) == 20):
            raise NotAStore(f"{LOG_FOLDER}/{name} is not a file of a log")
    return {int(name): disk.open(f"{LOG_FOLDER}/{name}") for name in names}


def _segment_bytes(files: dict[int, File], said: int) -> int:
    """Return how large all files of the log are, or were before one was cut short; 0 if nothing tells."""
    sizes = {start: file.size for start, file in files.items()}
    longest = max(sizes.values(), default=0)
    nearest = min((later - start for start, later in pairwise(sorted(sizes))), default=0)
    for size in (said, longest, *sorted(set(sizes.values()), reverse=True), nearest):
        if size and _can_be_of(sizes, size):
            return size
    if longest:
        raise NotAStore(f"the files in {LOG_FOLDER} do not belong together: the longest has {longest} bytes")
    return said


def _can_be_of(sizes: dict[int, int], size: int) -> bool:
    """Say whether files of a log, by their starts, can have been of one size: some were cut short, some lengthened.

    What is behind that size in a file is no log if another file begins there, or if it is no file's worth.
    """
    return not any(
        start % size or (found > size and found % size == 0 and start + size not in sizes)
        for start, found in sizes.items()
    )


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
    return 0 <= at < last.size and not any(last.file.read(at, 8))


def take(disk: Disk, found: Opened) -> None:
    """Mark the directory as in use, before anything in it is changed; its lock is held."""
    if load(disk, FORMAT).value is None:
        disk.mkdir("steelyard")
        save(disk, FORMAT, Format())
    if found.closed is not None:
        mark_as_ours(disk, found.segment_bytes)
    if _ABORT not in disk.names(""):
        disk.open(_ABORT, create=True).close()
    disk.sync_folder("")


def mark_as_ours(disk: Disk, segment_bytes: int, unsure_from: int | None = None) -> None:
    """Say that whatever is in the directory is from us, and if some of it may not be safe. A full disk is not told."""
    with suppress(DiskFailed):
        save(disk, _RUNNING, _Running(segment_bytes=segment_bytes, unsure_from=unsure_from))


def give_back(disk: Disk, closed: Closed) -> None:
    """Say that all is in order."""
    save(disk, CLOSED, closed)
    disk.remove(_ABORT)
    disk.sync_folder("")
