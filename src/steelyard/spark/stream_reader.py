"""Streaming reads: the offset protocol with Spark, the backlog of a stream, and admission control.

Spark's order for each batch is: latestOffset with the end of the batch before, reportLatestOffset, then it logs the
end, commit of the batch before, partitions. After a crash partitions comes first, with what was logged. The very first
offset is not logged and is requested twice: so it is kept, and the first end contains it (stream_offset.py). With
``Trigger.AvailableNow`` the first snapshot of queues is the goal: the query ends whatever arrives later.

Backlog. A queue that the offset does not know starts at its first message, and the next offset says so (``base``). No
end is below the position of the stream, except in a queue that was recreated or lost its newest messages: that is data
loss, and if it is accepted, the stream goes back. A replica that ends below is only late. Admission control caps a
batch by messages and by bytes; brokers do not report sizes, so a few messages are sampled and their average size is
used. The group's offsets are committed after a batch is done; if that fails, the query goes on.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from time import monotonic_ns
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from steelyard.errors import MessagesLost, SteelyardError, TopicNotFound, TransportError
from steelyard.model import OffsetRange, Queue, sort_queues
from steelyard.spark.cluster_client import ClusterClient
from steelyard.spark.options import ReadOptions, TopicSelection
from steelyard.spark.partition_reader import read_partition
from steelyard.spark.planning import discover_queues, make_partitions, resolve_start
from steelyard.spark.queue_monitor import QueueMonitor, QueueSnapshot
from steelyard.spark.stream_offset import JsonObject, StreamOffset, ranges_between
from steelyard.spark.task_split import cap_fairly

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_OnDataLoss = Callable[[Queue, int, int | None, str], None]
"""Called for lost messages with queue, start, end if it is known, and the reason. It may raise."""


@dataclass(frozen=True, slots=True)
class StreamBacklog:
    """What there is to read, and the starts that the next offset must contain."""

    ranges: list[OffsetRange]  # one for each queue, in order; many may be empty
    start_offsets: Mapping[Queue, int] = field(default_factory=dict)
    rewinds: bool = False
    """Whether the stream goes back in a queue: the next offset must say so even if nothing else changed.

    Otherwise the queue might grow beyond the old position before the next poll, and the loss would go unnoticed.
    """

    def offset_after(self, admitted: list[OffsetRange]) -> StreamOffset:
        """Return the offset after these parts of the ranges."""
        return StreamOffset({each.queue: each.end for each in admitted}, self.start_offsets)


def find_backlog(
    position: StreamOffset, snapshot: QueueSnapshot, topics: TopicSelection, on_data_loss: _OnDataLoss
) -> StreamBacklog:
    """Compare the position of a stream with the bounds of its queues."""
    kept = {queue: position.positions[queue] for queue in topics.matching(position.positions)}
    ranges: list[OffsetRange] = []
    base = dict(kept) if position.is_initial else {}
    goes_back = False
    for queue in sort_queues({*kept, *snapshot.bounds}):
        start, span, is_gone = kept.get(queue), snapshot.bounds.get(queue), queue in snapshot.gone
        if start is None:
            if span is not None and not is_gone:
                base[queue] = span[0]
                ranges.append(OffsetRange(queue, *span))
            continue
        if is_gone:
            if span is None or span[1] > start:
                on_data_loss(queue, start, span[1] if span else None, "the queue is gone, with its topic or alone")
        elif span is not None and span[1] < start and queue.broker not in snapshot.stale_brokers:
            seems = "had lost its newest messages" if span[0] else "were made anew"
            on_data_loss(queue, span[1], start, f"it was read up to {start} and ends at {span[1]}, as if it {seems}")
            base[queue] = start = span[1] if span[0] else 0
            goes_back = True
        end = start if is_gone or span is None else max(start, span[1])
        ranges.append(OffsetRange(queue, start, end))
    return StreamBacklog(ranges, base, goes_back)


_SAMPLED_QUEUES = 16  # queues that are sampled for the size of messages

_SampleMessages = Callable[[Mapping[Queue, int]], tuple[int, int]]
"""Takes positions, and returns the number of messages sampled there and their total bytes."""


def default_read_limit(options: ReadOptions) -> ReadLimit:
    """Return the limit that Spark is to pass: not ReadAllAvailable if an option limits batches."""
    if options.max_offsets_per_trigger is not None:
        return ReadMaxRows(options.max_offsets_per_trigger)
    if options.max_bytes_per_trigger is not None:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    if options.min_offsets_per_trigger is not None:
        return ReadMinRows(options.min_offsets_per_trigger)
    return ReadAllAvailable()


class AdmissionControl:
    """The limits of one stream, the time of its last batch, and the average size of messages."""

    def __init__(self, options: ReadOptions, sample_messages: _SampleMessages) -> None:
        self._options = options
        self._sample_messages = sample_messages
        self._last_admitted_ms: int | None = None
        self._average_bytes: float | None = None

    def admit(
        self, ranges: Sequence[OffsetRange], limit: ReadLimit, now_ms: int, *, may_wait: bool = True
    ) -> list[OffsetRange]:
        """Cap ranges, in their order, to the next batch; all of them are empty if it must wait."""
        if isinstance(limit, ReadAllAvailable):
            return list(ranges)
        available = sum(map(len, ranges))
        if not available:
            return list(ranges)
        if may_wait and self._must_wait(available, now_ms):
            return [OffsetRange(each.queue, each.start, each.start) for each in ranges]
        self._last_admitted_ms = now_ms
        most = self._options.max_offsets_per_trigger
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        if most is not None and most < available:
            ranges = cap_fairly(ranges, most)
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes_per_trigger
        return list(ranges) if most_bytes is None else self._cap_bytes(ranges, most_bytes)

    def _must_wait(self, available: int, now_ms: int) -> bool:
        """Say whether there is too little, and still time to wait for more; the first batch never waits."""
        if (
            self._options.min_offsets_per_trigger is None
            or available >= self._options.min_offsets_per_trigger
            or self._last_admitted_ms is None
        ):
            return False
        return now_ms - self._last_admitted_ms < self._options.max_trigger_delay_ms

    def _cap_bytes(self, ranges: Sequence[OffsetRange], max_bytes: int) -> list[OffsetRange]:
        wanted = sum(map(len, ranges))
        if self._average_bytes is not None and wanted * self._average_bytes * 2 < max_bytes:
            return list(ranges)
        largest = nlargest(_SAMPLED_QUEUES, (each for each in ranges if each), key=len)
        messages, found_bytes = self._sample_messages({each.queue: each.start for each in largest})
        if messages:
            sampled = found_bytes / messages
            self._average_bytes = sampled if self._average_bytes is None else (self._average_bytes + sampled) / 2
        if self._average_bytes is None:
            return list(ranges)
        # At least one message: a stream must make progress, however large it is.
        return cap_fairly(ranges, max(1, min(wanted, int(max_bytes / self._average_bytes))))


_COMMIT_BACKOFF_MS = 5_000  # how long no offsets are committed after a broker rejected some

_log = logging.getLogger("steelyard.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process of the driver for each query; copies of it, which only read, go to executors."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._client = ClusterClient(options)
        self._monitor = QueueMonitor(self._client, options.offset_poll_ms)
        self._admission_control = AdmissionControl(options, self._client.sample_messages)
        self._initial_offset: JsonObject | None = None
        self._is_available_now = False
        self._final_snapshot: QueueSnapshot | None = None
        self._idle: tuple[int, JsonObject] | None = None
        """The snapshot version and the offset for which there was nothing to read."""
        self._latest_report: tuple[int, JsonObject] | None = None
        self._committed: dict[Queue, int] = {}
        self._commit_after_ms = 0
        self._warned: set[str] = set()

    def __reduce__(self) -> tuple[object, ...]:
        return StreamReader, (self._options, self._columns)

    def initialOffset(self) -> JsonObject:
        """Return where a query without a checkpoint starts; the same on each call."""
        if self._initial_offset is None:
            options = self._options
            bounds = discover_queues(options, self._client)
            starts = resolve_start(options.starting, bounds, self._client, fail_on_loss=options.fail_on_data_loss)
            self._monitor.add_known(bounds)
            self._initial_offset = StreamOffset(starts, is_initial=True).encode()
        return self._initial_offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`."""
        return default_read_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the first snapshot the end of the query."""
        self._is_available_now = True

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        """Return the end of the next batch; ``start`` itself if it would be empty."""
        snapshot = self._refresh(start)
        if self._idle == (snapshot.version, start):
            return start
        now_ms = _now_ms()
        position = StreamOffset.decode(start)
        self._commit_progress(position, now_ms)
        backlog = find_backlog(position, snapshot, self._options.topics, self._on_data_loss)
        admitted = self._admission_control.admit(backlog.ranges, limit, now_ms, may_wait=not self._is_available_now)
        if any(admitted) or backlog.rewinds:
            return backlog.offset_after(admitted).encode()
        if not any(backlog.ranges) and self._commit_after_ms <= now_ms:
            self._idle = snapshot.version, start
        return start

    def reportLatestOffset(self) -> JsonObject | None:
        """Return the known max offsets of queues, for the progress that Spark reports."""
        snapshot = self._monitor.snapshot
        if self._latest_report is None or self._latest_report[0] != snapshot.version:
            ends = {queue: end for queue, (_, end) in snapshot.bounds.items() if queue not in snapshot.gone}
            self._latest_report = snapshot.version, StreamOffset(ends).encode()
        return self._latest_report[1] if snapshot.bounds else None

    def partitions(self, start: JsonObject, end: JsonObject) -> list[InputPartition]:
        """Return the tasks between two offsets: the same ranges on each call."""
        ranges = ranges_between(StreamOffset.decode(start), StreamOffset.decode(end))
        addresses = self._client.broker_addresses()
        if ranges and not addresses:
            try:
                self._client.layout()
                addresses = self._client.broker_addresses()
            except TransportError as error:
                _log.warning("tasks must look up their brokers themselves: %s", error)
        return [*make_partitions(ranges, self._options, addresses)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return read_partition(partition, self._options, self._columns)

    def commit(self, end: JsonObject) -> None:
        """Commit the offsets of a batch; Spark may call it again after a restart, and never for the last batch."""
        self._commit_progress(StreamOffset.decode(end), _now_ms())

    def stop(self) -> None:
        """Close the connections."""
        self._client.close()

    def _refresh(self, start: JsonObject) -> QueueSnapshot:
        """Return the snapshot of queues: the newest, or the first one with Trigger.AvailableNow."""
        if self._final_snapshot is not None:
            return self._final_snapshot
        if self._monitor.is_new:
            checkpointed = self._options.topics.matching(StreamOffset.decode(start).positions)
            snapshot = self._monitor.start(checkpointed, must_exist=self._options.fail_on_data_loss)
        else:
            snapshot = self._monitor.refresh()
        if self._is_available_now:
            self._final_snapshot = snapshot
        return snapshot

    def _commit_progress(self, done: StreamOffset, now_ms: int) -> None:
        """Commit the offsets of the group; the position where a query started is no progress."""
        if self._options.group is None or done.is_initial or now_ms < self._commit_after_ms:
            return
        changed = {queue: offset for queue, offset in done.positions.items() if self._committed.get(queue) != offset}
        if not changed:
            return
        try:
            failed = self._client.commit(changed)
        except SteelyardError as error:
            failed = {queue.broker: error for queue in changed}
        self._committed |= {queue: offset for queue, offset in changed.items() if queue.broker not in failed}
        for broker, why in failed.items():
            self._commit_after_ms = now_ms + _COMMIT_BACKOFF_MS
            self._warn_once(f"{broker} did not store the offsets of group {self._options.group}: {why}")

    def _on_data_loss(self, queue: "Queue", start: int, end: int | None, why: str) -> None:
        """Raise, or warn once, as the options say."""
        error: SteelyardError
        if end is None:
            what = f"{queue} was read up to {start}; {why}"
            error = TopicNotFound(code=17, server=queue.broker, what=what, next_step=MessagesLost.next_step)
        else:
            error = MessagesLost(str(queue), start, end, why=why)
        if self._options.fail_on_data_loss:
            raise error
        self._warn_once(error.what)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s", message)


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000
