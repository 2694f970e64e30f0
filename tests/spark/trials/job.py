"""A driver program of its own, for tests that kill it: a stream from a topic into Parquet files.

    python -m tests.spark.trials.job NAMESRV TOPIC GROUP DIRECTORY TRIGGER ROWS

The trigger is ``available-now``, or a time such as ``200 milliseconds``, with which it runs until it is killed; a batch
has so many rows at most. The rows are in DIRECTORY/rows, the checkpoint in DIRECTORY/checkpoint. It says ``running``
when the query has begun.
"""

import sys
from pathlib import Path

from tests.spark.sessions import small_session

__all__ = ["AVAILABLE_NOW", "main"]

AVAILABLE_NOW = "available-now"


def main(namesrv: str, topic: str, group: str, directory: str, trigger: str, rows: str) -> None:
    """Run the stream."""
    where = Path(directory)
    with small_session(where, "local[2]") as spark:
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
        query = (writing.trigger(availableNow=True) if is_to_end else writing.trigger(processingTime=trigger)).start()
        sys.stdout.write("running\n")
        sys.stdout.flush()
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
