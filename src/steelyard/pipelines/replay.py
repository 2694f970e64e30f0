"""Parquet → topic: an archive is sent again, at a rate, with tags, keys and properties, in the order per key.

    run(spark, ReplayOptions(connect, source="lake/orders", topic="orders-again", rate=10_000))

Messages of one key go to one queue, in the order in which they lay in theirs: the key is the sharding key, else the
keys; messages without either are spread. With a checkpoint a replay that was stopped goes on with the step that it was
at; that step's messages may be stored twice, with the same message ids. Without one it would begin anew.

Needed are the columns topic, broker, queue_id, offset and body; tags, keys and properties are sent if they are there.
Left out: delays, and the times of the first life: a message is stored now.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from steelyard.client.connect import Connect
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import OffsetRange, Queue
from steelyard.pipelines.compacting import in_order
from steelyard.pipelines.files import HadoopFiles, full_path
from steelyard.pipelines.pacing import Pace
from steelyard.pipelines.replaying import ReplayPlan, Steps
from steelyard.pipelines.running import Batch, Progress
from steelyard.pipelines.streaming import alone_with
from steelyard.pipelines.troubles import as_ours, wrong_query
from steelyard.pipelines.where import where_options
from steelyard.spark.options.checked import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ReplayOptions", "plan_of", "run"]

_PLACE = ("topic", "broker", "queue_id", "offset")
_MOST_IN_STEP = 500_000
_STEP_S = 1.0
"""With a rate, a step has what may be sent in this time: so even is the rate."""
_LEAST_IN_STEP = 500
_LOOK_S = 0.2
_OURS = ("topic", "writeid")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What is sent again, and where to."""

    connect: Connect
    source: str
    """A directory of Parquet, or a pattern of several."""
    topic: str
    rate: float | None = None
    """Messages a second; None for as fast as brokers take them."""
    where: str | None = None
    """A condition of SQL that says which rows are sent, such as ``day >= '2026-11-01'``."""
    checkpoint: str | None = None
    more: dict[str, str] = field(default_factory=dict)
    """Further options of the sink."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", full_path(self.source))
        if self.checkpoint is not None:
            object.__setattr__(self, "checkpoint", full_path(self.checkpoint))
        if self.rate is not None and not 0 < self.rate < inf:
            raise ConfigurationError(f"the rate is {self.rate}", next_step="give more than 0, or none")
        for name in self.more:
            if name.lower() in _OURS:
                raise ConfigurationError(f"the option {name} is given", next_step="leave it out: the replay sets it")
        WriteOptions.of({name.lower(): value for name, value in self.sink().items()})

    @property
    def job(self) -> str:
        """What is done, in words: a checkpoint belongs to it."""
        return f"replay of {self.source} to {self.topic}" + (f" where {self.where}" if self.where else "")

    def sink(self) -> dict[str, str]:
        """Return the options of the sink."""
        wanted = {name.lower() for name in self.more}
        where = {name: value for name, value in where_options(self.connect).items() if name.lower() not in wanted}
        return where | self.more | {"topic": self.topic}

    @property
    def most_in_step(self) -> int:
        """How many rows are sent together."""
        wanted = _MOST_IN_STEP if self.rate is None else round(self.rate * _STEP_S)
        return min(max(wanted, _LEAST_IN_STEP), _MOST_IN_STEP)


def plan_of(spark: "SparkSession", options: ReplayOptions) -> tuple[ReplayPlan, int]:
    """Return what would be sent, and how many steps of it are done; nothing is written."""
    steps = Steps(HadoopFiles(spark), options.checkpoint)
    kept = steps.plan(options.job)
    return (_plan(_rows(spark, options), options), 0) if kept is None else (kept, steps.done())


def run(spark: "SparkSession", options: ReplayOptions, progress: Progress | None = None) -> int:
    """Send until all is sent, or it is told to end; return how many rows were sent."""
    with nullcontext() if options.checkpoint is None else alone_with(options.checkpoint):
        return _send_steps(spark, options, progress or Progress())


def _send_steps(spark: "SparkSession", options: ReplayOptions, talk: Progress) -> int:
    pace = Pace(options.rate)
    steps = Steps(HadoopFiles(spark), options.checkpoint)
    rows = _rows(spark, options)
    plan = steps.plan(options.job)
    if plan is None:
        plan = _plan(rows, options)
        steps.begin(plan)
    sent, left = 0, plan.rows * (plan.steps - steps.done()) // max(1, plan.steps)
    for number in range(steps.done(), plan.steps):
        part = plan.step(number)
        if not _waits(pace.wait_s(0, now_s=time.monotonic()), talk):
            break
        begin = time.monotonic()
        count = _send(rows, part, options, plan.tasks, f"{plan.id}-{number}")
        pace.also(count)  # which a condition makes uneven
        steps.note(number + 1)
        sent += count
        left -= count
        talk.tell(Batch(number, count, round((time.monotonic() - begin) * 1_000), max(0, left)))
    return sent


def _waits(seconds: float, talk: Progress) -> bool:
    """Wait for the next step's time; False if it is told to end."""
    end = time.monotonic() + seconds
    while not talk.is_over():
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _LOOK_S))
    return False


def _rows(spark: "SparkSession", options: ReplayOptions) -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.option("mergeSchema", "true").parquet(options.source)
    except AnalysisException as error:
        raise wrong_query(f"the Parquet in {options.source}", error) from error
    missing = [name for name in (*_PLACE, "body") if name not in rows.columns]
    if missing:
        raise ConfigurationError(
            f"{options.source} has no column {missing[0]!r}, so it is no archive of topics",
            next_step="give what `steelyard pipeline run archive` wrote",
        )
    try:
        return rows if options.where is None else rows.where(options.where)
    except AnalysisException as error:
        raise wrong_query(f"the condition {options.where!r}", error) from error


def _plan(rows: "DataFrame", options: ReplayOptions) -> ReplayPlan:
    from pyspark.sql import functions as f

    queue = rows.groupBy("topic", "broker", "queue_id")
    found = queue.agg(f.min("offset").alias("first"), f.max("offset").alias("last"), f.count("*").alias("rows"))
    try:
        each = found.orderBy("topic", "broker", "queue_id").collect()
    except Exception as error:
        raise as_ours(error) from error
    queues = [OffsetRange(Queue(row.topic, row.broker, row.queue_id), row.first, row.last + 1) for row in each]
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    return ReplayPlan.of(options.job, sum(row["rows"] for row in each), options.most_in_step, queues, tasks=tasks)


def _send(rows: "DataFrame", part: Sequence[OffsetRange], options: ReplayOptions, tasks: int, write_id: str) -> int:
    """Send the rows of a step, and return how many there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    bounds = spark.createDataFrame(
        [(*each.queue, each.start, each.end) for each in part],
        "topic string, broker string, queue_id int, start long, stop long",
    )
    # The outer bounds alone let Parquet leave most of its pages unread.
    outer = (f.col("offset") >= min(each.start for each in part)) & (f.col("offset") < max(each.end for each in part))
    chosen = (
        rows.where(outer)
        .join(f.broadcast(bounds), ["topic", "broker", "queue_id"])
        .where("offset >= start AND offset < stop")
    )
    ordered = in_order(chosen.withColumn("key", _key(rows)).repartition(min(tasks, len(part)), *_together()))
    counted = Observation("replayed")
    sendable = [name for name in ("body", "tags", "keys", "properties") if name in rows.columns]
    try:
        (
            ordered.select(*sendable, "key")
            .observe(counted, f.count(f.lit(1)).alias("rows"))
            .write.format("rocketmq")
            .options(**options.sink(), writeId=write_id)
            .mode("append")
            .save()
        )
    except SteelyardError:
        raise
    except Exception as error:
        raise as_ours(error) from error
    return int(counted.get["rows"])


def _key(rows: "DataFrame") -> "Column":
    """Return what decides the queue of a message: its sharding key, else its keys; null for those without."""
    from pyspark.sql import functions as f

    parts = []
    if "properties" in rows.columns:
        parts.append(f.col("properties")["__SHARDINGKEY"])
    if "keys" in rows.columns:
        parts.append(f.col("keys"))
    return f.coalesce(*parts, f.lit(None).cast("string"))


def _together() -> "list[Column]":
    """Return what rows must have in common to be sent by one task, in their order: the key, else the queue."""
    from pyspark.sql import functions as f

    return [f.coalesce("key", f.concat_ws(":", "topic", "broker", "queue_id"))]
