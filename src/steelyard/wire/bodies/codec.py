"""Reading and writing a body of a known type.

Reading tries the text as it is first, which is right for nearly every body. Only when that fails is the text made
standard (json_text.py) and tried again, and only when its values then do not fit are they mended (mending.py), which
takes many times the body's memory and is therefore for bodies of a sane size. Whatever happens, only `MalformedBody`
and `LimitExceeded` leave.

`decode_request` is for servers. Text that comes from anybody, and that all others wait for, has closer limits.
"""

import re
from typing import Any, TypeVar

import msgspec

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.wire import limits
from steelyard.wire.bodies.mending import mended
from steelyard.wire.json_text import check_shape, standard_json
from steelyard.wire.maps import map_writer, read_map
from steelyard.wire.numbers import UNREADABLE

__all__ = ["decode_body", "decode_request", "encode_body"]

T = TypeVar("T")

# Peers that need mending are small scripts; plain values take up to 20 times the memory of their text.
_MENDED_BYTES = 1024 * 1024

_BYTE = re.compile(r" \(byte (\d+)\)")

_with_raw_ids = map_writer(quoted_ids=False)
_with_quoted_ids = map_writer(quoted_ids=True)


def decode_body(kind: type[T], data: bytes) -> T:
    """Read a body of the given type, however the peer wrote it.

    >>> from steelyard.wire.bodies.routes import BrokerGroup
    >>> decode_body(BrokerGroup, b'{"brokerName":"broker-a","brokerAddrs":{0:"127.0.0.1:10911"}}').addresses
    ById({0: '127.0.0.1:10911'})
    >>> decode_body(BrokerGroup, b'{"brokerName":')
    Traceback (most recent call last):
    steelyard.errors.MalformedBody: body of BrokerGroup: Input data was truncated
    """
    return _decoded(kind, data, limits.JSON_MARKS, limits.FRAME_BYTES, _MENDED_BYTES)


def decode_request(
    kind: type[T], data: bytes, *, most_bytes: int = limits.REQUEST_BYTES, most_marks: int = limits.JSON_MARKS
) -> T:
    """Read the body of a request, with no more work than a server has for one.

    >>> from steelyard.wire.bodies.routes import BrokerGroup
    >>> decode_request(BrokerGroup, b" " * 65_537)
    Traceback (most recent call last):
    steelyard.errors.LimitExceeded: body of BrokerGroup: size in bytes is 65537, the limit is 65536
    """
    if len(data) > most_bytes:
        raise LimitExceeded("size in bytes", where=_name(kind), limit=most_bytes, found=len(data))
    return _decoded(kind, data, most_marks, limits.REQUEST_TOKENS, limits.REQUEST_MENDED_BYTES)


def _name(kind: object) -> str:
    return f"body of {getattr(kind, '__name__', kind)}"


def _decoded(kind: type[T], data: bytes, most_marks: int, most_tokens: int, mended_bytes: int) -> T:
    where = _name(kind)
    check_shape(data, where, most_marks=most_marks)
    decoder = _decoder(kind)
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        what, misfit = str(error), isinstance(error, msgspec.ValidationError)
    standard = standard_json(data, where, most_tokens=most_tokens)
    if standard is not data:
        try:
            return decoder.decode(standard)
        except UNREADABLE as error:
            what, misfit = str(error), isinstance(error, msgspec.ValidationError)
    if misfit and len(standard) <= mended_bytes:
        try:
            plain = mended(msgspec.json.decode(standard), kind)
            return msgspec.convert(plain, kind, strict=False, str_keys=True, dec_hook=read_map)
        except UNREADABLE as error:
            what = str(error)
    # Where in the text that was read is only worth saying if that is the text that came.
    place = _BYTE.search(what) if standard is data else None
    raise MalformedBody(_BYTE.sub("", what), where=where, at=int(place[1]) if place else None)


def encode_body(body: object, *, quoted_ids: bool = False) -> bytes:
    """Write a body as Java does: compact, alphabetical, numbers as keys without quotes.

    ``quoted_ids`` is for routes to callers of version 401 and above, and to those that ask for standard JSON.

    >>> from steelyard.wire.bodies.routes import BrokerGroup
    >>> from steelyard.wire.maps import ById
    >>> group = BrokerGroup(broker_name="broker-a", addresses=ById({0: "127.0.0.1:10911"}))
    >>> encode_body(group)
    b'{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a"}'
    >>> encode_body(group, quoted_ids=True)
    b'{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a"}'
    """
    try:
        return (_with_quoted_ids if quoted_ids else _with_raw_ids).encode(body)
    except (TypeError, *UNREADABLE) as error:
        raise ConfigurationError(
            f"a {type(body).__name__} cannot be written as a body: {error}",
            next_step="make it of the types that bodies have, and of text that is fit for UTF-8",
        ) from None


_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    known = _decoders.get(kind)
    return known or _decoders.setdefault(kind, msgspec.json.Decoder(kind, strict=False, dec_hook=read_map))
