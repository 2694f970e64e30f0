"""How a record begins and how long it is: what can be known of one without reading it.

Layout of a record, all integers big-endian and signed::

    size 4 · magic 4 · body CRC 4 · queue 4 · flag 4 · offset 8 · position 8 · system flag 4
    born ms 8 · born host 8 or 20 · stored ms 8 · store host 8 or 20 · reconsume times 4 · prepared offset 8
    body 4 + n · topic 1 + n (version 2: 2 + n) · properties 2 + n

The system flag tells which hosts are IPv6. A topic of more than 127 bytes takes two bytes of length and another magic
(version 2). Everything up to the body's length is the head: there are four shapes of it. A log file ends with a blank
where the next record did not fit.
"""

from struct import Struct as Layout
from typing import NamedTuple

from msgspec import Struct

from steelyard.errors import ConfigurationError
from steelyard.wire.hosts import IPV4_BYTES, IPV6_BYTES
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6

__all__ = [
    "BLANK_BYTES",
    "BLANK_MAGIC",
    "HEADS",
    "IPV4_HEAD",
    "IPV6_BITS",
    "SMALLEST_BYTES",
    "V1_MAGIC",
    "V2_MAGIC",
    "Head",
    "RecordStart",
    "pack_blank",
    "peek_record",
]

V1_MAGIC = -626843481
V2_MAGIC = -626843477

BLANK_MAGIC = -875286124
"""What stands at the end of a log file where the next record did not fit."""

BLANK_BYTES = 8
"""What a blank takes at least: its size and magic; whatever follows them means nothing."""

IPV6_BITS = BORN_IPV6 | STORE_IPV6
"""The bits of the system flag that decide the shape of the head."""

_START = Layout(">ii")


class Head(NamedTuple):
    """One of the four shapes that the head of a record has."""

    layout: Layout
    size: int
    ipv6_bits: int


class RecordStart(Struct, frozen=True, gc=False):
    """The first eight bytes of a record or a blank, as they are: nothing is checked yet."""

    size: int
    magic: int


def _head(ipv6_bits: int) -> Head:
    born = IPV6_BYTES if ipv6_bits & BORN_IPV6 else IPV4_BYTES
    store = IPV6_BYTES if ipv6_bits & STORE_IPV6 else IPV4_BYTES
    layout = Layout(f">iiiiiqqiq{born}sq{store}siqi")
    return Head(layout, layout.size, ipv6_bits)


HEADS = {bits: _head(bits) for bits in (0, BORN_IPV6, STORE_IPV6, IPV6_BITS)}
"""The shapes by the system flag's `IPV6_BITS`."""

IPV4_HEAD = HEADS[0]

SMALLEST_BYTES = IPV4_HEAD.size + 1 + 2
"""The smallest record there can be: IPv4 hosts, and nothing in it."""


def peek_record(data: bytes | bytearray | memoryview, at: int = 0) -> RecordStart | None:
    """Return size and magic of what begins at a byte, unchecked; None where fewer than eight bytes are left.

    This is how recovery walks a log: `V1_MAGIC` or `V2_MAGIC` is a record, `BLANK_MAGIC` sends it to the next file,
    anything else is the end of what was written.

    >>> peek_record(pack_blank(100))
    RecordStart(size=100, magic=-875286124)
    """
    return RecordStart(*_START.unpack_from(data, at)) if len(data) - at >= _START.size else None


def pack_blank(size: int) -> bytes:
    """Write the eight bytes that say: nothing more in this file, ``size`` bytes to its end."""
    if not BLANK_BYTES <= size <= 0x7FFFFFFF:
        raise ConfigurationError(
            f"a blank cannot have {size} bytes", next_step=f"it takes {BLANK_BYTES} at least and must fit 31 bits"
        )
    return _START.pack(size, BLANK_MAGIC)
