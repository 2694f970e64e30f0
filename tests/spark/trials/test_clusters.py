"""The same work on a Spark cluster and on local Spark gives the same rows, read and written.

The cluster is one that comes with its driver, with an executor of its own, or, by STEELYARD_SLOW=1, a master and two
workers, which takes six Javas.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard import Admin, Message, Producer
from tests.live.clusters import Live, until
from tests.spark.trials.copy import copy_all
from tests.spark.trials.drivers import driver
from tests.spark.trials.standalone import SparkCluster, small_cluster, standalone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

_MESSAGES = 3_000


@contextmanager
def _spark_cluster(directory: Path) -> Iterator[SparkCluster]:
    if "STEELYARD_SLOW" not in os.environ:
        yield small_cluster(directory)
        return
    with standalone(directory) as running:
        yield running


def test_a_cluster_gives_the_same_rows_as_local_spark(
    cluster: Live, topic: str, spark: "SparkSession", tmp_path: Path
) -> None:
    local, remote = f"{topic}-local", f"{topic}-cluster"
    with Producer(cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
        for copy in (local, remote):
            admin.topics.create(copy, 2)
        producer.send_many(
            Message(topic, b"%06d" % number, tags=f"t{number % 3}", keys=f"k{number}", properties={"n": str(number)})
            for number in range(_MESSAGES)
        )
        until(lambda: admin.topics.describe(topic).messages == _MESSAGES, "all are shown")
        copy_all(spark, cluster.namesrv, topic, local, tmp_path / "local")
        with _spark_cluster(tmp_path) as far:
            words = (cluster.namesrv, topic, remote, str(tmp_path / "cluster"), far.master)
            with driver("tests.spark.trials.copy", tmp_path / "cluster", *words, environ=far.environ) as process:
                assert process.wait() == 0, (tmp_path / "cluster" / "driver.log").read_text()[-4000:]
        until(
            lambda: all(admin.topics.describe(copy).messages == 2 * _MESSAGES for copy in (local, remote)),
            "all are copied",
        )
    for worker in far.workers:
        assert list(worker.glob("app-*/*/stderr")), "each worker had its part"
    for kind in ("batch", "stream"):
        here, there = (_in_order(spark.read.parquet(str(tmp_path / name / kind))) for name in ("local", "cluster"))
        assert len(here) == _MESSAGES
        assert here == there
    here, there = (_sent(spark, cluster, copy) for copy in (local, remote))
    assert [bytes(row.body) for row in here] == [b"%06d" % (number // 2) for number in range(2 * _MESSAGES)]
    assert here == there


def _in_order(frame: "DataFrame") -> "list[Row]":
    return frame.orderBy("broker", "queue_id", "offset").collect()


def _sent(spark: "SparkSession", cluster: Live, copy: str) -> "list[Row]":
    """Return the rows of a topic, with what of their properties is the sender's."""
    frame = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=copy).load()
    return frame.selectExpr("body", "tags", "keys", "properties['n'] AS n").orderBy("body").collect()
