"""SQL over topics as they grow, with windows of event time → a topic, Parquet or the screen.

    SELECT window.start, tags, count(*) AS orders, sum(get_json_object(text, '$.total')) AS total
    FROM messages GROUP BY window(event_time, '1 minute'), tags

The query sees one view, ``messages``: the columns of the source, ``text``, which is the body as text, and
``event_time``, the time that windows and the watermark go by. A window is told once, when the watermark has passed its
end: a message that is later than that is left out. In the mode ``update`` a window is told whenever it changed.

To a topic, a row goes as JSON, and its columns ``keys``, ``tags`` and ``key`` are the message's, too; a query with a
column ``body`` says itself what is sent. Rows that are sent again after a crash have the same message ids. To Parquet
each row is written once (publishing.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError
from steelyard.pipelines.files import HadoopFiles, full_path
from steelyard.pipelines.publishing import Publishing, check_beside
from steelyard.pipelines.running import Progress, run_stream
from steelyard.pipelines.streaming import StreamOptions, alone_with
from steelyard.pipelines.troubles import wrong_query
from steelyard.pipelines.where import where_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["VIEW", "AggregateOptions", "result_of", "run"]

VIEW = "messages"

_MODES = ("append", "update")
_ALSO = ("keys", "tags", "key")


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """What is asked, of which topics, and where the answer goes: to a topic, a directory, or else to the screen."""

    stream: StreamOptions
    sql: str
    to_topic: str | None = None
    to: str | None = None
    event_time: str = "stored_at"
    """An expression of SQL that is the time of a message."""
    watermark_ms: int = 600_000
    """How late a message may be."""
    mode: str = "append"

    def __post_init__(self) -> None:
        if self.to_topic is not None and self.to is not None:
            raise ConfigurationError("the answer is to go to a topic and to files", next_step="say one of them")
        if self.mode not in _MODES:
            raise ConfigurationError(f"the mode is {self.mode!r}", next_step=f"give {' or '.join(_MODES)}")
        if self.to is not None and self.mode != "append":
            raise ConfigurationError(
                "files hold each row once, and in the mode update a window has many", next_step="use the mode append"
            )
        if self.to is not None:
            object.__setattr__(self, "to", full_path(self.to))
            check_beside(full_path(self.to), self.stream.checkpoint)

    @property
    def target(self) -> str:
        """Where the answer goes, in words."""
        if self.to_topic is not None:
            return f"topic {self.to_topic}"
        return self.to or "the screen"


def result_of(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Return the answer as a stream; a query that Spark does not understand is a ConfigurationError."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import col, expr

    # A view of its own: somebody else's session may have one of that name.
    own = spark.newSession()
    rows = options.stream.read(own).withColumn("text", col("body").cast("string"))
    try:
        timed = rows.withColumn("event_time", expr(options.event_time))
        timed.withWatermark("event_time", f"{options.watermark_ms} milliseconds").createOrReplaceTempView(VIEW)
    except AnalysisException as error:
        raise wrong_query(f"the event time {options.event_time!r}", error) from error
    try:
        found = own.sql(options.sql)
    except AnalysisException as error:
        raise wrong_query("the query", error) from error
    if not found.isStreaming:
        raise ConfigurationError(f"the query reads nothing of {VIEW}", next_step=f"select FROM {VIEW}")
    return _as_messages(found, options.to_topic) if options.to_topic is not None else found


def run(
    spark: "SparkSession",
    options: AggregateOptions,
    progress: Progress | None = None,
    *,
    show: Callable[[str], object] = print,
) -> int:
    """Run the query until it ends, or is told to; return how many messages it read. ``show`` gets rows as JSON."""
    stream, files = options.stream, HadoopFiles(spark)
    with alone_with(stream.checkpoint):
        stream.belongs_to(files, f"aggregate to {options.target} by {options.event_time}: {options.sql}")
        return run_stream(
            result_of(spark, options),
            _handle(files, options, show),
            checkpoint=stream.query_checkpoint,
            trigger=stream.trigger,
            name=f"aggregate {', '.join(stream.topics)}",
            mode=options.mode,
            progress=progress,
        )


def _handle(
    files: HadoopFiles, options: AggregateOptions, show: Callable[[str], object]
) -> "Callable[[DataFrame, str, int], None]":
    """Return what is done with the rows of a batch."""
    publishing = Publishing(files, options.to, f"{options.stream.checkpoint}/output") if options.to else None
    if publishing is not None:
        publishing.claim()

    def handle(rows: "DataFrame", query: str, number: int) -> None:
        rows = rows.persist()  # each look at them would run the query again
        try:
            is_empty = rows.isEmpty()
            if publishing is not None:
                publishing.publish(number, lambda staged: None if is_empty else rows.write.parquet(staged))
            elif is_empty:
                return
            elif options.to_topic is not None:
                _send(rows, options, f"{query}-{number}")
            else:
                for (line,) in rows.select(_json(rows)).toLocalIterator():
                    show(line)
        finally:
            rows.unpersist()

    return handle


def _send(rows: "DataFrame", options: AggregateOptions, write_id: str) -> None:
    """Send the rows in an order that is the same each time, since their ids are made of it."""
    from pyspark.sql.types import MapType

    order = [field.name for field in rows.schema.fields if not isinstance(field.dataType, MapType)]
    where = where_options(options.stream.connect)
    assert options.to_topic is not None
    (
        rows.sortWithinPartitions(*order)
        .write.format("rocketmq")
        .options(**where, topic=options.to_topic, writeId=write_id)
        .mode("append")
        .save()
    )


def _json(rows: "DataFrame") -> "Column":
    """Return a column that is a whole row as JSON."""
    from pyspark.sql.functions import struct, to_json

    return to_json(struct(*(rows[name] for name in rows.columns)))


def _as_messages(found: "DataFrame", topic: str | None) -> "DataFrame":
    """Return the rows as messages: as they are if they have a body, else as JSON."""
    from steelyard.spark.encoding.row_columns import RowColumns

    if "body" not in found.columns:
        also = [name for name in _ALSO if name in found.columns]
        found = found.select(_json(found).alias("body"), *also)
    RowColumns.of(found.schema, topic=topic)
    return found
