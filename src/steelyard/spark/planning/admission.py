"""How much of what is there becomes the next batch: the limits of a stream.

At most so many messages, shared fairly over queues; at least so many, unless that has been waited for long enough; at
most about so many bytes. Brokers do not tell how large messages are, so the last one needs an average: whenever it
could matter, a few messages are looked at where the batch would begin, in the queues with most to read, and the average
goes half of the way to theirs. It counts what is stored, before tags or sql leave anything out.

What Spark asks with counts more than the options: all that is available means all.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

from steelyard.balance.split import cap_fairly
from steelyard.model import OffsetRange, Queue
from steelyard.spark.options.checked import ReadOptions

__all__ = ["Admission", "Sample", "default_limit"]

_LOOKED_AT = 16
"""Queues that are looked into to learn how large messages are."""

Sample = Callable[[Mapping[Queue, int]], tuple[int, int]]
"""Takes places, and returns how many messages it found there and their bytes together."""


def default_limit(options: ReadOptions) -> ReadLimit:
    """Return what Spark is to ask with: anything but all, if there is a limit."""
    if options.max_offsets is not None:
        return ReadMaxRows(options.max_offsets)
    if options.max_bytes is not None:
        return ReadMaxBytes(options.max_bytes)
    if options.min_offsets is not None:
        return ReadMinRows(options.min_offsets)
    return ReadAllAvailable()


class Admission:
    """The limits of one stream, and what it remembers: when a batch was let in last, and how large messages are."""

    def __init__(self, options: ReadOptions, sample: Sample) -> None:
        self._options = options
        self._sample = sample
        self._admitted_ms: int | None = None
        self._average: float | None = None

    def admit(
        self, ranges: Sequence[OffsetRange], limit: ReadLimit, now_ms: int, *, may_wait: bool = True
    ) -> list[OffsetRange]:
        """Shorten ranges, in their order, to what the next batch may have; all of them are empty if it has to wait."""
        if isinstance(limit, ReadAllAvailable):
            return list(ranges)
        available = sum(map(len, ranges))
        if not available:
            return list(ranges)
        if may_wait and self._waits(available, now_ms):
            return [OffsetRange(each.queue, each.start, each.start) for each in ranges]
        self._admitted_ms = now_ms
        most = self._options.max_offsets
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        if most is not None and most < available:
            ranges = cap_fairly(ranges, most)
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        return list(ranges) if most_bytes is None else self._within(ranges, most_bytes)

    def _waits(self, available: int, now_ms: int) -> bool:
        """Say whether there is too little, and time to wait for more; the first batch is not held back."""
        if self._options.min_offsets is None or available >= self._options.min_offsets or self._admitted_ms is None:
            return False
        return now_ms - self._admitted_ms < self._options.max_trigger_delay_ms

    def _within(self, ranges: Sequence[OffsetRange], most_bytes: int) -> list[OffsetRange]:
        wanted = sum(map(len, ranges))
        if self._average is not None and wanted * self._average * 2 < most_bytes:
            return list(ranges)
        largest = nlargest(_LOOKED_AT, (each for each in ranges if each), key=len)
        messages, found_bytes = self._sample({each.queue: each.start for each in largest})
        if messages:
            seen = found_bytes / messages
            self._average = seen if self._average is None else (self._average + seen) / 2
        if self._average is None:
            return list(ranges)
        # One message at least: a stream must go on, however large it is.
        return cap_fairly(ranges, max(1, min(wanted, int(most_bytes / self._average))))
