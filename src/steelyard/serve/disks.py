"""Disks of a store (store/disk.py): a directory of the operating system, or one in memory.

On a `RealDisk` each `OSError` becomes `DiskFailed` or `DiskFull`. One that is opened read only changes nothing, not
even by its lock, and may be used on the directory of a running broker. A `MemoryDisk` is gone with the process, so its
syncs do nothing; the system allocates a large file page by page, so an empty log of 64 MiB costs nothing.

Left out: a read error inside a memory map. The system ends the process then (SIGBUS), and the next start reports what
cannot be read. Holes cannot fail so: a map whose holes have no room is refused. And a size limit in memory: give the
store one (``keep_bytes``).
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
from typing import TypeAlias

from steelyard.errors import DiskFailed, DiskFull, StoreLocked, file_advice
from steelyard.store.disk import checked_path

_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
_CHECK_PATH = "check the path"
_NOT_FOUND = (FileNotFoundError, NotADirectoryError)
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
"""Messages are for the broker alone, whatever the umask is: it decides who may read them."""
_MAX_READ_BYTES = 1 << 29
"""More than any file beside the log has: the checksums of a 2 GiB log file full of the smallest messages."""
_POPULATE_READ = 22
"""Linux's MADV_POPULATE_READ, which Python does not name: read pages, and fail instead of ending the process."""

# The lock files of this process. Closing any handle of a file releases all its POSIX locks, so a second attempt at a
# directory that is already ours must be refused before the file is opened.
_HELD_LOCKS: set[tuple[int, int]] = set()


class RealDisk:
    """A directory of the file system; it is created if it does not exist, unless the disk is opened read only."""

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        self._root = Path(root)
        self._read_only = read_only
        with _DiskErrors("open", str(root)):
            if not read_only and not self._root.is_dir():
                _make_folders(self._root)
                _sync_folder(self._root.resolve().parent)

    def __repr__(self) -> str:
        return f"RealDisk({str(self._root)!r}{', read_only=True' if self._read_only else ''})"

    def open(self, path: str, *, create: bool = False) -> "_RealFile":
        """Open a file for reading and writing; without ``create`` it must exist. Read only, it is never created."""
        place = self._resolve(path, "open")
        flags = os.O_RDONLY if self._read_only else os.O_RDWR | (os.O_CREAT if create else 0)
        with _DiskErrors("open", path):
            return _RealFile(path, _open_regular(place, flags, "open", path))

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if there is no such folder."""
        place = self._resolve(folder, "names")
        with _DiskErrors("names", folder), suppress(*_NOT_FOUND):
            return sorted(entry.name for entry in place.iterdir())
        return []

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""
        place = self._resolve(path, "read")
        with _DiskErrors("read", path), suppress(*_NOT_FOUND):
            file = _RealFile(path, _open_regular(place, os.O_RDONLY, "read", path))
            try:
                size = file.size
                # A larger one is damaged, and its holes would fill the memory.
                return file.read(0, size if size <= _MAX_READ_BYTES else min(file.zeros_from(), _MAX_READ_BYTES))
            finally:
                file.close()
        return None

    def mkdir(self, folder: str) -> None:
        """Create a folder and its parents; no error if it exists."""
        place = self._resolve_writable(folder, "mkdir")
        with _DiskErrors("mkdir", folder):
            try:
                place.mkdir(_FOLDER_MODE)  # at a stop ten thousand queues may get their first folder
            except FileNotFoundError:
                _make_folders(place)
            except FileExistsError:
                if not place.is_dir():
                    raise _path_error("mkdir", folder, "file exists") from None

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and replace one that has the name."""
        old_place, new_place = self._resolve_writable(old, "rename"), self._resolve_writable(new, "rename")
        with _DiskErrors("rename", old):
            for path, place in ((old, old_place), (new, new_place)):
                if place.is_dir():
                    raise _path_error("rename", path, "is a directory")
            old_place.replace(new_place)

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder; no error if it does not exist."""
        place = self._resolve_writable(path, "remove")
        if not path:
            raise _path_error("remove", "the directory itself", "only what is in it can be removed")
        with _DiskErrors("remove", path), suppress(*_NOT_FOUND):
            if place.is_dir() and not place.is_symlink():
                place.rmdir()
            else:
                place.unlink()

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder survive a loss of power."""
        place = self._resolve_writable(folder, "sync_folder")
        with _DiskErrors("sync_folder", folder):
            _sync_folder(place)

    def free_bytes(self) -> int:
        """Return the free space."""
        with _DiskErrors("statvfs", str(self._root)):
            room = os.statvfs(self._root)
        return room.f_bavail * room.f_frsize

    def size_bytes(self) -> int | None:
        """Return the size of the file system."""
        with _DiskErrors("statvfs", str(self._root)):
            room = os.statvfs(self._root)
        return room.f_blocks * room.f_frsize

    def lock(self, path: str) -> "_RealLock":
        """Lock the directory by a file in it; `StoreLocked` if another process, or this one, has locked it."""
        place = self._resolve_writable(path, "lock")
        with _DiskErrors("lock", path):
            with suppress(*_NOT_FOUND):
                if _file_identity(place.stat()) in _HELD_LOCKS:
                    raise self._locked_by(str(os.getpid()))
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            try:
                # Our own processes need only the first; a Java broker on the same directory checks the second.
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
                # For the error of the next process; a full disk is no reason not to serve what is on it.
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            return _RealLock(handle)

    def _locked_by(self, owner: str) -> StoreLocked:
        who = f"process {owner}" if owner.isdecimal() else "another process"
        return StoreLocked(f"the directory {self._root} is in use by {who}")

    def _resolve(self, path: str, operation: str) -> Path:
        return self._root / checked_path(path, operation)

    def _resolve_writable(self, path: str, operation: str) -> Path:
        if self._read_only:
            raise DiskFailed(operation, path=path, why="the disk is opened read only", next_step="open it for writing")
        return self._resolve(path, operation)


class _RealFile:
    """One open file, by its handle."""

    __slots__ = ("_handle", "_maps", "_path", "_write_errors")

    def __init__(self, path: str, handle: int) -> None:
        self._path, self._handle = path, handle
        self._write_errors = _DiskErrors("write", path)
        # The last one has the size of the file, unless that changed; the others are still in use.
        self._maps: list[mmap] = []

    @property
    def size(self) -> int:
        with _DiskErrors("size", self._path):
            return os.fstat(self._handle).st_size

    def read(self, at: int, size: int) -> bytes:
        with _DiskErrors("read", self._path):
            found = os.pread(self._handle, size, at)
            while len(found) < size:  # one call reads two GiB at most
                more = os.pread(self._handle, size - len(found), at + len(found))
                if not more:
                    break
                found += more
            return found

    def write(self, at: int, data: bytes) -> int:
        with self._write_errors:
            return os.pwrite(self._handle, data, at)

    def sync(self) -> None:
        with _DiskErrors("fsync", self._path):
            _sync_file(self._handle)

    def truncate(self, size: int) -> None:
        with _DiskErrors("truncate", self._path):
            self._close_unused_maps()
            if self._maps:
                # Reading a map beyond the end of its file ends the process.
                raise DiskFailed("truncate", path=self._path, why="a view of it is still open")
            os.ftruncate(self._handle, size)

    def zeros_from(self) -> int:
        # A log file has its full size from the start, and scanning its unwritten part takes long.
        return max((end for _, end in self._extents()), default=0)

    def _extents(self) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each written part: the whole file if the file system has no holes."""
        with _DiskErrors("seek", self._path):
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
        with _DiskErrors("view", self._path):
            size = os.fstat(self._handle).st_size
            if not size:
                return memoryview(b"")
            if not self._maps or len(self._maps[-1]) != size:
                self._close_unused_maps()
                mapped = mmap(self._handle, size, access=ACCESS_READ)
                self._check_holes(mapped)
                self._maps.append(mapped)
            return memoryview(self._maps[-1])

    def _check_holes(self, mapped: mmap) -> None:
        """Refuse a map whose holes cannot be read: a copy of a log may have some in the middle of messages.

        A file system in memory allocates their pages when they are read, and ends the process if it has no space.
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
                    why = "no space for the parts of it that were never written"
                    raise DiskFull("view", path=self._path, why=why) from error
                if error.errno != errno.EINVAL:  # an older kernel
                    raise

    def close(self) -> None:
        # A map that is in use lives as long as its views, and closes with the last.
        self._maps.clear()
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with _DiskErrors("close", self._path):
                os.close(handle)

    def _close_unused_maps(self) -> None:
        self._maps = [view for view in self._maps if not _try_close(view)]


class _RealLock:
    """A locked directory, by the handle of its lock file."""

    __slots__ = ("_handle", "_identity")

    def __init__(self, handle: int) -> None:
        self._handle, self._identity = handle, _file_identity(os.fstat(handle))
        _HELD_LOCKS.add(self._identity)

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            _HELD_LOCKS.discard(self._identity)
            with suppress(OSError):
                # Not for the lock: nobody should search for a process that is gone.
                os.ftruncate(handle, 0)
            with suppress(OSError):
                os.close(handle)


class _DiskErrors:
    """Turns errors of the system, and of impossible arguments, into ours.

    A class and not a generator: it is on the path of every write.
    """

    __slots__ = ("_operation", "_path")

    def __init__(self, operation: str, path: str) -> None:
        self._operation, self._path = operation, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            why = (error.strerror or str(error)).lower()
            if error.errno in _DISK_FULL_ERRNOS:
                raise DiskFull(self._operation, path=self._path, why=why) from error
            next_step = _CHECK_PATH if error.errno == errno.EISDIR else file_advice(error, DiskFailed.next_step)
            raise DiskFailed(self._operation, path=self._path, why=why, next_step=next_step) from error
        if isinstance(error, ValueError | OverflowError):
            raise _path_error(self._operation, self._path, str(error)) from error


def _path_error(operation: str, path: str, why: str) -> DiskFailed:
    return DiskFailed(operation, path=path, why=why, next_step=_CHECK_PATH)


def _open_regular(place: Path, flags: int, operation: str, path: str) -> int:
    """Open a file and return its handle. Pipes, which block, and devices, which have no end, are refused."""
    handle = os.open(place, flags | os.O_CLOEXEC | os.O_NONBLOCK, _FILE_MODE)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _path_error(operation, path, "is a directory" if stat.S_ISDIR(mode) else "is not a regular file")
    return handle


def _sync_file(handle: int) -> None:
    if sys.platform == "darwin":
        try:
            # On macOS, fsync leaves the bytes in the drive's cache.
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
            os.fsync(handle)
    else:
        os.fdatasync(handle)


def _make_folders(place: Path) -> None:
    # With `parents=True` the mode would be that of the last folder alone.
    for missing in reversed([each for each in (place, *place.parents) if not each.exists()]):
        missing.mkdir(_FOLDER_MODE, exist_ok=True)


def _sync_folder(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot sync a folder, and report it by this.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def _try_close(view: mmap) -> bool:
    """Close a map unless it is in use."""
    try:
        view.close()
    except BufferError:
        return False
    return True


def _file_identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_Buffer: TypeAlias = bytearray | mmap

# From this size on, memory comes from the system and not from Python, which would write all its zeros.
_MMAP_FROM_BYTES = 1 << 20
# The free space that is reported.
_FREE_BYTES = 1 << 40


class MemoryDisk:
    """A directory in memory. A store that is opened again finds what the last one left.

    >>> disk = MemoryDisk()
    >>> file = disk.open("abort", create=True)
    >>> file.write(0, b"running"), disk.read("abort"), disk.names("")
    (7, b'running', ['abort'])
    """

    def __init__(self) -> None:
        self._files: dict[str, _MemoryContent] = {}
        self._folders = {""}
        self._locks: dict[str, _MemoryLock] = {}

    def open(self, path: str, *, create: bool = False) -> "_MemoryFile":
        """Open a file for reading and writing; without ``create`` it must exist."""
        checked_path(path, "open")
        content = self._files.get(path)
        if content is None:
            if path in self._folders:
                raise _path_error("open", path, "is a directory")
            if not create or path.rpartition("/")[0] not in self._folders:
                raise _path_error("open", path, "no such file or directory")
            content = self._files[path] = _MemoryContent()
        return _MemoryFile(content)

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if there is no such folder."""
        start = f"{checked_path(folder, 'names')}/".lstrip("/")
        paths = [*self._files, *self._folders]
        return sorted({path[len(start) :].partition("/")[0] for path in paths if path.startswith(start)} - {""})

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""
        content = self._files.get(checked_path(path, "read"))
        if content is None and path in self._folders:
            raise _path_error("read", path, "is a directory")
        return None if content is None else content.read()

    def mkdir(self, folder: str) -> None:
        """Create a folder and its parents; no error if it exists."""
        path = checked_path(folder, "mkdir")
        while path:
            if path in self._files:
                raise _path_error("mkdir", folder, "file exists")
            self._folders.add(path)
            path = path.rpartition("/")[0]

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and replace one that has the name."""
        checked_path(new, "rename")
        content = self._files.get(checked_path(old, "rename"))
        if content is None or new.rpartition("/")[0] not in self._folders:
            raise _path_error("rename", old, "no such file or directory")
        if new in self._folders:
            raise _path_error("rename", new, "is a directory")
        del self._files[old]
        self._files[new] = content

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder; no error if it does not exist."""
        if not checked_path(path, "remove"):
            raise _path_error("remove", "the directory itself", "only what is in it can be removed")
        if path in self._folders and self.names(path):
            raise _path_error("remove", path, "directory not empty")
        self._files.pop(path, None)
        self._folders.discard(path)

    def sync_folder(self, folder: str) -> None:
        """Do nothing: nothing here outlives the process."""
        if checked_path(folder, "sync_folder") not in self._folders:
            raise _path_error("sync_folder", folder, "no such file or directory")

    def free_bytes(self) -> int:
        """Return a terabyte: there is no limit."""
        return _FREE_BYTES

    def size_bytes(self) -> int | None:
        """Return None: there is no limit."""
        return None

    def lock(self, path: str) -> "_MemoryLock":
        """Lock the directory by a file in it; `StoreLocked` if it is locked already."""
        if path in self._locks:
            raise StoreLocked("the directory in memory is in use by another broker of this process")
        self.open(path, create=True)
        self._locks[path] = lock = _MemoryLock(self._locks, path)
        return lock


class _MemoryLock:
    """A locked directory, until it is released."""

    def __init__(self, locks: "dict[str, _MemoryLock]", path: str) -> None:
        self._locks, self._path = locks, path

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class _MemoryContent:
    """The bytes of one file: a buffer with room to grow, and older ones that are still in use."""

    __slots__ = ("_buffer", "_viewed_buffers", "size", "written")

    def __init__(self) -> None:
        self.size = self.written = 0
        # Shorter than the file if its end was never written nor read.
        self._buffer: _Buffer = bytearray()
        self._viewed_buffers: list[_Buffer] = []

    def write(self, at: int, data: bytes) -> None:
        if at < 0:
            raise DiskFailed("write", path="a file in memory", why="invalid argument")
        if not data:
            return
        end = at + len(data)
        if end > len(self._buffer):
            self._grow(end + end // 4)
        self.size, self.written = max(self.size, end), max(self.written, end)
        for buffer in (self._buffer, *self._viewed_buffers):
            stop = min(end, len(buffer))
            if at < stop:
                buffer[at:stop] = data[: stop - at]

    def resize(self, size: int) -> None:
        if size < 0:
            raise DiskFailed("truncate", path="a file in memory", why="invalid argument")
        if size < self.size:
            if _is_viewed(self._buffer) or any(map(_is_viewed, self._viewed_buffers)):
                raise DiskFailed("truncate", path="a file in memory", why="a view of it is still open")
            kept = self._buffer[:size]
            self._buffer, self._viewed_buffers = bytearray(kept), []
            self.written = min(self.written, size)
        self.size = size

    def read(self, at: int = 0, size: int | None = None) -> bytes:
        if at < 0 or (size is not None and size < 0):
            raise DiskFailed("read", path="a file in memory", why="invalid argument")
        end = self.size if size is None else min(at + size, self.size)
        return bytes(self._buffer[at:end]).ljust(max(0, end - at), b"\0")

    def view(self) -> memoryview:
        if self.size > len(self._buffer):
            self._grow(self.size)
        return memoryview(self._buffer)[: self.size].toreadonly()

    def sync(self) -> None:
        """Do nothing: nothing here outlives the process."""

    def _grow(self, room: int) -> None:
        """Replace the buffer by a longer one; a file that is appended to gets spare room."""
        try:
            grown: _Buffer = bytearray(room) if room < _MMAP_FROM_BYTES else mmap(-1, room)
        except (OSError, MemoryError, ValueError, OverflowError):
            raise DiskFull("write", path="a file in memory", why=f"there are no {room} bytes") from None
        grown[: len(self._buffer)] = self._buffer
        self._viewed_buffers = [buffer for buffer in (*self._viewed_buffers, self._buffer) if _is_viewed(buffer)]
        self._buffer = grown


class _MemoryFile:
    """One open file."""

    __slots__ = ("_held",)

    def __init__(self, content: _MemoryContent) -> None:
        self._held: _MemoryContent | None = content

    @property
    def _content(self) -> _MemoryContent:
        if self._held is None:
            raise DiskFailed("use", path="a file in memory", why="it was closed")
        return self._held

    @property
    def size(self) -> int:
        return self._content.size

    def read(self, at: int, size: int) -> bytes:
        return self._content.read(at, size)

    def write(self, at: int, data: bytes) -> int:
        self._content.write(at, data)
        return len(data)

    def sync(self) -> None:
        self._content.sync()

    def truncate(self, size: int) -> None:
        self._content.resize(size)

    def zeros_from(self) -> int:
        return self._content.written

    def view(self) -> memoryview:
        return self._content.view()

    def close(self) -> None:
        self._held = None


def _is_viewed(buffer: _Buffer) -> bool:
    """Whether a buffer is in use."""
    try:
        # Python refuses to resize a buffer that has views.
        if isinstance(buffer, bytearray):
            buffer.append(0)
            buffer.pop()
        else:
            buffer.resize(len(buffer))
    except BufferError:
        return True
    return False
