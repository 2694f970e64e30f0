"""A driver program of its own, for tests that kill it: a stream from a topic into Parquet files.

    python -m tests.spark.trials.job NAMESRV TOPIC GROUP DIRECTORY TRIGGER MASTER

The trigger is ``available-now``, or a time such as ``200 milliseconds``; either way it ends once all that was there
when it began is written. The rows are in DIRECTORY/rows, the checkpoint in DIRECTORY/checkpoint. It says ``running``
when the query has begun.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.sessions import small_session

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["AVAILABLE_NOW", "main"]

AVAILABLE_NOW = "available-now"
_ROWS_A_BATCH = 1_500


def main(namesrv: str, topic: str, group: str, directory: str, trigger: str, master: str) -> None:
    """Run the stream."""
    where = Path(directory)
    with small_session(where, master) as spark:
        messages = (
            spark.readStream.format("rocketmq")
            .option("namesrv", namesrv)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(_ROWS_A_BATCH))
            .option("group", group)
            .load()
        )
        writing = (
            messages.writeStream.format("parquet")
            .option("path", str(where / "rows"))
            .option("checkpointLocation", str(where / "checkpoint"))
        )
        if trigger == AVAILABLE_NOW:
            _end(writing.trigger(availableNow=True).start())
        else:
            _end(writing.trigger(processingTime=trigger).start(), waits=True)


def _end(query: "StreamingQuery", *, waits: bool = False) -> None:
    sys.stdout.write("running\n")
    sys.stdout.flush()
    if waits:
        query.processAllAvailable()
        query.stop()
    else:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
