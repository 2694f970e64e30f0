"""Many messages in one body: what a batch is sent as, and what an inner batch is stored as.

Items lie back to back: size, two unused integers, flag, body with its length, properties with theirs. An item knows
neither topic nor queue: those are the request's or the outer record's. Bodies and properties are handed on as the bytes
they are; a broker puts its own head in front of them.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from struct import error as layout_error

from msgspec import Struct

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord
from steelyard.model.message import Message
from steelyard.wire import limits
from steelyard.wire.properties import sent_properties

__all__ = ["BatchItem", "encode_batch", "item_of", "read_batch"]

_WHERE = "batch"
# Size, two integers nobody reads (a record has its magic and checksum there), flag, body's length.
_HEAD = Layout(">iiiii")
_SMALLEST = _HEAD.size + 2


class BatchItem(Struct, frozen=True, gc=False):
    """One message of a batch, its properties as the text they are sent as."""

    flag: int
    body: bytes
    properties: bytes


def item_of(message: Message, *, unique_key: str, wait: bool = True) -> BatchItem:
    r"""Make the item of a message. All items of a batch go to one topic and agree on whether to wait.

    >>> item_of(Message("orders", b"{}", tags="paid"), unique_key="A1").properties
    b'TAGS\x01paid\x02UNIQ_KEY\x01A1\x02WAIT\x01true\x02'
    """
    return BatchItem(message.flag, message.body, sent_properties(message, unique_key=unique_key, wait=wait).encode())


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    """Write items back to back.

    >>> encode_batch([BatchItem(0, b"abc", b"")]).hex()
    '00000019000000000000000000000000000000036162630000'
    """
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
            head = _HEAD.pack(_SMALLEST + len(body) + len(properties), 0, 0, item.flag, len(body))
        except layout_error:
            raise ConfigurationError(
                f"item {count} of a batch has the flag {item.flag!r} and a body of {len(body)} bytes",
                next_step="both must fit 32 signed bits",
            ) from None
        parts += (head, body, len(properties).to_bytes(2, "big"), properties)
    return b"".join(parts)


def read_batch(data: bytes) -> Iterator[BatchItem]:
    """Yield the items of a batch; damage ends the walk with `MalformedRecord` at the item that has it.

    >>> list(read_batch(encode_batch([BatchItem(7, b"abc", b"")])))
    [BatchItem(flag=7, body=b'abc', properties=b'')]
    """
    at, total = 0, len(data)
    while at < total:
        if total - at < _SMALLEST:
            raise MalformedRecord(
                f"{total - at} bytes are left, the smallest item has {_SMALLEST}", where=_WHERE, at=at
            )
        size, _, _, flag, body_size = _HEAD.unpack_from(data, at)
        body_at, end = at + _HEAD.size, at + size
        body_end = body_at + body_size
        properties_at = body_end + 2
        if not _SMALLEST <= size <= total - at:
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
