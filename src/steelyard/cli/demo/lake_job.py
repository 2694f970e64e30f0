"""Spark in the demo: a process that reads the topic into Parquet and into a table of windows, both as it grows.

They are the jobs of `steelyard pipeline run archive` and `aggregate`, in one session, every second. A line on stdin
says that nothing more will come: both read what is there yet, the files are counted, and it ends. Until then it may be
killed, with its Java and its workers, and whoever is started with the same directory goes on. What it has to say
stands on stdout (lake.py). When stdin is closed, whoever wanted the answer is gone, and so is this.
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

from steelyard.cli.demo.lake import WINDOW_S, Archived, Lake, News, Started, Window
from steelyard.client.connect import Connect
from steelyard.errors import SteelyardError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MASTER", "main"]

MASTER = "local[2]"
"""Two at a time are enough for some thousand messages, and leave the machine to the demo."""

_EVERY_MS = 1_000
_CONF = {
    "spark.sql.shuffle.partitions": "1",
    # For so few rows it takes longer to compile a query than to run it as it is.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A batch without rows would move the watermark on, and no window waits for that.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_PLACE = "broker string, queue_id int, offset bigint"
_COUNT = "SELECT unix_millis(window.start) AS start_ms, broker, count(*) AS messages FROM messages"


@dataclass(frozen=True, slots=True)
class _Job:
    """Both streams of a session."""

    spark: "SparkSession"
    namesrv: str
    topic: str
    directory: Path
    begin_ms: int
    """When the demo began: windows are counted from there."""

    @property
    def lake(self) -> str:
        return str(self.directory / "lake")

    def run(self, every_ms: int | None, is_over: Callable[[], bool]) -> None:
        """Run both, to their end or until they are told; if one fails, the other ends, too."""
        from steelyard.pipelines import aggregate, archive
        from steelyard.pipelines.aggregate import AggregateOptions
        from steelyard.pipelines.archive import ArchiveOptions
        from steelyard.pipelines.running import Progress
        from steelyard.pipelines.streaming import StreamOptions
        from steelyard.pipelines.triggers import Trigger

        stream = partial(StreamOptions, connect=Connect(self.namesrv), topics=(self.topic,), trigger=Trigger(every_ms))
        to_files = ArchiveOptions(stream(checkpoint=f"{self.lake}.checkpoint"), self.lake)
        to_table = AggregateOptions(
            stream(checkpoint=str(self.directory / "windows.checkpoint")),
            f"{_COUNT} GROUP BY window(event_time, '{WINDOW_S} seconds'), broker",
            event_time=f"timestamp_millis(unix_millis(stored_at) - {self.begin_ms})",
            mode="update",
        )
        failed = threading.Event()

        def ends() -> bool:
            return failed.is_set() or is_over()

        archived = Progress(lambda batch: _tell(Archived(batch.number, batch.rows)), ends)
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(archive.run, self.spark, to_files, archived),
                pool.submit(aggregate.run, self.spark, to_table, Progress(is_over=ends), show=_tell_row),
            ]
            wait(jobs, return_when=FIRST_EXCEPTION)
            if any(job.done() and job.exception() for job in jobs):
                failed.set()
        for job in jobs:
            job.result()

    def count(self) -> Lake:
        """Count what is in the files."""
        # Counted here: for so few rows a sum by Spark takes longer than all of them.
        rows = self.spark.read.schema(_PLACE).parquet(self.lake).select("broker", "queue_id", "offset").collect()
        queues = Counter((row.broker, row.queue_id) for row in rows)
        return Lake(
            messages=len(rows),
            places=len(set(rows)),
            files=sum(1 for _ in Path(self.lake).rglob("*.parquet")),
            fullest=max(queues.values(), default=0),
            emptiest=min(queues.values(), default=0),
        )


_said = threading.Lock()


def _tell(news: News) -> None:
    with _said:
        sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
        sys.stdout.buffer.flush()


def _tell_row(row: str) -> None:
    _tell(msgspec.json.decode(row, type=Window))


def _listen(told: threading.Event) -> None:
    if not sys.stdin.readline():
        os._exit(1)
    told.set()


def main(namesrv: str, topic: str, directory: str, begin_ms: str) -> int:
    """Read along until told, then to the end; count, and return the exit code."""
    begin = time.monotonic()
    told = threading.Event()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    try:
        from steelyard.spark.local import session

        spark = session("demo", master=MASTER, conf=_CONF)
        _tell(Started(time.monotonic() - begin))
        job = _Job(spark, namesrv, topic, Path(directory), int(begin_ms))
        if not told.is_set():
            job.run(_EVERY_MS, told.is_set)
        job.run(None, lambda: False)
        _tell(job.count())
    except SteelyardError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
