"""Replay: Parquet → topic, at a rate, with tags, keys and properties, in order per key.

    run(spark, ReplayOptions(config, source="lake/orders", topic="orders-again", rate=10_000))

Messages of one key go to one queue, in their original order: the key is the sharding key, else the keys; messages
without either are distributed. A replay is a plan of steps, made once and kept in the checkpoint. All queues advance
together, each by its share, and a step starts after the one before is stored. A stopped replay resumes with its current
step; messages of that step may be stored twice, with the same message ids. An id contains the number of its task, so
the plan keeps the number of tasks as well. Without a checkpoint it starts over.

Required columns are topic, broker, queue_id, offset and body; tags, keys and properties are sent if present. Left out:
delays, and the original timestamps.
"""

import json
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from math import inf
from typing import TYPE_CHECKING
from uuid import uuid4

from steelyard.client.config import ClientConfig
from steelyard.errors import ConfigurationError, JobFailed, SteelyardError
from steelyard.model import OffsetRange, Queue
from steelyard.pipelines.hadoop_files import Files, HadoopFiles, absolute_path
from steelyard.pipelines.parquet_sink import sort_by_offset
from steelyard.pipelines.stream_options import connection_options, lock_checkpoint
from steelyard.pipelines.stream_runner import BatchProgress, JobControl, as_steelyard_error, query_error
from steelyard.spark.options import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to send, in how many steps.

    >>> plan = ReplayPlan("all", "id", 10, 2, (OffsetRange(Queue("orders", "a", 0), 100, 110),))
    >>> [str(part) for step in range(2) for part in plan.ranges_of_step(step)]
    ['orders@a:0[100, 105)', 'orders@a:0[105, 110)']
    """

    job: str  # a description of the job; another job is refused
    id: str
    rows: int
    steps: int
    queues: tuple[OffsetRange, ...]
    tasks: int = 1  # the maximum number of tasks of a step

    @classmethod
    def create(
        cls, job: str, rows: int, max_step_rows: int, queues: Iterable[OffsetRange], *, tasks: int = 1
    ) -> "ReplayPlan":
        """Make a plan whose steps have about ``max_step_rows`` rows at most."""
        return cls(job, uuid4().hex, rows, -(-rows // max(1, max_step_rows)), tuple(queues), tasks)

    def ranges_of_step(self, number: int) -> list[OffsetRange]:
        """Return the ranges of a step; empty ones are left out."""
        cut = [
            OffsetRange(
                each.queue,
                each.start + len(each) * number // self.steps,
                each.start + len(each) * (number + 1) // self.steps,
            )
            for each in self.queues
        ]
        return [each for each in cut if each]

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str, path: str) -> "ReplayPlan":
        """Parse a plan."""
        try:
            kept = json.loads(text)
            queues = tuple(OffsetRange(Queue(*each["queue"]), each["start"], each["end"]) for each in kept["queues"])
            return cls(kept["job"], kept["id"], kept["rows"], kept["steps"], queues, kept["tasks"])
        except (ValueError, LookupError, TypeError, ConfigurationError):
            raise JobFailed(f"{path} is damaged", next_step="give another --checkpoint") from None


class ReplayCheckpoint:
    """The checkpoint of a replay: its plan, and how many steps are done. Without a directory it is empty."""

    def __init__(self, files: Files, directory: str | None) -> None:
        self._files, self._directory = files, directory

    def read_plan(self, job: str) -> ReplayPlan | None:
        """Return the plan; None if there is none, an error if it belongs to another job."""
        if self._directory is None:
            return None
        path = f"{self._directory}/plan.json"
        text = self._files.read(path)
        if text is None:
            return None
        plan = ReplayPlan.decode(text, path)
        if plan.job != job:
            raise ConfigurationError(
                f"{self._directory} is the checkpoint of another job ({plan.job!r})",
                next_step="give another --checkpoint",
            )
        return plan

    def write_plan(self, plan: ReplayPlan) -> None:
        """Write the plan."""
        if self._directory is not None:
            self._files.write(f"{self._directory}/plan.json", plan.encode())

    def completed_steps(self) -> int:
        """Return how many steps are done."""
        found = self._files.sizes(f"{self._directory}/done") if self._directory is not None else {}
        return max((int(name) for name in found if name.isdigit()), default=0)

    def record_completed(self, done: int) -> None:
        """Record how many steps are done."""
        if self._directory is not None:
            self._files.write(f"{self._directory}/done/{done}", "")
            self._files.delete(f"{self._directory}/done/{done - 1}")


_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)\s*(?:/\s*(s|sec|second|min|minute|m|h|hour))?")
_MULTIPLIERS = {"": 1, "k": 1_000, "m": 1_000_000}
_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3_600, "hour": 3_600}


def parse_rate(text: str) -> float:
    """Parse a rate, per second.

    >>> parse_rate("10k/s"), parse_rate("1.5m"), parse_rate("600/min")
    (10000.0, 1500000.0, 10.0)
    """
    found = _RATE.fullmatch(text.strip().lower())
    rate = float(found[1]) * _MULTIPLIERS[found[2]] / _SECONDS[found[3] or "s"] if found else 0.0
    if not rate > 0:
        raise ConfigurationError(f"{text!r} is no rate", next_step="write one such as 500/s, 10k/s or 600/min")
    return rate


class RateLimiter:
    """Limits a rate. Time is an argument; a slow step is not made up for, so the rate is never exceeded.

    >>> limiter = RateLimiter(100.0)
    >>> limiter.wait_s(50, now_s=10.0), limiter.wait_s(50, now_s=10.1), limiter.wait_s(50, now_s=99.0)
    (0.0, 0.4, 0.0)
    >>> limiter.add(100)
    >>> limiter.wait_s(50, now_s=99.0)
    1.5
    """

    def __init__(self, rate: float | None) -> None:
        """Allow ``rate`` per second; None is unlimited."""
        self._rate = rate
        self._next_start_s: float | None = None

    def wait_s(self, count: int, *, now_s: float) -> float:
        """Return how long to wait before ``count`` more start, and count them."""
        if self._rate is None:
            return 0.0
        begin_s = now_s if self._next_start_s is None else max(now_s, self._next_start_s)
        self._next_start_s = begin_s + count / self._rate
        return round(begin_s - now_s, 6)

    def add(self, count: int) -> None:
        """Count more with the last step, whose size may be unknown beforehand."""
        if self._rate is not None and self._next_start_s is not None:
            self._next_start_s += count / self._rate


_OFFSET_COLUMNS = ("topic", "broker", "queue_id", "offset")
_MAX_STEP_ROWS = 500_000
_STEP_S = 1.0  # with a rate, the duration of a step
_MIN_STEP_ROWS = 500
_POLL_S = 0.2
_RESERVED_OPTIONS = ("topic", "writeid")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay, and where to."""

    client_config: ClientConfig
    source: str  # a directory of Parquet files, or a glob pattern
    topic: str
    rate: float | None = None  # messages per second; None: as fast as possible
    condition: str | None = None  # a SQL condition on rows, such as ``day >= '2026-11-01'``
    checkpoint: str | None = None
    sink_options: dict[str, str] = field(default_factory=dict)  # further options of the sink

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", absolute_path(self.source))
        if self.checkpoint is not None:
            object.__setattr__(self, "checkpoint", absolute_path(self.checkpoint))
        if self.rate is not None and not 0 < self.rate < inf:
            raise ConfigurationError(f"the rate is {self.rate}", next_step="give more than 0, or none")
        for name in self.sink_options:
            if name.lower() in _RESERVED_OPTIONS:
                raise ConfigurationError(f"the option {name} is given", next_step="leave it out: the replay sets it")
        WriteOptions.of({name.lower(): value for name, value in self.sink().items()})

    @property
    def job(self) -> str:
        """A description of the job, to which the checkpoint belongs."""
        return f"replay of {self.source} to {self.topic}" + (f" where {self.condition}" if self.condition else "")

    def sink(self) -> dict[str, str]:
        """Return the options of the sink."""
        wanted = {name.lower() for name in self.sink_options}
        connection = {
            name: value for name, value in connection_options(self.client_config).items() if name.lower() not in wanted
        }
        return connection | self.sink_options | {"topic": self.topic}

    @property
    def max_step_rows(self) -> int:
        """The maximum rows of a step."""
        wanted = _MAX_STEP_ROWS if self.rate is None else round(self.rate * _STEP_S)
        return min(max(wanted, _MIN_STEP_ROWS), _MAX_STEP_ROWS)


def plan_replay(spark: "SparkSession", options: ReplayOptions) -> tuple[ReplayPlan, int]:
    """Return the plan, and how many steps are done; nothing is written."""
    steps = ReplayCheckpoint(HadoopFiles(spark), options.checkpoint)
    kept = steps.read_plan(options.job)
    return (_make_plan(_archived_rows(spark, options), options), 0) if kept is None else (kept, steps.completed_steps())


def run(spark: "SparkSession", options: ReplayOptions, control: JobControl | None = None) -> int:
    """Send until everything is sent, or the job is stopped; return how many rows were sent."""
    with nullcontext() if options.checkpoint is None else lock_checkpoint(options.checkpoint):
        return _send_steps(spark, options, control or JobControl())


def _send_steps(spark: "SparkSession", options: ReplayOptions, control: JobControl) -> int:
    limiter = RateLimiter(options.rate)
    steps = ReplayCheckpoint(HadoopFiles(spark), options.checkpoint)
    rows = _archived_rows(spark, options)
    plan = steps.read_plan(options.job)
    if plan is None:
        plan = _make_plan(rows, options)
        steps.write_plan(plan)
    sent, left = 0, plan.rows * (plan.steps - steps.completed_steps()) // max(1, plan.steps)
    for number in range(steps.completed_steps(), plan.steps):
        part = plan.ranges_of_step(number)
        if not _wait(limiter.wait_s(0, now_s=time.monotonic()), control):
            break
        begin = time.monotonic()
        count = _send_step(rows, part, options, plan.tasks, f"{plan.id}-{number}")
        limiter.add(count)  # known only now: a condition makes steps uneven
        steps.record_completed(number + 1)
        sent += count
        left -= count
        control.on_batch(BatchProgress(number, count, round((time.monotonic() - begin) * 1_000), max(0, left)))
    return sent


def _wait(seconds: float, control: JobControl) -> bool:
    """Wait; False if the job is stopped."""
    end = time.monotonic() + seconds
    while not control.should_stop():
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _POLL_S))
    return False


def _archived_rows(spark: "SparkSession", options: ReplayOptions) -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.option("mergeSchema", "true").parquet(options.source)
    except AnalysisException as error:
        raise query_error(f"the Parquet in {options.source}", error) from error
    missing = [name for name in (*_OFFSET_COLUMNS, "body") if name not in rows.columns]
    if missing:
        raise ConfigurationError(
            f"{options.source} has no column {missing[0]!r}, so it is not an archive of topics",
            next_step="give what `steelyard pipeline run archive` wrote",
        )
    try:
        return rows if options.condition is None else rows.where(options.condition)
    except AnalysisException as error:
        raise query_error(f"the condition {options.condition!r}", error) from error


def _make_plan(rows: "DataFrame", options: ReplayOptions) -> ReplayPlan:
    from pyspark.sql import functions as f

    queue = rows.groupBy("topic", "broker", "queue_id")
    found = queue.agg(f.min("offset").alias("first"), f.max("offset").alias("last"), f.count("*").alias("rows"))
    try:
        each = found.orderBy("topic", "broker", "queue_id").collect()
    except Exception as error:
        raise as_steelyard_error(error) from error
    queues = [OffsetRange(Queue(row.topic, row.broker, row.queue_id), row.first, row.last + 1) for row in each]
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    return ReplayPlan.create(options.job, sum(row["rows"] for row in each), options.max_step_rows, queues, tasks=tasks)


def _send_step(
    rows: "DataFrame", part: Sequence[OffsetRange], options: ReplayOptions, tasks: int, write_id: str
) -> int:
    """Send the rows of a step, and return how many there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    bounds = spark.createDataFrame(
        [(*each.queue, each.start, each.end) for each in part],
        "topic string, broker string, queue_id int, start long, stop long",
    )
    # The outer bounds alone let Parquet skip most of its pages.
    outer = (f.col("offset") >= min(each.start for each in part)) & (f.col("offset") < max(each.end for each in part))
    chosen = (
        rows.where(outer)
        .join(f.broadcast(bounds), ["topic", "broker", "queue_id"])
        .where("offset >= start AND offset < stop")
    )
    ordered = sort_by_offset(
        chosen.withColumn("key", _ordering_key(rows)).repartition(min(tasks, len(part)), *_partition_key())
    )
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
        raise as_steelyard_error(error) from error
    return int(counted.get["rows"])


def _ordering_key(rows: "DataFrame") -> "Column":
    """Return the key that decides the queue of a message: its sharding key, else its keys; else null."""
    from pyspark.sql import functions as f

    parts = []
    if "properties" in rows.columns:
        parts.append(f.col("properties")["__SHARDINGKEY"])
    if "keys" in rows.columns:
        parts.append(f.col("keys"))
    return f.coalesce(*parts, f.lit(None).cast("string"))


def _partition_key() -> "list[Column]":
    """Return the key of rows that one task sends in order: the ordering key, else the queue."""
    from pyspark.sql import functions as f

    return [f.coalesce("key", f.concat_ws(":", "topic", "broker", "queue_id"))]
