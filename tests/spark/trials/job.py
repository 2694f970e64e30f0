"""A driver program of its own, for tests that kill it: a stream from a topic into Parquet files.

    python -m tests.spark.trials.job NAMESRV TOPIC GROUP DIRECTORY TRIGGER ROWS

The trigger is ``available-now``, or a time such as ``200 milliseconds``, with which it runs until it is killed; a batch
has so many rows at most. The rows are in DIRECTORY/rows, the checkpoint in DIRECTORY/checkpoint. It says ``running``
when the query has begun.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.sessions import small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

AVAILABLE_NOW = "available-now"


def start_stream(
    spark: "SparkSession", namesrv: str, topic: str, group: str, directory: str, trigger: str, rows: str
) -> "StreamingQuery":
    """Start the stream in a session at hand."""
    where = Path(directory)
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows)
        .option("group", group)
        .load()
    )
    writing = (
        messages.writeStream.format("parquet")
        .option("path", str(where / "rows"))
        .option("checkpointLocation", str(where / "checkpoint"))
    )
    is_to_end = trigger == AVAILABLE_NOW
    return (writing.trigger(availableNow=True) if is_to_end else writing.trigger(processingTime=trigger)).start()


def main(directory: str, *words: str) -> None:
    """Run the stream in a session of its own."""
    with small_session(Path(directory), "local[2]") as spark:
        query = start_stream(spark, *words)
        sys.stdout.write("running\n")
        sys.stdout.flush()
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[4], *sys.argv[1:])
