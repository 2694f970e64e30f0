"""Messages of a queue that match a condition on their properties: each has to be looked at in the log.

No record is decoded: its properties are its end, and are found by three numbers of its head. One sifting looks at a
limited number of messages and bytes; whoever wants more asks again from where it stopped.
"""

from collections.abc import Callable, Iterator
from struct import Struct as Layout

from steelyard.store.slices import Slice
from steelyard.store.store import Store
from steelyard.wire.record_layout import HEADS, IPV6_BITS, V2_MAGIC

__all__ = ["sift"]

_MOST_RECORDS = 800
"""As many as a read with tags looks at."""
_MOST_BYTES = 8 * 1024 * 1024

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
) -> Slice:
    """Read messages from an offset on whose properties match. The first one always fits."""
    found = store.read(topic, queue_id, offset, most=max(_MOST_RECORDS, most), most_bytes=_MOST_BYTES)
    parts: list[memoryview] = []
    count = size = 0
    for view in found.parts:
        run_start = run_end = 0
        for number, start, end, properties in _records(view):
            if not matches(properties):
                continue
            if count == most or (count and size + end - start > most_bytes):
                _add_run(parts, view, run_start, run_end)
                return Slice(parts, count, size, number, found.low, found.high)
            if start != run_end:
                _add_run(parts, view, run_start, run_end)
                run_start = start
            run_end = end
            count += 1
            size += end - start
        _add_run(parts, view, run_start, run_end)
    return Slice(parts, count, size, found.next_offset, found.low, found.high)


def _add_run(parts: list[memoryview], view: memoryview, start: int, end: int) -> None:
    if end > start:
        parts.append(view[start:end])


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
