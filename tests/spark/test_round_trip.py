"""What is sent comes out of Spark as every client reads it, and what Spark writes as every client would have sent it.

Here whole ways are gone, from a producer to a row and from a row to a message, on whichever servers run. Each part of
them has tests of its own that say more: columns in test_columns.py, tasks in test_task.py, rows in test_rows.py.
"""

import json
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from steelyard import Admin, Message, Producer, PullConsumer
from steelyard.client.bulk.connection_pool import shared_pool
from steelyard.client.namespace import ClientNamespace
from steelyard.errors import MessagesLost
from steelyard.model import OffsetRange
from steelyard.serve.embedded import Cluster
from steelyard.spark.batch_reader import BatchReader
from steelyard.spark.options import ReadOptions
from steelyard.spark.partition_reader import OffsetRangePartition, read_partition
from steelyard.spark.schema import COLUMNS
from steelyard.store.options import StoreOptions
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.sysflag import WRAPPED
from tests.client.scripted_broker import broker, queue_of
from tests.live.clusters import Live, until
from tests.live.handled import poll_all
from tests.spark.column_values import record_of, row_of
from tests.spark.stream_driver import batch_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Rows = list[dict[str, Any]]

_LARGEST = bytes(range(256)) * (4 << 12)
"""A body of 4 MiB: all that a broker takes."""


def batch(spark: "SparkSession", namesrv: str, topic: str, **options: str) -> "DataFrame":
    """Read what is there."""
    return spark.read.format("rocketmq").options(namesrv=namesrv, subscribe=topic, **options).load()


def streamed(spark: "SparkSession", namesrv: str, topic: str, checkpoint: Path, **options: str) -> "DataFrame":
    """Read what is there as a stream, from its checkpoint on."""
    given = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest", **options}
    name = f"rows_{secrets.token_hex(4)}"
    frame = spark.readStream.format("rocketmq").options(**given).load()

    def keep(rows: "DataFrame", number: int) -> None:
        rows.write.parquet(str(checkpoint / name / f"{number:05d}"))

    writing = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()
    return spark.read.schema(frame.schema).parquet(str(checkpoint / name / "*"))


def in_order(frame: "DataFrame") -> Rows:
    """Return the rows of a frame, by queue and offset."""
    return sorted(frame.toArrow().to_pylist(), key=_place)


def by_client(namesrv: str, topic: str, count: int) -> Rows:
    """Return the rows that a client would make of the messages of a topic."""
    with PullConsumer(namesrv, group=f"by-client-{secrets.token_hex(4)}", start_from="first") as consumer:
        consumer.assign(consumer.queues(topic))
        found = poll_all(consumer, count)
    assert len(found) == count
    return sorted((row_of(message, ClientNamespace("")) for message in found), key=_place)


def _place(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["broker"], row["queue_id"], row["offset"]


def offsets(frame: "DataFrame") -> list[int]:
    """Return the offsets of all rows."""
    return sorted(row.offset for row in frame.select("offset").collect())


# -- from a producer to a row -----------------------------------------------------------------------------------------


def send_of_every_kind(namesrv: str, topic: str) -> int:
    """Send messages of all kinds that clients can send, over all queues; return how many they are."""
    text = "zwölf Boxkämpfer ".encode()
    kinds = [
        Message(topic, b"plain"),
        Message(topic, text, tags="größe", keys=["k1", "k2"], properties={"Ω": "ä b", "n": "1"}, flag=7),
        Message(topic, text * 1_000, keys="long"),
    ]
    sent = 0
    for compression in ("zlib", "lz4", "zstd"):
        with Producer(namesrv, compression=compression, compress_from=1_000) as producer:
            for message in kinds:
                producer.send(message)
            producer.send_many([Message(topic, b"%d" % number, tags="many") for number in range(20)])
            sent += len(kinds) + 20
    with Producer(namesrv, compress_from=None, timeout_s=30) as producer:
        producer.send(Message(topic, _LARGEST))
    with Admin(namesrv) as admin:
        until(lambda: admin.topics.describe(topic).messages == sent + 1, "all are shown")
    return sent + 1


def test_a_batch_and_a_stream_have_in_all_columns_what_a_client_reads(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    count = send_of_every_kind(cluster.namesrv, topic)
    expected = by_client(cluster.namesrv, topic, count)
    assert {row["body"] for row in expected} >= {b"plain", b"19", _LARGEST}
    for rows in (
        in_order(batch(spark, cluster.namesrv, topic)),
        in_order(streamed(spark, cluster.namesrv, topic, tmp_path, maxOffsetsPerTrigger="40")),
    ):
        for name in COLUMNS:
            assert [row[name] for row in rows] == [row[name] for row in expected], name


def test_stretches_that_a_filter_leaves_out_are_passed_over(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    # All in one queue; the other seven are empty.
    rare = [0, 1_499, 2_998]
    with Producer(cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
        messages = [
            Message(topic, b"%d" % number, "rare" if number in rare else "often", properties={"n": str(number)})
            for number in range(3_000)
        ]
        for start in range(0, len(messages), 500):
            producer.send_many(messages[start : start + 500], key="one and the same")
        until(lambda: admin.topics.describe(topic).messages == len(messages), "all are shown")
    assert offsets(batch(spark, cluster.namesrv, topic)) == list(range(3_000))
    assert offsets(batch(spark, cluster.namesrv, topic, tags="rare || none")) == rare
    assert offsets(batch(spark, cluster.namesrv, topic, tags="none")) == []
    assert offsets(batch(spark, cluster.namesrv, topic, sql="n > 2996 AND TAGS = 'rare'")) == [2_998]
    # A stream goes on behind batches without rows.
    stream = streamed(spark, cluster.namesrv, topic, tmp_path, tags="rare", maxOffsetsPerTrigger="700")
    assert offsets(stream) == rare


# -- from a row to a message, and back --------------------------------------------------------------------------------


def test_all_columns_that_can_be_written_come_back_and_can_be_written_again(
    spark: "SparkSession", cluster: Live, topic: str
) -> None:
    again = f"{topic}-again"
    columns = "body binary, topic string, tags string, keys array<string>, properties map<string,string>, "
    written: list[tuple[Any, ...]] = [
        (b"%d" % number, topic, f"t{number % 2}", ["k", str(number)], {"größe": str(number)}, f"key-{number % 3}", None)
        for number in range(30)
    ]
    written += [
        (b"bare", topic, None, None, None, None, None),
        (b"late", topic, "t1", None, {"n": "1"}, None, 1_000),
    ]
    frame = spark.createDataFrame(written, columns + "key string, delay bigint").coalesce(1)
    frame.write.format("rocketmq").options(namesrv=cluster.namesrv).mode("append").save()
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(again, 1)
        until(lambda: admin.topics.describe(topic).messages == len(written), "the one with a delay is there, too")
    read = in_order(batch(spark, cluster.namesrv, topic))
    assert read == by_client(cluster.namesrv, topic, len(written))
    assert _senders_part(read) == sorted(
        (body, tags, " ".join(keys) if keys else None, properties or {})
        for body, _, tags, keys, properties, _, _ in written
    )
    places: dict[object, set[tuple[object, object]]] = {}
    for row in read:
        key = next((key for body, *_, key, _ in written if body == row["body"]), None)
        if key is not None:
            places.setdefault(key, set()).add((row["broker"], row["queue_id"]))
    assert {len(queues) for queues in places.values()} == {1}
    copied = batch(spark, cluster.namesrv, topic)
    copied.write.format("rocketmq").options(namesrv=cluster.namesrv, topic=again).mode("append").save()
    with Admin(cluster.namesrv) as admin:
        until(lambda: admin.topics.describe(again).messages == len(written), "all are copied")
    assert _senders_part(in_order(batch(spark, cluster.namesrv, again))) == _senders_part(read)


def _senders_part(rows: Rows) -> list[tuple[object, ...]]:
    """Return what of messages is the sender's: properties in capitals are the client's and the broker's."""
    return sorted(
        (row["body"], row["tags"], row["keys"], {name: value for name, value in row["properties"] if name.islower()})
        for row in rows
    )


@contextmanager
def settings(spark: "SparkSession", **given: str) -> Iterator[None]:
    """Let a session have other settings for a while."""
    names = {name: f"spark.sql.{name.replace('__', '.')}" for name in given}
    before = {name: spark.conf.get(full) for name, full in names.items()}
    try:
        for name, full in names.items():
            spark.conf.set(full, given[name])
        yield
    finally:
        for name, full in names.items():
            spark.conf.set(full, str(before[name]))


def test_settings_of_a_session_change_no_row(spark: "SparkSession", cluster: Live, topic: str) -> None:
    messages = [Message(topic, b"%d" % number, "t", f"k{number}", {"n": str(number)}) for number in range(40)]
    with Producer(cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
        producer.send_many(messages)
        until(lambda: admin.topics.describe(topic).messages == 40, "all are shown")
        odd = {"session__timeZone": "Asia/Shanghai", "execution__arrow__maxRecordsPerBatch": "7"}
        odd |= {"execution__arrow__useLargeVarTypes": "true", "execution__arrow__compression__codec": "zstd"}
        with settings(spark, **odd):
            assert in_order(batch(spark, cluster.namesrv, topic)) == by_client(cluster.namesrv, topic, 40)
            rows = batch(spark, cluster.namesrv, topic)
            rows.write.format("rocketmq").options(namesrv=cluster.namesrv, topic=topic).mode("append").save()
        until(lambda: admin.topics.describe(topic).messages == 80, "all are there twice")
    twice = _senders_part(in_order(batch(spark, cluster.namesrv, topic)))
    assert twice[::2] == twice[1::2]


# -- what only our servers can be made to do --------------------------------------------------------------------------


@contextmanager
def small_store() -> Iterator[Cluster]:
    """Run a broker that keeps a few hundred messages; older ones it removes."""
    options = StoreOptions(segment_bytes=1 << 16, keep_ms=None, keep_bytes=1 << 18)
    with Cluster(store_options=options) as running:
        with Admin(running.namesrv) as admin:
            admin.topics.create("orders", 1)
        yield running


def read_here(options: ReadOptions) -> list[int]:
    """Read a batch in this process, and return its offsets."""
    reader = BatchReader(options, ("offset",))
    batches = [each for part in reader.partitions() for each in reader.read(part)]
    return sorted(offset for each in batches for offset in each.column("offset").to_pylist())


def test_messages_that_were_removed_are_named_or_passed_over(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.broker._RETENTION_MS", 100)
    with small_store() as own, Admin(own.namesrv) as admin, Producer(own.namesrv, compress_from=None) as producer:
        producer.send_many(Message("orders", bytes(1_000)) for _ in range(100))
        assert offsets(streamed(spark, own.namesrv, "orders", tmp_path)) == list(range(100))
        producer.send_many(Message("orders", bytes(1_000)) for _ in range(900))
        # A log file has 57 of them, and 202 stay in the end.
        until(lambda: admin.topics.describe("orders").queues[0].messages < 250, "old ones are removed")
        (kept,) = admin.topics.describe("orders").queues
        queue, low, high = kept.queue, kept.start, kept.end
        assert high == 1_000
        assert offsets(batch(spark, own.namesrv, "orders")) == list(range(low, high))
        start = {"subscribe": "orders", "startingOffsets": json.dumps({"orders": {queue.broker: {"0": 7}}})}
        with pytest.raises(MessagesLost, match=re.escape(f"offsets [7, {low}) of {queue} are lost")):
            read_here(batch_options(own.namesrv, **start))
        assert read_here(batch_options(own.namesrv, **start, failOnDataLoss="false")) == list(range(low, high))
        with pytest.raises(Exception, match=re.escape(f"offsets [100, {low}) of {queue} are lost")):
            streamed(spark, own.namesrv, "orders", tmp_path)
        rest = streamed(spark, own.namesrv, "orders", tmp_path, failOnDataLoss="false")
        assert offsets(rest) == list(range(low, high))


@contextmanager
def on_ipv6() -> Iterator[str]:
    """Run a broker that is at home at ::1."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    command = [sys.executable, "-m", "steelyard", "up", "--json", "--memory", "--port", "0", "--host", "::1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["namesrv"]
        finally:
            process.kill()


@pytest.mark.process
def test_hosts_of_ipv6_are_read_and_written(spark: "SparkSession") -> None:
    with on_ipv6() as namesrv:
        rows = spark.range(0, 50, 1, 1).selectExpr("cast(id AS string) AS body")
        rows.write.format("rocketmq").options(namesrv=namesrv, topic="orders").mode("append").save()
        with Producer(namesrv) as producer:
            producer.send_many([Message("orders", b"one"), Message("orders", b"two")])
        read = in_order(batch(spark, namesrv, "orders"))
        assert len(read) == 52
        assert read == by_client(namesrv, "orders", 52)


def test_topics_with_long_names_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    # Only topics of dead letters have such names, and only with our brokers; their records have another layout.
    topic = "%DLQ%" + "g" * 200
    with Cluster() as own:
        with Admin(own.namesrv) as admin, Producer(own.namesrv) as producer:
            admin.topics.create(topic, 2)
            for number in range(20):
                producer.send(Message(topic, b"%d" % number, tags="t"))
        expected = by_client(own.namesrv, topic, 20)
        assert in_order(batch(spark, own.namesrv, topic)) == expected
        assert in_order(streamed(spark, own.namesrv, topic, tmp_path)) == expected


def test_a_task_unwraps_batches_that_a_broker_stores_as_one_record() -> None:
    items = [BatchItem(0, b"%d" % number, b"TAGS\x01t%d\x02" % number) for number in range(5)]
    wrapped = record_of(10, encode_batch(items), b"INNER_NUM\x015\x02", sys_flag=WRAPPED)
    with broker() as server:

        def respond_with(pull: PullMessage) -> Command | None:
            # It gives whole records: from the one that holds the offset that is asked for.
            held = [record_of(9, b"before"), wrapped, record_of(15, b"behind")]
            ends = (10, 15, 16)
            first = next(at for at, end in enumerate(ends) if end > pull.queue_offset)
            last = next(at for at, end in enumerate(ends) if end >= min(16, pull.queue_offset + pull.max_msg_nums))
            return Command(0, PullMessageResponse(0, ends[last], 0, 16), b"".join(held[first : last + 1]))

        server.respond_with = respond_with
        given = {"namesrv": server.address, "subscribe": "orders", "pullmessages": "2"}
        part = OffsetRangePartition(
            (OffsetRange(queue_of(), 9, 12), OffsetRange(queue_of(), 12, 16)), {server.name: server.address}
        )
        batches = list(read_partition(part, ReadOptions.of(given, streaming=False), ("offset", "body", "tags")))
    shared_pool().close()
    rows = sorted((row["offset"], row["body"], row["tags"]) for each in batches for row in each.to_pylist())
    inner = [(10 + number, b"%d" % number, f"t{number}") for number in range(5)]
    assert rows == [(9, b"before", None), *inner, (15, b"behind", None)]
