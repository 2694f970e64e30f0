"""Batches: many messages in one body, as they are sent, and as an inner batch is stored.

Items follow each other: size, two unused integers, flag, body with its length, properties with their length. Topic and
queue are those of the request or of the outer record. Body and properties of an item have the layout of a record
already, so `build_batch_records` makes all records of a batch in one pass: a head, the body, the topic and the rest.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from struct import error as layout_error
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord
from steelyard.model.message import Message
from steelyard.wire import limits
from steelyard.wire.properties import build_properties
from steelyard.wire.record import IPV6_BITS, V1_MAGIC, HeadLayout

_WHERE = "batch"
# Size, two unused integers (a record has its magic and checksum there), flag, body's length.
_ITEM = Layout(">iiiii")
_MIN_ITEM_BYTES = _ITEM.size + 2


class BatchItem(Struct, frozen=True, gc=False):
    """One message of a batch, its properties encoded."""

    flag: int
    body: bytes
    properties: bytes


def make_batch_item(message: Message, *, unique_key: str, wait: bool = True) -> BatchItem:
    """Make the item of a message. All items of a batch go to one topic and agree on whether to wait."""
    return BatchItem(message.flag, message.body, build_properties(message, unique_key=unique_key, wait=wait).encode())


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    """Encode items one after the other."""
    parts: list[bytes] = []
    for count, item in enumerate(items):
        if count == limits.BATCH_ITEMS:
            raise LimitExceeded("number of messages", where=_WHERE, limit=limits.BATCH_ITEMS)
        body, properties = item.body, item.properties
        if len(properties) > limits.PROPERTIES_BYTES:
            raise LimitExceeded(
                f"properties text of item {count}", where=_WHERE, limit=limits.PROPERTIES_BYTES, found=len(properties)
            )
        try:
            head = _ITEM.pack(_MIN_ITEM_BYTES + len(body) + len(properties), 0, 0, item.flag, len(body))
        except layout_error:
            raise ConfigurationError(
                f"item {count} of a batch has the flag {item.flag!r} and a body of {len(body)} bytes",
                next_step="both must fit 32 signed bits",
            ) from None
        parts += (head, body, len(properties).to_bytes(2, "big"), properties)
    return b"".join(parts)


def decode_batch(data: bytes) -> Iterator[BatchItem]:
    """Yield the items of a batch; `MalformedRecord` is raised at the first damaged one."""
    at, total = 0, len(data)
    while at < total:
        if total - at < _MIN_ITEM_BYTES:
            raise MalformedRecord(
                f"{total - at} bytes are left, the smallest item has {_MIN_ITEM_BYTES}", where=_WHERE, at=at
            )
        size, _, _, flag, body_size = _ITEM.unpack_from(data, at)
        body_at, end = at + _ITEM.size, at + size
        body_end = body_at + body_size
        properties_at = body_end + 2
        if not _MIN_ITEM_BYTES <= size <= total - at:
            raise MalformedRecord(f"the item's size is {size}, {total - at} bytes are left", where=_WHERE, at=at)
        if body_size < 0 or properties_at > end:
            raise MalformedRecord(
                f"the body's length is {body_size} in an item of {size} bytes", where=_WHERE, at=body_at - 4
            )
        properties_size = data[body_end] << 8 | data[body_end + 1]
        if properties_at + properties_size != end or properties_size > limits.PROPERTIES_BYTES:
            raise MalformedRecord(
                f"the properties' length is {properties_size}, {end - properties_at} bytes are left of the item",
                where=_WHERE,
                at=body_end,
            )
        yield BatchItem(flag, data[body_at:body_end], data[properties_at:end])
        at = end


_TAGS_MARK = b"TAGS\x01"


class BatchRecords(NamedTuple):
    """The records of a batch."""

    parts: list[bytes]
    """Head, body and tail of each, in order: joined, they are the records."""
    positions: list[int]
    sizes: list[int]
    properties_at: int
    """The position of the properties in a tail."""
    may_have_tags: bool
    """Whether any of them may have a tag; if not, none has to be searched."""

    @property
    def heads(self) -> list[bytes]:
        """What precedes the body of each."""
        return self.parts[0::3]

    @property
    def tails(self) -> list[bytes]:
        """What follows the body of each."""
        return self.parts[2::3]

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.positions[-1] + self.sizes[-1]

    def properties(self) -> Iterator[bytes]:
        """Yield the properties of each."""
        at = self.properties_at
        return (tail[at:] for tail in self.tails)


def build_batch_records(
    batch: bytes,
    head_layout: HeadLayout,
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

    `decode_batch` says what is damaged. The topic must be short enough for a record of version 1. More messages than
    a broker accepts raise `LimitExceeded`.
    """
    total = len(batch)
    topic_part = bytes([len(topic)]) + topic
    more = head_layout.size - _ITEM.size + len(topic_part)
    sys_flag = sys_flag & ~IPV6_BITS | head_layout.ipv6_bits
    unpack, pack, most = _ITEM.unpack_from, head_layout.layout.pack, limits.PROPERTIES_BYTES
    parts: list[bytes] = []
    positions: list[int] = []
    sizes: list[int] = []
    at, last = 0, offset + limits.BROKER_BATCH_ITEMS
    while at < total:
        if total - at < _MIN_ITEM_BYTES:
            return None
        if offset == last:
            raise LimitExceeded("number of messages", where="batch", limit=limits.BROKER_BATCH_ITEMS)
        size, _, _, flag, body_bytes = unpack(batch, at)
        body_at, end = at + _ITEM.size, at + size
        body_end = body_at + body_bytes
        if body_bytes < 0 or end > total or body_end + 2 > end:
            return None
        properties_bytes = batch[body_end] << 8 | batch[body_end + 1]
        if body_end + 2 + properties_bytes != end or properties_bytes > most:
            return None
        body = batch[body_at:body_end]
        size += more
        # Positional, since it runs for each message.
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
    return BatchRecords(parts, positions, sizes, len(topic_part) + 2, _TAGS_MARK in batch) if parts else None
