"""A driver program that reads a topic as a batch and as a stream into Parquet, on whatever Spark it is told.

    python -m tests.spark.trials.copy NAMESRV TOPIC GROUP DIRECTORY MASTER

Batch rows are in DIRECTORY/batch, the stream's in DIRECTORY/stream; the stream's are written back to TOPIC-copy, too.
"""

import sys
from pathlib import Path

from tests.spark.sessions import small_session

__all__ = ["main"]


def main(namesrv: str, topic: str, group: str, directory: str, master: str) -> None:
    """Run both."""
    where = Path(directory)
    options = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    with small_session(where, master) as spark:
        spark.read.format("rocketmq").options(**options).load().write.parquet(str(where / "batch"))
        stream = spark.readStream.format("rocketmq").options(**options, group=group, maxOffsetsPerTrigger="1000").load()
        writing = stream.writeStream.format("parquet").option("path", str(where / "stream"))
        writing = writing.option("checkpointLocation", str(where / "checkpoint")).trigger(availableNow=True)
        writing.start().awaitTermination()
        copied = spark.read.parquet(str(where / "stream")).select("body", "tags", "keys")
        sink = {"namesrv": namesrv, "topic": f"{topic}-copy"}
        copied.write.format("rocketmq").options(**sink).mode("append").save()


if __name__ == "__main__":
    main(*sys.argv[1:])
