import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType

from steelyard import Admin, Producer
from steelyard.errors import ConfigurationError, RowRefused, SendFailed
from steelyard.model import Message
from steelyard.spark.writer import TaskCommit, batch_writer, stream_writer
from tests.client import sending_scene
from tests.client.proxy import detour
from tests.live.clusters import Live, until
from tests.spark.arrow_frames import arrow, by_queue, schema, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODY = StructType().add("body", "binary")


def write(columns: dict[str, list[Any]], namesrv: str, **options: str) -> TaskCommit:
    writer = batch_writer({"namesrv": namesrv, **options}, schema(columns), overwrite=False)
    done = writer.write(iter([arrow(columns)]))
    assert isinstance(done, TaskCommit)
    return done


# -- one task, without Spark ------------------------------------------------------------------------------------------


def test_rows_are_stored_as_the_client_stores_such_messages(cluster: Live, topic: str) -> None:
    done = write(
        {
            "body": [b"1", "zwölf".encode()],
            "tags": ["paid", None],
            "keys": ["order-1 customer-7", None],
            "properties": [{"region": "eu", "WAIT": "false"}, None],
        },
        cluster.namesrv,
        topic=topic,
    )
    assert done == TaskCommit(0, {topic: 2})
    by_body = {message.body: message for message in stored(cluster.namesrv, topic, 2)}
    with Producer(cluster.namesrv) as producer:
        sent = Message(topic, b"1", tags="paid", keys=["order-1", "customer-7"], properties={"region": "eu"})
        by_client = producer.send_many([sent, sent])
    client_made = next(each for each in stored(cluster.namesrv, topic, 4) if each.message_id == by_client[0].message_id)
    ours = by_body[b"1"]
    assert {**ours.properties, "UNIQ_KEY": ""} == {**client_made.properties, "UNIQ_KEY": ""}
    assert (ours.tags, ours.keys, ours.born_ms > 0) == ("paid", ("order-1", "customer-7"), True)
    plain = by_body["zwölf".encode()]
    assert set(plain.properties) - {"CLUSTER"} == {"UNIQ_KEY", "WAIT"}  # 4.9 says in which cluster it is
    assert len(plain.message_id) == 32


def test_rows_with_a_key_are_where_the_client_sends_the_key_and_in_order(cluster: Live, topic: str) -> None:
    keys = [f"order-{number % 17}" for number in range(3_000)]
    bodies = [f"{key} {number}".encode() for number, key in enumerate(keys)]
    write({"body": bodies, "key": keys}, cluster.namesrv, topic=topic)
    with Producer(cluster.namesrv) as producer:
        places = {key: producer.send(Message(topic, b"x"), key=key).queue for key in set(keys)}
    for queue, held in by_queue(cluster.namesrv, topic, len(keys) + len(places)).items():
        numbers: dict[str, list[int]] = {}
        for message in held:
            if message.body != b"x":
                key, number = message.body.decode().split()
                assert places[key] == queue
                numbers.setdefault(key, []).append(int(number))
        assert all(each == sorted(each) for each in numbers.values())


def test_each_row_may_name_its_topic(cluster: Live, topic: str) -> None:
    done = write({"body": [b"1", b"2", b"3"], "topic": [topic, f"{topic}-b", topic]}, cluster.namesrv)
    assert done.messages == {topic: 2, f"{topic}-b": 1}
    assert {message.body for message in stored(cluster.namesrv, topic, 2)} == {b"1", b"3"}


def test_a_large_row_travels_alone_and_a_delayed_one_later(cluster: Live, topic: str) -> None:
    large = bytes(range(256)) * 8_000
    done = write({"body": [b"1", large, b"3"], "delay": [None, None, 3_600_000]}, cluster.namesrv, topic=topic)
    assert done.messages == {topic: 3}
    assert {message.body for message in stored(cluster.namesrv, topic, 2)} == {b"1", large}


def test_a_write_has_ids_of_its_own_and_one_that_is_named_has_them_again(cluster: Live, topic: str) -> None:
    columns: dict[str, list[Any]] = {"body": [b"1", b"2"]}
    for _ in range(2):
        write(columns, cluster.namesrv, topic=topic)
        write(columns, cluster.namesrv, topic=topic, writeid="orders of batch 7")
        write(columns, cluster.namesrv, topic=topic, writeid="orders of batch 8", deterministicids="false")
    times = Counter(message.message_id for message in stored(cluster.namesrv, topic, 12))
    assert sorted(times.values()) == [1] * 8 + [2] * 2


def test_a_task_that_is_run_again_with_its_rows_in_another_order_sends_the_same_ids(cluster: Live, topic: str) -> None:
    columns: dict[str, list[Any]] = {"body": [b"%d" % number for number in range(1_000)]}
    writer = batch_writer({"namesrv": cluster.namesrv, "topic": topic}, schema(columns), overwrite=False)

    def rows_until_it_fails() -> Iterator[pa.RecordBatch]:
        yield arrow(columns).slice(0, 700)
        stored(cluster.namesrv, topic, 1)
        raise OSError("the task is lost")

    with pytest.raises(OSError, match="the task is lost"):
        writer.write(rows_until_it_fails())
    deepcopy(writer).write(iter([arrow(columns).slice(500), arrow(columns).slice(0, 500)]))
    until(lambda: len({each.message_id for each in stored(cluster.namesrv, topic, 1_001)}) == 1_000, "all are shown")
    found = stored(cluster.namesrv, topic, 1_001)
    by_id = {message.message_id: message.body for message in found}
    assert sorted(by_id.values()) == sorted(columns["body"])


def test_a_row_that_cannot_be_sent_is_named_and_nothing_of_its_batch_is_sent(cluster: Live, topic: str) -> None:
    writer = batch_writer({"namesrv": cluster.namesrv, "topic": topic, "maxmessagebytes": "2m"}, BODY, overwrite=False)
    good, bad = arrow({"body": [b"1", b"2"]}), arrow({"body": [b"3", bytes(3 << 20)]})
    with pytest.raises(RowRefused, match=r"row 3 of partition 0 .* its body has 3145728 bytes, the limit is 2097152"):
        writer.write(iter([good, bad]))
    assert {message.body for message in stored(cluster.namesrv, topic, 0)} <= {b"1", b"2"}


def test_a_task_fails_with_what_was_not_stored() -> None:
    with sending_scene.scene(2) as cluster, detour(cluster) as way:
        for proxy in way.brokers.values():
            proxy.refuse()
        with pytest.raises(SendFailed, match=r"2 messages to 'orders' were not stored in .* and 0 others were"):
            write({"body": [b"1", b"2"]}, way.namesrv, topic="orders", sendtimeoutms="600")


def test_a_broker_killed_in_the_middle_of_a_write_loses_no_row_of_a_task_that_ends_well() -> None:
    with sending_scene.scene(2) as cluster:
        columns: dict[str, list[Any]] = {"body": [b"%d" % number for number in range(4_000)]}
        batch = arrow(columns)

        def rows() -> Iterator[pa.RecordBatch]:
            yield batch.slice(0, 2_000)
            cluster.kill_broker("broker-1")
            yield batch.slice(2_000)

        writer = batch_writer({"namesrv": cluster.namesrv, "topic": "orders"}, BODY, overwrite=False)
        assert writer.write(rows()) == TaskCommit(0, {"orders": 4_000})
        living = sending_scene.stored(cluster, "orders", brokers=["broker-0"])
        held = {message.body for each in living.values() for message in each}
        assert held >= set(columns["body"][2_000:])


def test_a_write_can_only_add() -> None:
    with pytest.raises(ConfigurationError, match=r'cannot be overwritten; add to it: write with mode\("append"\)'):
        batch_writer({"topic": "orders"}, BODY, overwrite=True)
    with pytest.raises(ConfigurationError, match=r"the mode complete.*foreachBatch"):
        stream_writer({"topic": "orders"}, BODY, overwrite=True)
    with pytest.raises(ConfigurationError, match="writeId is given for a stream"):
        stream_writer({"topic": "orders", "writeid": "7"}, BODY, overwrite=False)


def test_a_batch_is_not_larger_than_a_message_may_be() -> None:
    with pytest.raises(ConfigurationError, match="maxBatchBytes is 8388608, more than maxMessageBytes, 4194304"):
        batch_writer({"topic": "orders", "maxbatchbytes": "8m"}, BODY, overwrite=False)


def test_an_abort_says_what_stays(caplog: pytest.LogCaptureFixture) -> None:
    writer = stream_writer({"topic": "orders"}, BODY, overwrite=False)
    with caplog.at_level(logging.WARNING, logger="steelyard"):
        writer.abort([TaskCommit(0, {"orders": 3}), None, TaskCommit(2, {"orders": 4})], 7)
    (line,) = caplog.messages
    assert line.startswith("micro-batch 7 was aborted: 1 of its tasks failed, and the others have stored 7 messages to")


# -- with Spark -------------------------------------------------------------------------------------------------------


def frame(spark: "SparkSession", rows: int) -> "DataFrame":
    return spark.range(0, rows, 1, 2).selectExpr("cast(id as string) AS body", "concat('k', id % 10) AS key")


def test_a_frame_is_written_by_spark(spark: "SparkSession", cluster: Live, topic: str) -> None:
    writing = frame(spark, 3_000).write.format("rocketmq").option("namesrv", cluster.namesrv).option("topic", topic)
    writing.mode("append").save()
    found = stored(cluster.namesrv, topic, 3_000)
    assert sorted(int(message.body) for message in found) == list(range(3_000))
    assert len({message.message_id for message in found}) == 3_000
    with pytest.raises(Exception, match=r'add to it: write with mode\("append"\)'):
        writing.mode("overwrite").save()


def test_a_task_that_fails_after_sending_is_repeated_with_the_same_ids(
    spark: "SparkSession", cluster: Live, topic: str
) -> None:
    namesrv = cluster.namesrv

    def fail_once(numbers: Iterable[int]) -> Iterator[tuple[str]]:
        yield from ((str(number),) for number in numbers)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            with Admin(namesrv) as admin:
                while not admin.topics.describe(topic).messages:
                    pass  # until something of this attempt is stored
            raise OSError("the first attempt is lost")

    rows = spark.createDataFrame(spark.sparkContext.range(0, 25_000, 1, 1).mapPartitions(fail_once), "body string")
    rows.write.format("rocketmq").option("namesrv", namesrv).option("topic", topic).mode("append").save()
    found = stored(cluster.namesrv, topic, 25_001)
    by_id = {message.message_id: message.body for message in found}
    assert sorted(map(int, by_id.values())) == list(range(25_000))


def test_a_micro_batch_that_is_replayed_sends_the_same_ids(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.txt").write_text("".join(f"{number}\n" for number in range(500)))
    lines = spark.readStream.format("text").load(str(tmp_path / "in")).withColumnRenamed("value", "body")

    def run() -> None:
        writing = lines.writeStream.format("rocketmq").option("namesrv", cluster.namesrv).option("topic", topic)
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    times = Counter(message.message_id for message in stored(cluster.namesrv, topic, 1_000))
    assert len(times) == 500
    assert set(times.values()) == {2}
