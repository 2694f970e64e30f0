"""Parquet sink: exactly-once files of batches in a directory, for every reader, whenever the job is killed; compaction.

Spark's own file sink writes files in place and keeps a list of those that count. Readers that do not know the list
(DuckDB, pyarrow, `cat`) see rows of a killed batch twice, and truncated files. Here a file counts because it is there:

1. The batch is staged under the checkpoint. Killed here: it is written anew, to another directory, since the Java of
   the killed run may still be writing for a moment.
2. A commit manifest says which staged file becomes which file of the directory. From now on the batch is never
   written again.
3. The staged files are renamed to their places. Killed here: the next run renames the rest.

Batches are named by Spark's batch ids, which restart with a new checkpoint: a directory belongs to one checkpoint, and
is refused with any other (`claim`). The checkpoint must be outside the directory, since readers take every ``.parquet``
below it. Compaction merges small files between batches by the same steps; there is no second writer.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from steelyard.errors import ConfigurationError, JobFailed
from steelyard.pipelines.hadoop_files import Files, is_same_filesystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARQUET = ".parquet"
_BATCH = "batch-"
_OWNER_FILE = "_checkpoint.txt"
_KEPT_MANIFESTS = 2  # Spark replays only the last batch; one more is kept for inspection


@dataclass(frozen=True, slots=True)
class _CommitManifest:
    """What remains to be done once it is written: remove some files, then rename staged ones."""

    staged: str  # the directory of the staged files
    moves: dict[str, str]  # from a staged file to its path in the directory
    removes: tuple[str, ...] = ()

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps({"staged": self.staged, "removes": self.removes, "moves": self.moves})

    @classmethod
    def decode(cls, text: str, path: str) -> "_CommitManifest":
        """Parse a manifest."""
        try:
            kept = json.loads(text)
            moves = {str(old): str(new) for old, new in kept["moves"].items()}
            return cls(str(kept["staged"]), moves, tuple(map(str, kept["removes"])))
        except (ValueError, LookupError, AttributeError, TypeError):
            raise JobFailed(f"{path} is damaged", next_step="give another --checkpoint and another directory") from None


class ParquetSink:
    """One directory and its checkpoint, for one process at a time."""

    def __init__(self, files: Files, directory: str, state: str) -> None:
        self.files, self.directory, self._checkpoint = files, directory, state

    def claim(self) -> None:
        """Claim the directory, and finish what a killed run began; raises if it belongs to another checkpoint."""
        owner = f"{self._checkpoint}/directory.txt"
        written = self.files.read(owner)
        if written is None:
            if any(name.endswith(_PARQUET) for name in self.files.sizes(self.directory)):
                raise ConfigurationError(
                    f"{self.directory} has Parquet files already, and {self._checkpoint} does not know them",
                    next_step="give the --checkpoint that they were written with, or another directory",
                )
        elif written != self.directory:
            raise ConfigurationError(
                f"{self._checkpoint} is the checkpoint of {written}, and not of {self.directory}",
                next_step="give another --checkpoint",
            )
        self._mark_owner()
        if written is None:
            self.files.write(owner, self.directory)
        for name in self._manifest_names():
            self._apply_manifest(name)
            if not name.startswith(_BATCH):
                self.files.delete(self._manifest_path(name))
        for place in {path.partition("/")[0] for path in self.files.sizes(f"{self._checkpoint}/staged")}:
            self.files.delete(f"{self._checkpoint}/staged/{place}")

    def _mark_owner(self) -> None:
        """Write the owner into the directory: another job may have started there without writing anything yet."""
        mark = f"{self.directory}/{_OWNER_FILE}"
        if self.files.read(mark) is None:
            self.files.write(mark, self._checkpoint)
        owner = self.files.read(mark)  # of two concurrent writers, one finds the other's
        if owner != self._checkpoint:
            raise ConfigurationError(
                f"{self.directory} belongs to another job, whose checkpoint is {owner}",
                next_step=f"give that --checkpoint or another directory, or remove {mark} if that job is gone",
            )

    def publish(self, number: int, write: Callable[[str], None]) -> set[str]:
        """Publish a batch; return the relative directories that got files.

        ``write`` writes files into the directory it is given; it is not called for a batch that has a manifest.
        """
        name = _batch_name(number)
        manifest = self._read_manifest(name)
        if manifest is None:
            staged, paths = self._write_staged(name, write)
            moves = {path: f"{_parent(path)}{name}-{place:04}{_PARQUET}" for place, path in enumerate(paths)}
            manifest = self._write_manifest(name, _CommitManifest(staged, moves))
        self._apply_manifest(name)
        for old in sorted(kept for kept in self._manifest_names() if kept < _batch_name(number - _KEPT_MANIFESTS + 1)):
            self.files.delete(self._manifest_path(old))
        return {_parent(path) for path in manifest.moves.values()}

    def replace(self, name: str, removes: tuple[str, ...], write: Callable[[str], None]) -> None:
        """Replace some files of one directory by what ``write`` makes of them.

        They are removed first, so that a reader never sees a row twice; in between it misses those rows, until the next
        run if the job is killed right then.
        """
        parent = _parent(removes[0])
        staged, paths = self._write_staged(name, write)
        moves = {path: f"{parent}{name}-{place:04}{_PARQUET}" for place, path in enumerate(paths)}
        self._write_manifest(name, _CommitManifest(staged, moves, removes))
        self._apply_manifest(name)
        self.files.delete(self._manifest_path(name))

    def _write_staged(self, name: str, write: Callable[[str], None]) -> tuple[str, list[str]]:
        """Write to a new staging directory; return it, and its files."""
        staged = f"{self._checkpoint}/staged/{name}-{uuid4().hex}"
        write(staged)
        return staged, sorted(path for path in self.files.sizes(staged) if path.endswith(_PARQUET))

    def _write_manifest(self, name: str, manifest: _CommitManifest) -> _CommitManifest:
        self.files.write(self._manifest_path(name), manifest.encode())
        return manifest

    def _apply_manifest(self, name: str) -> None:
        """Apply a manifest; what was done before is skipped."""
        manifest = self._read_manifest(name)
        # Files that were renamed are not staged any more, and may have been compacted since.
        left = self.files.sizes(manifest.staged) if manifest is not None else {}
        if manifest is None or not left:
            return
        for path in manifest.removes:
            self.files.delete(f"{self.directory}/{path}")
        for path, target in manifest.moves.items():
            if path in left:
                self.files.move(f"{manifest.staged}/{path}", f"{self.directory}/{target}")
        self.files.delete(manifest.staged)

    def _read_manifest(self, name: str) -> _CommitManifest | None:
        path = self._manifest_path(name)
        text = self.files.read(path)
        return None if text is None else _CommitManifest.decode(text, path)

    def _manifest_names(self) -> list[str]:
        """Return the names of all manifests, in order."""
        found = self.files.sizes(f"{self._checkpoint}/sealed")
        return sorted(path.removesuffix(".json") for path in found if path.endswith(".json"))

    def _manifest_path(self, name: str) -> str:
        return f"{self._checkpoint}/sealed/{name}.json"


def check_checkpoint_location(directory: str, checkpoint: str) -> None:
    """Check that a checkpoint is outside a directory, and on the same file system."""
    if f"{checkpoint}/".startswith(f"{directory}/"):
        raise ConfigurationError(
            f"the checkpoint {checkpoint} is inside of {directory}",
            next_step="put it beside: readers take every Parquet file inside",
        )
    if not is_same_filesystem(directory, checkpoint):
        raise ConfigurationError(
            f"the checkpoint {checkpoint} is on another disk than {directory}",
            next_step="give a --checkpoint on the same one: files are renamed from there",
        )


def _batch_name(number: int) -> str:
    return f"{_BATCH}{max(0, number):010}"


def _parent(path: str) -> str:
    """Return the directory of a file with a trailing slash; empty for the top one.

    >>> _parent("day=2026-11-01/a.parquet"), _parent("a.parquet")
    ('day=2026-11-01/', '')
    """
    directory, slash, _ = path.rpartition("/")
    return directory + slash


_ORDER = ("topic", "broker", "queue_id", "offset")

_MergeFiles = Callable[[Sequence[str], str], None]  # merges files into a directory


@dataclass(frozen=True, slots=True)
class Compaction:
    """When small files are merged."""

    min_files: int = 32  # how many small files a directory may have; 0 disables compaction
    small_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if self.min_files < 0 or self.min_files == 1 or self.small_bytes < 1:
            raise ConfigurationError(
                f"files cannot be merged by {self.min_files}", next_step="give 2 or more, or 0 to leave them alone"
            )


def _small_files(sizes: Mapping[str, int], policy: Compaction) -> tuple[str, ...]:
    """Return the files of one directory to merge, in order; none if there are too few.

    >>> _small_files({"b.parquet": 10, "a.parquet": 10, "c.parquet": 99}, Compaction(2, small_bytes=50))
    ('a.parquet', 'b.parquet')
    """
    small = sorted(
        name
        for name, size in sizes.items()
        if size < policy.small_bytes and name.endswith(".parquet") and "/" not in name
    )
    return tuple(small) if policy.min_files and len(small) >= policy.min_files else ()


def compact(sink: ParquetSink, directories: Iterable[str], number: int, policy: Compaction, merge: _MergeFiles) -> int:
    """Merge the small files of these directories, given with trailing slashes; return how many there were.

    ``number`` is that of the last batch: it makes the name of the merged file unique.
    """
    merged = 0
    for directory in sorted(directories):
        small = _small_files(sink.files.sizes(f"{sink.directory}/{directory}"), policy)
        if small:
            paths = tuple(directory + name for name in small)
            full = [f"{sink.directory}/{path}" for path in paths]
            sink.replace(f"merged-{number:010}", paths, partial(merge, full))
            merged += len(paths)
    return merged


def merge_with_spark(spark: "SparkSession") -> _MergeFiles:
    """Return a function that merges files with Spark, in order, and checks the count."""

    def merge(paths: Sequence[str], staged: str) -> None:
        together = spark.read.option("mergeSchema", "true").parquet(*paths)
        sort_by_offset(together.coalesce(1)).write.parquet(staged)
        before, after = together.count(), spark.read.parquet(staged).count()
        if before != after:
            raise JobFailed(f"{before} rows of {len(paths)} files became {after}", next_step="nothing was changed")

    return merge


def sort_by_offset(rows: "DataFrame") -> "DataFrame":
    """Sort the rows of each partition by queue and offset, if they have them."""
    return rows.sortWithinPartitions(*_ORDER) if set(_ORDER) <= set(rows.columns) else rows
