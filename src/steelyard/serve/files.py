"""The real disk: files, folders and the lock of one directory.

What the operating system says is mapped here: an `OSError` becomes a `DiskFailed` or a `DiskFull` and never leaves.
Calls interrupted by a signal are tried again by Python itself. A disk that is opened read only changes nothing, not
even by its lock, and can be pointed at the directory of a running broker.

Left out: a read that fails inside a view. The operating system ends the process then (SIGBUS), and the next start says
what cannot be read. What is a hole when a file is mapped cannot fail so: a map is refused that would end the process.
"""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, PAGESIZE, mmap
from pathlib import Path

from steelyard.errors import DiskFailed, DiskFull, StoreLocked
from steelyard.store.paths import checked_path

__all__ = ["RealDisk"]

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_MODE, _FOLDER_MODE = 0o600, 0o700
"""Messages are for the broker alone, whatever the umask says: who may read them is settled by the broker."""
_MOST_READ_BYTES = 1 << 29
"""More than any file beside the log has: the sums of a log file of 2 GiB that is full of the smallest messages."""
_POPULATE_READ = 22
"""Linux's MADV_POPULATE_READ, which Python does not name: look at pages, and say so if that would end the process."""

# The lock files of this process. Closing any handle of a file lets go of all its POSIX locks, so a second attempt at a
# directory that is already ours must be refused before the file is opened.
_HELD: set[tuple[int, int]] = set()


class RealDisk:
    """A directory of the operating system's; it is made if it is not there, unless the disk is opened read only."""

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        self._root = Path(root)
        self._read_only = read_only
        with _Border("open", str(root)):
            if not read_only and not self._root.is_dir():
                self._root.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
                _sync_folder(self._root.resolve().parent)

    def __repr__(self) -> str:
        return f"RealDisk({str(self._root)!r}{', read_only=True' if self._read_only else ''})"

    def open(self, path: str, *, create: bool = False) -> "_RealFile":
        """Open a file for reading and writing; without ``create`` it must exist. Read only, it is never created."""
        place = self._place(path, "open")
        flags = os.O_RDONLY if self._read_only else os.O_RDWR | (os.O_CREAT if create else 0)
        with _Border("open", path):
            return _RealFile(path, _open_regular(place, flags, "open", path))

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if there is no such folder."""
        place = self._place(folder, "names")
        with _Border("names", folder), suppress(*_NOT_THERE):
            return sorted(entry.name for entry in place.iterdir())
        return []

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""
        place = self._place(path, "read")
        with _Border("read", path), suppress(*_NOT_THERE):
            file = _RealFile(path, _open_regular(place, os.O_RDONLY, "read", path))
            try:
                size = file.size
                # One that is said to be larger is damaged, and its holes would fill the memory.
                return file.read(0, size if size <= _MOST_READ_BYTES else min(file.zeros_from(), _MOST_READ_BYTES))
            finally:
                file.close()
        return None

    def mkdir(self, folder: str) -> None:
        """Make a folder and those above it; no error if it is there."""
        place = self._place_to_change(folder, "mkdir")
        with _Border("mkdir", folder):
            for missing in reversed([each for each in (place, *place.parents) if not each.exists()]):
                missing.mkdir(_FOLDER_MODE, exist_ok=True)
            if not place.is_dir():
                raise DiskFailed("mkdir", path=folder, why="file exists")

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, taking the place of a file that has it."""
        old_place, new_place = self._place_to_change(old, "rename"), self._place_to_change(new, "rename")
        with _Border("rename", old):
            for path, place in ((old, old_place), (new, new_place)):
                if place.is_dir():
                    raise DiskFailed("rename", path=path, why="is a directory")
            old_place.replace(new_place)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty; no error if it is gone."""
        place = self._place_to_change(path, "remove")
        if not path:
            raise DiskFailed("remove", path="the directory itself", why="only what is in it can be removed")
        with _Border("remove", path), suppress(*_NOT_THERE):
            if place.is_dir() and not place.is_symlink():
                place.rmdir()
            else:
                place.unlink()

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder safe from a loss of power."""
        place = self._place_to_change(folder, "sync_folder")
        with _Border("sync_folder", folder):
            _sync_folder(place)

    def free_bytes(self) -> int:
        """Return how many bytes can still be written."""
        with _Border("statvfs", str(self._root)):
            room = os.statvfs(self._root)
        return room.f_bavail * room.f_frsize

    def size_bytes(self) -> int | None:
        """Return how many bytes the file system has at all."""
        with _Border("statvfs", str(self._root)):
            room = os.statvfs(self._root)
        return room.f_blocks * room.f_frsize

    def lock(self, path: str) -> "_RealLock":
        """Lock the directory by a file in it; `StoreLocked` if another process has it, or this one already does."""
        place = self._place_to_change(path, "lock")
        with _Border("lock", path):
            with suppress(*_NOT_THERE):
                if _identity(place.stat()) in _HELD:
                    raise self._locked_by(str(os.getpid()))
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
            try:
                # Between processes of ours the first would do; a Java broker on the same directory sees the second.
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            except (BlockingIOError, PermissionError):
                owner = os.pread(handle, 20, 0).decode("ascii", "replace")
                os.close(handle)
                raise self._locked_by(owner) from None
            except OSError:
                os.close(handle)
                raise
            with suppress(OSError):
                # A courtesy to who comes next; a full disk is no reason not to serve what is on it.
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            return _RealLock(handle)

    def _locked_by(self, owner: str) -> StoreLocked:
        who = f"process {owner}" if owner.isdecimal() else "another process"
        return StoreLocked(f"the directory {self._root} is in use by {who}")

    def _place(self, path: str, operation: str) -> Path:
        return self._root / checked_path(path, operation)

    def _place_to_change(self, path: str, operation: str) -> Path:
        if self._read_only:
            raise DiskFailed(operation, path=path, why="the disk was opened read only")
        return self._place(path, operation)


class _RealFile:
    """One open file, by its handle."""

    __slots__ = ("_handle", "_maps", "_path", "_writing")

    def __init__(self, path: str, handle: int) -> None:
        self._path, self._handle = path, handle
        self._writing = _Border("write", path)
        # The newest is of the file's present size, unless that changed; the others are there because they are viewed.
        self._maps: list[mmap] = []

    @property
    def size(self) -> int:
        with _Border("size", self._path):
            return os.fstat(self._handle).st_size

    def read(self, at: int, size: int) -> bytes:
        with _Border("read", self._path):
            found = os.pread(self._handle, size, at)
            while len(found) < size:  # one call reads two GiB at most
                more = os.pread(self._handle, size - len(found), at + len(found))
                if not more:
                    break
                found += more
            return found

    def write(self, at: int, data: bytes) -> int:
        with self._writing:
            return os.pwrite(self._handle, data, at)

    def sync(self) -> None:
        with _Border("fsync", self._path):
            _sync(self._handle)

    def truncate(self, size: int) -> None:
        with _Border("truncate", self._path):
            self._close_unviewed()
            if self._maps:
                # Reading a view beyond the end of its file ends the process.
                raise DiskFailed("truncate", path=self._path, why="somebody still views it")
            os.ftruncate(self._handle, size)

    def zeros_from(self) -> int:
        # A log file is as large as it may get from the start, and what was not written yet takes long to look through.
        return max((end for _, end in self._extents()), default=0)

    def _extents(self) -> Iterator[tuple[int, int]]:
        """Yield where something was written, from where to where: all of it on a file system that does not know."""
        with _Border("seek", self._path):
            size, end = os.fstat(self._handle).st_size, 0
            try:
                while end < size:
                    start = os.lseek(self._handle, end, os.SEEK_DATA)
                    end = os.lseek(self._handle, start, os.SEEK_HOLE)
                    yield start, end
            except OSError as error:
                if error.errno == errno.EINVAL:
                    yield 0, size
                elif error.errno != errno.ENXIO:  # a hole up to the end
                    raise

    def view(self) -> memoryview:
        with _Border("view", self._path):
            size = os.fstat(self._handle).st_size
            if not size:
                return memoryview(b"")
            if not self._maps or len(self._maps[-1]) != size:
                self._close_unviewed()
                mapped = mmap(self._handle, size, access=ACCESS_READ)
                self._look_into_holes(mapped)
                self._maps.append(mapped)
            return memoryview(self._maps[-1])

    def _look_into_holes(self, mapped: mmap) -> None:
        """Refuse a map whose holes cannot be looked at: a copy of a log may have some in the middle of messages.

        They have no pages of their own. A file system in memory makes them when they are looked at, and ends the
        process if it has no room for them.
        """
        end = 0
        for start, next_end in self._extents():
            hole, end = end // PAGESIZE * PAGESIZE, next_end
            if start <= hole or sys.platform != "linux":
                continue
            try:
                mapped.madvise(_POPULATE_READ, hole, start - hole)
            except OSError as error:
                if error.errno == errno.EFAULT:
                    why = "no room for the parts of it that were never written"
                    raise DiskFull("view", path=self._path, why=why) from error
                if error.errno != errno.EINVAL:  # a system that cannot say
                    raise

    def close(self) -> None:
        # A map that is viewed lives on as long as its views do; nobody has to close it.
        self._maps.clear()
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with _Border("close", self._path):
                os.close(handle)

    def _close_unviewed(self) -> None:
        self._maps = [view for view in self._maps if not _closes(view)]


class _RealLock:
    """A directory that is ours, by the handle of its lock file."""

    __slots__ = ("_handle", "_identity")

    def __init__(self, handle: int) -> None:
        self._handle, self._identity = handle, _identity(os.fstat(handle))
        _HELD.add(self._identity)

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            _HELD.discard(self._identity)
            with suppress(OSError):
                # Not needed for the lock: who reads the number of a process that is gone would look for it.
                os.ftruncate(handle, 0)
            with suppress(OSError):
                os.close(handle)


class _Border:
    """Turn what the operating system says, and what Python says of impossible arguments, into our own errors.

    A class and not a generator, because writes and views go through it by the hundred thousand.
    """

    __slots__ = ("_operation", "_path")

    def __init__(self, operation: str, path: str) -> None:
        self._operation, self._path = operation, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            failed = DiskFull if error.errno in _NO_ROOM else DiskFailed
            why = (error.strerror or str(error)).lower()
            raise failed(self._operation, path=self._path, why=why) from error
        if isinstance(error, ValueError | OverflowError):
            raise DiskFailed(self._operation, path=self._path, why=str(error)) from error


def _open_regular(place: Path, flags: int, operation: str, path: str) -> int:
    """Open a file and return its handle. A pipe would make us wait, and a device never ends: they are refused."""
    handle = os.open(place, flags | os.O_CLOEXEC | os.O_NONBLOCK, _MODE)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise DiskFailed(operation, path=path, why="is a directory" if stat.S_ISDIR(mode) else "is not a regular file")
    return handle


def _sync(handle: int) -> None:
    if sys.platform == "darwin":
        try:
            # There, fsync leaves the bytes in the drive's own memory.
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
            os.fsync(handle)
    else:
        os.fdatasync(handle)


def _sync_folder(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot sync a folder and say so by this; there is nothing more to be had from them.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def _closes(view: mmap) -> bool:
    """Close a map unless somebody views it."""
    try:
        view.close()
    except BufferError:
        return False
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
