"""What a stream still has to read: from where it is to where queues end, and what came, went or is lost.

Rules. A queue that an offset says nothing about begins at its first message, and the next offset says so (``base``).
A queue whose topic is not read any more is forgotten. No end is below where the stream is, with one exception: a queue
that was made anew, or lost its newest messages, ends below. That is a loss; where losses are accepted, the stream goes
back, and the next offset says so: to the first message of a queue that begins with 0, as a new one does; to the end of
any other, whose messages were read already. A replica that ends below is only late: it is waited for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from steelyard.model import OffsetRange, Queue, in_order
from steelyard.spark.options.topics import Topics
from steelyard.spark.planning.offsets import Offsets
from steelyard.spark.planning.watch import Seen

__all__ = ["Backlog", "Lost", "backlog_of"]

Lost = Callable[[Queue, int, int | None, str], None]
"""Hears of messages that are lost: of which queue, from where to where if that is known, and why. It may raise."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What there is to read, and the beginnings that an offset has to tell."""

    ranges: list[OffsetRange]
    """One for each queue, in order; many may be empty."""
    base: Mapping[Queue, int] = field(default_factory=dict)
    goes_back: bool = False
    """Whether the stream goes back in a queue: the next offset has to say so even if that is all.

    Otherwise the queue might grow beyond where it was read before anybody looks again, and nobody would know.
    """

    def upto(self, admitted: list[OffsetRange]) -> Offsets:
        """Return the offset after these parts of the ranges."""
        return Offsets({each.queue: each.end for each in admitted}, self.base)


def backlog_of(began: Offsets, seen: Seen, topics: Topics, lost: Lost) -> Backlog:
    """Compare where a stream is with what is known of queues."""
    kept = {queue: began.places[queue] for queue in topics.among(began.places)}
    ranges: list[OffsetRange] = []
    base = dict(kept) if began.is_initial else {}
    goes_back = False
    for queue in in_order({*kept, *seen.spans}):
        start, span, is_gone = kept.get(queue), seen.spans.get(queue), queue in seen.gone
        if start is None:
            if span is not None and not is_gone:
                base[queue] = span[0]
                ranges.append(OffsetRange(queue, *span))
            continue
        if is_gone:
            if span is None or span[1] > start:
                lost(queue, start, span[1] if span else None, "the queue is gone, with its topic or alone")
        elif span is not None and span[1] < start and queue.broker not in seen.late:
            seems = "had lost its newest messages" if span[0] else "were made anew"
            lost(queue, span[1], start, f"it was read up to {start} and ends at {span[1]}, as if it {seems}")
            base[queue] = start = span[1] if span[0] else 0
            goes_back = True
        end = start if is_gone or span is None else max(start, span[1])
        ranges.append(OffsetRange(queue, start, end))
    return Backlog(ranges, base, goes_back)
