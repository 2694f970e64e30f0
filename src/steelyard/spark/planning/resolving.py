"""Places to offsets: what a start or an end means for each queue, once, when a query is planned.

Rules. What is named and not there is an error, since a typing mistake would otherwise read something else. Offsets that
a queue does not have yet are an error, too; those that it has no more are left to the rule of lost messages, which
whoever reads them applies. A time is never too late: a queue without messages from then on begins at its end.
"""

from collections.abc import Mapping
from time import time_ns

from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError, MessagesLost
from steelyard.model import Queue
from steelyard.spark.options.places import EARLIEST, LATEST, Ago, AtOffsets, AtTime, AtTimes, Edge, OfGroup, Place
from steelyard.spark.planning.asking import Asking
from steelyard.spark.planning.spans import Span

__all__ = ["resolve_end", "resolve_start"]


def resolve_start(place: Place, spans: Mapping[Queue, Span], asking: Asking, *, fail_on_loss: bool) -> dict[Queue, int]:
    """Return where each queue begins; one that a place says nothing of begins at its first message."""
    found = _resolve(place, spans, asking, is_end=False)
    for queue, offset in found.items():
        begin, end = spans[queue]
        if offset <= end:
            continue
        if not isinstance(place, OfGroup):
            raise _too_far("startingOffsets", queue, offset, end)
        # The group read messages that are not there: what is there now, it has not read.
        if fail_on_loss:
            raise MessagesLost(str(queue), end, offset, why=f"the group is at {offset}, and the queue ends at {end}")
        found[queue] = begin
    return found


def resolve_end(place: Place, spans: Mapping[Queue, Span], asking: Asking) -> dict[Queue, int]:
    """Return where each queue ends; one that a place says nothing of ends where it does now."""
    found = _resolve(place, spans, asking, is_end=True)
    for queue, offset in found.items():
        end = spans[queue][1]
        if offset > end and isinstance(place, AtOffsets):
            raise _too_far("endingOffsets", queue, offset, end)
        found[queue] = min(offset, end)
    return found


def _resolve(place: Place, spans: Mapping[Queue, Span], asking: Asking, *, is_end: bool) -> dict[Queue, int]:
    otherwise = {queue: span[is_end] for queue, span in spans.items()}
    match place:
        case Edge():
            return {queue: span[place.is_end] for queue, span in spans.items()}
        case OfGroup():
            return otherwise | asking.committed(spans)
        case AtOffsets():
            _check_named(place.offsets, spans)
            marks = {EARLIEST: 0, LATEST: 1}
            return otherwise | {
                queue: spans[queue][marks[offset]] if offset in marks else offset
                for queue, offset in place.offsets.items()
            }
        case AtTimes():
            _check_named(place.times_ms, spans)
            return otherwise | _at_times(place.times_ms, spans, asking, must_be=place.must_be)
        case AtTime() | Ago():
            moment = place.at(time_ns() // 1_000_000) if isinstance(place, Ago) else place
            times_ms = dict.fromkeys(spans, moment.time_ms)
            return _at_times(times_ms, spans, asking, must_be=place.must_be)


def _at_times(
    times_ms: Mapping[Queue, int], spans: Mapping[Queue, Span], asking: Asking, *, must_be: bool
) -> dict[Queue, int]:
    asked = asking.at_times(times_ms)
    # Messages may have come since the spans were asked for: those are the next one's who asks.
    found = {queue: min(max(offset, spans[queue][0]), spans[queue][1]) for queue, offset in asked.items()}
    if must_be:
        late = [queue for queue, offset in found.items() if offset >= spans[queue][1]]
        if late:
            raise ConfigurationError(
                f"{late[0]} has no message from {times_ms[late[0]]} ms on{_others(len(late) - 1)}",
                next_step="give an earlier time, or begin such queues at their end: "
                "startingOffsetsByTimestampStrategy=latest",
            )
    return found


def _check_named(named: Mapping[Queue, int], spans: Mapping[Queue, Span]) -> None:
    unknown = [queue for queue in named if queue not in spans]
    if unknown:
        meant = nearest(str(unknown[0]), map(str, spans))
        raise ConfigurationError(
            f"{unknown[0]} is named in offsets, and is not among the queues that are read{_others(len(unknown) - 1)}",
            next_step=f"did you mean {meant}?" if meant else "check the names of topic and broker",
        )


def _too_far(name: str, queue: Queue, offset: int, end: int) -> ConfigurationError:
    return ConfigurationError(
        f"{name} says {offset} for {queue}, which ends at {end}", next_step="give an offset that is there, or -1"
    )


def _others(count: int) -> str:
    return f", and {count} more" if count else ""
