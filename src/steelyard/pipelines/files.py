"""The files that pipelines keep, wherever Spark can write: a disk, HDFS, a bucket.

`Files` is what publishing, compacting and replaying need of them and nothing more, so that tests can let any call be
the last one before a crash. `HadoopFiles` asks the file systems that Spark itself writes to. Paths are texts, with
``/`` between their parts.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.errors import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files", "HadoopFiles", "full_path", "is_here", "is_one_disk"]

_HALF = ".half"


class Files(Protocol):
    """What is done with files."""

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the bytes of each file below a directory, by its path from there; nothing if it is not there."""

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it is not there."""

    def write(self, path: str, text: str) -> None:
        """Make a file that is not there yet: all of it, or nothing."""

    def move(self, source: str, target: str) -> None:
        """Give a file another place, whose directory is made; nobody ever sees half of it."""

    def delete(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; one that is not there is fine."""


def is_here(path: str) -> bool:
    """Say whether a path is of this machine.

    >>> is_here("lake/orders"), is_here("file:///lake"), is_here("s3a://lake/orders")
    (True, True, False)
    """
    scheme, colon, _ = path.partition(":")
    return not colon or "/" in scheme or scheme == "file"


def full_path(path: str) -> str:
    """Return a path that means the same wherever it is read: one of this machine becomes absolute.

    >>> full_path("s3a://lake/orders/"), full_path("/lake/./old/../orders/"), full_path("file:/lake")
    ('s3a://lake/orders', '/lake/orders', '/lake')
    """
    if is_here(path):
        bare = path.removeprefix("file:").removeprefix("//") if path.startswith("file:") else path
        return os.path.normpath(Path(bare).expanduser().absolute())
    return path.rstrip("/")


def is_one_disk(one: str, other: str) -> bool:
    """Say whether a file can be moved from one directory to the other at once, and not by copying it.

    >>> is_one_disk("s3a://lake/orders", "s3a://lake/state"), is_one_disk("s3a://lake/orders", "/lake/state")
    (True, False)
    """
    if is_here(one) and is_here(other):
        return _disk(one) == _disk(other)
    return one.split("/")[:3] == other.split("/")[:3]


def _disk(path: str) -> int:
    """Return which file system a path of this machine is of, or will be."""
    for place in (Path(path), *Path(path).parents):
        with suppress(OSError):
            return place.stat().st_dev
    return 0


class HadoopFiles:
    """Files through Spark."""

    def __init__(self, spark: "SparkSession") -> None:
        # Java's own objects, which have no types here.
        context: Any = spark.sparkContext
        self._java: Any = context._jvm
        self._conf: Any = context._jsc.hadoopConfiguration()

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the bytes of each file below a directory; those that Hadoop keeps for itself are left out."""
        path, there = self._at(directory)
        if not there.exists(path):
            return {}
        begin = there.makeQualified(path).toUri().getPath().rstrip("/") + "/"
        found, listed = {}, there.listFiles(path, True)
        while listed.hasNext():
            status = listed.next()
            name = status.getPath().toUri().getPath().removeprefix(begin)
            if not name.endswith(".crc"):
                found[name] = int(status.getLen())
        return found

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        place, there = self._at(path)
        if not there.exists(place):
            return None
        stream = there.open(place)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make a file."""
        half, there = self._at(path + _HALF)
        stream = there.create(half, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.move(path + _HALF, path)

    def move(self, source: str, target: str) -> None:
        """Give a file another place."""
        (old, there), (new, _) = self._at(source), self._at(target)
        there.mkdirs(new.getParent())
        if not there.rename(old, new):
            raise JobFailed(f"{source} cannot become {target}", next_step="see who may write there, and run it again")

    def delete(self, path: str) -> None:
        """Remove a file or a directory."""
        place, there = self._at(path)
        there.delete(place, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        """Return a path as Hadoop knows it, and the file system that it is of."""
        place = self._java.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._conf)
