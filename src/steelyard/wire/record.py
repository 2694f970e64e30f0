"""A stored message as the broker's log and the answer to a pull have it: one record.

This is the raw level, for store and broker: topic, properties and hosts stay the bytes they are; wire/stored.py makes
of it what users see. The layout is drawn in wire/record_layout.py. The sizes of the parts must add up to the size of
the whole, or the record is damaged.

Reading is one unpack and three slices with few, cheap checks, and each length is checked before it is used. Where one
fails, wire/record_damage.py looks again to say what is wrong and at which byte.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from struct import error as layout_error
from zlib import crc32

from msgspec import Struct

from steelyard.errors import ConfigurationError, LimitExceeded
from steelyard.wire import limits
from steelyard.wire.hosts import IPV4_BYTES, IPV6_BYTES
from steelyard.wire.record_damage import explain_damage
from steelyard.wire.record_layout import (
    HEADS,
    IPV4_HEAD,
    IPV6_BITS,
    SMALLEST_BYTES,
    V1_MAGIC,
    V2_MAGIC,
    Head,
    peek_record,
)
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6

__all__ = [
    "Record",
    "body_crc",
    "decode_record",
    "encode_record",
    "head_shape",
    "pack_head",
    "pack_record",
    "pack_tail",
    "read_records",
]

_ONE_BYTE = Layout(">b")
_TWO_BYTES = Layout(">h")

# Bound once, because they are looked up for every message.
_read_head = IPV4_HEAD.layout.unpack_from
_read_one_byte = _ONE_BYTE.unpack_from
_read_two_bytes = _TWO_BYTES.unpack_from
_pack_one_byte = _ONE_BYTE.pack
_pack_two_bytes = _TWO_BYTES.pack
_HEAD_BYTES = IPV4_HEAD.size
_SHORT_TOPIC_BYTES = limits.TOPIC_BYTES_V1
_PROPERTIES_BYTES = limits.PROPERTIES_BYTES


class Record(Struct, frozen=True, gc=False):
    """One record as it was read. ``offset`` counts in the queue, ``position`` is its place in the broker's log."""

    topic: bytes
    queue_id: int
    offset: int
    position: int
    body: bytes
    properties: bytes
    born_ms: int
    born_host: bytes
    stored_ms: int
    store_host: bytes
    flag: int
    sys_flag: int
    reconsume_times: int
    prepared_offset: int
    crc: int
    size: int


def body_crc(body: bytes | memoryview) -> int:
    """Return a body's checksum: CRC-32 without its highest bit, so that Java never sees a negative number.

    >>> body_crc(b"hello")
    907060870
    """
    return crc32(body) & 0x7FFFFFFF


def pack_record(
    topic: bytes,
    queue_id: int,
    offset: int,
    position: int,
    body: bytes | memoryview,
    properties: bytes,
    *,
    born_ms: int,
    born_host: bytes,
    stored_ms: int,
    store_host: bytes,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    crc: int | None = None,
) -> bytes:
    """Write a record from its parts. The version follows from the topic, the IPv6 bits from the hosts.

    >>> host = bytes.fromhex("7f00000100002a9f")
    >>> record = pack_record(b"orders", 0, 41, 0, b"{}", b"", born_ms=1, born_host=host, stored_ms=2, store_host=host)
    >>> len(record), decode_record(record).offset
    (99, 41)
    """
    tail = pack_tail(topic, properties)
    shape = head_shape(born_host, store_host)
    head = pack_head(
        shape,
        shape.size + len(body) + len(tail),
        topic,
        queue_id,
        offset,
        position,
        body,
        born_ms,
        born_host,
        stored_ms,
        store_host,
        flag,
        sys_flag,
        reconsume_times,
        prepared_offset,
        crc,
    )
    return b"".join((head, body, tail))


def head_shape(born_host: bytes, store_host: bytes) -> Head:
    """Return the shape of the head of a record with these hosts."""
    return IPV4_HEAD if len(born_host) == IPV4_BYTES == len(store_host) else _head_for(born_host, store_host)


def pack_tail(topic: bytes, properties: bytes) -> bytes:
    """Write what follows the body of a record; together with the head's and the body's size it gives the whole's."""
    topic_bytes, properties_bytes = len(topic), len(properties)
    if properties_bytes > _PROPERTIES_BYTES:
        raise LimitExceeded("properties text", where="record", limit=_PROPERTIES_BYTES, found=properties_bytes)
    if topic_bytes <= _SHORT_TOPIC_BYTES:
        topic_length = _pack_one_byte(topic_bytes)
    elif topic_bytes <= limits.TOPIC_BYTES:
        topic_length = _pack_two_bytes(topic_bytes)
    else:
        raise LimitExceeded("topic", where="record", limit=limits.TOPIC_BYTES, found=topic_bytes)
    return b"".join((topic_length, topic, _pack_two_bytes(properties_bytes), properties))


def pack_head(
    shape: Head,
    size: int,
    topic: bytes,
    queue_id: int,
    offset: int,
    position: int,
    body: bytes | memoryview,
    born_ms: int,
    born_host: bytes,
    stored_ms: int,
    store_host: bytes,
    flag: int,
    sys_flag: int,
    reconsume_times: int,
    prepared_offset: int,
    crc: int | None = None,
) -> bytes:
    """Write what precedes the body of a record whose whole size is known."""
    # Every message comes by here: arguments go by order and not by name, which costs half as much.
    try:
        return shape.layout.pack(
            size,
            V1_MAGIC if len(topic) <= _SHORT_TOPIC_BYTES else V2_MAGIC,
            crc32(body) & 0x7FFFFFFF if crc is None else crc,
            queue_id,
            flag,
            offset,
            position,
            sys_flag & ~IPV6_BITS | shape.ipv6_bits,
            born_ms,
            born_host,
            stored_ms,
            store_host,
            reconsume_times,
            prepared_offset,
            len(body),
        )
    except layout_error:
        ints = {"queue_id": queue_id, "flag": flag, "sys_flag": sys_flag, "reconsume_times": reconsume_times}
        longs = {"offset": offset, "position": position, "born_ms": born_ms, "stored_ms": stored_ms}
        raise _unfit(ints | {"crc": crc or 0, "size": size}, longs | {"prepared_offset": prepared_offset}) from None


def encode_record(record: Record) -> bytes:
    """Write a record that was read. Not for the hot path: a broker calls `pack_record` with the parts it has."""
    return pack_record(
        record.topic,
        record.queue_id,
        record.offset,
        record.position,
        record.body,
        record.properties,
        born_ms=record.born_ms,
        born_host=record.born_host,
        stored_ms=record.stored_ms,
        store_host=record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
        crc=record.crc,
    )


def decode_record(data: bytes | bytearray | memoryview, at: int = 0, *, check_crc: bool = False) -> Record:
    """Read the record that begins at a byte; damage is a `MalformedRecord` that says what and where.

    >>> decode_record(b"no record")
    Traceback (most recent call last):
    steelyard.errors.MalformedRecord: record, byte 0: 9 bytes are left, the smallest record has 91
    """
    record = _parse(data, at, check_crc) if isinstance(data, bytes) else _parse(_copy_one(data, at), 0, check_crc)
    if record is None:
        raise explain_damage(data, at)
    return record


def read_records(data: bytes | bytearray | memoryview, *, check_crc: bool = False) -> Iterator[Record]:
    """Yield the records that lie back to back in the answer to a pull.

    Those before a damaged one are good: who takes them one by one has them before meeting `MalformedRecord`.
    """
    whole = bytes(data)
    at, end = 0, len(whole)
    while at < end:
        record = _parse(whole, at, check_crc)
        if record is None:
            raise explain_damage(whole, at)
        yield record
        at += record.size


def _parse(data: bytes, at: int, check_crc: bool) -> Record | None:
    """Read a record; None when anything about it is wrong."""
    left = len(data) - at
    if left < SMALLEST_BYTES:
        return None
    (
        size,
        magic,
        crc,
        queue_id,
        flag,
        offset,
        position,
        sys_flag,
        born_ms,
        born_host,
        stored_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_bytes,
    ) = _read_head(data, at)
    body_at = at + _HEAD_BYTES
    if sys_flag & IPV6_BITS:
        head = HEADS[sys_flag & IPV6_BITS]
        if left < head.size:
            return None
        shifted = head.layout.unpack_from(data, at)[8:]
        born_ms, born_host, stored_ms, store_host, reconsume_times, prepared_offset, body_bytes = shifted
        body_at = at + head.size
    end, body_end = at + size, body_at + body_bytes
    topic_at = body_end + (1 if magic == V1_MAGIC else 2)
    if size > left or body_bytes < 0 or topic_at + 2 > end:
        return None
    if magic == V1_MAGIC:
        (topic_bytes,) = _read_one_byte(data, body_end)
    elif magic == V2_MAGIC:
        (topic_bytes,) = _read_two_bytes(data, body_end)
    else:
        return None
    topic_end = topic_at + topic_bytes
    properties_at = topic_end + 2
    if topic_bytes < 0 or properties_at > end or properties_at + _read_two_bytes(data, topic_end)[0] != end:
        return None
    body = data[body_at:body_end]
    if check_crc and crc32(body) & 0x7FFFFFFF != crc:
        return None
    return Record(
        data[topic_at:topic_end],
        queue_id,
        offset,
        position,
        body,
        data[properties_at:end],
        born_ms,
        born_host,
        stored_ms,
        store_host,
        flag,
        sys_flag,
        reconsume_times,
        prepared_offset,
        crc,
        size,
    )


def _copy_one(data: bytearray | memoryview, at: int) -> bytes:
    """Copy the one record that begins at a byte, and nothing of the log around it; nothing where its size lies."""
    start = peek_record(data, at)
    return bytes(data[at : at + start.size]) if start and 0 < start.size <= len(data) - at else b""


def _head_for(born_host: bytes, store_host: bytes) -> Head:
    for host in (born_host, store_host):
        if len(host) not in (IPV4_BYTES, IPV6_BYTES):
            raise ConfigurationError(
                f"a host of a record is {host!r}", next_step="give 4 or 16 bytes of address and 4 bytes of port"
            )
    born = BORN_IPV6 if len(born_host) == IPV6_BYTES else 0
    return HEADS[born | (STORE_IPV6 if len(store_host) == IPV6_BYTES else 0)]


def _unfit(ints: dict[str, int], longs: dict[str, int]) -> ConfigurationError:
    for bits, numbers in ((32, ints), (64, longs)):
        for name, number in numbers.items():
            if not isinstance(number, int) or not -(1 << bits - 1) <= number < 1 << bits - 1:
                return ConfigurationError(
                    f"the {name} of a record is {number!r}", next_step=f"it must be a number of {bits} signed bits"
                )
    return ConfigurationError("a record cannot be written from these parts")
