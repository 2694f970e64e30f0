"""Copies of a topic by every way there is, on whatever Spark: the same work for a program and for a session at hand.

    python -m tests.spark.trials.copy NAMESRV TOPIC COPY DIRECTORY MASTER

DIRECTORY/batch and DIRECTORY/stream have the rows as a batch and as a stream read them; the topic COPY gets each row
twice, from a batch and from a stream.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.sessions import small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_COLUMNS = ["body", "tags", "keys", "properties"]


def copy_all(spark: "SparkSession", namesrv: str, topic: str, copy: str, where: Path) -> None:
    """Copy a topic into files and into another topic, as a batch and as a stream."""
    options = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    sink = {"namesrv": namesrv, "topic": copy}
    batch = spark.read.format("rocketmq").options(**options).load()
    batch.write.parquet(str(where / "batch"))
    batch.select(_COLUMNS).write.format("rocketmq").options(**sink).mode("append").save()
    stream = spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger="1500").load()
    _run(stream.writeStream.format("parquet").option("path", str(where / "stream")), where / "files")
    _run(stream.select(_COLUMNS).writeStream.format("rocketmq").options(**sink), where / "sent")


def _run(writing: "DataStreamWriter", checkpoint: Path) -> None:
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def main(namesrv: str, topic: str, copy: str, directory: str, master: str) -> None:
    """Copy in a session of its own."""
    with small_session(Path(directory), master) as spark:
        copy_all(spark, namesrv, topic, copy, Path(directory))


if __name__ == "__main__":
    main(*sys.argv[1:])
