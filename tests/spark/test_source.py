"""The source in a real session: batches and streams from options to rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard import Message, Producer
from steelyard.model import Queue
from steelyard.spark.lag import lag
from steelyard.spark.schema import SCHEMA
from steelyard.spark.stream_offset import StreamOffset
from tests.live.clusters import Live, until
from tests.spark.stream_driver import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def running() -> Iterator[list["StreamingQuery"]]:
    """Hold queries that are stopped at the end, whatever happens."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


def stream(spark: "SparkSession", cluster: Live, **options: str) -> "DataFrame":
    """Read a stream."""
    return spark.readStream.format("rocketmq").options(namesrv=cluster.namesrv, **options).load()


def test_a_batch_has_every_message_with_all_that_is_known_of_it(
    spark: "SparkSession", cluster: Live, topic: str
) -> None:
    with Producer(cluster.namesrv) as producer:
        message = Message(topic, b"hello", tags="paid", keys=("k1", "k2"), properties={"region": "eu"})
        sent = producer.send(message, queue=Queue(topic, cluster.brokers[0], 2))
    frame = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=topic).load()
    assert frame.schema == SCHEMA
    (row,) = frame.collect()
    assert (row.topic, row.broker, row.queue_id, row.offset) == (topic, cluster.brokers[0], 2, 0)
    assert (row.tags, row["keys"], row.message_id, row.reconsume_times) == ("paid", "k1 k2", sent.message_id, 0)
    assert bytes(row.body) == b"hello"
    assert row.properties["region"] == "eu"
    assert row.born_at <= row.stored_at


def test_a_frame_is_a_snapshot_and_filters_of_one_query_are_not_kept_for_the_next(
    spark: "SparkSession", cluster: Live, topic: str
) -> None:
    fill(cluster.namesrv, topic, 20)
    frame = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=topic).load()
    assert frame.count() == 20
    assert 0 < frame.where("queue_id = 1").count() < 20
    fill(cluster.namesrv, topic, 5)
    assert frame.count() == 20
    assert (
        frame.sparkSession.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=topic).load().count()
        == 25
    )


def test_a_schema_is_a_projection(spark: "SparkSession", cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 3, Queue(topic, cluster.brokers[0], 0))
    options = {"namesrv": cluster.namesrv, "subscribe": topic}
    frame = spark.read.format("rocketmq").schema("body binary, offset long").options(**options).load()
    assert sorted((row.offset, bytes(row.body)) for row in frame.collect()) == [(0, b"0"), (1, b"1"), (2, b"2")]
    with pytest.raises(Exception, match=r"did you mean offset\?"):
        spark.read.format("rocketmq").schema("ofset long").options(**options).load().count()


def test_a_topic_without_messages_is_a_frame_without_rows(spark: "SparkSession", cluster: Live, topic: str) -> None:
    assert spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=topic).load().count() == 0


def test_available_now_reads_in_several_batches_and_goes_on_from_its_checkpoint(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    fill(cluster.namesrv, topic, 25)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    counted = []
    for expected in (3, 1):
        query = (
            stream(spark, cluster, **options)
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(50)
        filled = [each for each in query.recentProgress if each["numInputRows"]]
        assert len(filled) == expected
        assert lag(filled[-1]).total == 0
        counted.append(
            spark.read.parquet(str(tmp_path / "rows")).select("broker", "queue_id", "offset").distinct().count()
        )
        fill(cluster.namesrv, topic, 4)
    assert counted == [25, 29]


def test_a_crash_in_the_first_batch_from_the_end_is_replayed_as_it_was(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path, running: list["StreamingQuery"]
) -> None:
    queue = Queue(topic, cluster.brokers[0], 0)
    fill(cluster.namesrv, topic, 3, queue)
    seen: list[tuple[int, list[int]]] = []
    crashed: list[list[int]] = []

    def handle(frame: "DataFrame", batch: int) -> None:
        offsets = sorted(row.offset for row in frame.collect())
        if offsets and not crashed:
            crashed.append(offsets)
            raise RuntimeError("the lights went out")
        seen.append((batch, offsets))

    def start() -> "StreamingQuery":
        frame = stream(spark, cluster, subscribe=topic)
        query = frame.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path)).start()
        running.append(query)
        return query

    first = start()
    until(lambda: seen, "the first batch, which is empty")
    fill(cluster.namesrv, topic, 2, queue)
    with pytest.raises(Exception, match="the lights went out"):
        first.awaitTermination(50)
    fill(cluster.namesrv, topic, 4, queue)
    start()
    until(lambda: sum(len(offsets) for _, offsets in seen) == 6, "all that came since")
    assert [offsets for _, offsets in seen if offsets][:1] == crashed
    assert [offset for _, offsets in seen for offset in offsets] == [3, 4, 5, 6, 7, 8]


def test_a_query_with_nothing_to_do_makes_no_empty_batches(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path, running: list["StreamingQuery"]
) -> None:
    fill(cluster.namesrv, topic, 3)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="earliest", offsetPollMs="20")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    running.append(query)
    query.processAllAvailable()
    fill(cluster.namesrv, topic, 3)

    def ends() -> list[int]:
        """Return how many messages were read at the end of each batch."""
        logged = [path for path in (tmp_path / "offsets").iterdir() if path.name.isdigit()]
        written = [path.read_text().splitlines()[-1] for path in sorted(logged, key=lambda path: int(path.name))]
        assert all(json.dumps(json.loads(each), sort_keys=True) == each for each in written)
        return [sum(StreamOffset.decode(json.loads(each)).positions.values()) for each in written]

    until(lambda: ends()[-1] == 6, "all is read")
    query.processAllAvailable()
    assert ends() == sorted(set(ends()))
