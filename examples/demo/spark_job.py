"""The Spark process of the demo: the topic into Parquet and into a windowed table, both while messages arrive.

These are the jobs of `steelyard pipeline run archive` and `aggregate`, in one session, every second. Events go to
stdout as lines of JSON. A line on stdin asks it to read to the end, count the files and exit; a closed stdin means that
the demo is gone. It may be killed at any time, and a restart with the same directory resumes it.

The count uses only the Parquet files. No two messages have the same queue and offset, so as many of those as messages
were sent proves that each message is there exactly once.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from steelyard.client.config import ClientConfig
from steelyard.errors import SteelyardError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW_S = 5
"""The length of a window."""


class SparkStarted(msgspec.Struct, frozen=True, tag="started"):
    """Spark is up."""

    took_s: float


class BatchArchived(msgspec.Struct, frozen=True, tag="archived"):
    """A batch was written."""

    number: int
    rows: int


class WindowCount(msgspec.Struct, frozen=True, tag="window"):
    """A row of the windowed table, reported whenever it changes."""

    start_ms: int
    """Since the demo began."""
    broker: str
    messages: int


class ParquetCount(msgspec.Struct, frozen=True, tag="lake"):
    """What the Parquet files contain."""

    messages: int
    distinct_places: int
    """Distinct queues and offsets: as many as messages, unless some are duplicates."""
    files: int
    fullest: int
    """Messages of the fullest queue."""
    emptiest: int


SparkEvent = SparkStarted | BatchArchived | WindowCount | ParquetCount

_decoder: msgspec.json.Decoder[SparkEvent] = msgspec.json.Decoder(SparkEvent)


def decode_event(line: bytes) -> SparkEvent:
    """Decode a line.

    >>> decode_event(b'{"type": "archived", "number": 3, "rows": 120}')
    BatchArchived(number=3, rows=120)
    """
    return _decoder.decode(line)


MASTER = "local[2]"
"""Two cores are enough for some thousand messages, and leave the rest to the demo."""

_TRIGGER_MS = 1_000
_SPARK_CONF = {
    "spark.sql.shuffle.partitions": "1",
    # For so few rows compiling a query takes longer than interpreting it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Empty batches would only advance the watermark, which no window needs.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_PLACE_SCHEMA = "broker string, queue_id int, offset bigint"
_WINDOW_QUERY = "SELECT unix_millis(window.start) AS start_ms, broker, count(*) AS messages FROM messages"


@dataclass(frozen=True, slots=True)
class _DemoJob:
    """Both streams in one session."""

    spark: "SparkSession"
    namesrv: str
    topic: str
    directory: Path
    begin_ms: int
    """When the demo began: windows count from here."""

    @property
    def lake(self) -> str:
        return str(self.directory / "lake")

    def run(self, every_ms: int | None, is_stopped: Callable[[], bool]) -> None:
        """Run both to their end or until stopped; if one fails, the other stops too."""
        from steelyard.pipelines import aggregate, archive
        from steelyard.pipelines.aggregate import AggregateOptions
        from steelyard.pipelines.archive import ArchiveOptions
        from steelyard.pipelines.stream_options import StreamOptions, Trigger
        from steelyard.pipelines.stream_runner import JobControl

        stream = partial(
            StreamOptions, client_config=ClientConfig(self.namesrv), topics=(self.topic,), trigger=Trigger(every_ms)
        )
        to_files = ArchiveOptions(stream(checkpoint=f"{self.lake}.checkpoint"), self.lake)
        to_table = AggregateOptions(
            stream(checkpoint=str(self.directory / "windows.checkpoint")),
            f"{_WINDOW_QUERY} GROUP BY window(event_time, '{WINDOW_S} seconds'), broker",
            event_time=f"timestamp_millis(unix_millis(stored_at) - {self.begin_ms})",
            mode="update",
        )
        failed = threading.Event()

        def should_stop() -> bool:
            return failed.is_set() or is_stopped()

        archived = JobControl(lambda batch: _write_event(BatchArchived(batch.number, batch.rows)), should_stop)
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(archive.run, self.spark, to_files, archived),
                pool.submit(
                    aggregate.run, self.spark, to_table, JobControl(should_stop=should_stop), show=_write_window
                ),
            ]
            wait(jobs, return_when=FIRST_EXCEPTION)
            if any(job.done() and job.exception() for job in jobs):
                failed.set()
        for job in jobs:
            job.result()

    def count_parquet(self) -> ParquetCount:
        """Count the rows in the files."""
        # Counted in Python: for so few rows an aggregation by Spark takes longer.
        rows = self.spark.read.schema(_PLACE_SCHEMA).parquet(self.lake).select("broker", "queue_id", "offset").collect()
        queues = Counter((row.broker, row.queue_id) for row in rows)
        return ParquetCount(
            messages=len(rows),
            distinct_places=len(set(rows)),
            files=sum(1 for _ in Path(self.lake).rglob("*.parquet")),
            fullest=max(queues.values(), default=0),
            emptiest=min(queues.values(), default=0),
        )


_stdout_lock = threading.Lock()


def _write_event(event: SparkEvent) -> None:
    with _stdout_lock:
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()


def _write_window(row: str) -> None:
    _write_event(msgspec.json.decode(row, type=WindowCount))


def _wait_for_end_line(is_ending: threading.Event) -> None:
    if not sys.stdin.readline():
        os._exit(1)
    is_ending.set()


def main(namesrv: str, topic: str, directory: str, begin_ms: str) -> int:
    """Stream until asked to finish, then read to the end and count; return the exit code."""
    begin = time.monotonic()
    is_ending = threading.Event()
    threading.Thread(target=_wait_for_end_line, args=(is_ending,), daemon=True).start()
    try:
        from steelyard.spark.spark_session import session

        spark = session("demo", master=MASTER, conf=_SPARK_CONF)
        _write_event(SparkStarted(time.monotonic() - begin))
        job = _DemoJob(spark, namesrv, topic, Path(directory), int(begin_ms))
        if not is_ending.is_set():
            job.run(_TRIGGER_MS, is_ending.is_set)
        job.run(None, lambda: False)
        _write_event(job.count_parquet())
    except SteelyardError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
