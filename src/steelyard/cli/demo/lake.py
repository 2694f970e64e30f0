"""The demo's last scene: Spark archives the topic, counts what it wrote, and sees how evenly it was spread.

The count is made from the Parquet files alone, and two messages never lie in the same place of a queue: as many places
as messages were sent is the proof that each is there, and once.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WINDOW_S", "Lake", "fill_lake"]

WINDOW_S = 5
"""How long a window of the table is."""


@dataclass(frozen=True, slots=True)
class Lake:
    """What Spark found in the files that it had written."""

    messages: int
    places: int
    """How many places of queues they had: as many as messages, if none is there twice."""
    files: int
    brokers: dict[str, int]
    """How many messages were stored by each broker."""
    fullest: int
    """How many messages the queue had that had most."""
    emptiest: int
    windows: tuple[tuple[str, int], ...]
    """How many messages were stored in each window of time, by when it began."""
    took_s: float

    @property
    def is_exact(self) -> bool:
        """Whether each message is there once."""
        return self.messages == self.places


def fill_lake(namesrv: str, topic: str, directory: Path, say: Callable[[str], object]) -> Lake:
    """Archive a topic below a directory, and count; ``say`` hears how far it is. Raises MissingExtra without Spark."""
    # Here and not above: nobody else waits for it.
    from steelyard.client.connect import Connect
    from steelyard.pipelines import archive
    from steelyard.pipelines.archive import ArchiveOptions
    from steelyard.pipelines.running import Progress
    from steelyard.pipelines.streaming import StreamOptions
    from steelyard.spark.local import prepare, session

    begin = monotonic()
    os.environ["XDG_CACHE_HOME"] = str(directory)  # the demo leaves nothing in the home directory
    say(prepare(master="local"))
    # Two at a time are enough for some thousand messages, and leave the machine to the demo.
    spark = session("demo", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    say(f"Spark is up after {monotonic() - begin:.1f} s, and archives the topic {topic}")
    to = directory / topic
    stream = StreamOptions(connect=Connect(namesrv), topics=(topic,), checkpoint=f"{to}.checkpoint")
    archive.run(spark, ArchiveOptions(stream, str(to)), Progress(lambda batch: say(str(batch))))
    found = _count(spark, to, begin)
    spark.stop()
    return found


def _count(spark: "SparkSession", directory: Path, begin_s: float) -> Lake:
    from pyspark.sql.functions import expr, window

    rows = spark.read.parquet(str(directory))
    sums = map(expr, ("count(*) AS messages", "count(DISTINCT offset) AS places"))
    queues = rows.groupBy("broker", "queue_id").agg(*sums).collect()
    counts = [row.messages for row in queues]
    windows = rows.groupBy(window("stored_at", f"{WINDOW_S} seconds")).count().orderBy("window").collect()
    brokers = Counter[str]()
    for row in queues:
        brokers[row.broker] += row.messages
    return Lake(
        messages=sum(counts),
        places=sum(row.places for row in queues),
        files=sum(1 for _ in directory.rglob("*.parquet")),
        brokers=dict(sorted(brokers.items())),
        fullest=max(counts, default=0),
        emptiest=min(counts, default=0),
        windows=tuple((f"{row.window.start:%H:%M:%S}", row["count"]) for row in windows),
        took_s=monotonic() - begin_s,
    )
