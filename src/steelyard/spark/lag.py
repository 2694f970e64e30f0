"""How far a stream is behind: from the progress that Spark reports, since a source in Python has no metrics there.

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
from steelyard.model import Queue, in_order
from steelyard.spark.planning.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

__all__ = ["Lag", "ProgressLog", "lag"]

_log = logging.getLogger("steelyard")


@dataclass(frozen=True, slots=True)
class Lag:
    """How many messages are there and not in a batch yet.

    >>> print(Lag({Queue("orders", "a", 0): 2, Queue("orders", "a", 1): 5}))
    7 messages, most of them in orders@a:1
    """

    queues: Mapping[Queue, int]

    @property
    def total(self) -> int:
        """How many in all queues together."""
        return sum(self.queues.values())

    @property
    def most(self) -> Queue | None:
        """The queue with most of them; None if there are none."""
        return max(self.queues, key=lambda queue: self.queues[queue]) if self.total else None

    def __str__(self) -> str:
        return f"{self.total} messages" + (f", most of them in {self.most}" if self.most else "")


def lag(progress: "StreamingQueryProgress | Mapping[str, object] | None") -> Lag:
    """Return how far a query is behind the ends that it saw when a batch was planned; other sources count nothing.

    ``progress`` is what ``query.lastProgress`` returns, or one of its recent ones; None, before the first, is no lag.
    """
    behind: dict[Queue, int] = {}
    sources = progress["sources"] if progress else ()
    for source in sources if isinstance(sources, list | tuple) else ():
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        if latest is None or end is None:
            continue
        for queue in in_order({*latest.places, *end.places}):
            # A queue that is in no batch yet is behind from where the stream will begin there, which is not known here.
            read = end.places.get(queue, latest.places.get(queue, 0))
            behind[queue] = behind.get(queue, 0) + max(0, latest.places.get(queue, read) - read)
    return Lag(behind)


def _offsets(written: object) -> Offsets | None:
    """Read an offset of a source; None if it is of another kind of source."""
    try:
        return Offsets.of(json.loads(written) if isinstance(written, str) else written)
    except (ConfigurationError, ValueError, RecursionError):
        return None


class ProgressLog(StreamingQueryListener):
    """Writes a line about each batch into the log: rows a second, how far behind, how long it took."""

    def __init__(self, logger: logging.Logger = _log) -> None:
        self._logger = logger

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Say that a query runs."""
        self._logger.info("query %s runs", event.name or event.id)

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Say what a batch did."""
        progress = event.progress
        self._logger.info(
            "query %s: batch %d has %d rows in %d ms (%.0f rows/s), behind: %s",
            progress.name or progress.id,
            progress.batchId,
            progress.numInputRows,
            progress.batchDuration,
            progress.processedRowsPerSecond,
            lag(progress),
        )

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Say nothing: there is nothing new."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Say that a query ended, and why."""
        if event.exception:
            self._logger.error("query %s failed: %s", event.id, event.exception)
        else:
            self._logger.info("query %s ended", event.id)
