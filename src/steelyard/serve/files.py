"""The real disk: files, folders and the lock of one directory.

What the operating system says is mapped here: an `OSError` becomes a `DiskFailed` or a `DiskFull` and never leaves.
Calls interrupted by a signal are tried again by Python itself. A disk that is opened read only changes nothing, not
even by its lock, and can be pointed at the directory of a running broker.

Left out: a read that fails inside a view. The operating system ends the process then (SIGBUS), and the next start finds
out what is damaged.
"""

import errno
import fcntl
import os
import sys
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path

from steelyard.errors import DiskFailed, DiskFull, StoreLocked
from steelyard.store.paths import checked_path

__all__ = ["RealDisk"]

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_MODE = 0o644

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
                self._root.mkdir(parents=True, exist_ok=True)
                _sync_folder(self._root.resolve().parent)

    def __repr__(self) -> str:
        return f"RealDisk({str(self._root)!r}{', read_only=True' if self._read_only else ''})"

    def open(self, path: str, *, create: bool = False) -> "_RealFile":
        """Open a file for reading and writing; without ``create`` it must exist. Read only, it is never created."""
        place = self._place(path, "open")
        flags = os.O_RDONLY if self._read_only else os.O_RDWR | (os.O_CREAT if create else 0)
        with _Border("open", path):
            if place.is_dir():
                raise DiskFailed("open", path=path, why="is a directory")
            return _RealFile(path, os.open(place, flags | os.O_CLOEXEC, _MODE))

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
            return place.read_bytes()
        return None

    def mkdir(self, folder: str) -> None:
        """Make a folder and those above it; no error if it is there."""
        place = self._place_to_change(folder, "mkdir")
        with _Border("mkdir", folder):
            place.mkdir(parents=True, exist_ok=True)

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
        with _Border("seek", self._path):
            size, end = os.fstat(self._handle).st_size, 0
            try:
                while end < size:
                    end = os.lseek(self._handle, os.lseek(self._handle, end, os.SEEK_DATA), os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return end  # a hole up to the end
                if error.errno != errno.EINVAL:
                    raise
                return size  # a file system that does not know
            return end

    def view(self) -> memoryview:
        with _Border("view", self._path):
            size = os.fstat(self._handle).st_size
            if not size:
                return memoryview(b"")
            if not self._maps or len(self._maps[-1]) != size:
                self._close_unviewed()
                self._maps.append(mmap(self._handle, size, access=ACCESS_READ))
            return memoryview(self._maps[-1])

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
