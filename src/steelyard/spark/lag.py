"""The lag of a stream, from the progress that Spark reports, since a Python source has no metrics there.

print(lag(query.lastProgress))
spark.streams.addListener(ProgressLog())
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from steelyard.errors import ConfigurationError
from steelyard.model import Queue, sort_queues
from steelyard.model.formatting import pluralize
from steelyard.spark.stream_offset import StreamOffset

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

_log = logging.getLogger("steelyard.spark")


@dataclass(frozen=True, slots=True)
class Lag:
    """How many messages are not in a batch yet, by queue.

    >>> print(Lag({Queue("orders", "a", 0): 2, Queue("orders", "a", 1): 5}))
    7 messages, most of them in orders@a:1
    """

    queues: Mapping[Queue, int]

    @property
    def total(self) -> int:
        """The sum over all queues."""
        return sum(self.queues.values())

    @property
    def most(self) -> Queue | None:
        """The queue with the largest lag; None if there is none."""
        return max(self.queues, key=lambda queue: self.queues[queue]) if self.total else None

    def __str__(self) -> str:
        return pluralize(self.total, "message") + (f", most of them in {self.most}" if self.most else "")


def lag(progress: "StreamingQueryProgress | Mapping[str, object] | None") -> Lag:
    """Return the lag of a query behind the max offsets when its last batch was planned; other sources do not count.

    ``progress`` is ``query.lastProgress``, or one of its recent ones; None, before the first, is no lag.
    """
    behind: dict[Queue, int] = {}
    sources = progress["sources"] if progress else ()
    for source in sources if isinstance(sources, list | tuple) else ():
        latest, end = _parse_offset(source.get("latestOffset")), _parse_offset(source.get("endOffset"))
        if latest is None or end is None:
            continue
        for queue in sort_queues({*latest.positions, *end.positions}):
            # Where the stream will start in a queue that is in no batch yet is unknown here: it counts as no lag.
            read = end.positions.get(queue, latest.positions.get(queue, 0))
            behind[queue] = behind.get(queue, 0) + max(0, latest.positions.get(queue, read) - read)
    return Lag(behind)


def _parse_offset(written: object) -> StreamOffset | None:
    """Parse the offset of a source; None if it is another kind of source."""
    try:
        return StreamOffset.decode(json.loads(written) if isinstance(written, str) else written)
    except (ConfigurationError, ValueError, RecursionError):
        return None


class ProgressLog(StreamingQueryListener):
    """Logs each batch: rows per second, lag, duration."""

    def __init__(self, logger: logging.Logger = _log) -> None:
        self._logger = logger

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Log that a query runs."""
        self._logger.info("query %s runs", event.name or event.id)

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Log a batch."""
        progress = event.progress
        self._logger.info(
            "query %s: batch %d has %d rows in %d ms (%.0f rows/s), lag: %s",
            progress.name or progress.id,
            progress.batchId,
            progress.numInputRows,
            progress.batchDuration,
            progress.processedRowsPerSecond,
            lag(progress),
        )

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Log nothing: there is nothing new."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Log that a query ended, and why."""
        if event.exception:
            self._logger.error("query %s failed: %s", event.id, event.exception)
        else:
            self._logger.info("query %s ended", event.id)
