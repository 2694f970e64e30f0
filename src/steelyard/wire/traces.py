r"""What became of a message, as clients of other makes write it down: one text with records in it.

A record ends with ``\x02``, its fields are separated by ``\x01``, and the first of them says of which kind it is. What
Java's clients write, 4.9 and 5.x:

    Pub             time region group topic id tags keys store-host body-bytes cost type offset-id success [client-host]
    SubBefore       time region group request id retries keys
    SubAfter        request id cost success keys code [time group]
    EndTransaction  time region group topic id tags keys store-host type transaction state from-check
    Recall          time region group topic id success

Reading never fails: a record that is not as it should be is left out, and a kind that nobody knows too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Trace", "read_traces"]

_MOST_DIGITS = 20
_END, _NEXT = "\x02", "\x01"
_NOTHING = ("", "null")
_OUTCOMES = {0: "done", 1: "timed out", 2: "raised", 3: "returned nothing", 4: "failed"}
"""What a member's code says of how handling went (Java: ConsumeReturnType)."""


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
        offset_id=offset_id,
        went_well=success == "true",
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
        outcome=_known(fields[10]),
        went_well=fields[10] == "COMMIT_MESSAGE",
    )


def _recalled(fields: Sequence[str]) -> Trace:
    return Trace(
        what="recalled",
        at_ms=_number(fields[0]),
        group=_known(fields[2]),
        topic=_known(fields[3]),
        message_id=fields[4],
        went_well=fields[5] == "true",
    )


_KINDS: dict[str, Callable[[Sequence[str]], Trace]] = {
    "Pub": _sent,
    "SubBefore": _received,
    "SubAfter": _handled,
    "EndTransaction": _ended,
    "Recall": _recalled,
}


def _known(text: str) -> str | None:
    return None if text in _NOTHING else text


def _number(text: str) -> int:
    # What is too long for a number is none, as for `int` any other text.
    return int(text if len(text) <= _MOST_DIGITS else "")
