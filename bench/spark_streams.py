"""Streams under the meter: everything that a topic has, batches as small as can be, and messages one by one.

Checkpoints lie in a folder that goes away. What a batch takes is what Spark itself says of it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.spark_meter import Cost, Meter
from bench.spark_sides import Side

_WAIT_S = 120
_LOOK_S = 0.05
_SMALL = 1_000
# The first batches of a query are slow: plans are made and code is.
_UNTIMED_BATCHES = 5
_UNTIMED_S = 2.5
_WARMING = b"-"


def drain(side: Side, topic: str, most: int, folder: Path | None = None) -> None:
    """Read everything that a topic has now, so many rows at a time, into nothing or into files."""
    with TemporaryDirectory(prefix="steelyard-stream-") as places:
        writer = side.stream(topic, most).writeStream.option("checkpointLocation", f"{places}/checkpoint")
        writer = writer.trigger(availableNow=True)
        writer = writer.format("noop") if folder is None else writer.format("parquet").option("path", str(folder))
        query = writer.start()
        if not query.awaitTermination(_WAIT_S):
            query.stop()
            raise RuntimeError(f"{side.name}: the stream is not done after {_WAIT_S} s")


def small_batches(side: Side, topic: str, batches: int, meter: Meter) -> Cost:
    """Read little by little, one batch after the other, and return what a batch takes: the median, and on average."""
    with _running(side.stream(topic, _SMALL).writeStream.format("noop")) as query:
        _wait_for_batch(query, _UNTIMED_BATCHES)
        began, first = meter.read_accounts(), _last_batch(query)
        _wait_for_batch(query, first + batches)
        used_s, last = meter.used_s(began), _last_batch(query)
        timed = [each for each in query.recentProgress if first < each.batchId <= last and each.numInputRows]
    if any(each.numInputRows > _SMALL for each in timed):
        raise RuntimeError(f"{side.name}: a batch had more than {_SMALL} rows")
    return Cost(median(each.durationMs["triggerExecution"] for each in timed) / 1000, used_s / (last - first))


def trickle(side: Side, topic: str, messages: int, every_s: float, meter: Meter) -> Cost:
    """Send messages one by one while a stream runs, each with the time, and look at the clock where its rows come out.

    Returned are the median of how long a message took, and the share of a core that everybody took together.
    """
    took: list[float] = []
    is_warm = False

    def record(batch: DataFrame, _number: int) -> None:
        nonlocal is_warm
        bodies = [bytes(row[0]) for row in batch.select(side.value()).collect()]
        now_ns = time.time_ns()
        took.extend((now_ns - int(body)) / 1e9 for body in bodies if body != _WARMING)
        is_warm = is_warm or bool(bodies)

    writer = side.stream(topic, is_late=True).writeStream.foreachBatch(record)
    with _running(writer) as query, side.sending(topic) as send:
        _wait_until(query, lambda: is_warm, lambda: send(_WARMING))
        for _ in _paced(int(_UNTIMED_S / every_s), every_s):
            send(_WARMING)
        began, start = meter.read_accounts(), time.perf_counter()
        for _ in _paced(messages, every_s):
            send(b"%d" % time.time_ns())
        cores = meter.used_s(began) / (time.perf_counter() - start)
        _wait_until(query, lambda: len(took) >= messages)
    return Cost(median(took), cores, f"90% within {quantiles(took, n=10)[-1] * 1000:,.0f} ms")


@contextmanager
def _running(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    with TemporaryDirectory(prefix="steelyard-stream-") as places:
        query = writer.option("checkpointLocation", places).start()
        try:
            yield query
        finally:
            query.stop()


def _last_batch(query: StreamingQuery) -> int:
    return -1 if (progress := query.lastProgress) is None else int(progress.batchId)


def _wait_for_batch(query: StreamingQuery, number: int) -> None:
    _wait_until(query, lambda: _last_batch(query) >= number)


def _wait_until(query: StreamingQuery, is_so: Callable[[], bool], nudge: Callable[[], None] = lambda: None) -> None:
    end = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > end or not query.isActive:
            raise RuntimeError(f"the stream has stopped, or hangs: {query.exception() or query.lastProgress}")
        nudge()
        time.sleep(_LOOK_S)


def _paced(times: int, every_s: float) -> Iterator[int]:
    start = time.perf_counter()
    for number in range(times):
        time.sleep(max(0.0, start + number * every_s - time.perf_counter()))
        yield number
