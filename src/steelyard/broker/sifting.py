"""Messages of a queue that match a condition on their properties: each has to be looked at in the log.

No record is decoded: its properties are its end, and are found by three numbers of its head. One sifting looks at a
limited number of messages and bytes; whoever wants more asks again from where it stopped. A message that cannot be
judged because the judging fails does not match: those behind it must not wait until a bug is mended.
"""

from collections.abc import Callable, Iterator
from struct import Struct as Layout

from steelyard.store.slices import Slice
from steelyard.store.store import Store
from steelyard.wire.record_layout import HEADS, IPV6_BITS, V2_MAGIC

__all__ = ["sift"]

_FIRST_RECORDS = 64
_MOST_RECORDS = 800
"""As many as a read with tags looks at. Where many match, the first few are enough."""
_MOST_BYTES = 8 * 1024 * 1024

_EACH_LOOK = 150
_MOST_WORK = 16_000_000
"""Values looked at, times the bytes they may be searched in and what each costs besides: some forty milliseconds.
Everybody waits while a condition is judged, and whoever sent it chose its length."""

# Size, magic, offset in the queue, system flag.
_read_start = Layout(">ii12xq8xi").unpack_from
_read_body_bytes = Layout(">i").unpack_from
_read_topic_bytes = Layout(">h").unpack_from


def sift(
    store: Store,
    topic: bytes,
    queue_id: int,
    offset: int,
    *,
    most: int,
    most_bytes: int,
    matches: Callable[[bytes], bool],
    failed: Callable[[int, Exception], None],
    weight: int = 1,
) -> Slice:
    """Read messages from an offset on whose properties match. The first one always fits.

    ``failed`` hears of each message on which the judging failed: its offset, and the error. ``weight`` says what a look
    at one message costs: long conditions look at few messages at a time.
    """
    sieve = _Sieve(most, most_bytes, matches, failed, weight)
    at, step, looked, walked = offset, max(_FIRST_RECORDS, most), 0, 0
    while True:
        found = store.read(topic, queue_id, at, most=step, most_bytes=_MOST_BYTES)
        for view in found.parts:
            stopped = sieve.take(view)
            if stopped is not None:
                return Slice(sieve.parts, sieve.count, sieve.size, stopped, found.low, found.high)
        looked += found.next_offset - max(at, found.low)
        walked += found.size
        at = found.next_offset
        if at >= found.high or looked >= _MOST_RECORDS or walked >= _MOST_BYTES or sieve.count >= most:
            return Slice(sieve.parts, sieve.count, sieve.size, at, found.low, found.high)
        step = min(4 * step, _MOST_RECORDS - looked)


class _Sieve:
    """What matched so far, as runs of records that lie behind each other."""

    def __init__(
        self,
        most: int,
        most_bytes: int,
        matches: Callable[[bytes], bool],
        failed: Callable[[int, Exception], None],
        weight: int,
    ) -> None:
        self._most, self._most_bytes, self._weight = most, most_bytes, weight
        self._matches, self._failed = matches, failed
        self._work = 0
        self.parts: list[memoryview] = []
        self.count = self.size = 0

    def take(self, view: memoryview) -> int | None:
        """Take what matches of some records; return the offset of the first that has to wait, or None."""
        run_start = run_end = 0
        stopped = None
        for offset, start, end, properties in _records(view):
            if self._work > _MOST_WORK:
                stopped = offset
                break
            self._work += self._weight * (_EACH_LOOK + len(properties))
            try:
                if not self._matches(properties):
                    continue
            except Exception as error:
                self._failed(offset, error)
                continue
            if self.count == self._most or (self.count and self.size + end - start > self._most_bytes):
                stopped = offset
                break
            if start != run_end:
                self._add(view, run_start, run_end)
                run_start = start
            run_end = end
            self.count += 1
            self.size += end - start
        self._add(view, run_start, run_end)
        return stopped

    def _add(self, view: memoryview, start: int, end: int) -> None:
        if end > start:
            self.parts.append(view[start:end])


def _records(view: memoryview) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the offset of each record in its queue, where it starts and ends in the view, and its properties."""
    at, limit = 0, len(view)
    while at < limit:
        size, magic, offset, sys_flag = _read_start(view, at)
        body_at = at + HEADS[sys_flag & IPV6_BITS].size
        topic_at = body_at + _read_body_bytes(view, body_at - 4)[0]
        if magic == V2_MAGIC:
            properties_at = topic_at + 4 + _read_topic_bytes(view, topic_at)[0]
        else:
            properties_at = topic_at + 3 + view[topic_at]
        end = at + size
        yield offset, at, end, bytes(view[properties_at:end])
        at = end
