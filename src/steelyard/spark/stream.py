"""Reading a topic as a stream: Spark asks how far it could go, this says how far it may, and what that is in tasks.

Spark's order for each batch is: latestOffset with where the batch before ended, reportLatestOffset, then it writes the
end down, commit of the batch before, partitions. After a crash partitions comes first, with what was written down. The
very first offset is not written down and is asked for twice: so it is kept, and the first end tells it (offsets.py).

With ``Trigger.AvailableNow`` the queues and ends of the first look are the goal, and nothing that comes later is: it
ends, whatever arrives, is added or is deleted meanwhile.

The group's progress is told to brokers after a batch is done, from `commit`, which Spark calls one batch late, and from
`latestOffset`, which it calls with what is done; if that fails, the query goes on.
"""

import logging
from time import monotonic_ns
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from steelyard.errors import MessagesLost, SteelyardError, TopicNotFound, TransportError
from steelyard.spark.options.checked import ReadOptions
from steelyard.spark.planning.admission import Admission, default_limit
from steelyard.spark.planning.asking import Asking
from steelyard.spark.planning.backlog import backlog_of
from steelyard.spark.planning.offsets import Json, Offsets, ranges_between
from steelyard.spark.planning.resolving import resolve_start
from steelyard.spark.planning.slices import first_look, slices
from steelyard.spark.planning.watch import Seen, Watch
from steelyard.spark.task import Slice, read_slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from steelyard.model import Queue

__all__ = ["StreamReader"]

_MIRROR_REST_MS = 5_000
"""How long brokers that did not take the group's progress are left alone."""

_log = logging.getLogger("steelyard")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process of the driver for each query; copies of it, which only read, go to executors."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._asking = Asking(options)
        self._watch = Watch(self._asking, options.offset_poll_ms)
        self._admission = Admission(options, self._asking.sample)
        self._initial: Json | None = None
        self._is_available_now = False
        self._goal: Seen | None = None
        self._idle: tuple[int, Json] | None = None
        """The turn of the watch, and an offset, between which there was nothing to read."""
        self._report: tuple[int, Json] | None = None
        self._mirrored: dict[Queue, int] = {}
        self._mirror_after_ms = 0
        self._told: set[str] = set()

    def __reduce__(self) -> tuple[object, ...]:
        return StreamReader, (self._options, self._columns)

    # -- where it is --------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Json:
        """Return where a query begins that has no checkpoint; the same however often it is asked."""
        if self._initial is None:
            options = self._options
            spans = first_look(options, self._asking)
            starts = resolve_start(options.start, spans, self._asking, fail_on_loss=options.fail_on_data_loss)
            self._watch.knows(spans)
            self._initial = Offsets(starts, is_initial=True).json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`."""
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take note that the query is to end with what is there when it first asks."""
        self._is_available_now = True

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Return how far the next batch may go; ``start`` itself if there is nothing for it."""
        seen = self._look(start)
        if self._idle == (seen.turn, start):
            return start
        now_ms = _now_ms()
        began = Offsets.of(start)
        self._mirror(began, now_ms)
        backlog = backlog_of(began, seen, self._options.topics, self._lost)
        admitted = self._admission.admit(backlog.ranges, limit, now_ms, may_wait=not self._is_available_now)
        if any(admitted) or backlog.goes_back:
            return backlog.upto(admitted).json()
        if not any(backlog.ranges) and self._mirror_after_ms <= now_ms:
            self._idle = seen.turn, start
        return start

    def reportLatestOffset(self) -> Json | None:
        """Return where queues end as far as is known, for the progress that Spark shows."""
        seen = self._watch.seen
        if self._report is None or self._report[0] != seen.turn:
            ends = {queue: end for queue, (_, end) in seen.spans.items() if queue not in seen.gone}
            self._report = seen.turn, Offsets(ends).json()
        return self._report[1] if seen.spans else None

    # -- what is read -------------------------------------------------------------------------------------------------

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the tasks between two offsets: the same ranges whenever it is asked."""
        ranges = ranges_between(Offsets.of(start), Offsets.of(end))
        addresses = self._asking.addresses()
        if ranges and not addresses:
            try:
                self._asking.layout()
                addresses = self._asking.addresses()
            except TransportError as error:
                _log.warning("tasks have to look for their brokers themselves: %s", error)
        return [*slices(ranges, self._options, addresses)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return read_slice(partition, self._options, self._columns) if isinstance(partition, Slice) else iter(())

    def commit(self, end: Json) -> None:
        """Hear that a batch is done; it may be told again after a restart, and is not for the last one of all."""
        self._mirror(Offsets.of(end), _now_ms())

    def stop(self) -> None:
        """Hang up."""
        self._asking.close()

    # -- parts --------------------------------------------------------------------------------------------------------

    def _look(self, start: Json) -> Seen:
        """Return what is known of queues: now, or when a query with a goal began."""
        if self._goal is not None:
            return self._goal
        if self._watch.is_new:
            started = self._options.topics.among(Offsets.of(start).places)
            seen = self._watch.begin(started, must_be=self._options.fail_on_data_loss)
        else:
            seen = self._watch.look()
        if self._is_available_now:
            self._goal = seen
        return seen

    def _mirror(self, done: Offsets, now_ms: int) -> None:
        """Tell brokers how far the group is; the place where a query began is no progress."""
        if self._options.group is None or done.is_initial or now_ms < self._mirror_after_ms:
            return
        news = {queue: offset for queue, offset in done.places.items() if self._mirrored.get(queue) != offset}
        if not news:
            return
        try:
            failed = self._asking.commit(news)
        except SteelyardError as error:
            failed = {queue.broker: error for queue in news}
        self._mirrored |= {queue: offset for queue, offset in news.items() if queue.broker not in failed}
        for broker, why in failed.items():
            self._mirror_after_ms = now_ms + _MIRROR_REST_MS
            self._tell_once(f"{broker} does not take how far group {self._options.group} is: {why}")

    def _lost(self, queue: "Queue", start: int, end: int | None, why: str) -> None:
        """Fail, or say it once, as the options want it."""
        error: SteelyardError
        if end is None:
            what = f"{queue} was read up to {start}; {why}"
            error = TopicNotFound(code=17, server=queue.broker, what=what, next_step=MessagesLost.next_step)
        else:
            error = MessagesLost(str(queue), start, end, why=why)
        if self._options.fail_on_data_loss:
            raise error
        self._tell_once(error.what)

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.warning("%s", sentence)


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000
