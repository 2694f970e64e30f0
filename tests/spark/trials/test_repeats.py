"""Rows that are sent again, from topic to topic: by a task that fails half-way, and by a micro-batch that is replayed.

The order of rows is another one each time: in a stream behind a shuffle, in `foreachBatch` by chance. A reader that
drops repeats by `message_id` has every row once.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.mark import ParameterSet
from pyspark import TaskContext
from pyspark.sql.functions import udf

from steelyard import Admin, Message, Producer
from tests.live.clusters import Live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 40_000
_QUEUES_EACH = 8
"""On each of two brokers."""
_FAILS_AT = 15_000
"""Of the 20,000 rows of a task, of which 10,000 are sent at once."""
_SOURCE = ("topic", "broker", "queue_id", "offset")


def _long(*values: str) -> ParameterSet:
    asked = pytest.mark.skipif(not os.environ.get("STEELYARD_SLOW"), reason="the same in other ways: STEELYARD_SLOW=1")
    return pytest.param(values if len(values) > 1 else values[0], marks=asked, id=" ".join(values))


@pytest.fixture(scope="module")
def source(cluster: Live) -> str:
    """Fill a topic; every body is there twice."""
    name = f"source-{secrets.token_hex(4)}"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(name, _QUEUES_EACH)
    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message(name, b"%d" % (number // 2)) for number in range(_ROWS)])
    return name


@pytest.mark.parametrize("columns", [("body",), _long(*_SOURCE, "body"), _long("id", "body")])
@pytest.mark.parametrize("way", ["foreachBatch", _long("stream")])
def test_who_drops_repeats_by_their_ids_has_every_row_once(
    spark: "SparkSession", cluster: Live, source: str, topic: str, tmp_path: Path, way: str, columns: tuple[str, ...]
) -> None:
    where = {"namesrv": cluster.namesrv}
    reading = spark.readStream.format("rocketmq").options(**where, subscribe=source, startingOffsets="earliest")
    rows = reading.option("maxPartitions", 2).load()
    chance = udf(lambda _: secrets.randbits(53) / 2**53, "double", useArrow=False).asNondeterministic()
    unharmed = udf(_unless_it_fails_half_way(), "boolean", useArrow=False).asNondeterministic()
    wanted = rows.selectExpr("concat_ws('/', broker, queue_id, offset) AS id", "*").select(*columns)

    def write(batch: "DataFrame", number: int) -> None:
        mixed = batch.sortWithinPartitions(chance("body")).where(unharmed("body"))
        mixed.write.format("rocketmq").options(**where, topic=topic, writeId=str(number)).mode("append").save()

    def run() -> None:
        if way == "stream":
            shuffled = wanted.repartition(2, "body").where(unharmed("body"))
            writing = shuffled.writeStream.format("rocketmq").options(**where, topic=topic)
        else:
            writing = wanted.writeStream.foreachBatch(write)
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    stored = spark.read.format("rocketmq").options(**where, subscribe=topic).load().select("message_id", "body").cache()
    assert stored.count() > 2 * _ROWS, "no task has failed after it had sent something"
    assert stored.distinct().count() == _ROWS, "an id refers to two bodies, or a row has two ids"
    bodies = Counter(row["body"] for row in stored.dropDuplicates(["message_id"]).collect())
    assert bodies == Counter(b"%d" % (number // 2) for number in range(_ROWS))


def _unless_it_fails_half_way() -> Callable[[bytes], bool]:
    """Make what says that a row is wanted; the first attempt of the first task fails on the way."""
    seen: Counter[int] = Counter()

    def unharmed(_body: bytes) -> bool:
        context = TaskContext.get()
        assert context is not None
        seen[context.taskAttemptId()] += 1
        is_first = context.partitionId() == 0 and context.attemptNumber() == 0
        if is_first and seen[context.taskAttemptId()] > _FAILS_AT:
            raise OSError("the first attempt is lost")
        return True

    return unharmed
