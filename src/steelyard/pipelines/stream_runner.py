"""Runs a stream to its end: each batch goes to one function, progress is reported, and it stops between two batches.

When the job is stopped, the running batch is finished and committed, and the next one is rejected at its first line:
Spark replays it when the job is started again. What Spark raises becomes an error of ours. Errors of our own code in
another process come back as text inside Java's and Python's stacks: they are found there and get their class back.
Spark's own errors lose their stacks.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard import errors
from steelyard.errors import ConfigurationError, JobFailed, SteelyardError
from steelyard.model.formatting import pluralize
from steelyard.pipelines.stream_options import Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_STEELYARD_ERROR = re.compile(r"steelyard\.errors\.(?:\w+\.)?(\w+): (.+)")
_MAX_TEXT = 600


def as_steelyard_error(error: BaseException) -> SteelyardError:
    r"""Return the error as one of ours; Spark's own errors become JobFailed.

    >>> text = "Job aborted.\n  steelyard.errors.NoNameServer: no answer; start one\n at java"
    >>> as_steelyard_error(RuntimeError(text))
    NoNameServer('no answer; start one')
    """
    if isinstance(error, SteelyardError):
        return error
    text = str(error)
    for name, sentence in reversed(_STEELYARD_ERROR.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SteelyardError):
            message = sentence.strip()
            restored = kind.__new__(kind, message)
            restored.args, restored.what = (message,), message
            return restored
    return JobFailed(f"Spark failed: {_first_lines(text)}", next_step="fix that, and run it again: it resumes")


def query_error(what: str, error: Exception) -> ConfigurationError:
    """Return the error for a query that Spark rejects."""
    return ConfigurationError(f"{what} cannot be run: {_first_lines(str(error))}", next_step="fix it")


def _first_lines(text: str) -> str:
    """Return the message of a Spark error without stacks and plans."""
    message = re.split(r"\n\s*(?:at |Traceback|JVM stacktrace|== )|;\n|\n\n", text, maxsplit=1)[0]
    line = " ".join(message.split()).rstrip(".")
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"


_POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A finished batch.

    >>> print(BatchProgress(12, rows=500_000, took_ms=1_600, lag=20_000))
    batch 12: 500,000 rows in 1.6 s (312,500 rows/s), lag 20,000
    """

    number: int
    rows: int
    took_ms: int
    lag: int  # the lag when it was planned

    @property
    def rows_per_s(self) -> float:
        """Its rows per second."""
        return self.rows * 1_000 / self.took_ms if self.took_ms else 0.0

    def __str__(self) -> str:
        rows = pluralize(self.rows, "row")
        speed = f"{rows} in {self.took_ms / 1000:.1f} s ({self.rows_per_s:,.0f} rows/s)"
        return f"batch {self.number}: {speed}, lag {self.lag:,}"


@dataclass(frozen=True, slots=True)
class JobControl:
    """Callbacks of a job."""

    on_batch: Callable[[BatchProgress], object] = str  # called for every finished batch
    should_stop: Callable[[], bool] = lambda: False  # polled a few times a second


class _BatchGate:
    """Called by Spark with every batch; rejects batches once it is closed."""

    def __init__(self, handle: "Callable[[DataFrame, str, int], None]") -> None:
        self._handle = handle
        self._query: StreamingQuery | None = None
        self._has_query = threading.Event()
        self.is_closed = False
        self.has_refused = False
        self.error: BaseException | None = None

    def start(self, query: "StreamingQuery") -> None:
        self._query = query
        self._has_query.set()

    def __call__(self, rows: "DataFrame", number: int) -> None:
        self._has_query.wait()
        assert self._query is not None
        if self.is_closed:
            self.has_refused = True
            raise JobFailed("it was stopped")
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
    control: JobControl | None = None,
) -> int:
    """Run a stream until it ends or is stopped; return how many rows it read. Raises its failure as an error of ours.

    ``handle`` takes the rows of a batch, the id of the query, which survives restarts, and the number of the batch.
    """
    gate = _BatchGate(handle)
    writer = (
        rows.writeStream.foreachBatch(gate).queryName(name).outputMode(mode).option("checkpointLocation", checkpoint)
    )
    every = trigger.every_ms
    writer = (
        writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} milliseconds")
    )
    from pyspark.errors import AnalysisException

    try:
        with _silence_py4j():
            query = writer.start()
            gate.start(query)
            return _await_end(query, gate, control or JobControl())
    except AnalysisException as error:
        raise query_error("the query", error) from error
    except Exception as error:
        if isinstance(gate.error, BrokenPipeError | SystemExit):
            raise gate.error from None  # the reader of the output is gone, which the caller handles
        raise as_steelyard_error(gate.error or error) from error


@contextmanager
def _silence_py4j() -> Iterator[None]:
    """Keep the bridge to Java from logging stacks of what is raised here anyway."""
    bridge = logging.getLogger("py4j")
    before = bridge.level
    bridge.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        bridge.setLevel(before)


def _await_end(query: "StreamingQuery", gate: _BatchGate, control: JobControl) -> int:
    progress = _ProgressReader(query, control.on_batch)
    while query.isActive:
        if control.should_stop():
            gate.is_closed = True
            if not query.status["isTriggerActive"]:
                query.stop()
        time.sleep(_POLL_S)
        progress.report_new()
    progress.report_new()  # of a batch that finished after the last poll
    failure = query.exception()
    if failure is not None and not gate.has_refused:
        raise failure
    return progress.rows


class _ProgressReader:
    """Reports each batch once, and counts rows."""

    def __init__(self, query: "StreamingQuery", on_batch: Callable[[BatchProgress], object]) -> None:
        self._query, self._on_batch = query, on_batch
        self._last = -1
        self.rows = 0

    def report_new(self) -> None:
        for batch in self._new_batches():
            self._last = batch.number
            self.rows += batch.rows
            self._on_batch(batch)

    def _new_batches(self) -> Iterator[BatchProgress]:
        from steelyard.spark.lag import lag

        newest = self._query.lastProgress
        if newest is None or newest.batchId <= self._last:
            return
        for each in self._query.recentProgress:
            # An idle stream reports, too, with the number of the next batch.
            if each.batchId > self._last and each.numInputRows:
                yield BatchProgress(each.batchId, each.numInputRows, each.batchDuration, lag(each).total)
