"""Topics → Parquet by day: every message once, whoever reads the files, resumable, and without thousands of small ones.

    run(spark, ArchiveOptions(stream, to="lake/orders"))

    lake/orders/day=2026-11-01/batch-0000000000-0000.parquet      the days are those of ``stored_at``, in UTC
    lake/orders/_checkpoint.txt                                   whose they are; readers of Parquet pass over it
    lake/orders.checkpoint/                                       how far it is; the two belong together

The columns are those of the source. There is no list of files that count, as Spark's own file sink keeps one: a file
that is there counts, and so DuckDB, pyarrow and Spark see the same rows. How that holds when it is killed is in
publishing.py; how small files are merged is in compacting.py.

Left out: removing what is old: delete directories of days.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.pipelines.compacting import Compaction, compact, merging
from steelyard.pipelines.files import HadoopFiles, full_path
from steelyard.pipelines.publishing import Publishing, check_beside
from steelyard.pipelines.running import Progress, run_stream
from steelyard.pipelines.streaming import StreamOptions, alone_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ArchiveOptions", "run"]

_DAY = "date_from_unix_date(cast(unix_micros(stored_at) div 86400000000 AS int))"
"""In UTC, whatever the session's zone is."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What is archived, and where."""

    stream: StreamOptions
    to: str
    """A directory, wherever Spark can write."""
    compaction: Compaction = field(default_factory=Compaction)

    def __post_init__(self) -> None:
        object.__setattr__(self, "to", full_path(self.to))
        check_beside(self.to, self.stream.checkpoint)


def run(spark: "SparkSession", options: ArchiveOptions, progress: Progress | None = None) -> int:
    """Archive until it ends, or is told to; return how many messages were written."""
    files, stream = HadoopFiles(spark), options.stream
    publishing = Publishing(files, options.to, f"{stream.checkpoint}/output")
    with alone_with(stream.checkpoint):
        stream.belongs_to(files, f"archive to {options.to}")
        publishing.claim()

        def publish(rows: "DataFrame", _query: str, number: int) -> None:
            touched = publishing.publish(number, lambda staged: _write(rows, staged))
            compact(publishing, touched, number, options.compaction, merging(rows.sparkSession))

        return run_stream(
            stream.read(spark),
            publish,
            checkpoint=stream.query_checkpoint,
            trigger=stream.trigger,
            name=f"archive {', '.join(stream.topics)}",
            progress=progress,
        )


def _write(rows: "DataFrame", staged: str) -> None:
    from pyspark.sql.functions import expr

    rows.withColumn("day", expr(_DAY)).write.partitionBy("day").parquet(staged)
