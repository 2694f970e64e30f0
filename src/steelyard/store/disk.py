"""What the store asks of a disk. A disk is handed in: the real one, or one that forgets and fails on purpose.

Paths are relative to the store's directory and separated by ``/``. Whatever goes wrong is a `DiskFailed`, or a
`DiskFull` when there is no room; nothing else leaves a disk.

A view is for records that are known to be there. On some file systems (tmpfs) looking at a hole of a mapped file takes
room, and ends the process when there is none; so whatever may never have been written is asked for with `File.read`.

What a disk promises, and all that the store builds on: bytes written to a file are seen by its view at once; they are
safe from a crash of the process once `write` returned, and from a loss of power once `sync` returned without an error.
After a failed `sync` nothing is known of the bytes since the last good one. A new file, a rename and a removal are safe
from a loss of power once `sync_folder` of their folder returned. Until then, any part of it may have happened.
"""

from typing import Protocol

__all__ = ["Disk", "File", "Lock"]


class File(Protocol):
    """One open file."""

    @property
    def size(self) -> int:
        """How many bytes it has; those never written are zero."""

    def read(self, at: int, size: int) -> bytes:
        """Read bytes from a position on, fewer where the file ends; those never written are zero, and stay so."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if need be, and return how many bytes were written: maybe not all."""

    def sync(self) -> None:
        """Make what was written safe from a loss of power. May be called from another thread than the writes."""

    def truncate(self, size: int) -> None:
        """Cut or lengthen the file; new bytes are zero and take no room. No view may be open."""

    def zeros_from(self) -> int:
        """Return a position from which on there are only zeros; one that does not know it returns the size."""

    def view(self) -> memoryview:
        """Return the whole file, of the size it has now, for reading; writes within it show at once."""

    def close(self) -> None:
        """Let go of the file; views that somebody still holds stay valid."""


class Lock(Protocol):
    """A directory that is ours alone until it is released."""

    def release(self) -> None:
        """Let others have it."""


class Disk(Protocol):
    """A directory and what can be done in it."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing; without ``create`` it must exist."""

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""

    def mkdir(self, folder: str) -> None:
        """Make a folder and those above it; no error if it is there."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, taking the place of a file that has it."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty; no error if it is gone."""

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder safe from a loss of power."""

    def free_bytes(self) -> int:
        """Return how many bytes can still be written."""

    def size_bytes(self) -> int | None:
        """Return how many bytes there are at all, those of others too; None if nothing has an end."""

    def lock(self, path: str) -> Lock:
        """Lock the directory by a file in it; `StoreLocked` if another process has it."""
