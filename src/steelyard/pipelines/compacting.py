"""Small files become large ones: a stream writes many, and every reader pays for each.

A directory with enough small files gets them merged into one, in the order of queues and offsets. The merged file is
written aside and counted; how it takes the place of the small ones, and that no reader ever sees a row in both, is in
publishing.py. It is done between batches by whoever writes the directory: there is no second writer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError, JobFailed
from steelyard.pipelines.publishing import Publishing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Compaction", "Merge", "compact", "in_order", "merging", "small_files"]

_ORDER = ("topic", "broker", "queue_id", "offset")

Merge = Callable[[Sequence[str], str], None]
"""Takes files, and writes what they hold together into a directory."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """When files are worth merging."""

    least_files: int = 32
    """So many small ones in a directory are; 0 leaves all as it is."""
    small_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if self.least_files < 0 or self.least_files == 1 or self.small_bytes < 1:
            raise ConfigurationError(
                f"files cannot be merged by {self.least_files}", next_step="give 2 or more, or 0 to leave them alone"
            )


def small_files(sizes: Mapping[str, int], rule: Compaction) -> tuple[str, ...]:
    """Return the files of one directory that are to be merged, in order; none if there are too few.

    >>> small_files({"b.parquet": 10, "a.parquet": 10, "c.parquet": 99}, Compaction(2, small_bytes=50))
    ('a.parquet', 'b.parquet')
    """
    small = sorted(
        name
        for name, size in sizes.items()
        if size < rule.small_bytes and name.endswith(".parquet") and "/" not in name
    )
    return tuple(small) if rule.least_files and len(small) >= rule.least_files else ()


def compact(publishing: Publishing, directories: Iterable[str], number: int, rule: Compaction, merge: Merge) -> int:
    """Merge the small files of these directories, each of which has its slash behind it; return how many there were.

    ``number`` is that of the batch before it: it makes the merged file's name one that nothing had before.
    """
    merged = 0
    for directory in sorted(directories):
        small = small_files(publishing.files.sizes(f"{publishing.directory}/{directory}"), rule)
        if small:
            paths = tuple(directory + name for name in small)
            full = [f"{publishing.directory}/{path}" for path in paths]
            publishing.replace(f"merged-{number:010}", paths, partial(merge, full))
            merged += len(paths)
    return merged


def merging(spark: "SparkSession") -> Merge:
    """Return how Spark merges files: in order, and counted."""

    def merge(paths: Sequence[str], staged: str) -> None:
        together = spark.read.option("mergeSchema", "true").parquet(*paths)
        in_order(together.coalesce(1)).write.parquet(staged)
        before, after = together.count(), spark.read.parquet(staged).count()
        if before != after:
            raise JobFailed(f"{before} rows of {len(paths)} files became {after}", next_step="nothing was changed")

    return merge


def in_order(rows: "DataFrame") -> "DataFrame":
    """Put the rows of each part in the order of queues and offsets, if they have them."""
    return rows.sortWithinPartitions(*_ORDER) if set(_ORDER) <= set(rows.columns) else rows
