"""The same program on a Spark cluster and on local Spark gives the same rows."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.live.clusters import Live
from tests.spark.trials.drivers import driver
from tests.spark.trials.standalone import standalone

from steelyard import Admin, Message, Producer

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

_MESSAGES = 3_000


def test_a_cluster_gives_the_same_rows_as_local_spark(
    cluster: Live, topic: str, spark: "SparkSession", tmp_path: Path
) -> None:
    with Producer(cluster.namesrv, group=f"of-{topic}") as producer, Admin(cluster.namesrv) as admin:
        admin.create_topic(f"{topic}-copy", 4)
        producer.send_many(
            Message(topic, b"%06d" % number, tags=f"t{number % 3}", keys=f"k{number}", properties={"n": str(number)})
            for number in range(_MESSAGES)
        )
    (tmp_path / "servers").mkdir()
    with standalone(tmp_path / "servers") as master:
        for name, where in (("local", "local[2]"), ("cluster", master)):
            words = (cluster.namesrv, topic, f"{name}-{topic}", str(tmp_path / name), where)
            with driver("tests.spark.trials.copy", tmp_path / name, *words) as process:
                assert process.wait() == 0, (tmp_path / name / "driver.log").read_text()[-4000:]
    for kind in ("batch", "stream"):
        local, remote = (_rows(spark, tmp_path / name / kind) for name in ("local", "cluster"))
        assert len(local) == _MESSAGES
        assert local == remote
    copied = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=f"{topic}-copy").load()
    bodies = sorted(bytes(row.body) for row in copied.select("body").collect())
    assert bodies == sorted(2 * [b"%06d" % number for number in range(_MESSAGES)])


def _rows(spark: "SparkSession", directory: Path) -> "list[Row]":
    return spark.read.parquet(str(directory)).orderBy("broker", "queue_id", "offset").collect()
