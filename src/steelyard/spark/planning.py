"""Planning of a query: discovers queues, resolves start and end to offsets, and splits ranges into tasks.

At the start everything that is requested must be there. A broker that does not answer is retried for some seconds, as
it may be restarting; to start without its queues would be to read something else. A named topic or queue that does not
exist is an error, since a typo would otherwise read something else, and so is an offset beyond the end of a queue.
Offsets that were deleted are left to the data-loss rule of the reader. A timestamp is never too late: a queue without
messages from then on starts at its end.
"""

from collections.abc import Iterable, Mapping
from time import sleep, time_ns

from steelyard.client.suggestions import closest_match
from steelyard.errors import ConfigurationError, MessagesLost, NoRoute, TopicNotFound
from steelyard.model import OffsetRange, Queue
from steelyard.spark.cluster_client import ClusterClient, OffsetBounds, QueueBounds, QueueLayout
from steelyard.spark.offset_spec import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    AtTimestamps,
    CommittedOffsets,
    ExplicitOffsets,
    OffsetSpec,
    QueueEdge,
    RelativeTime,
)
from steelyard.spark.options import ReadOptions
from steelyard.spark.partition_reader import OffsetRangePartition
from steelyard.spark.task_split import SplitOptions, split_ranges

RETRY_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Between retries of brokers that did not answer: one that restarts is back in some seconds."""


def discover_queues(options: ReadOptions, client: ClusterClient) -> dict[Queue, OffsetBounds]:
    """Return all queues to read, with their bounds; anything missing is an error."""
    for pause_s in (*RETRY_PAUSES_S, None):
        layout = client.layout()
        wrong = _layout_error(options, layout)
        if wrong is not None:
            raise wrong
        bounds = client.bounds(layout.queues)
        unavailable = _bounds_error(bounds)
        if unavailable is None:
            break
        if pause_s is None:
            raise unavailable
        sleep(pause_s)
    return {queue: bounds.known[queue] for queue in layout.queues}


def make_partitions(
    ranges: Iterable[OffsetRange], options: ReadOptions, addresses: Mapping[str, str]
) -> list[OffsetRangePartition]:
    """Cut ranges into even tasks, each with the addresses of its brokers."""
    split = SplitOptions(
        max_tasks=options.max_partitions,
        min_tasks=options.min_partitions or 1,
        max_task_records=options.max_records_per_partition,
    )
    return [
        OffsetRangePartition(task.ranges, {broker: addresses[broker] for broker in task.brokers if broker in addresses})
        for task in split_ranges(ranges, split)
    ]


def _layout_error(options: ReadOptions, layout: QueueLayout) -> TopicNotFound | ConfigurationError | None:
    for error in layout.missing.values():
        return error
    absent = [queue for queue in options.topics.queues or () if queue not in layout.queues]
    if not absent:
        return None
    wrong = min(absent)
    there = sorted(layout.brokers[wrong.topic])
    meant = wrong.broker if wrong.broker in there else closest_match(wrong.broker, there)
    return ConfigurationError(
        f"assign names {wrong}, and there is no such queue",
        next_step=f"topic {wrong.topic} is on {', '.join(there)}"
        + (f"; did you mean {meant}?" if meant and meant != wrong.broker else ", with fewer queues"),
    )


def _bounds_error(bounds: QueueBounds) -> NoRoute | None:
    for broker, error in bounds.unreachable.items():
        return NoRoute(
            f"broker {broker} does not report the offsets of its queues ({error.what})",
            next_step=error.next_step or "check whether it runs",
        )
    for queue in bounds.missing:
        return NoRoute(f"broker {queue.broker} does not have topic {queue.topic} any more", next_step="check its route")
    return None


def resolve_start(
    spec: OffsetSpec, bounds: Mapping[Queue, OffsetBounds], client: ClusterClient, *, fail_on_loss: bool
) -> dict[Queue, int]:
    """Return the start of each queue; one that the spec does not name starts at its first message."""
    found = _resolve(spec, bounds, client, is_end=False)
    for queue, offset in found.items():
        begin, end = bounds[queue]
        if offset <= end:
            continue
        if not isinstance(spec, CommittedOffsets):
            raise _beyond_end("startingOffsets", queue, offset, end)
        # The group consumed messages that are gone: it has not consumed what is there now.
        if fail_on_loss:
            raise MessagesLost(str(queue), end, offset, why=f"the group is at {offset}, and the queue ends at {end}")
        found[queue] = begin
    return found


def resolve_end(spec: OffsetSpec, bounds: Mapping[Queue, OffsetBounds], client: ClusterClient) -> dict[Queue, int]:
    """Return the end of each queue; one that the spec does not name ends where it does now."""
    found = _resolve(spec, bounds, client, is_end=True)
    for queue, offset in found.items():
        end = bounds[queue][1]
        if offset > end and isinstance(spec, ExplicitOffsets):
            raise _beyond_end("endingOffsets", queue, offset, end)
        found[queue] = min(offset, end)
    return found


def _resolve(
    spec: OffsetSpec, bounds: Mapping[Queue, OffsetBounds], client: ClusterClient, *, is_end: bool
) -> dict[Queue, int]:
    otherwise = {queue: span[is_end] for queue, span in bounds.items()}
    match spec:
        case QueueEdge():
            return {queue: span[spec.is_end] for queue, span in bounds.items()}
        case CommittedOffsets():
            return otherwise | client.committed_offsets(bounds)
        case ExplicitOffsets():
            _check_queues_exist(spec.offsets, bounds)
            marks = {EARLIEST: 0, LATEST: 1}
            return otherwise | {
                queue: bounds[queue][marks[offset]] if offset in marks else offset
                for queue, offset in spec.offsets.items()
            }
        case AtTimestamps():
            _check_queues_exist(spec.times_ms, bounds)
            return otherwise | _offsets_at(spec.times_ms, bounds, client, must_exist=spec.must_exist)
        case AtTimestamp() | RelativeTime():
            moment = spec.resolve(time_ns() // 1_000_000) if isinstance(spec, RelativeTime) else spec
            times_ms = dict.fromkeys(bounds, moment.time_ms)
            return _offsets_at(times_ms, bounds, client, must_exist=spec.must_exist)


def _offsets_at(
    times_ms: Mapping[Queue, int], bounds: Mapping[Queue, OffsetBounds], client: ClusterClient, *, must_exist: bool
) -> dict[Queue, int]:
    asked = client.offsets_at(times_ms)
    # Messages that arrived since the bounds were fetched are for the next read.
    found = {queue: min(max(offset, bounds[queue][0]), bounds[queue][1]) for queue, offset in asked.items()}
    if must_exist:
        late = [queue for queue, offset in found.items() if offset >= bounds[queue][1]]
        if late:
            raise ConfigurationError(
                f"{late[0]} has no message from {times_ms[late[0]]} ms on{_and_more(len(late) - 1)}",
                next_step="give an earlier time, or begin such queues at their end: "
                "startingOffsetsByTimestampStrategy=latest",
            )
    return found


def _check_queues_exist(named: Mapping[Queue, int], bounds: Mapping[Queue, OffsetBounds]) -> None:
    unknown = [queue for queue in named if queue not in bounds]
    if unknown:
        meant = closest_match(str(unknown[0]), map(str, bounds))
        raise ConfigurationError(
            f"{unknown[0]} is named in offsets, and is not read{_and_more(len(unknown) - 1)}",
            next_step=f"did you mean {meant}?" if meant else "check the names of topic and broker",
        )


def _beyond_end(name: str, queue: Queue, offset: int, end: int) -> ConfigurationError:
    return ConfigurationError(
        f"{name} says {offset} for {queue}, which ends at {end}", next_step="give an offset that is there, or -1"
    )


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""
