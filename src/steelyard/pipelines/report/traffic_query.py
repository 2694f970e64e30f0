"""Aggregates the traffic of a topic with Spark: only the sums come to the driver.

The topic is read once, in the few columns that matter, and cached while four sums are made: by queue, by key, the
heaviest key of each queue, and by step of time. The key of a message is:

- by default its sharding key, which decides its queue, and else its keys;
- ``keys``: its keys alone, without reading all properties, which is about twice as fast;
- any other name: the property of that name.

A message with several keys counts for each of them.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as sql

from steelyard.model import Queue
from steelyard.pipelines.report.contents import (
    KeyInQueue,
    KeyLoad,
    QueueLoad,
    TimeStepLoad,
    TopicTraffic,
    choose_step_ms,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_KEYS = "keys"
_SHARDING_KEY = "__SHARDINGKEY"

_COLUMNS = "broker string, queue_id int, body binary, keys string, stored_at timestamp"
_PROPERTIES = "properties map<string, string>"
_BLANKS = r"\s+"
_MIN_SHUFFLE_PARTITIONS = 4


def query_traffic(
    spark: "SparkSession", options: dict[str, str], queues: Iterable[Queue], *, key: str | None = None, top: int = 20
) -> TopicTraffic:
    """Read and aggregate a topic; ``options`` are those of the source, ``queues`` all queues of the topic."""
    # A separate session with its own settings: by default Spark shuffles into 200 partitions, which on a small machine
    # takes ten times as long as the sum itself.
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", max(_MIN_SHUFFLE_PARTITIONS, spark.sparkContext.defaultParallelism))
    schema = _COLUMNS if key == _KEYS else f"{_COLUMNS}, {_PROPERTIES}"
    frame = own.read.format("rocketmq").options(**options).schema(schema).load()
    return _aggregate_traffic(frame, queues, key=key, top=top)


def _aggregate_traffic(
    frame: "DataFrame", queues: Iterable[Queue], *, key: str | None = None, top: int = 20
) -> TopicTraffic:
    """Aggregate messages with the columns of the source."""
    listed = list(queues)
    rows = frame.select(
        "broker",
        "queue_id",
        sql.length("body").cast("long").alias("body_bytes"),
        sql.unix_millis("stored_at").alias("at_ms"),
        _keys_of(key).alias("keys"),
    ).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        loads, keyed, span = _queue_loads(rows, listed)
        keys, heaviest, distinct = _key_loads(rows, listed, top) if keyed else ((), {}, 0)
        step_ms = choose_step_ms(*span)
        steps = _step_loads(rows, step_ms)
    finally:
        rows.unpersist()
    return TopicTraffic(
        queues=tuple(replace(load, heaviest=heaviest.get(queue)) for queue, load in loads.items()),
        keys=keys,
        keyed=keyed,
        distinct_keys=distinct,
        step_ms=step_ms,
        steps=steps,
    )


def _keys_of(key: str | None) -> "Column":
    """Return the keys of a message, as an array; empty if it has none."""
    several = sql.split(sql.trim(sql.coalesce(sql.col("keys"), sql.lit(""))), _BLANKS)
    if key == _KEYS:
        found = several
    else:
        own = sql.col("properties")[_SHARDING_KEY if key is None else key]
        one = sql.when(own.isNotNull(), sql.array(own))
        found = sql.coalesce(one, several) if key is None else sql.coalesce(one, sql.array())
    return sql.array_distinct(sql.filter(found, lambda each: each != ""))


def _queue_loads(rows: "DataFrame", listed: list[Queue]) -> tuple[dict[Queue, QueueLoad], int, tuple[int, int]]:
    sums = (
        rows.groupBy("broker", "queue_id")
        .agg(
            sql.count("*").alias("messages"),
            sql.sum("body_bytes").alias("body_bytes"),
            sql.min("at_ms").alias("start_ms"),
            sql.max("at_ms").alias("end_ms"),
            sql.count_if(sql.size("keys") > 0).alias("keyed"),
        )
        .collect()
    )
    topic = listed[0].topic if listed else ""
    # A queue that was added meanwhile is not listed, and counts all the same.
    loads = {queue: QueueLoad(queue) for queue in listed}
    for row in sums:
        queue = Queue(topic, row.broker, row.queue_id)
        loads[queue] = QueueLoad(queue, row.messages, row.body_bytes or 0)
    start_ms = min((row.start_ms for row in sums), default=0)
    end_ms = max((row.end_ms for row in sums), default=0)
    return {queue: loads[queue] for queue in sorted(loads)}, sum(row.keyed for row in sums), (start_ms, end_ms)


def _key_loads(
    rows: "DataFrame", listed: list[Queue], top: int
) -> tuple[tuple[KeyLoad, ...], dict[Queue, KeyInQueue], int]:
    topic = listed[0].topic if listed else ""
    each_key = rows.select("broker", "queue_id", "body_bytes", sql.explode("keys").alias("key"))
    in_queues = (
        each_key.groupBy("key", "broker", "queue_id")
        .agg(sql.count("*").alias("messages"), sql.sum("body_bytes").alias("body_bytes"))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        of_keys = in_queues.groupBy("key").agg(
            sql.sum("messages").alias("messages"),
            sql.sum("body_bytes").alias("body_bytes"),
            sql.count("*").alias("queues"),
            sql.max_by(sql.struct("broker", "queue_id"), "messages").alias("mostly_in"),
        )
        heavy = of_keys.orderBy(sql.desc("messages"), "key").limit(top).collect()
        first = Window.partitionBy("broker", "queue_id").orderBy(sql.desc("messages"), "key")
        firsts = in_queues.withColumn("place", sql.row_number().over(first)).where("place = 1").collect()
        distinct = of_keys.count()
    finally:
        in_queues.unpersist()
    keys = tuple(
        KeyLoad(row.key, row.messages, row.body_bytes, row.queues, _queue(topic, row.mostly_in)) for row in heavy
    )
    return keys, {_queue(topic, row): KeyInQueue(row.key, row.messages) for row in firsts}, distinct


def _step_loads(rows: "DataFrame", step_ms: int) -> tuple[TimeStepLoad, ...]:
    step = (sql.col("at_ms") - sql.col("at_ms") % sql.lit(step_ms)).alias("step")
    sums = rows.groupBy(step, "broker").agg(sql.count("*").alias("messages"), sql.sum("body_bytes").alias("body_bytes"))
    return tuple(
        TimeStepLoad(row.step, row.broker, row.messages, row.body_bytes or 0)
        for row in sums.orderBy("step", "broker").collect()
    )


def _queue(topic: str, row: "Row") -> Queue:
    return Queue(topic, row.broker, row.queue_id)
