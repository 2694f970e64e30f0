"""The ids of a message: the offset id, made of its place, and the unique key, made by its producer.

The *offset id* is the store host and the position in that broker's commit log. The *unique key* is the property
UNIQ_KEY: address, process and time of the producer (milliseconds of the month, local time), and a counter. Both are
upper-case hexadecimal, 32 digits with an IPv4 address and 56 with an IPv6 one, and cannot be distinguished. gRPC
clients make keys of 34 digits: a version, the MAC address, the process, seconds since 2021 and a counter.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from ipaddress import ip_address

from msgspec import Struct

from steelyard.errors import ConfigurationError, MalformedRecord
from steelyard.model.message import offset_id
from steelyard.wire.hosts import host_text

__all__ = [
    "GrpcKey",
    "UniqueKey",
    "make_unique_key",
    "month_bounds",
    "offset_id",
    "parse_grpc_key",
    "parse_offset_id",
    "parse_unique_key",
    "unique_key_prefix",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = frozenset("0123456789ABCDEFabcdef")
_LENGTHS = (32, 56)
_GRPC_LENGTHS = (34,)
_GRPC_EPOCH_MS = 1_609_459_200_000

# A clock that is set back a little across the start of a month must not make the time negative.
_MAX_CLOCK_STEP_BACK_MS = 1_000_000


class UniqueKey(Struct, frozen=True, gc=False):
    """The parts of a unique key: its producer, its time and its counter."""

    address: str
    pid: int
    process: int
    made_ms: int
    counter: int


class GrpcKey(Struct, frozen=True, gc=False):
    """The parts of a gRPC client's key."""

    version: int
    mac_address: str
    pid: int
    made_ms: int
    counter: int


def parse_grpc_key(text: str) -> GrpcKey:
    """Parse the key of a gRPC client.

    >>> key = parse_grpc_key("0156F7E71C361B21BC024CCDBE00000007")
    >>> key.mac_address, key.pid, key.made_ms, key.counter
    ('56:f7:e7:1c:36:1b', 8636, 1648047038000, 7)
    """
    raw = _parse_hex(text, _GRPC_LENGTHS)
    return GrpcKey(
        version=raw[0],
        mac_address=raw[1:7].hex(":"),
        pid=int.from_bytes(raw[7:9], "big"),
        made_ms=_GRPC_EPOCH_MS + 1000 * int.from_bytes(raw[9:13], "big"),
        counter=int.from_bytes(raw[13:], "big"),
    )


def parse_offset_id(text: str) -> tuple[str, int]:
    """Parse an offset id into store host and position."""
    raw = _parse_hex(text)
    return host_text(raw[:-8]), int.from_bytes(raw[-8:], "big", signed=True)


def unique_key_prefix(address: str, pid: int, process: int) -> str:
    """Return the prefix of all keys of one producer; ``process`` is any number that differs when a pid is reused."""
    try:
        packed = ip_address(address).packed
    except ValueError:
        raise ConfigurationError(f"{address!r} is not an address", next_step="give one such as 10.0.0.7") from None
    return f"{packed.hex().upper()}{pid & 0xFFFF:04X}{process & 0xFFFFFFFF:08X}"


def make_unique_key(prefix: str, *, now_ms: int, month_start_ms: int, counter: int) -> str:
    """Make the next unique key; only the low 16 bits of the counter are used."""
    since_ms = now_ms - month_start_ms
    if -_MAX_CLOCK_STEP_BACK_MS < since_ms < 0:
        since_ms = 0
    return f"{prefix}{since_ms & 0xFFFFFFFF:08X}{counter & 0xFFFF:04X}"


def parse_unique_key(text: str, *, now_ms: int, zone: tzinfo = UTC) -> UniqueKey:
    """Parse a unique key. Its month is not in it: the latest one that is not after ``now_ms`` is assumed."""
    raw = _parse_hex(text)
    since_ms = int.from_bytes(raw[-6:-2], "big")
    start_ms, _ = month_bounds(now_ms, zone)
    if start_ms + since_ms >= now_ms:
        start_ms, _ = month_bounds(start_ms - 1, zone)
    return UniqueKey(
        address=str(ip_address(raw[:-12])),
        pid=int.from_bytes(raw[-12:-10], "big"),
        process=int.from_bytes(raw[-10:-6], "big"),
        made_ms=start_ms + since_ms,
        counter=int.from_bytes(raw[-2:], "big"),
    )


def month_bounds(now_ms: int, zone: tzinfo = UTC) -> tuple[int, int]:
    """Return start and end of the calendar month around a time, in milliseconds; the end is the next month's start."""
    try:
        now = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone)
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        # Day 28 plus 4 is in the next month, whichever month this is.
        end = (start.replace(day=28) + timedelta(days=4)).replace(day=1)
    except (OverflowError, ValueError):
        raise ConfigurationError(
            f"{now_ms} ms is no time of a calendar", next_step="give milliseconds since 1970"
        ) from None
    return _to_ms(start), _to_ms(end)


def _to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _parse_hex(text: str, lengths: tuple[int, ...] = _LENGTHS) -> bytes:
    if len(text) not in lengths or not _DIGITS.issuperset(text):
        raise MalformedRecord(
            f"{text[:80]!r} is not one",
            where="message id",
            next_step=f"it has {' or '.join(map(str, lengths))} hexadecimal digits",
        )
    return bytes.fromhex(text)
