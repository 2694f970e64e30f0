"""Records as users see them: names are text, bodies are opened, batches that were stored as one record are unwrapped.

A body of 16 KiB may hold 16 MiB. So whoever keeps many messages takes them *sealed*, with bodies as they are stored,
and opens each when it is needed. What cannot be opened is found then, at one message with an offset, and not in the
midst of an answer.

Made for the hot path of a consumer: what repeats from message to message (queues, hosts) is remembered, and properties
are read when somebody looks.

Left out: names that only a client can put right, such as the topic of a message that came through a retry topic.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from steelyard.errors import LimitExceeded, MalformedRecord, MissingExtra, ProtocolError
from steelyard.model.message import StoredMessage
from steelyard.model.queue import Queue
from steelyard.wire import limits
from steelyard.wire.batch import read_batch
from steelyard.wire.compression import decompress, decompress_start
from steelyard.wire.hosts import host_text
from steelyard.wire.properties import LazyProperties
from steelyard.wire.property_names import INNER_COUNT
from steelyard.wire.record import Record, read_records
from steelyard.wire.sysflag import COMPRESSED, NEEDS_UNWRAP, WRAPPED

__all__ = ["UNREADABLE", "messages", "messages_of", "opened", "opened_start", "sealed_of", "to_message", "unwrap"]

UNREADABLE = (ProtocolError, MissingExtra)
"""What is raised by a body that cannot be opened."""

M = TypeVar("M", bound=StoredMessage)
"""The kind of message wanted: a stored message, or one that can do more."""

# No broker takes a longer topic; a hostile one could fill the memory with queues that are remembered.
_SHORT_TOPIC_BYTES = 255


def messages(data: bytes | bytearray | memoryview, broker: str, *, check_crc: bool = False) -> Iterator[StoredMessage]:
    """Yield the messages in the answer to a pull, in order; ``broker`` is the name of the broker that gave it.

    Messages before a damaged record are good: who takes them one by one has them before meeting `MalformedRecord`.
    """
    return messages_of(StoredMessage, data, broker, check_crc=check_crc)


def messages_of(
    make: type[M], data: bytes | bytearray | memoryview, broker: str, *, check_crc: bool = False
) -> Iterator[M]:
    """Yield messages as `messages` does, each of the kind that is wanted."""
    for record in read_records(data, check_crc=check_crc):
        if record.sys_flag & WRAPPED == WRAPPED:
            yield from _unwrap(make, record, broker)
        else:
            yield _opened(make, record, broker)


def sealed_of(make: type[M], data: bytes | bytearray | memoryview, broker: str) -> Iterator[M]:
    """Yield messages whose bodies are as they are stored: `opened` gives what their senders gave.

    Batches that were stored as one record are unwrapped; one that cannot be stays wrapped, and `opened` says why. Once
    batches have taken as much memory as one body may, the next one is `LimitExceeded`: pull again from there.
    """
    room = limits.DECOMPRESSED_BYTES
    for record in read_records(data):
        if record.sys_flag & WRAPPED != WRAPPED:
            yield _made(make, record, broker, record.body, record.sys_flag)
            continue
        if room <= 0:
            raise LimitExceeded("batches in one answer", where="record", limit=limits.DECOMPRESSED_BYTES)
        try:
            outer = _checked_batch(to_message(record, broker))
        except UNREADABLE:
            yield _made(make, record, broker, record.body, record.sys_flag)
        else:
            room -= len(outer.body)
            # Its items are not to be unwrapped again.
            yield from _items(make, replace(outer, sys_flag=outer.sys_flag & ~NEEDS_UNWRAP))


def opened(message: M) -> M:
    """Return a sealed message with its body as its sender gave it; raises one of `UNREADABLE` if that cannot be."""
    body, sys_flag = message.body, message.sys_flag
    if sys_flag & COMPRESSED and body:
        body, sys_flag = decompress(body, sys_flag), sys_flag & ~COMPRESSED
    elif sys_flag & WRAPPED != WRAPPED:
        return message
    whole = replace(message, body=body, sys_flag=sys_flag)
    if sys_flag & WRAPPED == WRAPPED:
        _checked_batch(whole)
        raise MalformedRecord("a batch was pulled as one message, and can be read only now", where="record")
    return whole


def opened_start(message: M, most: int) -> M:
    """Return a sealed message for who only looks: at most so many bytes of its body are opened.

    Where there is more, or it cannot be opened at all, a bit of `SEALED` stays in its system flag.
    """
    body, sys_flag = message.body, message.sys_flag
    if not sys_flag & COMPRESSED or not body:
        return message
    try:
        body, is_whole = decompress_start(body, sys_flag, most)
    except UNREADABLE:
        return message
    return replace(message, body=body, sys_flag=sys_flag & ~COMPRESSED if is_whole else sys_flag)


def to_message(record: Record, broker: str) -> StoredMessage:
    """Return a record as one message, its body opened; a batch stored as one record stays wrapped.

    As with other clients, only the bit "compressed" leaves the system flag: the kind of compression stays in it.
    """
    return _opened(StoredMessage, record, broker)


def _opened(make: type[M], record: Record, broker: str) -> M:
    body, sys_flag = record.body, record.sys_flag
    if sys_flag & COMPRESSED and body:
        body, sys_flag = decompress(body, sys_flag), sys_flag & ~COMPRESSED
    return _made(make, record, broker, body, sys_flag)


def _made(make: type[M], record: Record, broker: str, body: bytes, sys_flag: int) -> M:
    return make(
        (_known_queue if len(record.topic) <= _SHORT_TOPIC_BYTES else _queue)(record.topic, broker, record.queue_id),
        record.offset,
        body,
        LazyProperties(record.properties),
        record.born_ms,
        record.stored_ms,
        record.position,
        record.size,
        record.flag,
        sys_flag,
        record.reconsume_times,
        record.prepared_offset,
        host_text(record.born_host),
        host_text(record.store_host),
    )


def unwrap(record: Record, broker: str) -> Iterator[StoredMessage]:
    """Yield the messages of a batch that was stored as one record: offsets count up, the rest is the outer record's."""
    return _unwrap(StoredMessage, record, broker)


def _unwrap(make: type[M], record: Record, broker: str) -> Iterator[M]:
    return _items(make, _checked_batch(to_message(record, broker)))


def _checked_batch(outer: StoredMessage) -> StoredMessage:
    """Return a message that holds a batch, if it is whole: it is walked once before anything is given away."""
    # Not kept: a body of 16 MiB can hold 700,000 tiny items.
    count = sum(1 for _ in read_batch(outer.body))
    promised = outer.properties.get(INNER_COUNT)
    # The queue's offsets were given out by this number: with another, two messages would share an offset.
    if promised is not None and promised != str(count):
        raise MalformedRecord(f"{count} messages are in a batch of {promised[:20]!r}", where="record")
    return outer


def _items(make: type[M], outer: StoredMessage) -> Iterator[M]:
    for index, item in enumerate(read_batch(outer.body)):
        yield make(
            outer.queue,
            outer.offset + index,
            item.body,
            LazyProperties(item.properties),
            outer.born_ms,
            outer.stored_ms,
            outer.position,
            outer.size,
            item.flag,
            outer.sys_flag,
            outer.reconsume_times,
            outer.prepared_offset,
            outer.born_host,
            outer.store_host,
        )


def _queue(topic: bytes, broker: str, queue_id: int) -> Queue:
    try:
        return Queue(topic.decode(), broker, queue_id)
    except UnicodeDecodeError:
        raise MalformedRecord(f"the topic {topic[:80]!r} is not UTF-8", where="record") from None


_known_queue = lru_cache(maxsize=4096)(_queue)
