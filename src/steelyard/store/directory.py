"""Store directory: whether it is a store, ours alone, and was closed cleanly.

While a process uses the directory, a file called ``abort`` lies in it, as with Apache's broker; a later process that
finds it knows that the last one did not close. Ours writes into it that the process was ours, once recovery is done:
then the checksums beside the log belong to the records in it. If another broker ran last, they do so only up to our
last clean close. What a clean close saved is trusted only if it matches the files.
"""

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from msgspec import Struct

from steelyard.errors import DiskFailed, NotAStore
from steelyard.store.commit_log import COMMIT_LOG_FOLDER, Segment
from steelyard.store.disk import Disk, File
from steelyard.store.json_documents import (
    CLEAN_SHUTDOWN,
    STORE_FORMAT,
    CleanShutdown,
    JsonDocument,
    StoreFormat,
    load_document,
    save_document,
)

_ABORT_FILE = "abort"
_FORMAT_VERSION = 1
# What a broker of either kind may leave in its directory before there is a log.
_IGNORED_NAMES = frozenset({"lock", "lost+found"})


class _InUse(Struct, frozen=True, kw_only=True):
    """What a process of ours writes into the abort file."""

    segment_bytes: int
    unsure_from: int | None = None
    """The position from which on a failed sync left the log unsynced, if one failed."""


_IN_USE = JsonDocument(_ABORT_FILE, _InUse, keeps_backup=False)


@dataclass(slots=True)
class DirectoryState:
    """A directory as it was found."""

    segments: list[Segment]
    segment_bytes: int
    clean_shutdown: CleanShutdown | None
    """What the last clean close saved, if the log is still as it left it."""
    checksums_to: int | None = None
    """Up to which position, and which time, checksums surely belong to the present records; None if all do."""
    checksums_to_ms: int = 0
    unsynced_from: int | None = None
    """The position from which on a sync failed: the kernel takes those pages for clean, so they must be rewritten."""


def check_directory(disk: Disk) -> None:
    """Refuse a directory that is no store, or one of a newer release: `NotAStore`."""
    names = set(disk.names("")) - _IGNORED_NAMES
    form = load_document(disk, STORE_FORMAT)
    if form.value is not None and form.value.v > _FORMAT_VERSION:
        raise NotAStore(
            f"the directory has format {form.value.v}, this release knows {_FORMAT_VERSION}",
            next_step="use the newer release that wrote it",
        )
    if names - {_ABORT_FILE, f"{_ABORT_FILE}.tmp"} and COMMIT_LOG_FOLDER not in names and "steelyard" not in names:
        raise NotAStore(f"the directory holds {', '.join(sorted(names)[:3])}, which no broker wrote")


def has_abort_file(disk: Disk) -> bool:
    """Return whether the last process, ours or another's, did not close the directory."""
    return _ABORT_FILE in disk.names("")


def inspect_directory(disk: Disk, segment_bytes: int) -> DirectoryState:
    """Inspect a directory without changing anything; `NotAStore` if it is no store."""
    check_directory(disk)
    is_in_use = has_abort_file(disk)
    running = load_document(disk, _IN_USE).value if is_in_use else None
    closed = load_document(disk, CLEAN_SHUTDOWN).value
    files = _open_files(disk)
    try:
        recorded = running.segment_bytes if running is not None else closed.segment_bytes if closed is not None else 0
        size = _find_segment_bytes(files, recorded) or segment_bytes
        segments = [Segment(start, size, file, file.view()) for start, file in files.items()]
    except BaseException:
        for file in files.values():
            file.close()
        raise
    if running is not None:
        return DirectoryState(segments, size, None, unsynced_from=running.unsure_from)
    if closed is None:
        return DirectoryState(segments, size, None, 0)
    if is_in_use or not _matches_shutdown(segments, closed):
        return DirectoryState(segments, size, None, closed.end, closed.closed_ms)
    return DirectoryState(segments, size, closed)


def _open_files(disk: Disk) -> dict[int, File]:
    """Open the log files; any other file is refused, since nothing here may be overwritten by mistake."""
    names = disk.names(COMMIT_LOG_FOLDER)
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) == 20):
            raise NotAStore(f"{COMMIT_LOG_FOLDER}/{name} is not a log file")
    return {int(name): disk.open(f"{COMMIT_LOG_FOLDER}/{name}") for name in names}


def _find_segment_bytes(files: dict[int, File], recorded: int) -> int:
    """Return the size of the log files, before any was truncated; 0 if it is unknown."""
    sizes = {start: file.size for start, file in files.items()}
    longest = max(sizes.values(), default=0)
    nearest = min((later - start for start, later in pairwise(sorted(sizes))), default=0)
    for size in (recorded, longest, *sorted(set(sizes.values()), reverse=True), nearest):
        if size and _is_segment_size(sizes, size):
            return size
    if longest:
        raise NotAStore(f"the files in {COMMIT_LOG_FOLDER} do not belong together: the longest has {longest} bytes")
    return recorded


def _is_segment_size(sizes: dict[int, int], size: int) -> bool:
    """Return whether log files, by their starts, can have had one size, though some were truncated or extended.

    What lies behind that size in a file is not log if another file begins there, or if it is not a multiple of it.
    """
    return not any(
        start % size or (found > size and found % size == 0 and start + size not in sizes)
        for start, found in sizes.items()
    )


def _matches_shutdown(segments: list[Segment], shutdown: CleanShutdown) -> bool:
    """Return whether the log is as a clean close left it: gapless files of one size, and nothing behind the end."""
    expected = segments[0].start if segments else shutdown.end
    for segment in segments:
        if segment.start != expected or len(segment.view) != segment.size:
            return False
        expected = segment.end
    if not segments or shutdown.end == expected:
        return shutdown.end == expected
    last = segments[-1]
    at = shutdown.end - last.start
    return 0 <= at < last.size and not any(last.file.read(at, 8))


def mark_in_use(disk: Disk, directory: DirectoryState) -> None:
    """Mark the directory as in use, before anything in it changes; the caller holds its lock."""
    if load_document(disk, STORE_FORMAT).value is None:
        disk.mkdir("steelyard")
        save_document(disk, STORE_FORMAT, StoreFormat())
    if directory.clean_shutdown is not None:
        write_abort_file(disk, directory.segment_bytes)
    if _ABORT_FILE not in disk.names(""):
        disk.open(_ABORT_FILE, create=True).close()
    disk.sync_folder("")


def write_abort_file(disk: Disk, segment_bytes: int, unsynced_from: int | None = None) -> None:
    """Record that the directory is ours, and from where on it may be unsynced. A full disk is ignored."""
    with suppress(DiskFailed):
        save_document(disk, _IN_USE, _InUse(segment_bytes=segment_bytes, unsure_from=unsynced_from))


def mark_clean_shutdown(disk: Disk, shutdown: CleanShutdown) -> None:
    """Record that the directory was closed cleanly."""
    save_document(disk, CLEAN_SHUTDOWN, shutdown)
    disk.remove(_ABORT_FILE)
    disk.sync_folder("")
