"""What is wrong with a record, and at which byte.

Reading a record is fast because it only finds out *that* something is wrong. This is the slow second look: field by
field, in the order of the layout, until something does not fit.
"""

from steelyard.errors import MalformedRecord
from steelyard.wire.record_layout import BLANK_MAGIC, HEADS, IPV6_BITS, SMALLEST_BYTES, V1_MAGIC, V2_MAGIC

__all__ = ["explain_damage"]

_MAGIC_AT = 4
_CRC_AT = 8
_SYS_FLAG_AT = 36


def explain_damage(data: bytes | bytearray | memoryview, at: int) -> MalformedRecord:
    """Make the error for a record that could not be read."""
    left = len(data) - at
    if left < SMALLEST_BYTES:
        return _damaged(f"{left} bytes are left, the smallest record has {SMALLEST_BYTES}", at)
    size, magic = _number(data, at, 4), _number(data, at + _MAGIC_AT, 4)
    if magic == BLANK_MAGIC:
        return _damaged("a blank is here: the end of a log file, not a message", at)
    if magic not in (V1_MAGIC, V2_MAGIC):
        return _damaged(f"the magic is {magic & 0xFFFFFFFF:#010x}, not that of a message", at + _MAGIC_AT)
    head = HEADS[_number(data, at + _SYS_FLAG_AT, 4) & IPV6_BITS]
    smallest = head.size + (3 if magic == V1_MAGIC else 4)
    if not smallest <= size <= left:
        return _damaged(f"the size is {size}; a record like this has {smallest} or more, {left} bytes are left", at)
    return _damaged_part(data, at, at + head.size, at + size, 1 if magic == V1_MAGIC else 2)


def _damaged_part(
    data: bytes | bytearray | memoryview, at: int, body_at: int, end: int, topic_length_bytes: int
) -> MalformedRecord:
    room = end - body_at - topic_length_bytes - 2
    body_bytes = _number(data, body_at - 4, 4)
    if not 0 <= body_bytes <= room:
        return _damaged(f"the body's length is {body_bytes}, there is room for {room}", body_at - 4)
    topic_length_at, room = body_at + body_bytes, room - body_bytes
    topic_bytes = _number(data, topic_length_at, topic_length_bytes)
    if not 0 <= topic_bytes <= room:
        return _damaged(f"the topic's length is {topic_bytes}, there is room for {room}", topic_length_at)
    properties_length_at, room = topic_length_at + topic_length_bytes + topic_bytes, room - topic_bytes
    properties_bytes = _number(data, properties_length_at, 2)
    if properties_bytes != room:
        return _damaged(
            f"the properties' length is {properties_bytes}, the record has {room} bytes left for them",
            properties_length_at,
        )
    return _damaged("the body's checksum does not fit the body", at + _CRC_AT)


def _number(data: bytes | bytearray | memoryview, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)


def _damaged(what: str, at: int) -> MalformedRecord:
    return MalformedRecord(what, where="record", at=at)
