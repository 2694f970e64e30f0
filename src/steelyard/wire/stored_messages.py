"""Records as messages: names are text, bodies are decompressed, batches stored as one record are unwrapped.

A body of 16 KiB may decompress to 16 MiB. So a consumer that keeps many messages takes them *sealed*, with bodies as
they are stored, and unseals each when it is needed. A body that cannot be decompressed then fails at one message with
an offset, and not in the middle of a pull. This is a consumer's hot path: queues and hosts are cached, and properties
are decoded when they are read.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from steelyard.errors import LimitExceeded, MalformedRecord, MissingExtra, ProtocolError
from steelyard.model.message import StoredMessage
from steelyard.model.queue import Queue
from steelyard.wire import limits
from steelyard.wire.batch import decode_batch
from steelyard.wire.compression import decompress, decompress_prefix
from steelyard.wire.hosts import host_text
from steelyard.wire.properties import LazyProperties
from steelyard.wire.property_names import INNER_COUNT
from steelyard.wire.record import MessageRecord, decode_records, record_damage_error, try_decode_record
from steelyard.wire.sysflag import COMPRESSED, NEEDS_UNWRAP, WRAPPED

BODY_ERRORS = (ProtocolError, MissingExtra)
"""What a body raises that cannot be decompressed or unwrapped."""

M = TypeVar("M", bound=StoredMessage)
"""A `StoredMessage`, or a subclass."""

# No broker accepts a longer topic; a hostile one could fill the cache of queues.
_SHORT_TOPIC_BYTES = 255


def decode_messages(
    data: bytes | bytearray | memoryview, broker: str, *, check_crc: bool = False
) -> Iterator[StoredMessage]:
    """Yield the messages in the response to a pull of ``broker``, in order.

    Messages before a damaged record are good, and are yielded before `MalformedRecord` is raised.
    """
    return decode_messages_as(StoredMessage, data, broker, check_crc=check_crc)


def decode_messages_as(
    make: type[M], data: bytes | bytearray | memoryview, broker: str, *, check_crc: bool = False
) -> Iterator[M]:
    """Yield messages as `decode_messages` does, of the given class."""
    for record in decode_records(data, check_crc=check_crc):
        if record.sys_flag & WRAPPED == WRAPPED:
            yield from _batch_messages(make, _checked_batch(record_to_message(record, broker)))
        else:
            yield _open_record(make, record, broker)


def decode_sealed_messages(make: type[M], data: bytes | bytearray | memoryview, broker: str) -> Iterator[M]:
    """Yield messages with their bodies as they are stored; `unseal_message` returns the original.

    Batches that are stored as one record are unwrapped; one that cannot be stays wrapped, and `unseal_message` says
    why. Once batches have taken as much memory as one body may, the next is `LimitExceeded`: pull again from there.
    """
    room = limits.DECOMPRESSED_BYTES
    whole = bytes(data)
    at, end = 0, len(whole)
    while at < end:
        # Not by `decode_records`: one generator less for each message.
        record = try_decode_record(whole, at)
        if record is None:
            raise record_damage_error(whole, at)
        at += record.size
        if record.sys_flag & WRAPPED != WRAPPED:
            yield _make_message(make, record, broker, record.body, record.sys_flag)
            continue
        if room <= 0:
            raise LimitExceeded("batches in one answer", where="record", limit=limits.DECOMPRESSED_BYTES)
        try:
            outer = _checked_batch(record_to_message(record, broker))
        except BODY_ERRORS:
            yield _make_message(make, record, broker, record.body, record.sys_flag)
        else:
            room -= len(outer.body)
            # Its items must not be unwrapped again.
            yield from _batch_messages(make, replace(outer, sys_flag=outer.sys_flag & ~NEEDS_UNWRAP))


def unseal_message(message: M) -> M:
    """Return a sealed message with its original body, or raise one of `BODY_ERRORS`."""
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


def unseal_message_prefix(message: M, max_bytes: int) -> M:
    """Return a sealed message for display: at most ``max_bytes`` of its body are decompressed.

    If there is more, or it cannot be decompressed, a bit of `SEALED` stays in its system flag.
    """
    body, sys_flag = message.body, message.sys_flag
    if not sys_flag & COMPRESSED or not body:
        return message
    try:
        body, is_whole = decompress_prefix(body, sys_flag, max_bytes)
    except BODY_ERRORS:
        return message
    return replace(message, body=body, sys_flag=sys_flag & ~COMPRESSED if is_whole else sys_flag)


def record_to_message(record: MessageRecord, broker: str) -> StoredMessage:
    """Return a record as one message, its body decompressed; a batch stored as one record stays wrapped.

    As in other clients, only the bit "compressed" is removed from the system flag: the kind of compression stays.
    """
    return _open_record(StoredMessage, record, broker)


def _open_record(make: type[M], record: MessageRecord, broker: str) -> M:
    body, sys_flag = record.body, record.sys_flag
    if sys_flag & COMPRESSED and body:
        body, sys_flag = decompress(body, sys_flag), sys_flag & ~COMPRESSED
    return _make_message(make, record, broker, body, sys_flag)


def _make_message(make: type[M], record: MessageRecord, broker: str, body: bytes, sys_flag: int) -> M:
    return make(
        (_cached_queue if len(record.topic) <= _SHORT_TOPIC_BYTES else _make_queue)(
            record.topic, broker, record.queue_id
        ),
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


def _checked_batch(outer: StoredMessage) -> StoredMessage:
    """Return a message that holds a batch, if all of it can be decoded."""
    # The items are not kept: a body of 16 MiB can hold 700,000 tiny ones.
    count = sum(1 for _ in decode_batch(outer.body))
    promised = outer.properties.get(INNER_COUNT)
    # Offsets were assigned by this number: with another, two messages would share an offset.
    if promised is not None and promised != str(count):
        raise MalformedRecord(f"{count} messages are in a batch of {promised[:20]!r}", where="record")
    return outer


def _batch_messages(make: type[M], outer: StoredMessage) -> Iterator[M]:
    """Yield the messages of a batch that is stored as one record: offsets count up, the rest is the record's."""
    for index, item in enumerate(decode_batch(outer.body)):
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


def _make_queue(topic: bytes, broker: str, queue_id: int) -> Queue:
    try:
        return Queue(topic.decode(), broker, queue_id)
    except UnicodeDecodeError:
        raise MalformedRecord(f"the topic {topic[:80]!r} is not UTF-8", where="record") from None


_cached_queue = lru_cache(maxsize=4096)(_make_queue)
