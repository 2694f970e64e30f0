"""Brokers are killed, restarted, added and emptied under a running stream: the query survives, or says what is lost."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from pyarrow import parquet

from steelyard import Admin, Message, Producer
from tests.client.process_cluster import Ground, one_more, our_ground
from tests.spark.trials.drivers import committed_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

_LONGEST_S = 120
_LOOK_S = 0.02


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Run two brokers of ours as processes, with their files on disk."""
    (tmp_path / "ground").mkdir()
    with our_ground(tmp_path / "ground") as running:
        with Admin(running.namesrv) as admin:
            admin.topics.create("orders", 2)
        yield running


def test_a_broker_that_is_killed_and_comes_back_does_not_end_the_query(
    ground: Ground, spark: "SparkSession", tmp_path: Path
) -> None:
    _send(ground, range(400))
    with _stream(spark, ground, tmp_path, subscribe="orders", maxOffsetsPerTrigger="100") as query:
        _until(query, lambda: bool(_rows(tmp_path)))
        with ground.killed("broker-b"):
            pass  # in the middle of what there is to read: tasks wait until it is back
        _until(query, lambda: len(_rows(tmp_path)) == 400)
        with ground.killed("broker-b"):
            # With nothing left to read there, the others are read on.
            _send(ground, range(400, 500))
            _until(query, lambda: len(_rows(tmp_path)) == 500)
        _send(ground, range(500, 600))
        _until(query, lambda: len(_rows(tmp_path)) == 600)
    assert _bodies(tmp_path) == _numbered(range(600))


def test_what_a_broker_has_lost_is_named_and_by_option_passed_over(
    ground: Ground, spark: "SparkSession", tmp_path: Path
) -> None:
    _send(ground, range(200))
    with _stream(spark, ground, tmp_path, subscribe="orders") as query:
        _until(query, lambda: len(_rows(tmp_path)) == 200)
        server = ground.servers["broker-b"]
        server.kill()
        shutil.rmtree(tmp_path / "ground" / "broker-b")
        server.start()
        with Admin(ground.namesrv) as admin:
            admin.topics.create("orders", 2)
        ends = committed_ends(tmp_path / "checkpoint")
        anew = [queue for queue in ends if queue.broker == "broker-b"]
        with pytest.raises(Exception, match="failOnDataLoss") as caught:
            query.awaitTermination(_LONGEST_S)
    named = re.search(r"offsets \[0, \d+\) of \S+ are lost", str(caught.value))
    assert named is not None
    assert named[0] in [f"offsets [0, {ends[queue]}) of {queue} are lost" for queue in anew]
    with (
        _stream(spark, ground, tmp_path, subscribe="orders") as query,
        pytest.raises(Exception, match=re.escape(named[0])),
    ):
        query.processAllAvailable()
    with _stream(spark, ground, tmp_path, subscribe="orders", failOnDataLoss="false") as query:
        _until(query, lambda: committed_ends(tmp_path / "checkpoint") == ends | dict.fromkeys(anew, 0))
        _send(ground, range(200, 400))
        _until(query, lambda: len(_rows(tmp_path)) == 400)
        _send(ground, range(400, 500))
        _until(query, lambda: len(_rows(tmp_path)) == 500)
    assert _bodies(tmp_path) == _numbered(range(500))


def test_queues_brokers_and_topics_that_are_added_are_read_from_their_first_message(
    ground: Ground, spark: "SparkSession", tmp_path: Path
) -> None:
    with _stream(spark, ground, tmp_path, subscribePattern="orders.*") as query:
        _send(ground, range(100))
        _until(query, lambda: len(_rows(tmp_path)) == 100)
        with one_more(ground, tmp_path / "ground", "broker-c"), Admin(ground.namesrv) as admin:
            admin.topics.add_queues("orders", 4)
            admin.topics.create("orders", 4, brokers=["broker-c"])
            admin.topics.create("orders-of-later", 2)
            _send(ground, range(100, 300))
            _send(ground, range(300, 400), "orders-of-later")
            _until(query, lambda: len(_rows(tmp_path)) == 400)
    assert _bodies(tmp_path) == _numbered(range(400))
    places = {(row["topic"], row["broker"], row["queue_id"]) for row in _rows(tmp_path)}
    brokers = ("broker-a", "broker-b", "broker-c")
    assert places >= {("orders", broker, queue) for broker in brokers for queue in range(4)}
    assert places >= {("orders-of-later", broker, queue) for broker in brokers for queue in range(2)}


@contextmanager
def _stream(spark: "SparkSession", ground: Ground, directory: Path, **options: str) -> "Iterator[StreamingQuery]":
    given = {"namesrv": ground.namesrv, "startingOffsets": "earliest"} | options
    frame = spark.readStream.format("rocketmq").options(**given).load().drop("properties")
    writing = frame.writeStream.format("parquet").option("path", str(directory / "rows"))
    writing = writing.option("checkpointLocation", str(directory / "checkpoint"))
    query = writing.trigger(processingTime="100 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def _send(ground: Ground, numbers: range, topic: str = "orders") -> None:
    with Producer(ground.namesrv) as producer:
        for body in _numbered(numbers):
            producer.send(Message(topic, body))


def _numbered(numbers: range) -> list[bytes]:
    return [b"%05d" % number for number in numbers]


def _rows(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of batches that are done, as the sink has noted them down; Spark is not asked."""
    logs = (directory / "rows" / "_spark_metadata").glob("[0-9]*")
    files = {json.loads(line)["path"] for log in logs for line in log.read_text().splitlines()[1:]}
    columns = ["topic", "broker", "queue_id", "body"]
    tables = (parquet.read_table(urlsplit(file).path, columns=columns) for file in sorted(files))
    return [row for table in tables for row in table.to_pylist()]


def _bodies(directory: Path) -> list[bytes]:
    return sorted(row["body"] for row in _rows(directory))


def _until(query: "StreamingQuery", is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _LONGEST_S
    while not is_so():
        assert query.exception() is None
        assert time.monotonic() < end_s, f"it did not come true: {query.lastProgress}"
        time.sleep(_LOOK_S)
