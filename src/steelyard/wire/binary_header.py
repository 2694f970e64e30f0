"""The ROCKETMQ header type: fixed fields, a remark, then names and values with their lengths.

This is the plain way, field by field and every length checked; wire/shapes.py is the short cut for headers that repeat.

A value of length zero counts as absent. Codes beyond 16 bits cannot be written: use JSON for those.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from struct import error as layout_error
from typing import NamedTuple

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedHeader
from steelyard.wire import limits
from steelyard.wire.codes import LANGUAGES
from steelyard.wire.fields import H, Header, Plan, plan_of

__all__ = [
    "FIXED_BYTES",
    "Cell",
    "cells_of",
    "decode_binary",
    "encode_binary",
    "pack_fields",
    "pack_header",
    "texts_from_binary",
]

_FIXED = Layout(">hbhiii")
_FIXED_BARE = Layout(">hbhiiii")
_INT16 = Layout(">h")
_INT32 = Layout(">i")
FIXED_BYTES = _FIXED_BARE.size
"""A header without remark and fields."""

_LANGUAGE_NAME = dict(enumerate(LANGUAGES))
_LANGUAGE_NUMBER = {name: number for number, name in enumerate(LANGUAGES)}
# Where bytes are counted from the first field on.
_FIELDS = "binary header fields"
# How many sets of lengths are remembered for one kind of header.
_MOLDS = 512
_OTHER = _LANGUAGE_NUMBER["OTHER"]


def decode_binary(header: bytes) -> tuple[int, str, int, int, int, str | None, bytes]:
    """Take a header apart: code, language, version, opaque, flag, remark, and the fields still packed."""
    if len(header) < FIXED_BYTES:
        raise MalformedHeader(f"it has {len(header)} bytes, at least {FIXED_BYTES} are needed", where="binary header")
    code, language, version, opaque, flag, remark_bytes, ext_bytes = _FIXED_BARE.unpack_from(header)
    start = FIXED_BYTES
    remark = None
    if remark_bytes:
        if not 0 < remark_bytes <= len(header) - FIXED_BYTES:
            raise MalformedHeader(f"the remark's length is {remark_bytes}", where="binary header", at=13)
        start += remark_bytes
        (ext_bytes,) = _INT32.unpack_from(header, start - 4)
        remark = _decoded(header[_FIXED.size : start - 4], "the remark", "binary header", _FIXED.size)
    if ext_bytes != len(header) - start:
        raise MalformedHeader(
            f"the fields' length is {ext_bytes}, {len(header) - start} bytes are left",
            where="binary header",
            at=start - 4,
        )
    return code, _LANGUAGE_NAME.get(language, "OTHER"), version, opaque, flag, remark, header[start:]


def encode_binary(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, fields: bytes
) -> bytes:
    """Put a header together; ``fields`` are packed already."""
    number = _LANGUAGE_NUMBER.get(language, _OTHER)
    try:
        if not remark:
            return _FIXED_BARE.pack(code, number, version, opaque, flag, 0, len(fields)) + fields
        text = remark.encode()
        return b"".join(
            (_FIXED.pack(code, number, version, opaque, flag, len(text)), text, _INT32.pack(len(fields)), fields)
        )
    except layout_error:
        raise ConfigurationError(
            f"code {code}, version {version}, opaque {opaque} and flag {flag} do not fit a binary header, which has "
            "16 bits for the first two and 32 for the others",
            next_step="send this request with a JSON header",
        ) from None


def pack_fields(named: Iterable[tuple[str, str]]) -> bytes:
    """Pack names and texts; an empty text is left out, since it would arrive as absent."""
    parts: list[bytes] = []
    for name, text in named:
        if text:
            key, value = name.encode(), text.encode()
            if len(key) > 0x7FFF:  # what its length has room for
                raise LimitExceeded(
                    f"the name of the field {name[:32]}…", where="header", limit=limits.KEY_BYTES, found=len(key)
                )
            parts += (_INT16.pack(len(key)), key, _INT32.pack(len(value)), value)
    return b"".join(parts)


def pack_header(header: Header) -> bytes:
    """Pack a typed header's fields.

    Headers whose texts have the same lengths differ in nothing but the texts, so what stands between them is kept.
    """
    if (by_hand := header.packed()) is not None:
        return by_hand
    plan = plan_of(type(header))
    texts = header.texts()
    if not "".join(texts).isascii():
        return pack_fields(zip(plan.names, texts, strict=True))
    mold = plan.molds.get(tuple(map(len, texts))) or _make_mold(plan, texts)
    cells = mold.copy()
    cells[1::2] = filter(None, texts)
    return "".join(cells).encode("latin-1")


def _make_mold(plan: Plan[H], texts: tuple[str, ...]) -> list[str]:
    """List what stands before each text (name and lengths), with places for the texts between; one byte a character."""
    if len(plan.molds) >= _MOLDS:
        plan.molds.clear()  # rare and harmless: what is still in use is made again
    mold: list[str] = []
    for name, text in zip(plan.names, texts, strict=True):
        if text:
            head = _INT16.pack(len(name)) + name.encode("ascii") + _INT32.pack(len(text))
            mold += (head.decode("latin-1"), "")
    plan.molds[tuple(map(len, texts))] = mold
    return mold


def texts_from_binary(packed: bytes) -> dict[str, str]:
    """Read packed fields as texts, in the order they came."""
    return {
        _decoded(packed[cell.key_start : cell.key_end], "a name", _FIELDS, cell.key_start): _decoded(
            packed[cell.start : cell.end], "a value", _FIELDS, cell.start
        )
        for cell in cells_of(packed)
        if cell.end > cell.start
    }


def _decoded(raw: bytes, what: str, where: str, at: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedHeader(f"{what} is not UTF-8 ({error.reason})", where=where, at=at + error.start) from None


class Cell(NamedTuple):
    """Where one field's name and value lie."""

    key_start: int
    key_end: int
    start: int
    end: int


def cells_of(packed: bytes) -> Iterator[Cell]:
    """Walk over packed fields; every length is checked before it is used."""
    at, end, count = 0, len(packed), 0
    while at < end:
        count += 1
        if count > limits.HEADER_FIELDS:
            raise LimitExceeded("the number of fields", where=_FIELDS, limit=limits.HEADER_FIELDS, at=at)
        if end - at < 2:
            raise MalformedHeader("the fields end within a length", where=_FIELDS, at=at)
        (key_bytes,) = _INT16.unpack_from(packed, at)
        key_end = at + 2 + key_bytes
        if key_bytes < 0 or key_end + 4 > end:
            raise MalformedHeader(f"a name's length is {key_bytes}", where=_FIELDS, at=at)
        if key_bytes > limits.KEY_BYTES:
            raise LimitExceeded("a name", where=_FIELDS, limit=limits.KEY_BYTES, found=key_bytes, at=at)
        (value_bytes,) = _INT32.unpack_from(packed, key_end)
        value_end = key_end + 4 + value_bytes
        if value_bytes < 0 or value_end > end:
            raise MalformedHeader(f"a value's length is {value_bytes}", where=_FIELDS, at=key_end)
        if value_bytes > limits.VALUE_BYTES:
            raise LimitExceeded("a value", where=_FIELDS, limit=limits.VALUE_BYTES, found=value_bytes, at=key_end)
        yield Cell(at + 2, key_end, key_end + 4, value_end)
        at = value_end
