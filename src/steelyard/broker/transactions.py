"""Transactions in the log: half messages, and op records with their outcomes, as Apache writes them.

Both have topics of their own, and a half message without an op record is open. The table of open ones is built by
reading the two topics, after a start and while the broker runs, so that it never knows more than the log. An op record
has the tag ``d`` and the offsets of half messages, as Apache's; a property that Apache ignores holds the outcome, and
another one the position of the message. The copy of a committed message is written before its op record. If the op
record is missing after a crash, the copy is found (delivery_dedup.py), and the op record written; if the copy is
missing after a power loss, the op record does not count.
"""

from contextlib import suppress

from steelyard.broker.append import (
    QueuePlace,
    append_message,
    encode_raw_properties,
    parse_whole_number,
    place_delayed,
    real_place,
)
from steelyard.broker.delivery_dedup import DeliveredCopies
from steelyard.broker.half_messages import OpenHalfMessage, PendingOutcome, TransactionOutcome
from steelyard.broker.state import BrokerCoreState
from steelyard.errors import MalformedRecord, ProtocolError, ServerError
from steelyard.model.reserved_names import HALF_OP_TOPIC, HALF_TOPIC, TRANSACTION_GROUP
from steelyard.store.store import AppendResult
from steelyard.wire.hosts import host_bytes
from steelyard.wire.properties import decode_properties, find_property
from steelyard.wire.property_names import (
    CHECK_IMMUNITY_SECONDS,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    UNIQUE_KEY,
)
from steelyard.wire.record import MessageRecord, decode_record, decode_records

HALF_PLACE = QueuePlace(HALF_TOPIC, 0)

_HALF_KEY, _OP_KEY = HALF_TOPIC.encode(), HALF_OP_TOPIC.encode()
_REMOVED_TAG = "d"
_OUTCOME_PROPERTY = "STEELYARD_END"
_REPLACED = "replaced"
_COPY_PROPERTY = "STEELYARD_COPY"
_OUTCOMES = {outcome.value.encode(): outcome for outcome in TransactionOutcome}
_LOADED_MESSAGES = 2_000
_LOADED_BYTES = 4 << 20
_REREAD_OPS = 10_000
"""Older op records that are read after a start, to know their outcomes."""

_MAX_IMMUNITY_MS = 24 * 3_600_000
"""A producer is checked no later than this: a half message must not outlive its log file."""


def catch_up(state: BrokerCoreState) -> None:
    """Load everything that is in the log."""
    while not load_new(state):
        pass


def load_new(state: BrokerCoreState) -> bool:
    """Load a part of what is new in the log; return whether that was all."""
    halves, store = state.half_messages, state.store
    low, high = store.bounds(_HALF_KEY, 0)
    op_low, op_high = store.bounds(_OP_KEY, 0)
    if halves.loaded_to < 0:
        saved = state.offsets.committed_in(TRANSACTION_GROUP, HALF_TOPIC).get(0, 0)
        saved_op = state.offsets.committed_in(TRANSACTION_GROUP, HALF_OP_TOPIC).get(0, 0)
        halves.loaded_to = min(max(low, saved), high)
        halves.ops_loaded_to = min(max(op_low, min(saved_op, op_high - _REREAD_OPS)), op_high)
    if halves.loaded_to < high:
        found = store.read(_HALF_KEY, 0, halves.loaded_to, max_messages=_LOADED_MESSAGES, max_bytes=_LOADED_BYTES)
        for record in decode_records(found.joined()):
            halves.add(_open_half(state, record))
        halves.loaded_to = found.next_offset
        return False
    if halves.ops_loaded_to < op_high:
        found = store.read(_OP_KEY, 0, halves.ops_loaded_to, max_messages=_LOADED_MESSAGES, max_bytes=_LOADED_BYTES)
        for record in decode_records(found.joined()):
            _add_op(state, record)
        halves.ops_loaded_to = found.next_offset
        return False
    if not store.has_unflushed:
        halves.pending_outcomes.clear()  # the log has what was written, and the rest did not happen
    if halves.needs_commit_scan:
        _record_missed_commits(state)
        halves.needs_commit_scan = False
    return True


def _open_half(state: BrokerCoreState, record: MessageRecord) -> OpenHalfMessage:
    check_after_ms = record.stored_ms
    if find_property(record.properties, CHECK_TIMES.encode()) is None:
        check_after_ms += immunity_ms(state, record.properties)
    return OpenHalfMessage(
        first_offset_of(record), record.offset, record.position, record.stored_ms, check_after_ms, _topic_of(record)
    )


def _topic_of(record: MessageRecord) -> str:
    text = find_property(record.properties, REAL_TOPIC.encode())
    return "" if text is None else text.decode("utf-8", "replace")


def first_offset_of(record: MessageRecord) -> int:
    """Return the offset of the first record of a half's transaction."""
    first = _number_property(record.properties, PREPARED_QUEUE_OFFSET)
    return record.offset if first is None or not 0 <= first < record.offset else first


def immunity_ms(state: BrokerCoreState, properties: bytes) -> int:
    """Return how long after its arrival a half message is first checked."""
    seconds = _number_property(properties, CHECK_IMMUNITY_SECONDS)
    if seconds is None or seconds < 0:
        return state.options.transaction_timeout_ms
    return min(seconds * 1_000, _MAX_IMMUNITY_MS)


def _number_property(properties: bytes, name: str) -> int | None:
    text = find_property(properties, name.encode())
    return None if text is None else parse_whole_number(text.decode("ascii", "replace"))


def _add_op(state: BrokerCoreState, record: MessageRecord) -> None:
    texts = record.body.decode("ascii", "replace").split(",")
    offsets = [offset for text in texts if (offset := parse_whole_number(text)) is not None]
    text = find_property(record.properties, _OUTCOME_PROPERTY.encode())
    outcome = None if text == _REPLACED.encode() else _OUTCOMES.get(text or b"", TransactionOutcome.UNKNOWN)
    if outcome is not None and state.half_messages.needs_commit_scan and _is_copy_lost(state, record):
        outcome = None
    state.half_messages.add_op_record(record.offset, offsets, outcome)


def _is_copy_lost(state: BrokerCoreState, record: MessageRecord) -> bool:
    """Return whether an op record is there without its message: a power loss may take the earlier one only."""
    position = _number_property(record.properties, _COPY_PROPERTY)
    return position is not None and position >= state.store.start and state.store.lookup.record_at(position) is None


def write_outcome(
    state: BrokerCoreState,
    half: OpenHalfMessage,
    outcome: TransactionOutcome,
    now_ms: int,
    copy: AppendResult | None = None,
) -> AppendResult:
    """Write the op record of a transaction, with the position of the committed message, if any."""
    offsets = [half.offset] if half.offset == half.first_offset else [half.offset, half.first_offset]
    done = _write_op(state, offsets, outcome.value, now_ms, copy)
    state.half_messages.pending_outcomes[half.first_offset] = PendingOutcome(outcome, done.end)
    return done


def write_replaced(state: BrokerCoreState, offsets: list[int], now_ms: int) -> AppendResult:
    """Write the op record of half messages that were rewritten, which Apache needs."""
    return _write_op(state, offsets, _REPLACED, now_ms)


def _write_op(
    state: BrokerCoreState, offsets: list[int], what: str, now_ms: int, copy: AppendResult | None = None
) -> AppendResult:
    properties = {TAGS: _REMOVED_TAG, UNIQUE_KEY: state.broker_properties.unique_key(now_ms), _OUTCOME_PROPERTY: what}
    if copy is not None:
        properties[_COPY_PROPERTY] = str(copy.position)
    body = "".join([f"{offset}," for offset in offsets]).encode()
    host = host_bytes(state.options.address)
    return append_message(
        state, HALF_OP_TOPIC, _OP_KEY, 0, body, encode_raw_properties(properties), now_ms, host, now_ms
    )


def half_record_at(state: BrokerCoreState, position: int) -> MessageRecord | None:
    """Return the half message at a log position, or None."""
    found = state.store.lookup.record_at(position)
    if found is None:
        return None
    record = decode_record(found)
    return record if record.topic == _HALF_KEY else None


def committed_place(state: BrokerCoreState, record: MessageRecord, now_ms: int) -> tuple[QueuePlace, dict[str, str]]:
    """Return the queue of a committed message, which may be one for delayed messages, and its properties there."""
    properties = decode_properties(record.properties)
    place = real_place(properties)
    if place is None:
        raise MalformedRecord("a half message does not name its queue", where="transaction", at=record.position)
    # TRAN_MSG stays, as with Apache: it tells consumers that a message has a transaction id.
    for name in (REAL_TOPIC, REAL_QUEUE_ID, PREPARED_QUEUE_OFFSET):
        properties.pop(name, None)
    return place_delayed(properties, place, now_ms, max_delay_ms=state.options.timer_max_ms), properties


def _record_missed_commits(state: BrokerCoreState) -> None:
    """Write the missing op records of transactions whose committed message is in its queue."""
    copies = DeliveredCopies(state.store)
    for half in sorted(state.half_messages.open.values(), key=lambda half: half.stored_ms):
        record = half_record_at(state, half.position)
        if record is None:
            continue
        # A timer may have been due when it was committed: then it did not wait.
        places = {real_place(decode_properties(record.properties))}
        with suppress(ServerError, ProtocolError):
            places.add(committed_place(state, record, half.stored_ms)[0])
        if any(place is not None and copies.has_copy(*place, half.position, half.stored_ms) for place in places):
            write_outcome(state, half, TransactionOutcome.COMMITTED, state.started_ms)
