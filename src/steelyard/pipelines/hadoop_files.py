"""The files of pipelines, on any file system that Spark can write: a disk, HDFS, a bucket.

`Files` is the interface of sink, compaction and replay, so that tests can crash at any call. `HadoopFiles` implements
it with Spark's own file systems. Paths are texts with ``/``.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.errors import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTIAL_SUFFIX = ".half"


class Files(Protocol):
    """The file operations of pipelines."""

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the size of each file below a directory, by relative path; empty if it does not exist."""

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""

    def write(self, path: str, text: str) -> None:
        """Create a file atomically."""

    def move(self, source: str, target: str) -> None:
        """Rename a file atomically; the directory of the target is created."""

    def delete(self, path: str) -> None:
        """Remove a file, or a directory with its contents, if it exists."""


def is_local_path(path: str) -> bool:
    """Say whether a path is on this machine.

    >>> is_local_path("lake/orders"), is_local_path("file:///lake"), is_local_path("s3a://lake/orders")
    (True, True, False)
    """
    scheme, colon, _ = path.partition(":")
    return not colon or "/" in scheme or scheme == "file"


def absolute_path(path: str) -> str:
    """Return a path that does not depend on the working directory.

    >>> absolute_path("s3a://lake/orders/"), absolute_path("/lake/./old/../orders/"), absolute_path("file:/lake")
    ('s3a://lake/orders', '/lake/orders', '/lake')
    """
    if is_local_path(path):
        bare = path.removeprefix("file:").removeprefix("//") if path.startswith("file:") else path
        return os.path.normpath(Path(bare).expanduser().absolute())
    return path.rstrip("/")


def is_same_filesystem(one: str, other: str) -> bool:
    """Say whether a file can be renamed from one directory to the other.

    >>> is_same_filesystem("s3a://lake/orders", "s3a://lake/state")
    True
    >>> is_same_filesystem("s3a://lake/orders", "/lake/state")
    False
    """
    if is_local_path(one) and is_local_path(other):
        return _device(one) == _device(other)
    return one.split("/")[:3] == other.split("/")[:3]


def _device(path: str) -> int:
    """Return the device of a local path, which may not exist yet."""
    for place in (Path(path), *Path(path).parents):
        with suppress(OSError):
            return place.stat().st_dev
    return 0


class HadoopFiles:
    """Files through Spark."""

    def __init__(self, spark: "SparkSession") -> None:
        # Objects of Java, which are untyped here.
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._conf: Any = context._jsc.hadoopConfiguration()

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the size of each file below a directory, without Hadoop's checksum files."""
        path, system = self._hadoop_path(directory)
        if not system.exists(path):
            return {}
        begin = system.makeQualified(path).toUri().getPath().rstrip("/") + "/"
        found, listed = {}, system.listFiles(path, True)
        while listed.hasNext():
            status = listed.next()
            name = status.getPath().toUri().getPath().removeprefix(begin)
            if not name.endswith(".crc"):
                found[name] = int(status.getLen())
        return found

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        place, system = self._hadoop_path(path)
        if not system.exists(place):
            return None
        stream = system.open(place)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Create a file."""
        partial, system = self._hadoop_path(path + _PARTIAL_SUFFIX)
        stream = system.create(partial, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.move(path + _PARTIAL_SUFFIX, path)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        (old, system), (new, _) = self._hadoop_path(source), self._hadoop_path(target)
        system.mkdirs(new.getParent())
        if not system.rename(old, new):
            raise JobFailed(f"{source} cannot be renamed to {target}", next_step="check permissions, and run it again")

    def delete(self, path: str) -> None:
        """Remove a file or a directory."""
        place, system = self._hadoop_path(path)
        system.delete(place, True)

    def _hadoop_path(self, path: str) -> tuple[Any, Any]:
        """Return a path as a Hadoop object, and its file system."""
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._conf)
