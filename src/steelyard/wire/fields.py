"""Typed headers and the named texts that a frame carries for them.

On the wire a header is a map of text to text: numbers are decimal, truths are ``true`` and ``false``, what is absent is
left out. In the program it is a frozen value with real types, declared once (see wire/headers/). This file is the
bridge between the two, for any header; nothing in it knows a particular request.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from steelyard.errors import LimitExceeded, MalformedHeader
from steelyard.wire import limits
from steelyard.wire.json_text import count_quotes
from steelyard.wire.numbers import UNREADABLE

__all__ = [
    "Header",
    "Plan",
    "check_field",
    "from_json",
    "from_texts",
    "plan_of",
    "texts_from_json",
]

# A shorter header cannot break the limits on fields and values; hot ones are far below it.
_SMALL = 1024
# From here on the fields are counted before they are read.
_LARGE = 65_536

_untyped = msgspec.json.Decoder(dict[str, object])

H = TypeVar("H", bound="Header")


class Header(Struct, frozen=True, gc=False, rename="camel"):
    """What every header is: fields of str, Int32, Int64 or bool; those that may be absent have a default.

    >>> from steelyard.wire.numbers import Int32
    >>> class Ask(Header):
    ...     consumer_group: str
    ...     queue_id: Int32
    ...     force: bool | None = None
    >>> Ask("billing", 3, True).texts()
    ('billing', '3', 'true')
    >>> from_texts(Ask, {"consumerGroup": "billing", "queueId": "3"})
    Ask(consumer_group='billing', queue_id=3, force=None)
    """

    def texts(self) -> tuple[str, ...]:
        """Return the fields as the wire has them, in the order declared; an empty text is absent.

        Hot headers write this out by hand: a third of the time, the same result.
        """
        return tuple(map(_text, astuple(self)))

    def packed(self) -> bytes | None:
        """Return the fields packed for a binary header, or None to have it done the general way.

        The hot headers write this out by hand as well: a broker makes one for every message.
        """
        return None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


class Plan(NamedTuple, Generic[H]):
    """What is known of a kind of header before any value is seen; one entry a field, in the order declared."""

    kind: type[H]
    attributes: tuple[str, ...]
    """Names in Python."""
    names: tuple[str, ...]
    """Names on the wire."""
    types: tuple[type, ...]
    """str, int or bool."""
    digits: tuple[int, ...]
    """How many digits fit for sure: 9 in an Int32, 18 in an Int64."""
    defaults: tuple[object, ...]
    """msgspec.NODEFAULT where a peer must send it."""
    twin: type[Struct]
    """The same fields with texts for values: JSON is written from it in one go."""
    molds: dict[tuple[int, ...], list[str]]
    """What binary headers have between the values, by the lengths of the values: see wire/binary_header.py."""
    decoder: "msgspec.json.Decoder[H]"


_plans: dict[type[Header], Plan[Any]] = {}


def plan_of(kind: type[H]) -> Plan[H]:
    """Return the plan of a kind of header. Made once and kept: there are only as many as there are kinds."""
    return _plans.get(kind) or _plans.setdefault(kind, _make_plan(kind))


def _make_plan(kind: type[H]) -> Plan[H]:
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
    return Plan(
        kind,
        attributes=tuple(f.name for f in fields),
        names=tuple(f.encode_name for f in fields),
        types=tuple(_python_type(shape) for shape in shapes),
        digits=tuple(len(str(getattr(shape, "le", None) or 0)) - 1 for shape in shapes),
        defaults=tuple(f.default for f in fields),
        twin=twin,
        molds={},
        decoder=msgspec.json.Decoder(kind, strict=False),
    )


def _python_type(shape: object) -> type:
    if isinstance(shape, msgspec.inspect.StrType):
        return str
    return bool if isinstance(shape, msgspec.inspect.BoolType) else int


def check_field(name: str, text: str) -> None:
    """Refuse a field whose name or value is longer than its limit."""
    if len(name) > limits.KEY_BYTES or len(name.encode()) > limits.KEY_BYTES:
        raise LimitExceeded(f"the name of the field {name[:32]}…", where="header", limit=limits.KEY_BYTES)
    if len(text) > limits.VALUE_BYTES or len(text.encode()) > limits.VALUE_BYTES:
        raise LimitExceeded(f"the field {name}", where="header", limit=limits.VALUE_BYTES)


def texts_from_json(raw: Raw) -> dict[str, str]:
    """Read the fields of a JSON header as texts. Numbers and truths of sloppy peers become texts; null is absent."""
    if len(raw) > _LARGE and count_quotes(bytes(raw)) > 4 * limits.HEADER_FIELDS:
        # Each has a name at least: more are not worth a look at each.
        raise LimitExceeded("the number of fields", where="header", limit=limits.HEADER_FIELDS)
    try:
        values = _untyped.decode(raw)
    except UNREADABLE as error:
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
            texts[name] = text = _text(value)
            check_field(name, text)
    return texts


def from_json(kind: type[H], raw: Raw) -> H:
    """Read a typed header from the fields of a JSON header."""
    if len(raw) <= _SMALL:
        try:
            return plan_of(kind).decoder.decode(raw)
        except UNREADABLE:
            pass  # sloppy or wrong: the careful way below tells which
    return from_texts(kind, texts_from_json(raw))


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # msgspec tells what is wrong with it


def _truth(text: str) -> bool | str:
    word = text.lower()
    return word in ("true", "1") if word != "null" else text  # msgspec takes that word for None, from JSON as well


_READ: dict[type, Callable[[str], object]] = {str: str, int: _number, bool: _truth}


def from_texts(kind: type[H], texts: Mapping[str, str]) -> H:
    """Read a typed header from named texts; a missing or unreadable field is named in the error.

    Unknown fields are ignored. A truth is true if it says so in any case; anything else is false, as in Java. A number
    or a truth without a text is absent.
    """
    plan = plan_of(kind)
    values: dict[str, object] = {}
    for name, wanted, default in zip(plan.names, plan.types, plan.defaults, strict=True):
        text = texts.get(name)
        if text or (text is not None and wanted is str):
            values[name] = _READ[wanted](text)
        elif default is msgspec.NODEFAULT:
            raise MalformedHeader(f"the field {name} is missing", where=kind.__name__)
    try:
        return msgspec.convert(values, kind, strict=False)
    except UNREADABLE as error:
        raise MalformedHeader(str(error), where=kind.__name__) from None
