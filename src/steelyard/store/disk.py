"""The disk as the store needs it, and whole files replaced atomically. The real disk or a failing one is passed in.

Paths are relative to the store's directory and separated by ``/``. Every failure is a `DiskFailed`, or a `DiskFull`
when there is no space left.

What a disk guarantees, and all that the store relies on: bytes written to a file are visible in its view at once. They
survive a crash of the process once `write` returned, and a power loss once `sync` returned without an error. After a
failed `sync` nothing is known of the bytes since the last good one. A new file, a rename and a removal survive a power
loss once `sync_folder` of their folder returned; until then, any part of them may have happened.
"""

from contextlib import closing
from typing import Protocol

from steelyard.errors import DiskFailed


class File(Protocol):
    """One open file."""

    @property
    def size(self) -> int:
        """Its size; bytes that were never written are zero."""

    def read(self, at: int, size: int) -> bytes:
        """Read bytes from a position on, fewer at the end of the file; bytes that were never written are zero."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, extending the file if needed, and return how many bytes were written: maybe not all."""

    def sync(self) -> None:
        """Make what was written survive a power loss. May be called from another thread than the writes."""

    def truncate(self, size: int) -> None:
        """Shorten or extend the file; new bytes are zero and take no space. No view may be open."""

    def zeros_from(self) -> int:
        """Return a position behind which there are only zeros; the size if that is unknown."""

    def view(self) -> memoryview:
        """Return the whole file at its present size, for reading; writes within it are visible at once.

        Only for records that are known to exist. On some file systems (tmpfs) reading a hole of a mapped file allocates
        space, and kills the process when there is none; use `read` for what may never have been written.
        """

    def close(self) -> None:
        """Close the file; views that are still held stay valid."""


class DirectoryLock(Protocol):
    """Exclusive use of a directory until it is released."""

    def release(self) -> None:
        """Release the directory."""


class Disk(Protocol):
    """A directory and its operations."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing; without ``create`` it must exist."""

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""

    def mkdir(self, folder: str) -> None:
        """Create a folder and its parents; no error if it exists."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder; no error if it does not exist."""

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder survive a power loss."""

    def free_bytes(self) -> int:
        """Return the free space in bytes."""

    def size_bytes(self) -> int | None:
        """Return the size of the file system in bytes; None if it is unlimited."""

    def lock(self, path: str) -> DirectoryLock:
        """Lock the directory by a file in it; `StoreLocked` if another process holds it."""


def checked_path(path: str, operation: str) -> str:
    """Return the path, or refuse one that leaves the store's directory; the empty path is that directory itself.

    >>> checked_path("commitlog/00000000000000000000", "open")
    'commitlog/00000000000000000000'
    >>> checked_path("../lost", "open")
    Traceback (most recent call last):
    ...
    steelyard.errors.DiskFailed: open of '../lost' failed (it leads elsewhere); check the disk's health
    """
    if path and ("\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))):
        raise DiskFailed(operation, path=repr(path), why="it leads elsewhere")
    return path


def make_folder(disk: Disk, folder: str) -> None:
    """Create a folder and its parents, and sync all of them."""
    disk.mkdir(folder)
    while folder:
        folder = folder.rpartition("/")[0]
        disk.sync_folder(folder)


def replace_file(disk: Disk, path: str, content: bytes, *, backup: str | None = None) -> None:
    """Replace a file atomically, or create it in a folder that exists: the name stands for the old or the new bytes.

    With ``backup``, the present file gets that name, which for a moment is its only one: readers try both. Errors of
    the disk pass through; then the old bytes are still there, under one of the two names.
    """
    temporary = f"{path}.tmp"
    with closing(disk.open(temporary, create=True)) as file:
        file.truncate(0)  # a failed attempt may have left something
        write_all(file, 0, content, temporary)
        file.sync()
    # No name is given before the bytes are synced. The order of the two renames does not matter to a reader that tries
    # both names, so one sync of the folder is enough for both.
    if backup is not None:
        disk.rename(path, backup)
    disk.rename(temporary, path)
    disk.sync_folder(path.rpartition("/")[0])


def write_all(file: File, at: int, data: bytes, path: str) -> None:
    """Write all bytes; a disk that accepts none of them has failed."""
    done = file.write(at, data)
    while done < len(data):
        count = file.write(at + done, data[done:])
        if count <= 0:
            raise DiskFailed("write", path=path, why=f"{done} of {len(data)} bytes were written")
        done += count
