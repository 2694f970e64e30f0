"""A directory in memory: fast, and gone with the process. For tests and demonstrations.

It keeps the promises of store/disk.py as far as they make sense where nothing outlives the process: syncs do nothing.
A large file is memory that the system hands out page by page when it is first written, so a log file of 64 MiB costs
nothing before it has messages. Left out: a limit. Give the store one (``keep_bytes``).
"""

from mmap import mmap
from typing import TypeAlias

from steelyard.errors import DiskFailed, StoreLocked
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
        self._locked: set[str] = set()

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
        return None if content is None else bytes(content.view())

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
        content = self._files.get(checked_path(old, "rename"))
        if content is None or checked_path(new, "rename").rpartition("/")[0] not in self._folders:
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

    def lock(self, path: str) -> "_MemoryLock":
        """Lock the directory by a file in it; `StoreLocked` if it is locked already."""
        if path in self._locked:
            raise StoreLocked("the directory in memory is in use by another broker of this process")
        self.open(path, create=True)
        self._locked.add(path)
        return _MemoryLock(self._locked, path)


class _MemoryLock:
    """A directory that is ours."""

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked, self._path = locked, path

    def release(self) -> None:
        self._locked.discard(self._path)


class _Content:
    """The bytes of one file: a buffer with room to grow, and older ones that somebody may still view."""

    __slots__ = ("_buffer", "_older", "size")

    def __init__(self) -> None:
        self.size = 0
        self._buffer: _Buffer = bytearray()
        self._older: list[_Buffer] = []

    def write(self, at: int, data: bytes) -> None:
        end = at + len(data)
        if end > self.size:
            self.resize(end)
        self._buffer[at:end] = data
        for buffer in self._older:
            stop = min(end, len(buffer))
            if at < stop:
                buffer[at:stop] = data[: stop - at]

    def resize(self, size: int) -> None:
        if size > len(self._buffer):
            # Something to spare for a file that is written bit by bit; one that is lengthened from nothing is not.
            room = size + size // 4 if self.size else size
            grown: _Buffer = bytearray(room) if room < _LARGE_BYTES else mmap(-1, room)
            grown[: self.size] = self._buffer[: self.size]
            if self.size:
                self._older.append(self._buffer)
            self._buffer = grown
            self._older = [buffer for buffer in self._older if _is_viewed(buffer)]
        elif size < self.size:
            self._buffer[size : self.size] = bytes(self.size - size)
        self.size = size

    def view(self) -> memoryview:
        return memoryview(self._buffer)[: self.size].toreadonly()


class _MemoryFile:
    """One open file."""

    __slots__ = ("_content",)

    def __init__(self, content: _Content) -> None:
        self._content = content

    @property
    def size(self) -> int:
        return self._content.size

    def write(self, at: int, data: bytes) -> int:
        self._content.write(at, data)
        return len(data)

    def sync(self) -> None:
        return None

    def truncate(self, size: int) -> None:
        self._content.resize(size)

    def view(self) -> memoryview:
        return self._content.view()

    def close(self) -> None:
        return None


def _is_viewed(buffer: _Buffer) -> bool:
    """Say whether somebody views a buffer; one that nobody views is let go."""
    try:
        if isinstance(buffer, bytearray):
            buffer.clear()
        else:
            buffer.close()
    except BufferError:
        return True
    return False
