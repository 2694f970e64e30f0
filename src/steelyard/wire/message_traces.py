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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["TraceEvent", "decode_traces", "encode_trace"]

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
    r"""Yield the records of a text.

    >>> [trace] = decode_traces("SubAfter\x01R1\x01AC11\x0112\x01true\x01k1\x010\x01\x02nonsense\x02")
    >>> trace.what, trace.message_id, trace.took_ms, trace.went_well
    ('handled', 'AC11', 12, True)
    """
    for record in text.split(_RECORD_END):
        kind, *fields = record.split(_FIELD_END)
        read = _DECODERS.get(kind)
        if read is not None:
            try:
                yield read(fields)
            except (IndexError, ValueError):
                continue


def _decode_sent(fields: Sequence[str]) -> TraceEvent:
    # Old clients do not write an offset id.
    offset_id, success = (None, fields[11]) if len(fields) == 12 else (_optional(fields[11]), fields[12])
    return TraceEvent(
        what="sent",
        at_ms=_parse_int(fields[0]),
        group=_optional(fields[2]),
        topic=_optional(fields[3]),
        message_id=fields[4],
        tags=_optional(fields[5]),
        keys=_optional(fields[6]),
        store_host=_optional(fields[7]),
        body_bytes=_parse_int(fields[8]),
        took_ms=_parse_int(fields[9]),
        kind=_MESSAGE_TYPE_BY_NUMBER.get(fields[10]),
        offset_id=offset_id,
        went_well=success == "true",
        region=_optional(fields[1]),
    )


def _decode_received(fields: Sequence[str]) -> TraceEvent:
    return TraceEvent(
        what="received",
        at_ms=_parse_int(fields[0]),
        group=_optional(fields[2]),
        request_id=_optional(fields[3]),
        message_id=fields[4],
        attempt=1 + _parse_int(fields[5]),
        keys=_optional(fields[6]),
        region=_optional(fields[1]),
    )


def _decode_handled(fields: Sequence[str]) -> TraceEvent:
    has_time = len(fields) > 7
    return TraceEvent(
        what="handled",
        request_id=_optional(fields[0]),
        message_id=fields[1],
        took_ms=_parse_int(fields[2]),
        went_well=fields[3] == "true",
        keys=_optional(fields[4]),
        outcome=_OUTCOMES.get(_parse_int(fields[5])) if len(fields) > 5 else None,
        at_ms=_parse_int(fields[6]) if has_time else None,
        group=_optional(fields[7]) if has_time else None,
    )


def _decode_transaction_end(fields: Sequence[str]) -> TraceEvent:
    return TraceEvent(
        what="transaction ended",
        at_ms=_parse_int(fields[0]),
        group=_optional(fields[2]),
        topic=_optional(fields[3]),
        message_id=fields[4],
        tags=_optional(fields[5]),
        keys=_optional(fields[6]),
        store_host=_optional(fields[7]),
        kind=_MESSAGE_TYPE_BY_NUMBER.get(fields[8]),
        outcome=_optional(fields[10]),
        went_well=fields[10] == _COMMIT,
        was_asked=fields[11] == "true" if len(fields) > 11 else None,
        region=_optional(fields[1]),
    )


def _decode_recalled(fields: Sequence[str]) -> TraceEvent:
    return TraceEvent(
        what="recalled",
        at_ms=_parse_int(fields[0]),
        group=_optional(fields[2]),
        topic=_optional(fields[3]),
        message_id=fields[4],
        went_well=fields[5] == "true",
        region=_optional(fields[1]),
    )


_DECODERS: dict[str, Callable[[Sequence[str]], TraceEvent]] = {
    "Pub": _decode_sent,
    "SubBefore": _decode_received,
    "SubAfter": _decode_handled,
    "EndTransaction": _decode_transaction_end,
    "Recall": _decode_recalled,
}


def encode_trace(trace: TraceEvent) -> str:
    r"""Encode an event as one record; all but ``recalled`` can be encoded.

    >>> event = TraceEvent(what="received", message_id="AC11", at_ms=7, group="billing", request_id="R1", attempt=1)
    >>> encode_trace(event)
    'SubBefore\x017\x01DefaultRegion\x01billing\x01R1\x01AC11\x010\x01null\x02'
    """
    return _FIELD_END.join(map(_field_text, _ENCODERS[trace.what](trace))) + _RECORD_END


def _encode_sent(trace: TraceEvent) -> tuple[object, ...]:
    return (
        *("Pub", trace.at_ms or 0, trace.region or _REGION, trace.group, trace.topic, trace.message_id, trace.tags),
        *(trace.keys, trace.store_host, trace.body_bytes or 0, trace.took_ms or 0, _message_type_number(trace)),
        *(trace.offset_id, trace.went_well),
    )


def _encode_received(trace: TraceEvent) -> tuple[object, ...]:
    retries = (trace.attempt or 1) - 1
    return (
        *("SubBefore", trace.at_ms or 0, trace.region or _REGION, trace.group, trace.request_id, trace.message_id),
        *(retries, trace.keys),
    )


def _encode_handled(trace: TraceEvent) -> tuple[object, ...]:
    code = _OUTCOME_CODES.get(trace.outcome or "", 0 if trace.went_well else 4)
    return (
        *("SubAfter", trace.request_id, trace.message_id, trace.took_ms or 0, trace.went_well, trace.keys, code),
        *(trace.at_ms or 0, trace.group),
    )


def _encode_transaction_end(trace: TraceEvent) -> tuple[object, ...]:
    # Java's transaction id is the id of the message.
    return (
        *("EndTransaction", trace.at_ms or 0, trace.region or _REGION, trace.group, trace.topic, trace.message_id),
        *(trace.tags, trace.keys, trace.store_host, _message_type_number(trace), trace.message_id),
        *(_COMMIT if trace.went_well else _ROLLBACK, bool(trace.was_asked)),
    )


_ENCODERS: dict[str, Callable[[TraceEvent], tuple[object, ...]]] = {
    "sent": _encode_sent,
    "received": _encode_received,
    "handled": _encode_handled,
    "transaction ended": _encode_transaction_end,
}


def _field_text(field: object) -> str:
    if field is None or field == "":
        return "null"
    if isinstance(field, bool):
        return "true" if field else "false"
    text = str(field)
    # No message that was sent holds a separator, but the name of a group might.
    return text if text.isprintable() else text.replace(_FIELD_END, " ").replace(_RECORD_END, " ")


def _message_type_number(trace: TraceEvent) -> int:
    return _MESSAGE_TYPES.index(trace.kind) if trace.kind in _MESSAGE_TYPES else 0


def _optional(text: str) -> str | None:
    return None if text in _ABSENT else text


def _parse_int(text: str) -> int:
    # A text that is too long raises ValueError like any other that is not a number.
    return int(text if len(text) <= _MAX_DIGITS else "")
