"""Archive: topics → Parquet by day, each message once for every reader, resumable, without thousands of small files.

    run(spark, ArchiveOptions(stream, to="lake/orders"))

    lake/orders/day=2026-11-01/batch-0000000000-0000.parquet      days are those of ``stored_at``, in UTC
    lake/orders/_checkpoint.txt                                   the owner; Parquet readers skip it
    lake/orders.checkpoint/                                       the progress; the two belong together

The columns are those of the source. Unlike Spark's own file sink there is no list of valid files: a file that is there
counts, so DuckDB, pyarrow and Spark see the same rows, also after a crash (parquet_sink.py). Left out: retention:
delete directories of days.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.pipelines.hadoop_files import HadoopFiles, absolute_path
from steelyard.pipelines.parquet_sink import (
    Compaction,
    ParquetSink,
    check_checkpoint_location,
    compact,
    merge_with_spark,
)
from steelyard.pipelines.stream_options import StreamOptions, lock_checkpoint
from steelyard.pipelines.stream_runner import JobControl, run_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DAY = "date_from_unix_date(cast(unix_micros(stored_at) div 86400000000 AS int))"
"""In UTC, whatever the time zone of the session."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to archive, and where to."""

    stream: StreamOptions
    to: str  # a directory on any file system of Spark
    compaction: Compaction = field(default_factory=Compaction)

    def __post_init__(self) -> None:
        object.__setattr__(self, "to", absolute_path(self.to))
        check_checkpoint_location(self.to, self.stream.checkpoint)


def run(spark: "SparkSession", options: ArchiveOptions, control: JobControl | None = None) -> int:
    """Archive until the stream ends or is stopped; return how many messages were written."""
    files, stream = HadoopFiles(spark), options.stream
    sink = ParquetSink(files, options.to, f"{stream.checkpoint}/output")
    with lock_checkpoint(stream.checkpoint):
        stream.claim_checkpoint(files, f"archive to {options.to}")
        sink.claim()

        def publish(rows: "DataFrame", _query: str, number: int) -> None:
            changed = sink.publish(number, lambda staged: _write_by_day(rows, staged))
            compact(sink, changed, number, options.compaction, merge_with_spark(rows.sparkSession))

        return run_stream(
            stream.read(spark),
            publish,
            checkpoint=stream.query_checkpoint,
            trigger=stream.trigger,
            name=f"archive {', '.join(stream.topics)}",
            control=control,
        )


def _write_by_day(rows: "DataFrame", staged: str) -> None:
    from pyspark.sql.functions import expr

    rows.withColumn("day", expr(_DAY)).write.partitionBy("day").parquet(staged)
