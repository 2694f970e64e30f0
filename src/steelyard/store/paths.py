"""Which paths a disk takes: relative, separated by ``/``, and never out of the store's directory.

Left out: which names a topic may have; that is settled before one becomes a folder.
"""

from steelyard.errors import DiskFailed

__all__ = ["checked_path"]


def checked_path(path: str, operation: str) -> str:
    """Return the path, or refuse one that could lead elsewhere; the empty path is the store's directory itself.

    >>> checked_path("commitlog/00000000000000000000", "open")
    'commitlog/00000000000000000000'
    >>> checked_path("../lost", "open")
    Traceback (most recent call last):
    ...
    steelyard.errors.DiskFailed: open of '../lost' failed (it leads elsewhere); look at the disk and its cables
    """
    if path and ("\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))):
        raise DiskFailed(operation, path=repr(path), why="it leads elsewhere")
    return path
