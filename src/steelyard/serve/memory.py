"""A directory in memory: fast, and gone with the process. For tests and demonstrations.

It keeps the promises of store/disk.py as far as they make sense where nothing outlives the process: syncs do nothing.
A large file is memory that the system hands out page by page when it is first written, so a log file of 64 MiB costs
nothing before it has messages. Left out: a limit. Give the store one (``keep_bytes``).
"""

from mmap import mmap
from typing import TypeAlias

from steelyard.errors import DiskFailed, DiskFull, StoreLocked
from steelyard.store.paths import checked_path

__all__ = ["MemoryDisk"]

_Buffer: TypeAlias = bytearray | mmap

# From this size on memory is asked of the system and not of Python, which would fill it with zeros by hand.
_LARGE_BYTES = 1 << 20
# What there is room for, as far as anybody asks.
_PLENTY_BYTES = 1 << 40


class MemoryDisk:
    """A directory in memory. What a store left in it another one finds.

    >>> disk = MemoryDisk()
    >>> file = disk.open("abort", create=True)
    >>> file.write(0, b"running"), disk.read("abort"), disk.names("")
    (7, b'running', ['abort'])
    """

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._folders = {""}
        self._locks: dict[str, _MemoryLock] = {}

    def open(self, path: str, *, create: bool = False) -> "_MemoryFile":
        """Open a file for reading and writing; without ``create`` it must exist."""
        checked_path(path, "open")
        content = self._files.get(path)
        if content is None:
            if path in self._folders:
                raise DiskFailed("open", path=path, why="is a directory")
            if not create or path.rpartition("/")[0] not in self._folders:
                raise DiskFailed("open", path=path, why="no such file or directory")
            content = self._files[path] = _Content()
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
            raise DiskFailed("read", path=path, why="is a directory")
        return None if content is None else content.read()

    def mkdir(self, folder: str) -> None:
        """Make a folder and those above it; no error if it is there."""
        path = checked_path(folder, "mkdir")
        while path:
            if path in self._files:
                raise DiskFailed("mkdir", path=folder, why="file exists")
            self._folders.add(path)
            path = path.rpartition("/")[0]

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, taking the place of a file that has it."""
        checked_path(new, "rename")
        content = self._files.get(checked_path(old, "rename"))
        if content is None or new.rpartition("/")[0] not in self._folders:
            raise DiskFailed("rename", path=old, why="no such file or directory")
        if new in self._folders:
            raise DiskFailed("rename", path=new, why="is a directory")
        del self._files[old]
        self._files[new] = content

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty; no error if it is gone."""
        if not checked_path(path, "remove"):
            raise DiskFailed("remove", path="the directory itself", why="only what is in it can be removed")
        if path in self._folders and self.names(path):
            raise DiskFailed("remove", path=path, why="directory not empty")
        self._files.pop(path, None)
        self._folders.discard(path)

    def sync_folder(self, folder: str) -> None:
        """Do nothing: nothing here outlives the process."""
        if checked_path(folder, "sync_folder") not in self._folders:
            raise DiskFailed("sync_folder", path=folder, why="no such file or directory")

    def free_bytes(self) -> int:
        """Return how many bytes can still be written, as if there were no end."""
        return _PLENTY_BYTES

    def size_bytes(self) -> int | None:
        """Return None: nobody counts."""
        return None

    def lock(self, path: str) -> "_MemoryLock":
        """Lock the directory by a file in it; `StoreLocked` if it is locked already."""
        if path in self._locks:
            raise StoreLocked("the directory in memory is in use by another broker of this process")
        self.open(path, create=True)
        self._locks[path] = lock = _MemoryLock(self._locks, path)
        return lock


class _MemoryLock:
    """A directory that is ours, until it is released."""

    def __init__(self, locks: "dict[str, _MemoryLock]", path: str) -> None:
        self._locks, self._path = locks, path

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class _Content:
    """The bytes of one file: a buffer with room to grow, and older ones that somebody may still view."""

    __slots__ = ("_buffer", "_older", "size", "written")

    def __init__(self) -> None:
        self.size = self.written = 0
        # Shorter than the file if its end was never written nor viewed.
        self._buffer: _Buffer = bytearray()
        self._older: list[_Buffer] = []

    def write(self, at: int, data: bytes) -> None:
        if at < 0:
            raise DiskFailed("write", path="a file in memory", why="invalid argument")
        if not data:
            return
        end = at + len(data)
        self._need(end, end + end // 4)
        self.size, self.written = max(self.size, end), max(self.written, end)
        for buffer in (self._buffer, *self._older):
            stop = min(end, len(buffer))
            if at < stop:
                buffer[at:stop] = data[: stop - at]

    def resize(self, size: int) -> None:
        if size < 0:
            raise DiskFailed("truncate", path="a file in memory", why="invalid argument")
        if size < self.size:
            if _is_viewed(self._buffer) or any(map(_is_viewed, self._older)):
                raise DiskFailed("truncate", path="a file in memory", why="somebody still views it")
            kept = self._buffer[:size]
            self._buffer, self._older = bytearray(kept), []
            self.written = min(self.written, size)
        self.size = size

    def read(self, at: int = 0, size: int | None = None) -> bytes:
        if at < 0 or (size is not None and size < 0):
            raise DiskFailed("read", path="a file in memory", why="invalid argument")
        end = self.size if size is None else min(at + size, self.size)
        return bytes(self._buffer[at:end]).ljust(max(0, end - at), b"\0")

    def view(self) -> memoryview:
        self._need(self.size, self.size)
        return memoryview(self._buffer)[: self.size].toreadonly()

    def sync(self) -> None:
        """Do nothing: nothing here outlives the process."""

    def _need(self, least: int, room: int) -> None:
        """Have a buffer of so many bytes; a new one has some to spare, for a file that is written bit by bit."""
        if least <= len(self._buffer):
            return
        try:
            grown: _Buffer = bytearray(room) if room < _LARGE_BYTES else mmap(-1, room)
        except (OSError, MemoryError, ValueError, OverflowError):
            raise DiskFull("write", path="a file in memory", why=f"there are no {room} bytes") from None
        grown[: len(self._buffer)] = self._buffer
        self._older = [buffer for buffer in (*self._older, self._buffer) if _is_viewed(buffer)]
        self._buffer = grown


class _MemoryFile:
    """One open file."""

    __slots__ = ("_held",)

    def __init__(self, content: _Content) -> None:
        self._held: _Content | None = content

    @property
    def _content(self) -> _Content:
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
    """Say whether somebody views a buffer."""
    try:
        # Python refuses to resize what is viewed.
        if isinstance(buffer, bytearray):
            buffer.append(0)
            buffer.pop()
        else:
            buffer.resize(len(buffer))
    except BufferError:
        return True
    return False
