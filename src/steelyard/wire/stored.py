"""Records as users see them: names are text, bodies are opened, batches that were stored as one record are unwrapped.

Made for the hot path of a consumer: what repeats from message to message (queues, hosts) is remembered, and properties
are read when somebody looks.

Left out: names that only a client can put right, such as the topic of a message that came through a retry topic.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from steelyard.errors import MalformedRecord
from steelyard.model.message import StoredMessage
from steelyard.model.queue import Queue
from steelyard.wire.batch import read_batch
from steelyard.wire.compression import decompress
from steelyard.wire.hosts import host_text
from steelyard.wire.properties import LazyProperties, find_property
from steelyard.wire.property_names import INNER_COUNT
from steelyard.wire.record import Record, read_records
from steelyard.wire.sysflag import COMPRESSED, WRAPPED

__all__ = ["messages", "messages_of", "to_message", "unwrap"]

_INNER_COUNT = INNER_COUNT.encode()

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


def to_message(record: Record, broker: str) -> StoredMessage:
    """Return a record as one message, its body opened; a batch stored as one record stays wrapped.

    As with other clients, only the bit "compressed" leaves the system flag: the kind of compression stays in it.
    """
    return _opened(StoredMessage, record, broker)


def _opened(make: type[M], record: Record, broker: str) -> M:
    body, sys_flag = record.body, record.sys_flag
    if sys_flag & COMPRESSED and body:
        body, sys_flag = decompress(body, sys_flag), sys_flag & ~COMPRESSED
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
    outer = to_message(record, broker)
    # Walked once before anything is given away, and not kept: a body of 16 MiB can hold 700,000 tiny items.
    count = sum(1 for _ in read_batch(outer.body))
    promised = find_property(record.properties, _INNER_COUNT)
    # The queue's offsets were given out by this number: with another, two messages would share an offset.
    if promised is not None and promised != b"%d" % count:
        raise MalformedRecord(f"{count} messages are in a batch of {promised[:20]!r}", where="record")
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
