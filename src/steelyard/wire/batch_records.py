"""A batch as the records that it becomes, in one go: one walk over its bytes, for brokers that take millions of them.

An item has the body, and the properties with their length, in the order that a record has them in. So a record is a
head, the body, and a tail that is the topic and the rest of the item as it came; and as much longer than its item for
all of them. What is the same for all is worked out once. A damaged item gives nothing at all: `read_batch` says what is
wrong with it.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

from steelyard.errors import LimitExceeded
from steelyard.wire import limits
from steelyard.wire.record_layout import IPV6_BITS, V1_MAGIC, Head

__all__ = ["BatchRecords", "batch_records"]

_ITEM = Layout(">iiiii")
_ITEM_HEAD = _ITEM.size
_SMALLEST = _ITEM_HEAD + 2
_TAGS = b"TAGS\x01"


class BatchRecords(NamedTuple):
    """Records side by side."""

    parts: list[bytes]
    """Head, body and tail of each, in order: joined, they are the records."""
    positions: list[int]
    sizes: list[int]
    properties_at: int
    """Where the properties begin in a tail."""
    may_have_tags: bool
    """Whether any of them may have a tag; where not, nobody has to look."""

    @property
    def heads(self) -> list[bytes]:
        """What is before the body, of each."""
        return self.parts[0::3]

    @property
    def tails(self) -> list[bytes]:
        """What follows the body, of each."""
        return self.parts[2::3]

    @property
    def end(self) -> int:
        """The position behind the last."""
        return self.positions[-1] + self.sizes[-1]

    def properties(self) -> Iterator[bytes]:
        """Yield the properties text of each."""
        at = self.properties_at
        return (tail[at:] for tail in self.tails)


def batch_records(
    batch: bytes,
    shape: Head,
    topic: bytes,
    queue_id: int,
    offset: int,
    position: int,
    born_ms: int,
    born_host: bytes,
    stored_ms: int,
    store_host: bytes,
    sys_flag: int,
) -> BatchRecords | None:
    """Return the records of a batch, the first at an offset and a position; None if the batch is empty or damaged.

    The topic must be short enough for a record of version 1. More messages than a broker takes raise `LimitExceeded`.
    """
    total = len(batch)
    topic_part = bytes([len(topic)]) + topic
    more = shape.size - _ITEM_HEAD + len(topic_part)
    sys_flag = sys_flag & ~IPV6_BITS | shape.ipv6_bits
    unpack, pack, most = _ITEM.unpack_from, shape.layout.pack, limits.PROPERTIES_BYTES
    parts: list[bytes] = []
    positions: list[int] = []
    sizes: list[int] = []
    at, last = 0, offset + limits.TAKEN_ITEMS
    while at < total:
        if total - at < _SMALLEST:
            return None
        if offset == last:
            raise LimitExceeded("number of messages", where="batch", limit=limits.TAKEN_ITEMS)
        size, _, _, flag, body_bytes = unpack(batch, at)
        body_at, end = at + _ITEM_HEAD, at + size
        body_end = body_at + body_bytes
        if body_bytes < 0 or end > total or body_end + 2 > end:
            return None
        properties_bytes = batch[body_end] << 8 | batch[body_end + 1]
        if body_end + 2 + properties_bytes != end or properties_bytes > most:
            return None
        body = batch[body_at:body_end]
        size += more
        # By order, as everything that is done for each message.
        head = pack(
            size,
            V1_MAGIC,
            crc32(body) & 0x7FFFFFFF,
            queue_id,
            flag,
            offset,
            position,
            sys_flag,
            born_ms,
            born_host,
            stored_ms,
            store_host,
            0,
            0,
            body_bytes,
        )
        parts += (head, body, topic_part + batch[body_end:end])
        positions.append(position)
        sizes.append(size)
        position += size
        offset += 1
        at = end
    return BatchRecords(parts, positions, sizes, len(topic_part) + 2, _TAGS in batch) if parts else None
