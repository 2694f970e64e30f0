"""A whole file in the place of another: written beside it, made safe, and given its name.

Whatever happens on the way, the name stands for the old bytes or for the new ones, never for a part of them. With a
backup, what was there keeps a name of its own, and for a moment that name is the only one: readers try both.
"""

from steelyard.store.disk import Disk
from steelyard.store.log import write_all

__all__ = ["make_folder", "replace_file"]


def make_folder(disk: Disk, folder: str) -> None:
    """Make a folder and those above it, safe from a loss of power when this returns."""
    disk.mkdir(folder)
    while folder:
        folder = folder.rpartition("/")[0]
        disk.sync_folder(folder)


def replace_file(disk: Disk, path: str, content: bytes, *, backup: str | None = None) -> None:
    """Put bytes in the place of a file, or where there was none; the folder is there already.

    With ``backup``, the file that is there now gets that name. Errors of the disk pass through; then the old bytes are
    still there, under the one name or the other.
    """
    beside = f"{path}.tmp"
    file = disk.open(beside, create=True)
    try:
        file.truncate(0)  # a try that failed may have left something
        write_all(file, 0, content, beside)
        file.sync()
    finally:
        file.close()
    # Not a name is given before the bytes are safe. The order of the two renames does not matter to a reader who tries
    # both names, so one sync of the folder is enough for both.
    if backup is not None:
        disk.rename(path, backup)
    disk.rename(beside, path)
    disk.sync_folder(path.rpartition("/")[0])
