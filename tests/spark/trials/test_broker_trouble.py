"""Brokers are killed, restarted, added and emptied under a running stream: the query survives, or says what is lost."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.client.grounds import Ground, our_ground

from steelyard import Admin, Message, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(180)]

_LONGEST_S = 90.0
_LOOK_S = 0.1


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Run two brokers of ours as processes, with their files on disk."""
    (tmp_path / "ground").mkdir()
    with our_ground(tmp_path / "ground") as running:
        with Admin(running.namesrv) as admin:
            admin.create_topic("orders", 2)
        yield running


def test_a_broker_that_is_killed_and_comes_back_does_not_end_the_query(
    ground: Ground, spark: "SparkSession", tmp_path: Path
) -> None:
    with _stream(spark, ground, tmp_path) as query:
        _send(ground, range(200))
        _until(query, lambda: _count(spark, tmp_path) == 200)
        with ground.killed("broker-b"):
            _send(ground, range(200, 300))
            _until(query, lambda: _count(spark, tmp_path) == 300)
        _send(ground, range(300, 500))
        _until(query, lambda: _count(spark, tmp_path) == 500)
    assert _bodies(spark, tmp_path) == [b"%05d" % number for number in range(500)]


def test_what_a_broker_has_lost_is_named_and_by_option_passed_over(
    ground: Ground, spark: "SparkSession", tmp_path: Path
) -> None:
    _send(ground, range(200))
    with _stream(spark, ground, tmp_path) as query:
        _until(query, lambda: _count(spark, tmp_path) == 200)
    server = ground.servers["broker-b"]
    server.kill()
    shutil.rmtree(tmp_path / "ground" / "broker-b")
    server.start()
    with Admin(ground.namesrv) as admin:
        admin.create_topic("orders", 2)
    with (
        _stream(spark, ground, tmp_path) as query,
        pytest.raises(Exception, match=r"orders@broker-b:[01].*failOnDataLoss"),
    ):
        query.processAllAvailable()
    _send(ground, range(200, 400))
    with _stream(spark, ground, tmp_path, failOnDataLoss="false") as query:
        query.processAllAvailable()
        assert query.exception() is None
    assert set(_bodies(spark, tmp_path)) >= {b"%05d" % number for number in range(200)}
    assert len(_bodies(spark, tmp_path)) > 200


def test_queues_that_are_added_are_read_from_their_first_message(
    ground: Ground, spark: "SparkSession", tmp_path: Path
) -> None:
    with _stream(spark, ground, tmp_path) as query:
        _send(ground, range(100))
        _until(query, lambda: _count(spark, tmp_path) == 100)
        with Admin(ground.namesrv) as admin:
            admin.create_topic("orders", 6)
        _send(ground, range(100, 400))
        _until(query, lambda: _count(spark, tmp_path) == 400)
    assert _bodies(spark, tmp_path) == [b"%05d" % number for number in range(400)]


@contextmanager
def _stream(spark: "SparkSession", ground: Ground, directory: Path, **more: str) -> "Iterator[StreamingQuery]":
    options = {"namesrv": ground.namesrv, "subscribe": "orders", "startingOffsets": "earliest"} | more
    frame = spark.readStream.format("rocketmq").options(**options).load().select("body")
    writing = frame.writeStream.format("parquet").option("path", str(directory / "rows"))
    writing = writing.option("checkpointLocation", str(directory / "checkpoint"))
    query = writing.trigger(processingTime="100 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def _send(ground: Ground, numbers: range) -> None:
    with Producer(ground.namesrv, group="shop") as producer:
        for number in numbers:
            producer.send(Message("orders", b"%05d" % number))


def _count(spark: "SparkSession", directory: Path) -> int:
    return len(_bodies(spark, directory)) if any((directory / "rows" / "_spark_metadata").glob("[0-9]*")) else 0


def _bodies(spark: "SparkSession", directory: Path) -> list[bytes]:
    return sorted(
        bytes(row.body) for row in spark.read.schema("body binary").parquet(str(directory / "rows")).collect()
    )


def _until(query: "StreamingQuery", is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _LONGEST_S
    while not is_so():
        assert query.exception() is None
        assert time.monotonic() < end_s, f"it did not come true: {query.lastProgress}"
        time.sleep(_LOOK_S)
