"""Running a stream to its end: batch after batch to one function, news of each, and an end between two of them.

Told to end, the batch that runs is finished and committed, and the next one is not begun: it would be refused at its
first line, and Spark runs it when the job is started again. Whatever Spark raises becomes an error of ours.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.errors import JobFailed
from steelyard.pipelines.triggers import Trigger
from steelyard.pipelines.troubles import as_ours, wrong_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Batch", "Progress", "run_stream"]

_LOOK_S = 0.3


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is done.

    >>> print(Batch(12, rows=500_000, took_ms=1_600, behind=20_000))
    batch 12: 500,000 rows in 1.6 s (312,500 rows/s), 20,000 behind
    """

    number: int
    rows: int
    took_ms: int
    behind: int
    """Messages that were there and in no batch yet when it was planned."""

    @property
    def rows_per_s(self) -> float:
        """How many rows a second it did."""
        return self.rows * 1_000 / self.took_ms if self.took_ms else 0.0

    def __str__(self) -> str:
        speed = f"{self.rows:,} rows in {self.took_ms / 1000:.1f} s ({self.rows_per_s:,.0f} rows/s)"
        return f"batch {self.number}: {speed}, {self.behind:,} behind"


@dataclass(frozen=True, slots=True)
class Progress:
    """How a job talks with whoever started it."""

    tell: Callable[[Batch], object] = str
    """Hears of every batch that is done."""
    is_over: Callable[[], bool] = lambda: False
    """Asked a few times a second whether it is time to end."""


class _Gate:
    """What Spark calls with every batch; it lets none in once it is closed."""

    def __init__(self, handle: "Callable[[DataFrame, str, int], None]") -> None:
        self._handle = handle
        self._query: StreamingQuery | None = None
        self._is_known = threading.Event()
        self.is_closed = False
        self.has_refused = False
        self.error: BaseException | None = None

    def begins(self, query: "StreamingQuery") -> None:
        self._query = query
        self._is_known.set()

    def __call__(self, rows: "DataFrame", number: int) -> None:
        self._is_known.wait()
        assert self._query is not None
        if self.is_closed:
            self.has_refused = True
            raise JobFailed("it was told to end")
        try:
            self._handle(rows, self._query.id, number)
        except BaseException as error:
            self.error = error
            raise


def run_stream(
    rows: "DataFrame",
    handle: "Callable[[DataFrame, str, int], None]",
    *,
    checkpoint: str,
    trigger: Trigger,
    name: str,
    mode: str = "append",
    progress: Progress | None = None,
) -> int:
    """Run a stream until it ends, or is told to; return how many rows it read. Raises what made it fail, as ours.

    ``handle`` takes a batch's rows, the id of the query, which stays the same over restarts, and the batch's number.
    """
    talk = progress or Progress()
    gate = _Gate(handle)
    writer = (
        rows.writeStream.foreachBatch(gate).queryName(name).outputMode(mode).option("checkpointLocation", checkpoint)
    )
    every = trigger.every_ms
    writer = (
        writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} milliseconds")
    )
    from pyspark.errors import AnalysisException

    try:
        with _quiet():
            query = writer.start()
            gate.begins(query)
            return _follow(query, gate, talk)
    except AnalysisException as error:
        raise wrong_query("the query", error) from error
    except Exception as error:
        if isinstance(gate.error, BrokenPipeError | SystemExit):
            raise gate.error from None  # nobody reads any more what the job shows: whoever shows it knows what to do
        raise as_ours(gate.error or error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the bridge to Java from telling with all its stacks what is raised here anyway."""
    bridge = logging.getLogger("py4j")
    before = bridge.level
    bridge.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        bridge.setLevel(before)


def _follow(query: "StreamingQuery", gate: _Gate, talk: Progress) -> int:
    told = _Told(query, talk.tell)
    while query.isActive:
        if talk.is_over():
            gate.is_closed = True
            if not query.status["isTriggerActive"]:
                query.stop()
        time.sleep(_LOOK_S)
        told.news()
    told.news()  # of a batch that was done after the last look
    failure = query.exception()
    if failure is not None and not gate.has_refused:
        raise failure
    return told.rows


class _Told:
    """Tells of each batch once, and counts."""

    def __init__(self, query: "StreamingQuery", tell: Callable[[Batch], object]) -> None:
        self._query, self._tell = query, tell
        self._last = -1
        self.rows = 0

    def news(self) -> None:
        for batch in self._batches():
            self._last = batch.number
            self.rows += batch.rows
            self._tell(batch)

    def _batches(self) -> Iterator[Batch]:
        from steelyard.spark.lag import lag

        newest = self._query.lastProgress
        if newest is None or newest.batchId <= self._last:
            return
        for each in self._query.recentProgress:
            # A stream that waits reports, too, with the number of the batch to come.
            if each.batchId > self._last and each.numInputRows:
                yield Batch(each.batchId, each.numInputRows, each.batchDuration, lag(each).total)
