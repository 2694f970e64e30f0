"""Aggregation: streaming SQL over topics with event-time windows → a topic, Parquet or the screen.

    SELECT window.start, tags, count(*) AS orders, sum(get_json_object(text, '$.total')) AS total
    FROM messages GROUP BY window(event_time, '1 minute'), tags

The query reads one view, ``messages``: the columns of the source, ``text``, the body as text, and ``event_time``, the
time of windows and watermark. A window is emitted once, when the watermark has passed its end: later messages are
dropped. In the mode ``update`` a window is emitted whenever it changed.

To a topic, a row goes as JSON, and its columns ``keys``, ``tags`` and ``key`` are also those of the message; a query
with a column ``body`` defines the body itself. Rows that are resent after a crash have the same message ids. To Parquet
each row is written once (parquet_sink.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError
from steelyard.pipelines.hadoop_files import HadoopFiles, absolute_path
from steelyard.pipelines.parquet_sink import ParquetSink, check_checkpoint_location
from steelyard.pipelines.stream_options import StreamOptions, connection_options, lock_checkpoint
from steelyard.pipelines.stream_runner import JobControl, query_error, run_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VIEW = "messages"

_MODES = ("append", "update")
_MESSAGE_COLUMNS = ("keys", "tags", "key")


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """A query, its topics, and its target: a topic, a directory, or else the screen."""

    stream: StreamOptions
    sql: str
    to_topic: str | None = None
    to: str | None = None
    event_time: str = "stored_at"  # a SQL expression for the time of a message
    watermark_ms: int = 600_000  # how late a message may be
    mode: str = "append"

    def __post_init__(self) -> None:
        if self.to_topic is not None and self.to is not None:
            raise ConfigurationError("the result goes to a topic and to files", next_step="give one of them")
        if self.mode not in _MODES:
            raise ConfigurationError(f"the mode is {self.mode!r}", next_step=f"give {' or '.join(_MODES)}")
        if self.to is not None and self.mode != "append":
            raise ConfigurationError(
                "files have each row once, but in the mode update a window has many", next_step="use the mode append"
            )
        if self.to is not None:
            object.__setattr__(self, "to", absolute_path(self.to))
            check_checkpoint_location(absolute_path(self.to), self.stream.checkpoint)

    @property
    def target(self) -> str:
        """The target, as text."""
        if self.to_topic is not None:
            return f"topic {self.to_topic}"
        return self.to or "the screen"


def query_result(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Return the result as a stream; a query that Spark rejects is a ConfigurationError."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import col, expr

    # A session of its own: the user's may have a view of that name.
    own = spark.newSession()
    rows = options.stream.read(own).withColumn("text", col("body").cast("string"))
    try:
        timed = rows.withColumn("event_time", expr(options.event_time))
        timed.withWatermark("event_time", f"{options.watermark_ms} milliseconds").createOrReplaceTempView(_VIEW)
    except AnalysisException as error:
        raise query_error(f"the event time {options.event_time!r}", error) from error
    try:
        found = own.sql(options.sql)
    except AnalysisException as error:
        raise query_error("the query", error) from error
    if not found.isStreaming:
        raise ConfigurationError(f"the query reads nothing of {_VIEW}", next_step=f"select FROM {_VIEW}")
    return _as_messages(found, options.to_topic) if options.to_topic is not None else found


def run(
    spark: "SparkSession",
    options: AggregateOptions,
    control: JobControl | None = None,
    *,
    show: Callable[[str], object] = print,
) -> int:
    """Run the query until it ends or is stopped; return how many messages it read. ``show`` gets rows as JSON."""
    stream, files = options.stream, HadoopFiles(spark)
    with lock_checkpoint(stream.checkpoint):
        stream.claim_checkpoint(files, f"aggregate to {options.target} by {options.event_time}: {options.sql}")
        return run_stream(
            query_result(spark, options),
            _batch_handler(files, options, show),
            checkpoint=stream.query_checkpoint,
            trigger=stream.trigger,
            name=f"aggregate {', '.join(stream.topics)}",
            mode=options.mode,
            control=control,
        )


def _batch_handler(
    files: HadoopFiles, options: AggregateOptions, show: Callable[[str], object]
) -> "Callable[[DataFrame, str, int], None]":
    """Return the function that handles the rows of a batch."""
    sink = ParquetSink(files, options.to, f"{options.stream.checkpoint}/output") if options.to else None
    if sink is not None:
        sink.claim()

    def handle(rows: "DataFrame", query: str, number: int) -> None:
        rows = rows.persist()  # each action would run the query again
        try:
            is_empty = rows.isEmpty()
            if sink is not None:
                sink.publish(number, lambda staged: None if is_empty else rows.write.parquet(staged))
            elif is_empty:
                return
            elif options.to_topic is not None:
                _send_rows(rows, options, f"{query}-{number}")
            else:
                for (line,) in rows.select(_json(rows)).toLocalIterator():
                    show(line)
        finally:
            rows.unpersist()

    return handle


def _send_rows(rows: "DataFrame", options: AggregateOptions, write_id: str) -> None:
    """Send the rows in a deterministic order, since their ids depend on it."""
    from pyspark.sql.types import MapType

    order = [field.name for field in rows.schema.fields if not isinstance(field.dataType, MapType)]
    connection = connection_options(options.stream.client_config)
    assert options.to_topic is not None
    (
        rows.sortWithinPartitions(*order)
        .write.format("rocketmq")
        .options(**connection, topic=options.to_topic, writeId=write_id)
        .mode("append")
        .save()
    )


def _json(rows: "DataFrame") -> "Column":
    """Return a column with the whole row as JSON."""
    from pyspark.sql.functions import struct, to_json

    return to_json(struct(*(rows[name] for name in rows.columns)))


def _as_messages(found: "DataFrame", topic: str | None) -> "DataFrame":
    """Return the rows as messages: as they are if they have a body, else as JSON."""
    from steelyard.spark.schema import WriteColumns

    if "body" not in found.columns:
        also = [name for name in _MESSAGE_COLUMNS if name in found.columns]
        found = found.select(_json(found).alias("body"), *also)
    WriteColumns.of(found.schema, topic=topic)
    return found
