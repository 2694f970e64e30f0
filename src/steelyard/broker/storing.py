"""The one way a message gets into the store, and the topics where it waits if its time has not come.

A message is stored where it belongs, or elsewhere for the time being: a delayed one in the topic of its level, one with
a time of its own in the timers' topic, half of a transaction in the topic of halves. Its real place goes along as
properties, as Apache writes them, so that an Apache broker that takes over the directory delivers it as well.

Left out: recalling a message that waits, and topics made for several tags a message.
"""

from typing import NamedTuple

from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.broker.topics import READ, WRITE
from steelyard.errors import LimitExceeded, ServerError
from steelyard.model.names import DEAD, HALF_TOPIC, MOVES_TOPIC, NOT_WRITABLE, RETRY, TIMER_TOPIC
from steelyard.store.marks import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.store.store import Appended
from steelyard.wire.bodies.topics import TopicSettings
from steelyard.wire.codes import ResponseCode
from steelyard.wire.limits import PROPERTIES_BYTES
from steelyard.wire.property_names import (
    CHECK_TIMES,
    DELAY_LEVEL,
    PREPARED_QUEUE_OFFSET,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELETED_KEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRANSACTION_ID,
    UNIQUE_KEY,
)
from steelyard.wire.record import Record

__all__ = [
    "CLOSED_TOPICS",
    "Place",
    "as_text",
    "delayed_place",
    "half_place",
    "make_topic",
    "put",
    "put_copy",
    "real_place",
    "timer_due_ms",
    "whole_number",
]

CLOSED_TOPICS = NOT_WRITABLE | {TIMER_TOPIC, MOVES_TOPIC}
"""Topics that nobody but the broker writes to: neither a send nor a message that waited gets there."""

_LEVELS = len(DELAY_LEVELS_MS)
_SECOND_MS = 1_000
_USUAL_QUEUES = 4
"""What a topic has that the first send of Java's clients makes."""

_DIGITS = 18
"""A number with more digits than this is no delay and no time."""


class Place(NamedTuple):
    """A queue."""

    topic: str
    queue_id: int


def put(
    state: State,
    topic: str,
    key: bytes,
    queue_id: int,
    body: bytes,
    properties: bytes,
    born_ms: int,
    born_host: bytes,
    now_ms: int,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
) -> Appended:
    """Store a message where it is said, count it, and let those know who wait for it; ``key`` is the topic in bytes."""
    # Every message sent comes by here: arguments go by order and not by name.
    done = state.store.append(
        key,
        queue_id,
        body,
        properties,
        born_ms=born_ms,
        born_host=born_host,
        stored_ms=now_ms,
        flag=flag,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
    )
    state.parking.arrived(key, queue_id)
    state.rates.sent(topic, 1, done.size)
    return done


def put_copy(
    state: State,
    record: Record,
    place: Place,
    properties: bytes,
    now_ms: int,
    *,
    sys_flag: int | None = None,
    reconsume_times: int | None = None,
    prepared_offset: int = 0,
) -> Appended:
    """Store a message again, in another place: what is not said stays as it is in the record."""
    return put(
        state,
        place.topic,
        place.topic.encode(),
        place.queue_id,
        record.body,
        properties,
        record.born_ms,
        record.born_host,
        now_ms,
        record.flag,
        record.sys_flag if sys_flag is None else sys_flag,
        record.reconsume_times if reconsume_times is None else reconsume_times,
        prepared_offset,
    )


def make_topic(state: State, place: Place, now_ms: int) -> None:
    """Make the topic of a message that waited if nobody knows it any more: it was accepted, so it arrives."""
    if state.topics.get(place.topic) is None:
        queues = max(place.queue_id + 1, 1 if place.topic.startswith((RETRY, DEAD)) else _USUAL_QUEUES)
        settings = TopicSettings(
            name=place.topic, read_queues=queues, write_queues=queues, permission=READ | WRITE, attributes={}
        )
        state.topics.put(settings, now_ms)


def delayed_place(properties: dict[str, str], place: Place, now_ms: int, *, most_ms: int) -> Place:
    """Return where a message waits if it is delayed, with its real place added to the properties; else its place.

    A level counts more than a time. Of the ways to say a time the first of seconds, milliseconds and clock counts.
    """
    level = whole_number(properties.get(DELAY_LEVEL, "0"))
    if level is None:
        raise _illegal(f"the delay level {properties[DELAY_LEVEL][:40]!r} is not a number")
    if level > 0:
        for name in (TIMER_DELIVER_MS, TIMER_DELAY_SECONDS, TIMER_DELAY_MS):
            properties.pop(name, None)
        properties[DELAY_LEVEL] = str(min(level, _LEVELS))
        _remember(properties, place)
        return Place(SCHEDULE_TOPIC.decode(), min(level, _LEVELS) - 1)
    if TIMER_OUT_MS in properties:
        return place  # it has waited already
    due_ms = timer_due_ms(properties, now_ms)
    if due_ms is None or due_ms <= now_ms:
        return place
    if due_ms - now_ms > most_ms:
        raise _illegal(f"timer message illegal, the delay time should not be bigger than the max delay {most_ms}ms")
    if TIMER_DELETED_KEY in properties:
        raise _illegal("a message that waits cannot be recalled from this broker")
    # Apache's timers know whole seconds and are through with one when it is over.
    properties[TIMER_OUT_MS] = str((due_ms - 1) // _SECOND_MS * _SECOND_MS)
    _remember(properties, place)
    return Place(TIMER_TOPIC, 0)


def timer_due_ms(properties: dict[str, str], stored_ms: int) -> int | None:
    """Return when a message is due that has a time of its own; None if it has none."""
    for name, unit_ms, start_ms in (
        (TIMER_DELAY_SECONDS, _SECOND_MS, stored_ms),
        (TIMER_DELAY_MS, 1, stored_ms),
        (TIMER_DELIVER_MS, 1, 0),
    ):
        if name in properties:
            number = whole_number(properties[name])
            if number is None:
                raise _illegal(f"timer message illegal, {name} is {properties[name][:40]!r}: give a number")
            return start_ms + number * unit_ms
    return None


def half_place(properties: dict[str, str], place: Place) -> Place:
    """Return where the half of a transaction waits, with its real place added to the properties."""
    for name in (CHECK_TIMES, PREPARED_QUEUE_OFFSET):
        properties.pop(name, None)  # only the broker says which transaction a record belongs to
    properties[TRANSACTION_ID] = properties[UNIQUE_KEY]
    _remember(properties, place)
    # Each question to its producer writes it anew, with a little more: there must be room for that.
    as_text({**properties, CHECK_TIMES: "9" * 9, PREPARED_QUEUE_OFFSET: "9" * 19})
    return Place(HALF_TOPIC, 0)


def real_place(properties: dict[str, str]) -> Place | None:
    """Return the place that a message really belongs to; None if it says none, or one that is closed to it."""
    topic, queue_id = properties.get(REAL_TOPIC), whole_number(properties.get(REAL_QUEUE_ID, ""))
    if not topic or topic in CLOSED_TOPICS or queue_id is None or not 0 <= queue_id < 1 << 31:
        return None
    return Place(topic, queue_id)


def as_text(properties: dict[str, str]) -> bytes:
    r"""Write properties that were read: what could come in can be stored, be it as odd as it may.

    >>> as_text({"TAGS": "paid"})
    b'TAGS\x01paid\x02'
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()
    if len(text) > PROPERTIES_BYTES:
        raise LimitExceeded("properties text", where="message", limit=PROPERTIES_BYTES, found=len(text))
    return text


def whole_number(text: str) -> int | None:
    """Read a number that a client wrote; None if it is none, or beyond all delays and times.

    >>> whole_number("-3"), whole_number("3s"), whole_number("9" * 30)
    (-3, None, None)
    """
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else None


def _remember(properties: dict[str, str], place: Place) -> None:
    properties[REAL_TOPIC], properties[REAL_QUEUE_ID] = place.topic, str(place.queue_id)


def _illegal(remark: str) -> ServerError:
    return refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
