"""JSON bodies: their base class, maps with keys that JSON does not have, and how they are decoded and encoded.

The rules are Java's. Properties are written in alphabetical order of their wire names, so fields are declared in that
order. None is left out; a default that must be written is made with `always_written`. Unknown properties are ignored.

`ById` is an object whose keys are numbers. `ByQueue` is an array of pairs of a queue and a value (gson), or an object
whose keys are the JSON text of a queue (older peers); it is written as Java does, with raw objects as keys. Decoding
tries the text as it is, then as standard JSON, then with repaired values: Java accepts a number for a text, enum names
in any case, null anywhere, and old names. Only `MalformedBody` and `LimitExceeded` leave.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, field

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.model import Queue
from steelyard.wire import limits
from steelyard.wire.java_json import DECODE_ERRORS, Int32, Int64, check_json_limits, to_standard_json

T = TypeVar("T")


class JsonBody(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """A JSON body, or an object inside one. Subclasses repeat ``frozen=True, kw_only=True`` for msgspec."""

    legacy_names: ClassVar[dict[str, str]] = {}
    """Old wire names that are decoded as well, and their present names."""


def always_written(value: T, name: str | None = None) -> T:
    """Give a field a default that is written, too; all instances share it."""
    written: T = field(default_factory=lambda: value, name=name)
    return written


K = TypeVar("K")
V_co = TypeVar("V_co", covariant=True)


class QueueRef(JsonBody, frozen=True, kw_only=True):
    """A queue as an object (Java: MessageQueue)."""

    broker_name: str
    queue_id: Int32
    topic: str

    @property
    def queue(self) -> Queue:
        """The queue as a value."""
        return Queue(self.topic, self.broker_name, self.queue_id)

    @classmethod
    def of(cls, queue: Queue) -> "QueueRef":
        """Make the object for a queue."""
        return cls(broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic)


class _FrozenMap(Mapping[K, V_co]):
    """An immutable mapping that keeps its order."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V_co] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, key: K) -> V_co:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries!r})"


class ById(_FrozenMap[int, V_co]):
    """A map by number: broker id, queue id, delay level."""

    __slots__ = ()

    @property
    def plain(self) -> dict[int, V_co]:
        """The same as a dict, for encoders; it is not to be changed."""
        return self._entries


class ByQueue(_FrozenMap[Queue, V_co]):
    """A map by queue."""

    __slots__ = ()


_queue_decoder = msgspec.json.Decoder(QueueRef, strict=False)


def _decode_map(kind: Any, found: object) -> object:
    """Make a `ById` or `ByQueue` of plain JSON values, for msgspec's ``dec_hook``."""
    (value,) = get_args(kind)
    if get_origin(kind) is ById:
        return ById(_convert(found, GenericAlias(dict, (Int64, value))))
    if isinstance(found, dict):
        found = [(_queue_decoder.decode(key), each) for key, each in found.items()]
    pairs = _convert(found, GenericAlias(list, (GenericAlias(tuple, (QueueRef, value)),)))
    return ByQueue({ref.queue: each for ref, each in pairs})


def _convert(found: object, kind: Any) -> Any:
    return msgspec.convert(found, kind, strict=False, str_keys=True, dec_hook=_decode_map)


def _map_encoder(*, quoted_ids: bool) -> msgspec.json.Encoder:
    """Return an encoder for both maps; numbers as keys are quoted or raw."""
    number = b'"%d"' if quoted_ids else b"%d"

    def encode(value: object) -> msgspec.Raw:
        if isinstance(value, ById):
            if set(map(type, value.plain.values())) == {int}:
                # Many times as fast: the offsets of a broker may be 600,000. Nothing but the keys is in quotes.
                text = encoder.encode(value.plain)
                return msgspec.Raw(text if quoted_ids else text.replace(b'"', b""))
            return _object(value, lambda key: number % key)
        if isinstance(value, ByQueue):
            return _object(value, lambda key: encoder.encode(QueueRef.of(key)))
        raise ConfigurationError(
            f"a {type(value).__name__} cannot be written into a body", next_step="make it of the types that bodies have"
        )

    def _object(entries: Mapping[K, object], key_text: Callable[[K], bytes]) -> msgspec.Raw:
        pairs = (b"%b:%b" % (key_text(key), encoder.encode(value)) for key, value in entries.items())
        return msgspec.Raw(b"{%b}" % b",".join(pairs))

    encoder = msgspec.json.Encoder(enc_hook=encode)
    return encoder


_Repair = Callable[[Any], Any]


@lru_cache(maxsize=512)
def _repair_for(kind: Any) -> _Repair:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str:
        return lambda found: msgspec.json.encode(found).decode() if isinstance(found, int | float) else found
    if origin is Annotated:
        return _repair_for(arguments[0])
    if origin in (Union, UnionType):
        return _repair_for(next(part for part in arguments if part is not NoneType))
    if origin is tuple and arguments[-1] is Ellipsis:
        item = _repair_for(arguments[0])
        return lambda found: [item(each) for each in found] if isinstance(found, list) else found
    if origin in (Mapping, dict):
        return _repair_map(_repair_for(arguments[1]))
    if origin is ById:
        return _repair_map(_repair_for(arguments[0]))
    if origin is ByQueue:
        return _repair_queue_map(_repair_for(arguments[0]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _repair_enum(kind)
    if isinstance(kind, type) and issubclass(kind, JsonBody):
        return _repair_object(kind)
    return lambda found: found


def _repair_enum(kind: type[Enum]) -> _Repair:
    names = frozenset(member.value for member in kind)

    def repair(found: Any) -> Any:
        if not isinstance(found, str):
            return found
        return name if (name := found.upper()) in names else None

    return repair


def _repair_object(kind: type[JsonBody]) -> _Repair:
    fields = {field.encode_name: _repair_for(field.type) for field in msgspec.structs.fields(kind)}

    def repair(found: Any) -> Any:
        if not isinstance(found, dict):
            return found
        whole = {}
        for name, value in found.items():
            wire_name = name if name in fields else kind.legacy_names.get(name)
            if wire_name in fields and (value := fields[wire_name](value)) is not None:
                whole[wire_name] = value
        return whole

    return repair


def _repair_map(value: _Repair) -> _Repair:
    return lambda found: {key: value(each) for key, each in found.items()} if isinstance(found, dict) else found


def _repair_queue_map(value: _Repair) -> _Repair:
    by_text, key = _repair_map(value), _repair_for(QueueRef)

    def repair_pair(pair: Any) -> Any:
        return [key(pair[0]), value(pair[1])] if isinstance(pair, list) and len(pair) == 2 else pair

    return lambda found: [repair_pair(pair) for pair in found] if isinstance(found, list) else by_text(found)


# Peers that need repairs are small scripts; plain values take up to 20 times the memory of their text.
_MAX_REPAIRED_BYTES = 1024 * 1024

_BYTE_POSITION = re.compile(r" \(byte (\d+)\)")

_raw_id_encoder = _map_encoder(quoted_ids=False)
_quoted_id_encoder = _map_encoder(quoted_ids=True)


def decode_body(kind: type[T], data: bytes) -> T:
    """Decode a body of the given type, however the peer wrote it."""
    return _decode(kind, data, limits.JSON_MARKS, limits.FRAME_BYTES, _MAX_REPAIRED_BYTES)


def decode_request_body(
    kind: type[T], data: bytes, *, max_bytes: int = limits.REQUEST_BYTES, max_marks: int = limits.JSON_MARKS
) -> T:
    """Decode the body of a request, within the limits of a server."""
    if len(data) > max_bytes:
        raise LimitExceeded("size in bytes", where=_body_name(kind), limit=max_bytes, found=len(data))
    return _decode(kind, data, max_marks, limits.REQUEST_TOKENS, limits.REQUEST_REPAIRED_BYTES)


def _body_name(kind: object) -> str:
    return f"body of {getattr(kind, '__name__', kind)}"


def _decode(kind: type[T], data: bytes, max_marks: int, max_tokens: int, max_repaired_bytes: int) -> T:
    where = _body_name(kind)
    check_json_limits(data, where, max_marks=max_marks)
    decoder = _decoder_for(kind)
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        what, misfit = str(error), isinstance(error, msgspec.ValidationError)
    standard = to_standard_json(data, where, max_tokens=max_tokens)
    if standard is not data:
        try:
            return decoder.decode(standard)
        except DECODE_ERRORS as error:
            what, misfit = str(error), isinstance(error, msgspec.ValidationError)
    if misfit and len(standard) <= max_repaired_bytes:
        try:
            wanted: Any = kind  # mypy does not take a type for hashable
            plain = _repair_for(wanted)(msgspec.json.decode(standard))
            return msgspec.convert(plain, kind, strict=False, str_keys=True, dec_hook=_decode_map)
        except DECODE_ERRORS as error:
            what = str(error)
    # The position is only useful if the text is the one that was received.
    place = _BYTE_POSITION.search(what) if standard is data else None
    raise MalformedBody(_BYTE_POSITION.sub("", what), where=where, at=int(place[1]) if place else None)


def encode_body(body: object, *, quoted_ids: bool = False) -> bytes:
    """Encode a body as Java does: compact, alphabetical, numbers as keys without quotes.

    ``quoted_ids`` is for routes to clients of version 401 and above, and to those that request standard JSON.
    """
    try:
        return (_quoted_id_encoder if quoted_ids else _raw_id_encoder).encode(body)
    except (TypeError, *DECODE_ERRORS) as error:
        raise ConfigurationError(
            f"a {type(body).__name__} cannot be written as a body: {error}",
            next_step="make it of the types that bodies have, and of text that is fit for UTF-8",
        ) from None


_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def _decoder_for(kind: type[T]) -> msgspec.json.Decoder[T]:
    known = _decoders.get(kind)
    return known or _decoders.setdefault(kind, msgspec.json.Decoder(kind, strict=False, dec_hook=_decode_map))
