"""The JSON header type, as Java writes it: alphabetical, compact, all fields of the request in ``extFields``.

We always write ``extFields``, empty if need be: some servers fail without. We leave out ``serializeTypeCurrentRPC``,
which says that JSON is JSON.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from steelyard.errors import MalformedHeader
from steelyard.wire.codes import LANGUAGES
from steelyard.wire.numbers import UNREADABLE, Int32

__all__ = ["decode_json", "encode_json"]

_NO_FIELDS = Raw(b"{}")
_NULL = b"null"


class _Read(Struct, frozen=True, gc=False, rename="camel"):
    """A header to be read; its fields stay packed until somebody asks for them."""

    code: Int32
    ext_fields: Raw = _NO_FIELDS
    flag: Int32 = 0
    language: str | int | None = None
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _Written(Struct, frozen=True, gc=False, rename="camel"):
    """A header to be written: only the remark may be left out."""

    code: int
    ext_fields: Struct | Mapping[str, str] | Raw
    flag: int
    language: str
    opaque: int
    remark: str | UnsetType
    version: int


_decode = msgspec.json.Decoder(_Read, strict=False).decode
_encode = msgspec.json.Encoder().encode


def decode_json(header: bytes) -> tuple[int, str, int, int, int, str | None, Raw]:
    """Take a header apart: code, language, version, opaque, flag, remark, and the fields still packed."""
    try:
        read = _decode(header)
    except UNREADABLE as error:
        raise MalformedHeader(str(error), where="JSON header") from None
    language, fields = read.language, read.ext_fields
    if not isinstance(language, str):
        known = language is not None and 0 <= language < len(LANGUAGES)
        language = LANGUAGES[language] if language is not None and known else "OTHER"
    if len(fields) == len(_NULL) and bytes(fields) == _NULL:
        fields = _NO_FIELDS
    return read.code, language, read.version, read.opaque, read.flag, read.remark, fields


def encode_json(
    code: int,
    language: str,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    fields: Struct | Mapping[str, str] | Raw,
) -> bytes:
    """Put a header together.

    >>> encode_json(105, "JAVA", 479, 7, 0, None, {"topic": "T"})
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"version":479}'
    """
    return _encode(_Written(code, fields, flag, language, opaque, UNSET if remark is None else remark, version))
