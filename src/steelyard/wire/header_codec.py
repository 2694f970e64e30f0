"""Typed headers, and how frames carry their fields: as named texts, in JSON (the binary form is in binary_header.py).

On the wire a header is a map of text to text: numbers are decimal, booleans ``true`` and ``false``, absent fields are
left out. In the program it is a frozen value with real types, declared once (wire/headers/).
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from steelyard.errors import LimitExceeded, MalformedHeader
from steelyard.wire import limits
from steelyard.wire.java_json import DECODE_ERRORS, count_quotes

# A shorter header cannot exceed the limits of fields and values; hot ones are far shorter.
SMALL_HEADER_BYTES = 1024
# From this size on the fields are counted before they are decoded.
_LARGE_HEADER_BYTES = 65_536

_untyped_decoder = msgspec.json.Decoder(dict[str, object])

H = TypeVar("H", bound="Header")


class Header(Struct, frozen=True, gc=False, rename="camel"):
    """The base of all headers. Fields are str, Int32, Int64 or bool; those that may be absent have a default.

    >>> from steelyard.wire.java_json import Int32
    >>> class Ask(Header):
    ...     consumer_group: str
    ...     queue_id: Int32
    ...     force: bool | None = None
    >>> Ask("billing", 3, True).texts()
    ('billing', '3', 'true')
    >>> header_from_texts(Ask, {"consumerGroup": "billing", "queueId": "3"})
    Ask(consumer_group='billing', queue_id=3, force=None)
    """

    def texts(self) -> tuple[str, ...]:
        """Return the fields as texts, in the order of their declaration; an empty text is absent.

        Hot headers override this by hand: a third of the time, the same result.
        """
        return tuple(map(_field_text, astuple(self)))

    def packed(self) -> bytes | None:
        """Return the fields packed for a binary header, or None for the general way.

        Hot headers override this by hand, too: a broker makes one for every message.
        """
        return None


def _field_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


class HeaderLayout(NamedTuple, Generic[H]):
    """What is known of a header class before any value; one entry per field, in the order of their declaration."""

    kind: type[H]
    attributes: tuple[str, ...]
    """Names in Python."""
    names: tuple[str, ...]
    """Names on the wire."""
    types: tuple[type, ...]
    """str, int or bool."""
    safe_digits: tuple[int, ...]
    """How many digits always fit: 9 in an Int32, 18 in an Int64."""
    defaults: tuple[object, ...]
    """msgspec.NODEFAULT if the field is required."""
    text_struct: type[Struct]
    """The same fields with texts as values: JSON is encoded from it."""
    binary_templates: dict[tuple[int, ...], list[str]]
    """What binary headers have between the values, by the lengths of the values (binary_header.py)."""
    decoder: "msgspec.json.Decoder[H]"


@cache
def header_layout(kind: type[Header]) -> HeaderLayout[Any]:
    """Return the layout of a header class, made once."""
    described = msgspec.inspect.type_info(kind)
    assert isinstance(described, msgspec.inspect.StructType)
    fields = described.fields
    shapes = [getattr(f.type, "types", (f.type,))[0] for f in fields]  # an optional field is a union with None last
    twin = msgspec.defstruct(
        f"{kind.__name__}Texts",
        [(f.name, str, "") for f in fields],
        rename={f.name: f.encode_name for f in fields},
        omit_defaults=True,
        frozen=True,
        gc=False,
    )
    return HeaderLayout(
        kind,
        attributes=tuple(f.name for f in fields),
        names=tuple(f.encode_name for f in fields),
        types=tuple(_python_type(shape) for shape in shapes),
        safe_digits=tuple(len(str(getattr(shape, "le", None) or 0)) - 1 for shape in shapes),
        defaults=tuple(f.default for f in fields),
        text_struct=twin,
        binary_templates={},
        decoder=msgspec.json.Decoder(kind, strict=False),
    )


def _python_type(shape: object) -> type:
    if isinstance(shape, msgspec.inspect.StrType):
        return str
    return bool if isinstance(shape, msgspec.inspect.BoolType) else int


def _check_field(name: str, text: str) -> None:
    """Raise LimitExceeded if the name or the value of a field is too long."""
    if len(name) > limits.KEY_BYTES or len(name.encode()) > limits.KEY_BYTES:
        raise LimitExceeded(f"the name of the field {name[:32]}…", where="header", limit=limits.KEY_BYTES)
    if len(text) > limits.VALUE_BYTES or len(text.encode()) > limits.VALUE_BYTES:
        raise LimitExceeded(f"the field {name}", where="header", limit=limits.VALUE_BYTES)


def texts_from_json(raw: Raw) -> dict[str, str]:
    """Decode the fields of a JSON header as texts. Numbers and booleans become texts; null is absent."""
    if len(raw) > _LARGE_HEADER_BYTES and count_quotes(bytes(raw)) > 4 * limits.HEADER_FIELDS:
        # Each has a name at least, so there are too many: do not decode them.
        raise LimitExceeded("the number of fields", where="header", limit=limits.HEADER_FIELDS)
    try:
        values = _untyped_decoder.decode(raw)
    except DECODE_ERRORS as error:
        raise MalformedHeader(f"extFields cannot be read ({error})", where="JSON header") from None
    if len(values) > limits.HEADER_FIELDS:
        raise LimitExceeded("the number of fields", where="header", limit=limits.HEADER_FIELDS, found=len(values))
    texts: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, list | dict):
            raise MalformedHeader(
                f"the field {name[:64]!r} is a {type(value).__name__}, not a text", where="JSON header"
            )
        if value is not None:
            texts[name] = text = _field_text(value)
            _check_field(name, text)
    return texts


def _parse_int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # msgspec says what is wrong with it


def _parse_bool(text: str) -> bool | str:
    word = text.lower()
    return word in ("true", "1") if word != "null" else text  # msgspec takes that word for None, from JSON as well


_PARSERS: dict[type, Callable[[str], object]] = {str: str, int: _parse_int, bool: _parse_bool}


def header_from_texts(kind: type[H], texts: Mapping[str, str]) -> H:
    """Decode a typed header from named texts; the error names a missing or unreadable field.

    Unknown fields are ignored. A boolean is true if it says so in any case; anything else is false, as in Java. A
    number or a boolean with an empty text is absent.
    """
    layout = header_layout(kind)
    values: dict[str, object] = {}
    for name, wanted, default in zip(layout.names, layout.types, layout.defaults, strict=True):
        text = texts.get(name)
        if text or (text is not None and wanted is str):
            values[name] = _PARSERS[wanted](text)
        elif default is msgspec.NODEFAULT:
            raise MalformedHeader(f"the field {name} is missing", where=kind.__name__)
    try:
        return msgspec.convert(values, kind, strict=False)
    except DECODE_ERRORS as error:
        raise MalformedHeader(str(error), where=kind.__name__) from None
