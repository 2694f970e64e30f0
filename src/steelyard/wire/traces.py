r"""What became of a message, as clients write it down: one text with records in it.

A record ends with ``\x02``, its fields are separated by ``\x01``, and the first of them says of which kind it is. What
Java's clients write, 4.9 and 5.x:

    Pub             time region group topic id tags keys store-host body-bytes cost type offset-id success [client-host]
    SubBefore       time region group request id retries keys
    SubAfter        request id cost success keys code [time group]
    EndTransaction  time region group topic id tags keys store-host type transaction state from-check
    Recall          time region group topic id success

Reading never fails: a record that is not as it should be is left out, and a kind that nobody knows too. Writing says
``null`` where nothing is known, as Java does: its reader drops empty fields at the end, and then misses them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Trace", "read_traces", "write_trace"]

_MOST_DIGITS = 20
_END, _NEXT = "\x02", "\x01"
_NOTHING = ("", "null")
_OUTCOMES = {0: "done", 1: "timed out", 2: "raised", 3: "returned nothing", 4: "failed"}
"""What a member's code says of how handling went (Java: ConsumeReturnType)."""
_CODES = {outcome: code for code, outcome in _OUTCOMES.items()}
_KINDS_OF_MESSAGES = ("normal", "half", "commit", "delayed", "orderly")
"""In the order of Java's MessageType."""
_BY_NUMBER = {str(number): kind for number, kind in enumerate(_KINDS_OF_MESSAGES)}
_COMMIT, _ROLLBACK = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE"
_REGION = "DefaultRegion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One thing that happened to a message; what a record does not say is None."""

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
    """What a member calls one call of its handler: the same in ``received`` and ``handled``."""
    region: str | None = None
    kind: str | None = None
    """What is sent: ``normal``, ``half`` or ``commit`` of a transaction, ``delayed`` or ``orderly``."""
    was_asked: bool | None = None
    """Of a transaction's end: whether its broker had to ask for it."""


def read_traces(text: str) -> Iterator[Trace]:
    r"""Yield the records of a text.

    >>> [trace] = read_traces("SubAfter\x01R1\x01AC11\x0112\x01true\x01k1\x010\x01\x02nonsense\x02")
    >>> trace.what, trace.message_id, trace.took_ms, trace.went_well
    ('handled', 'AC11', 12, True)
    """
    for record in text.split(_END):
        kind, *fields = record.split(_NEXT)
        read = _KINDS.get(kind)
        if read is not None:
            try:
                yield read(fields)
            except (IndexError, ValueError):
                continue


def _sent(fields: Sequence[str]) -> Trace:
    # Old clients wrote no id of the place before whether it went well.
    offset_id, success = (None, fields[11]) if len(fields) == 12 else (_known(fields[11]), fields[12])
    return Trace(
        what="sent",
        at_ms=_number(fields[0]),
        group=_known(fields[2]),
        topic=_known(fields[3]),
        message_id=fields[4],
        tags=_known(fields[5]),
        keys=_known(fields[6]),
        store_host=_known(fields[7]),
        body_bytes=_number(fields[8]),
        took_ms=_number(fields[9]),
        kind=_BY_NUMBER.get(fields[10]),
        offset_id=offset_id,
        went_well=success == "true",
        region=_known(fields[1]),
    )


def _received(fields: Sequence[str]) -> Trace:
    return Trace(
        what="received",
        at_ms=_number(fields[0]),
        group=_known(fields[2]),
        request_id=_known(fields[3]),
        message_id=fields[4],
        attempt=1 + _number(fields[5]),
        keys=_known(fields[6]),
        region=_known(fields[1]),
    )


def _handled(fields: Sequence[str]) -> Trace:
    has_time = len(fields) > 7
    return Trace(
        what="handled",
        request_id=_known(fields[0]),
        message_id=fields[1],
        took_ms=_number(fields[2]),
        went_well=fields[3] == "true",
        keys=_known(fields[4]),
        outcome=_OUTCOMES.get(_number(fields[5])) if len(fields) > 5 else None,
        at_ms=_number(fields[6]) if has_time else None,
        group=_known(fields[7]) if has_time else None,
    )


def _ended(fields: Sequence[str]) -> Trace:
    return Trace(
        what="transaction ended",
        at_ms=_number(fields[0]),
        group=_known(fields[2]),
        topic=_known(fields[3]),
        message_id=fields[4],
        tags=_known(fields[5]),
        keys=_known(fields[6]),
        store_host=_known(fields[7]),
        kind=_BY_NUMBER.get(fields[8]),
        outcome=_known(fields[10]),
        went_well=fields[10] == _COMMIT,
        was_asked=fields[11] == "true" if len(fields) > 11 else None,
        region=_known(fields[1]),
    )


def _recalled(fields: Sequence[str]) -> Trace:
    return Trace(
        what="recalled",
        at_ms=_number(fields[0]),
        group=_known(fields[2]),
        topic=_known(fields[3]),
        message_id=fields[4],
        went_well=fields[5] == "true",
        region=_known(fields[1]),
    )


_KINDS: dict[str, Callable[[Sequence[str]], Trace]] = {
    "Pub": _sent,
    "SubBefore": _received,
    "SubAfter": _handled,
    "EndTransaction": _ended,
    "Recall": _recalled,
}


# -- writing ----------------------------------------------------------------------------------------------------------


def write_trace(trace: Trace) -> str:
    r"""Write one record, as Java's clients of 4.9 and 5.x write it: of a sending, a receiving, a handling or an end.

    >>> write_trace(Trace(what="received", message_id="AC11", at_ms=7, group="billing", request_id="R1", attempt=1))
    'SubBefore\x017\x01DefaultRegion\x01billing\x01R1\x01AC11\x010\x01null\x02'
    """
    return _NEXT.join(map(_text, _WRITERS[trace.what](trace))) + _END


def _write_sent(trace: Trace) -> tuple[object, ...]:
    return (
        *("Pub", trace.at_ms or 0, trace.region or _REGION, trace.group, trace.topic, trace.message_id, trace.tags),
        *(trace.keys, trace.store_host, trace.body_bytes or 0, trace.took_ms or 0, _kind_number(trace)),
        *(trace.offset_id, trace.went_well),
    )


def _write_received(trace: Trace) -> tuple[object, ...]:
    retries = (trace.attempt or 1) - 1
    return (
        *("SubBefore", trace.at_ms or 0, trace.region or _REGION, trace.group, trace.request_id, trace.message_id),
        *(retries, trace.keys),
    )


def _write_handled(trace: Trace) -> tuple[object, ...]:
    code = _CODES.get(trace.outcome or "", 0 if trace.went_well else 4)
    return (
        *("SubAfter", trace.request_id, trace.message_id, trace.took_ms or 0, trace.went_well, trace.keys, code),
        *(trace.at_ms or 0, trace.group),
    )


def _write_ended(trace: Trace) -> tuple[object, ...]:
    # What Java calls the id of the transaction is the id of its message.
    return (
        *("EndTransaction", trace.at_ms or 0, trace.region or _REGION, trace.group, trace.topic, trace.message_id),
        *(trace.tags, trace.keys, trace.store_host, _kind_number(trace), trace.message_id),
        *(_COMMIT if trace.went_well else _ROLLBACK, bool(trace.was_asked)),
    )


_WRITERS: dict[str, Callable[[Trace], tuple[object, ...]]] = {
    "sent": _write_sent,
    "received": _write_received,
    "handled": _write_handled,
    "transaction ended": _write_ended,
}


def _text(field: object) -> str:
    if field is None or field == "":
        return "null"
    if isinstance(field, bool):
        return "true" if field else "false"
    text = str(field)
    # Nothing that was sent holds a separator; what somebody calls his group might.
    return text if text.isprintable() else text.replace(_NEXT, " ").replace(_END, " ")


def _kind_number(trace: Trace) -> int:
    return _KINDS_OF_MESSAGES.index(trace.kind) if trace.kind in _KINDS_OF_MESSAGES else 0


# -- what both need ---------------------------------------------------------------------------------------------------


def _known(text: str) -> str | None:
    return None if text in _NOTHING else text


def _number(text: str) -> int:
    # What is too long for a number is none, as for `int` any other text.
    return int(text if len(text) <= _MOST_DIGITS else "")
