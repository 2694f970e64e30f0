"""Which log files go: those whose messages are all too old, and the oldest while there are too many bytes.

The file that is written to never goes. A file's newest message is judged by the first of the next file, which is not
older; so no file has to be read for it.
"""

from steelyard.store.log import Log, Segment
from steelyard.store.options import StoreOptions
from steelyard.store.walk import SumsBySegment, Walk

__all__ = ["old_segments"]


def old_segments(log: Log, sums: SumsBySegment, options: StoreOptions, now_ms: int) -> list[Segment]:
    """Return the log files that are too old or too many, the oldest first."""
    old: list[Segment] = []
    for segment in log.segments[:-1]:
        if not (_is_too_much(segment, log, options) or _is_too_old(segment, log, sums, options, now_ms)):
            break
        old.append(segment)
    return old


def _is_too_much(segment: Segment, log: Log, options: StoreOptions) -> bool:
    return options.keep_bytes is not None and log.end - segment.start > options.keep_bytes


def _is_too_old(segment: Segment, log: Log, sums: SumsBySegment, options: StoreOptions, now_ms: int) -> bool:
    if options.keep_ms is None:
        return False
    later = log.segments[log.segments.index(segment) + 1 :]
    # With their sums: a flipped bit in one time must not cost a file of messages.
    first = next(iter(Walk(later, sums, stop=log.end)), None)
    return first is not None and first.stored_ms < now_ms - options.keep_ms
