r"""Message traces: the text in which clients record what happened to a message.

A record ends with ``\x02``, its fields are separated by ``\x01``, and the first one is its kind. Java's clients of 4.9
and 5.x write:

    Pub             time region group topic id tags keys store-host body-bytes cost type offset-id success [client-host]
    SubBefore       time region group request id retries keys
    SubAfter        request id cost success keys code [time group]
    EndTransaction  time region group topic id tags keys store-host type transaction state from-check
    Recall          time region group topic id success

Decoding never fails: malformed records and unknown kinds are left out. Absent fields are written as ``null``, as Java
does: its decoder drops empty fields at the end, and then misses them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_MAX_DIGITS = 20
_RECORD_END, _FIELD_END = "\x02", "\x01"
_ABSENT = ("", "null")
_OUTCOMES = {0: "done", 1: "timed out", 2: "raised", 3: "returned nothing", 4: "failed"}
"""The outcome of a handler by its code (Java: ConsumeReturnType)."""
_OUTCOME_CODES = {outcome: code for code, outcome in _OUTCOMES.items()}
_MESSAGE_TYPES = ("normal", "half", "commit", "delayed", "orderly")
"""In the order of Java's MessageType."""
_MESSAGE_TYPE_BY_NUMBER = {str(number): kind for number, kind in enumerate(_MESSAGE_TYPES)}
_COMMIT, _ROLLBACK = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE"
_REGION = "DefaultRegion"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One event in the life of a message; what a record does not contain is None."""

    what: str
    """``sent``, ``received``, ``handled``, ``transaction ended`` or ``recalled``."""
    message_id: str
    at_ms: int | None = None
    group: str | None = None
    topic: str | None = None
    went_well: bool | None = None
    outcome: str | None = None
    took_ms: int | None = None
    attempt: int | None = None
    tags: str | None = None
    keys: str | None = None
    body_bytes: int | None = None
    store_host: str | None = None
    offset_id: str | None = None
    client_host: str | None = None
    request_id: str | None = None
    """Identifies one call of a handler: the same in ``received`` and ``handled``."""
    region: str | None = None
    kind: str | None = None
    """The type of message: ``normal``, ``half`` or ``commit`` of a transaction, ``delayed`` or ``orderly``."""
    was_asked: bool | None = None
    """Of a transaction's end: whether the broker had to check back."""


def decode_traces(text: str) -> Iterator[TraceEvent]:
    """Yield the records of a text."""
    for record in text.split(_RECORD_END):
        kind, *fields = record.split(_FIELD_END)
        if kind in _LAYOUTS:
            with suppress(ValueError):
                if (event := _decode_record(kind, fields)) is not None:
                    yield event


def _decode_record(kind: str, fields: list[str]) -> TraceEvent | None:
    what, required, names = _LAYOUTS[kind]
    if kind == "Pub" and len(fields) == required - 1:
        fields.insert(names.index("offset_id"), "")  # old clients do not write one
    if kind == "SubAfter" and len(fields) < len(names):
        fields = fields[: names.index("at_ms")]  # time and group are written together
    if len(fields) < required:
        return None
    values = {
        name: _PARSERS.get(name, _optional)(text) for name, text in zip(names, fields, strict=False) if name[0] != "_"
    }
    if kind == "EndTransaction":
        values |= {"outcome": _optional(fields[10]), "went_well": fields[10] == _COMMIT}
    return TraceEvent(what=what, **values)


def encode_trace(trace: TraceEvent) -> str:
    """Encode an event as one record."""
    kind, names = _ENCODED[trace.what]
    fields = (_WRITERS[name](trace) if name in _WRITERS else getattr(trace, name) for name in names)
    return _FIELD_END.join((kind, *map(_field_text, fields))) + _RECORD_END


def _field_text(field: object) -> str:
    if field is None or field == "":
        return "null"
    if isinstance(field, bool):
        return "true" if field else "false"
    text = str(field)
    # No message that was sent holds a separator, but the name of a group might.
    return text if text.isprintable() else text.replace(_FIELD_END, " ").replace(_RECORD_END, " ")


def _optional(text: str) -> str | None:
    return None if text in _ABSENT else text


def _parse_int(text: str) -> int:
    # A text that is too long raises ValueError like any other that is not a number.
    return int(text if len(text) <= _MAX_DIGITS else "")


_ORIGIN = ("at_ms", "region", "group")
_MESSAGE = (*_ORIGIN, "topic", "message_id", "tags", "keys", "store_host")
_LAYOUTS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "Pub": ("sent", 13, (*_MESSAGE, "body_bytes", "took_ms", "kind", "offset_id", "went_well")),
    "SubBefore": ("received", 7, (*_ORIGIN, "request_id", "message_id", "attempt", "keys")),
    "SubAfter": (
        "handled",
        5,
        ("request_id", "message_id", "took_ms", "went_well", "keys", "outcome", "at_ms", "group"),
    ),
    "EndTransaction": ("transaction ended", 11, (*_MESSAGE, "kind", "_id", "_state", "was_asked")),
    "Recall": ("recalled", 6, (*_ORIGIN, "topic", "message_id", "went_well")),
}
"""By the kind of a record: the event, how many fields it has at least, and what they are; some are not decoded."""
_ENCODED = {what: (kind, names) for kind, (what, _, names) in _LAYOUTS.items()}


_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("at_ms", "body_bytes", "took_ms"), _parse_int),
    **dict.fromkeys(("went_well", "was_asked"), "true".__eq__),
    "attempt": lambda text: 1 + _parse_int(text),
    "kind": _MESSAGE_TYPE_BY_NUMBER.get,
    "message_id": str,
    "outcome": lambda text: _OUTCOMES.get(_parse_int(text)),
}
"""How a field is read; the others are texts that may be absent."""

_WRITERS: dict[str, Callable[[TraceEvent], object]] = {
    "at_ms": lambda trace: trace.at_ms or 0,
    "region": lambda trace: trace.region or _REGION,
    "body_bytes": lambda trace: trace.body_bytes or 0,
    "took_ms": lambda trace: trace.took_ms or 0,
    "kind": lambda trace: _MESSAGE_TYPES.index(trace.kind) if trace.kind in _MESSAGE_TYPES else 0,
    "attempt": lambda trace: (trace.attempt or 1) - 1,
    "outcome": lambda trace: _OUTCOME_CODES.get(trace.outcome or "", 0 if trace.went_well else 4),
    "_id": lambda trace: trace.message_id,  # Java's transaction id
    "_state": lambda trace: _COMMIT if trace.went_well else _ROLLBACK,
    "was_asked": lambda trace: bool(trace.was_asked),
}
"""How a field is written; the others as they are."""
