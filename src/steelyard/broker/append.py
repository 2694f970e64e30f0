"""Append: how messages get into the store, where delayed and half messages wait, and when senders are acknowledged.

A message is stored in its queue, or elsewhere for the time being: a delayed one in the topic of its level, one with a
delivery time in the timer topic, a half message in the half topic. Its real queue goes along as properties, as Apache
writes them, so that an Apache broker that takes over the directory delivers it as well. Left out: recalling a delayed
message, and topics with several tags per message.

Every write of the log goes through `flush`: a position that could not be written is given to the next message, so those
that wait for it have to be answered first. No sender gets an acknowledgement whose message is not in the log, or, if
it asked for that, not durable.
"""

from typing import NamedTuple

from steelyard.broker import long_polling
from steelyard.broker.disk_alerts import STORING_MESSAGES
from steelyard.broker.request_errors import request_error
from steelyard.broker.state import BrokerCoreState
from steelyard.broker.topics import READ, WRITE
from steelyard.errors import LimitExceeded, ServerError
from steelyard.model.reserved_names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    NOT_WRITABLE_TOPICS,
    REBALANCE_HISTORY_TOPIC,
    RETRY_PREFIX,
    TIMER_TOPIC,
)
from steelyard.store.store import AppendResult, FlushResult
from steelyard.store.tags_code import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command, Reply
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
from steelyard.wire.record import MessageRecord

BROKER_ONLY_TOPICS = NOT_WRITABLE_TOPICS | {TIMER_TOPIC, REBALANCE_HISTORY_TOPIC}
"""Topics that only the broker writes to: neither a send nor a delayed message gets there."""

_DELAY_LEVEL_COUNT = len(DELAY_LEVELS_MS)
_SECOND_MS = 1_000
_DEFAULT_QUEUES = 4
"""Queues of a topic that the first send of Java's clients creates."""

_MAX_NUMBER_DIGITS = 18
"""A number with more digits is no delay and no time."""


class QueuePlace(NamedTuple):
    """A queue."""

    topic: str
    queue_id: int


def append_message(
    state: BrokerCoreState,
    topic: str,
    topic_key: bytes,
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
) -> AppendResult:
    """Append a message, count it, and notify held pulls; ``topic_key`` is the encoded topic."""
    # Hot path: positional arguments are faster than keywords.
    appended = state.store.append(
        topic_key,
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
    state.held_pulls.notify_arrival(topic_key, queue_id)
    state.traffic.record_stored(topic, 1, appended.size)
    return appended


def append_copy(
    state: BrokerCoreState,
    record: MessageRecord,
    place: QueuePlace,
    properties: bytes,
    now_ms: int,
    *,
    sys_flag: int | None = None,
    reconsume_times: int | None = None,
    prepared_offset: int = 0,
) -> AppendResult:
    """Append a copy of a message to another queue; what is not given is taken from the record."""
    return append_message(
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


def ensure_topic(state: BrokerCoreState, place: QueuePlace, now_ms: int) -> None:
    """Create the topic of a delayed message if it is gone: the message was accepted, so it arrives."""
    if state.topics.get(place.topic) is None:
        queues = max(place.queue_id + 1, 1 if place.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else _DEFAULT_QUEUES)
        settings = TopicConfig(
            name=place.topic, read_queues=queues, write_queues=queues, permission=READ | WRITE, attributes={}
        )
        state.topics.put(settings, now_ms)


def place_delayed(properties: dict[str, str], place: QueuePlace, now_ms: int, *, max_delay_ms: int) -> QueuePlace:
    """Return where a delayed message waits, with its real queue added to the properties; else its own queue.

    A level counts before a time. Of several times the first of delay seconds, delay milliseconds, deliver time counts.
    """
    level = parse_whole_number(properties.get(DELAY_LEVEL, "0"))
    if level is None:
        raise _illegal(f"the delay level {properties[DELAY_LEVEL][:40]!r} is not a number")
    if level > 0:
        for name in (TIMER_DELIVER_MS, TIMER_DELAY_SECONDS, TIMER_DELAY_MS):
            properties.pop(name, None)
        properties[DELAY_LEVEL] = str(min(level, _DELAY_LEVEL_COUNT))
        _record_real_place(properties, place)
        return QueuePlace(SCHEDULE_TOPIC.decode(), min(level, _DELAY_LEVEL_COUNT) - 1)
    if TIMER_OUT_MS in properties:
        return place  # it has waited already
    due_ms = timer_due_ms(properties, now_ms)
    if due_ms is None or due_ms <= now_ms:
        return place
    if due_ms - now_ms > max_delay_ms:
        raise _illegal(
            f"timer message illegal, the delay time should not be bigger than the max delay {max_delay_ms}ms"
        )
    if TIMER_DELETED_KEY in properties:
        raise _illegal("this broker cannot recall a delayed message")
    # Apache's timers count whole seconds, and a timer is due when its second is over.
    properties[TIMER_OUT_MS] = str((due_ms - 1) // _SECOND_MS * _SECOND_MS)
    _record_real_place(properties, place)
    return QueuePlace(TIMER_TOPIC, 0)


def timer_due_ms(properties: dict[str, str], stored_ms: int) -> int | None:
    """Return the delivery time of a message; None if it has none."""
    for name, unit_ms, start_ms in (
        (TIMER_DELAY_SECONDS, _SECOND_MS, stored_ms),
        (TIMER_DELAY_MS, 1, stored_ms),
        (TIMER_DELIVER_MS, 1, 0),
    ):
        if name in properties:
            number = parse_whole_number(properties[name])
            if number is None:
                raise _illegal(f"timer message illegal, {name} is {properties[name][:40]!r}: give a number")
            return start_ms + number * unit_ms
    return None


def place_half(properties: dict[str, str], place: QueuePlace) -> QueuePlace:
    """Return where a half message waits, with its real queue added to the properties."""
    for name in (CHECK_TIMES, PREPARED_QUEUE_OFFSET):
        properties.pop(name, None)  # only the broker may set these
    properties[TRANSACTION_ID] = properties[UNIQUE_KEY]
    _record_real_place(properties, place)
    # Each transaction check rewrites it with longer properties: there must be room for that.
    encode_raw_properties({**properties, CHECK_TIMES: "9" * 9, PREPARED_QUEUE_OFFSET: "9" * 19})
    return QueuePlace(HALF_TOPIC, 0)


def real_place(properties: dict[str, str]) -> QueuePlace | None:
    """Return the real queue of a waiting message; None if it has none, or one that is not allowed."""
    topic, queue_id = properties.get(REAL_TOPIC), parse_whole_number(properties.get(REAL_QUEUE_ID, ""))
    if not topic or topic in BROKER_ONLY_TOPICS or queue_id is None or not 0 <= queue_id < 1 << 31:
        return None
    return QueuePlace(topic, queue_id)


def encode_raw_properties(properties: dict[str, str]) -> bytes:
    r"""Encode decoded properties without validation: what was accepted can be stored, however odd.

    >>> encode_raw_properties({"TAGS": "paid"})
    b'TAGS\x01paid\x02'
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()
    if len(text) > PROPERTIES_BYTES:
        raise LimitExceeded("properties text", where="message", limit=PROPERTIES_BYTES, found=len(text))
    return text


def parse_whole_number(text: str) -> int | None:
    """Parse a number from a client; None if it is none, or too large for a delay or a time.

    >>> parse_whole_number("-3"), parse_whole_number("3s"), parse_whole_number("9" * 30)
    (-3, None, None)
    """
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_NUMBER_DIGITS else None


def _record_real_place(properties: dict[str, str], place: QueuePlace) -> None:
    properties[REAL_TOPIC], properties[REAL_QUEUE_ID] = place.topic, str(place.queue_id)


def _illegal(remark: str) -> ServerError:
    return request_error(ResponseCode.MESSAGE_ILLEGAL, remark)


def flush(state: BrokerCoreState, now_ms: int) -> FlushResult:
    """Write what was appended, acknowledge it, and answer pulls that were held for it."""
    is_dirty = state.store.has_unflushed
    flushed = state.store.flush()
    acks, state.pending_acks = state.pending_acks, []
    for ack in acks:
        if ack.end > flushed.end:
            why = "for an unknown reason" if flushed.error is None else str(flushed.error)
            state.send(ack.peer, _not_stored_response(ack.answer, why))
        elif ack.wait_for_sync and ack.end > state.store.durable:
            state.unsynced_acks.append((ack, now_ms + state.options.flush_wait_ms))
        else:
            state.outbox.append(Reply(ack.peer, ack.answer))
    if flushed.error is None:
        if is_dirty:
            state.disk_alerts.record_success(STORING_MESSAGES, now_ms)
    else:
        if state.store.read_only_reason is None:  # a read-only store is reported separately
            state.disk_alerts.record_failure(STORING_MESSAGES, flushed.error, now_ms)
        state.half_messages.discard_unwritten(flushed.end)
        acknowledge_synced(state)
    long_polling.answer_ready_pulls(state, now_ms)
    return flushed


def acknowledge_synced(state: BrokerCoreState) -> None:
    """Acknowledge messages that are durable by now; refuse all if the sync failed, since the disk is unknown."""
    durable, refusal = state.store.durable, state.store.read_only_reason
    while state.unsynced_acks and (refusal is not None or state.unsynced_acks[0][0].end <= durable):
        ack, _ = state.unsynced_acks.popleft()
        state.send(ack.peer, ack.answer if refusal is None else _not_stored_response(ack.answer, refusal))


def _not_stored_response(answer: Command, why: str) -> Command:
    return Command(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        opaque=answer.opaque,
        flag=RESPONSE_FLAG,
        remark=f"the message was not stored: {why}"[:1_000],
        version=answer.version,
        header_type=answer.header_type,
    )
