"""The record: a stored message as the commit log and the response to a pull have it.

This is the raw level, for store and broker: topic, properties and hosts stay bytes; stored_messages.py makes messages
of records. All integers are big-endian and signed::

    size 4 · magic 4 · body CRC 4 · queue 4 · flag 4 · offset 8 · position 8 · system flag 4
    born ms 8 · born host 8 or 20 · stored ms 8 · store host 8 or 20 · reconsume times 4 · prepared offset 8
    body 4 + n · topic 1 + n (version 2: 2 + n) · properties 2 + n

The system flag tells which hosts are IPv6, so the head (all before the body) has four layouts. A topic of more than 127
bytes has two bytes of length and another magic (version 2). A log file ends with a blank where the next record did not
fit. Decoding is one unpack and three slices, and only finds *that* a record is damaged; `record_damage_error` then goes
through it field by field to say what is wrong, and at which byte.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from struct import error as layout_error
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct, structs

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord
from steelyard.wire import limits
from steelyard.wire.hosts import IPV4_BYTES, IPV6_BYTES
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6

V1_MAGIC = -626843481
V2_MAGIC = -626843477

BLANK_MAGIC = -875286124
"""Marks the end of a log file, where the next record did not fit."""

BLANK_BYTES = 8
"""The least size of a blank: size and magic; what follows has no meaning."""

IPV6_BITS = BORN_IPV6 | STORE_IPV6
"""The bits of the system flag that decide the layout of the head."""

_SIZE_AND_MAGIC = Layout(">ii")


class HeadLayout(NamedTuple):
    """One of the four layouts of a record's head."""

    layout: Layout
    size: int
    ipv6_bits: int


class RecordStart(Struct, frozen=True, gc=False):
    """The first eight bytes of a record or a blank, unchecked."""

    size: int
    magic: int


def _make_head_layout(ipv6_bits: int) -> HeadLayout:
    born = IPV6_BYTES if ipv6_bits & BORN_IPV6 else IPV4_BYTES
    store = IPV6_BYTES if ipv6_bits & STORE_IPV6 else IPV4_BYTES
    layout = Layout(f">iiiiiqqiq{born}sq{store}siqi")
    return HeadLayout(layout, layout.size, ipv6_bits)


HEAD_LAYOUTS = {bits: _make_head_layout(bits) for bits in (0, BORN_IPV6, STORE_IPV6, IPV6_BITS)}
"""The layouts by the system flag's `IPV6_BITS`."""

IPV4_HEAD_LAYOUT = HEAD_LAYOUTS[0]

MIN_RECORD_BYTES = IPV4_HEAD_LAYOUT.size + 1 + 2
"""The smallest possible record: IPv4 hosts, everything else empty."""


def peek_record(data: bytes | bytearray | memoryview, at: int = 0) -> RecordStart | None:
    """Return size and magic at a byte, unchecked; None if fewer than eight bytes are left.

    Recovery scans a log by it: `V1_MAGIC` or `V2_MAGIC` is a record, `BLANK_MAGIC` means the next file, anything else
    is the end.
    """
    return RecordStart(*_SIZE_AND_MAGIC.unpack_from(data, at)) if len(data) - at >= _SIZE_AND_MAGIC.size else None


def pack_blank(size: int) -> bytes:
    """Encode a blank of ``size`` bytes, up to the end of its file."""
    if not BLANK_BYTES <= size <= 0x7FFFFFFF:
        raise ConfigurationError(
            f"a blank cannot have {size} bytes", next_step=f"it takes {BLANK_BYTES} at least and must fit 31 bits"
        )
    return _SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)


_MAGIC_AT = 4
_CRC_AT = 8
_SYS_FLAG_AT = 36


def record_damage_error(data: bytes | bytearray | memoryview, at: int) -> MalformedRecord:
    """Make the error for a record that could not be decoded."""
    left = len(data) - at
    if left < MIN_RECORD_BYTES:
        return _damage_error(f"{left} bytes are left, the smallest record has {MIN_RECORD_BYTES}", at)
    size, magic = _int_at(data, at, 4), _int_at(data, at + _MAGIC_AT, 4)
    if magic == BLANK_MAGIC:
        return _damage_error("a blank is here: the end of a log file, not a message", at)
    if magic not in (V1_MAGIC, V2_MAGIC):
        return _damage_error(f"the magic is {magic & 0xFFFFFFFF:#010x}, not that of a message", at + _MAGIC_AT)
    head = HEAD_LAYOUTS[_int_at(data, at + _SYS_FLAG_AT, 4) & IPV6_BITS]
    smallest = head.size + (3 if magic == V1_MAGIC else 4)
    if not smallest <= size <= left:
        return _damage_error(
            f"the size is {size}; a record like this has {smallest} or more, {left} bytes are left", at
        )
    body_at, topic_length_bytes = at + head.size, 1 if magic == V1_MAGIC else 2
    room = at + size - body_at - topic_length_bytes - 2
    body_bytes = _int_at(data, body_at - 4, 4)
    if not 0 <= body_bytes <= room:
        return _damage_error(f"the body's length is {body_bytes}, there is room for {room}", body_at - 4)
    topic_length_at, room = body_at + body_bytes, room - body_bytes
    topic_bytes = _int_at(data, topic_length_at, topic_length_bytes)
    if not 0 <= topic_bytes <= room:
        return _damage_error(f"the topic's length is {topic_bytes}, there is room for {room}", topic_length_at)
    properties_length_at, room = topic_length_at + topic_length_bytes + topic_bytes, room - topic_bytes
    properties_bytes = _int_at(data, properties_length_at, 2)
    if properties_bytes != room:
        return _damage_error(
            f"the properties' length is {properties_bytes}, the record has {room} bytes left for them",
            properties_length_at,
        )
    return _damage_error("the body's checksum does not fit the body", at + _CRC_AT)


def _int_at(data: bytes | bytearray | memoryview, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)


def _damage_error(what: str, at: int) -> MalformedRecord:
    return MalformedRecord(what, where="record", at=at)


_ONE_BYTE = Layout(">b")
_TWO_BYTES = Layout(">h")

# Bound once, because they are used for every message.
_read_head = IPV4_HEAD_LAYOUT.layout.unpack_from
_read_one_byte = _ONE_BYTE.unpack_from
_read_two_bytes = _TWO_BYTES.unpack_from
_pack_one_byte = _ONE_BYTE.pack
_pack_two_bytes = _TWO_BYTES.pack
_HEAD_BYTES = IPV4_HEAD_LAYOUT.size
_SHORT_TOPIC_BYTES = limits.TOPIC_BYTES_V1
_PROPERTIES_BYTES = limits.PROPERTIES_BYTES


class MessageRecord(Struct, frozen=True, gc=False):
    """A decoded record. ``offset`` is that in the queue, ``position`` that in the commit log."""

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
    """Encode a record from its parts. The version follows from the topic, the IPv6 bits from the hosts."""
    tail = pack_tail(topic, properties)
    layout = head_layout_for(born_host, store_host)
    head = pack_head(
        layout,
        layout.size + len(body) + len(tail),
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


def head_layout_for(born_host: bytes, store_host: bytes) -> HeadLayout:
    """Return the layout of the head of a record with these hosts."""
    return (
        IPV4_HEAD_LAYOUT
        if len(born_host) == IPV4_BYTES == len(store_host)
        else _checked_head_layout(born_host, store_host)
    )


def pack_tail(topic: bytes, properties: bytes) -> bytes:
    """Encode what follows the body of a record."""
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
    head_layout: HeadLayout,
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
    """Encode what precedes the body of a record of a known size."""
    # Positional arguments cost half as much as named ones, and every message passes here.
    try:
        return head_layout.layout.pack(
            size,
            V1_MAGIC if len(topic) <= _SHORT_TOPIC_BYTES else V2_MAGIC,
            crc32(body) & 0x7FFFFFFF if crc is None else crc,
            queue_id,
            flag,
            offset,
            position,
            sys_flag & ~IPV6_BITS | head_layout.ipv6_bits,
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
        raise _range_error(
            ints | {"crc": crc or 0, "size": size}, longs | {"prepared_offset": prepared_offset}
        ) from None


def encode_record(record: MessageRecord) -> bytes:
    """Encode a decoded record. Not for the hot path: a broker calls `pack_record` with the parts it has."""
    parts = structs.asdict(record)
    del parts["size"]  # follows from the others
    return pack_record(**parts)


def decode_record(data: bytes | bytearray | memoryview, at: int = 0, *, check_crc: bool = False) -> MessageRecord:
    """Decode the record at a byte; `MalformedRecord` says what is damaged, and where."""
    record = (
        try_decode_record(data, at, check_crc)
        if isinstance(data, bytes)
        else try_decode_record(_copy_record(data, at), 0, check_crc)
    )
    if record is None:
        raise record_damage_error(data, at)
    return record


def decode_records(data: bytes | bytearray | memoryview, *, check_crc: bool = False) -> Iterator[MessageRecord]:
    """Yield the records in the response to a pull.

    Those before a damaged one are good, and are yielded before `MalformedRecord` is raised.
    """
    whole = bytes(data)
    at, end = 0, len(whole)
    while at < end:
        record = try_decode_record(whole, at, check_crc)
        if record is None:
            raise record_damage_error(whole, at)
        yield record
        at += record.size


def try_decode_record(data: bytes, at: int, check_crc: bool = False) -> MessageRecord | None:
    """Decode the record that begins at a byte; None if anything is wrong: `record_damage_error` says what."""
    left = len(data) - at
    if left < MIN_RECORD_BYTES:
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
        head = HEAD_LAYOUTS[sys_flag & IPV6_BITS]
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
    return MessageRecord(
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


def _copy_record(data: bytearray | memoryview, at: int) -> bytes:
    """Copy the one record that begins at a byte, and nothing of the log around it; nothing where its size lies."""
    start = peek_record(data, at)
    return bytes(data[at : at + start.size]) if start and 0 < start.size <= len(data) - at else b""


def _checked_head_layout(born_host: bytes, store_host: bytes) -> HeadLayout:
    for host in (born_host, store_host):
        if len(host) not in (IPV4_BYTES, IPV6_BYTES):
            raise ConfigurationError(
                f"a host of a record is {host!r}", next_step="give 4 or 16 bytes of address and 4 bytes of port"
            )
    born = BORN_IPV6 if len(born_host) == IPV6_BYTES else 0
    return HEAD_LAYOUTS[born | (STORE_IPV6 if len(store_host) == IPV6_BYTES else 0)]


def _range_error(ints: dict[str, int], longs: dict[str, int]) -> ConfigurationError:
    for bits, numbers in ((32, ints), (64, longs)):
        for name, number in numbers.items():
            if not isinstance(number, int) or not -(1 << bits - 1) <= number < 1 << bits - 1:
                return ConfigurationError(
                    f"the {name} of a record is {number!r}", next_step=f"it must be a number of {bits} signed bits"
                )
    return ConfigurationError("a record cannot be written from these parts")
