"""Transaction checks: producers of unresolved half messages are asked for the outcome, and given up after a while.

A round begins every half minute. It rewrites each half message that is due with its count of checks, as Apache does,
and asks a producer of its group (39). The response is an ordinary end of transaction (37), or none. After fifteen
checks the half message goes to a topic of its own, where an administrator finds it (323).

Unlike Apache, only a check that was sent counts: while the group has no producer, its half messages wait, up to a day,
so that a producer which is down for some minutes finds its transactions open.
"""

from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from steelyard.broker.append import (
    QueuePlace,
    append_copy,
    encode_raw_properties,
    flush,
    parse_whole_number,
    real_place,
)
from steelyard.broker.half_messages import OpenHalfMessage, TransactionOutcome
from steelyard.broker.state import BrokerCoreState
from steelyard.broker.timing import is_due
from steelyard.broker.transactions import (
    HALF_PLACE,
    half_record_at,
    load_new,
    write_outcome,
    write_replaced,
)
from steelyard.errors import LimitExceeded, ServerError, StoreError
from steelyard.model.reserved_names import HALF_OP_TOPIC, HALF_TOPIC, TRANSACTION_GROUP, UNRESOLVED_TRANSACTIONS_TOPIC
from steelyard.store.store import AppendResult
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Peer
from steelyard.wire.headers.send import CheckTransactionState
from steelyard.wire.properties import decode_properties
from steelyard.wire.property_names import CHECK_TIMES, PREPARED_QUEUE_OFFSET, PRODUCER_GROUP, UNIQUE_KEY
from steelyard.wire.record import MessageRecord, encode_record

_CHECKS_PER_TICK = 200
_BYTES_PER_TICK = 8 << 20
"""The limit of one tick: the event loop waits meanwhile."""

_LOADS_PER_TICK = 10
"""Reads of the log per tick; there is more to load only after a start."""

_MAX_UNCHECKED_MS = 24 * 3_600_000
"""A half message whose producers never came back is given up after this time."""

_UNRESOLVED_PLACE = QueuePlace(UNRESOLVED_TRANSACTIONS_TOPIC, 0)


class _CheckRequest(NamedTuple):
    """A check that is sent once the half message is rewritten."""

    peer: Peer
    half: OpenHalfMessage
    record: MessageRecord
    properties: dict[str, str]
    rewritten: AppendResult


def tick(state: BrokerCoreState, now_ms: int) -> None:
    """Check half messages that are due."""
    record_durable_progress(state)
    with suppress(StoreError):  # the store is read-only for now, and senders get that error
        if not any(load_new(state) for _ in range(_LOADS_PER_TICK)):
            return
        state.half_messages.record_progress(state.store.end)
        _begin_round(state, now_ms)
        if state.half_messages.check_round:
            _check_due(state, now_ms)


def record_durable_progress(state: BrokerCoreState) -> None:
    """Save the progress that is durable by now."""
    reached = state.half_messages.progress.pop_durable(state.store.durable)
    if reached is not None:
        with suppress(ServerError):  # if there are too many offsets, the next start has more to load
            state.offsets.put(TRANSACTION_GROUP, HALF_TOPIC, 0, reached[0])
            state.offsets.put(TRANSACTION_GROUP, HALF_OP_TOPIC, 0, reached[1])


def _begin_round(state: BrokerCoreState, now_ms: int) -> None:
    halves, gap_ms = state.half_messages, state.options.transaction_check_ms
    if halves.next_round_ms is None:
        halves.next_round_ms = now_ms + gap_ms
    if is_due(halves.next_round_ms, gap_ms, now_ms) and not halves.check_round:
        halves.next_round_ms = now_ms + gap_ms
        due = [half for half in halves.open.values() if half.check_after_ms < now_ms]
        halves.check_round = [half.first_offset for half in sorted(due, key=lambda half: half.offset, reverse=True)]


def _check_due(state: BrokerCoreState, now_ms: int) -> None:
    """Rewrite some half messages of the round, and send the checks of those that were written."""
    halves = state.half_messages
    checks: list[_CheckRequest] = []
    room = _BYTES_PER_TICK
    try:
        while halves.check_round and len(checks) < _CHECKS_PER_TICK and room > 0:
            half = halves.open.get(halves.check_round[-1])
            if half is not None and half.first_offset not in halves.pending_outcomes:
                check = _rewrite_half(state, half, now_ms)
                if check is not None:
                    checks.append(check)
                    room -= check.rewritten.size
            halves.check_round.pop()
    finally:
        if checks:
            write_replaced(state, [check.half.offset for check in checks], now_ms)
        if state.store.has_unflushed:
            flushed = flush(state, now_ms)
            for check in checks:
                if check.rewritten.end <= flushed.end:
                    _send_check(state, check)


def _rewrite_half(state: BrokerCoreState, half: OpenHalfMessage, now_ms: int) -> _CheckRequest | None:
    """Rewrite a half message for its check; None if there is no producer, or it is given up."""
    record = half_record_at(state, half.position)
    properties = {} if record is None else decode_properties(record.properties)
    if record is None or real_place(properties) is None:
        state.warnings.append(f"the half message at {half.position} of the log is lost: its transaction is given up")
        write_outcome(state, half, TransactionOutcome.GIVEN_UP, now_ms)
        return None
    checked = parse_whole_number(properties.get(CHECK_TIMES, "0")) or 0
    properties[CHECK_TIMES] = str(checked + 1)
    properties[PREPARED_QUEUE_OFFSET] = str(half.first_offset)
    peer = state.producers.next_connection(properties.get(PRODUCER_GROUP, ""))
    is_over = checked >= state.options.transaction_checks or (
        peer is None and now_ms - half.stored_ms > _MAX_UNCHECKED_MS
    )
    try:
        text = encode_raw_properties(properties)
    except LimitExceeded:  # another broker accepted it without room for the count
        is_over = True
    if is_over:
        copy = append_copy(state, record, _UNRESOLVED_PLACE, record.properties, now_ms)
        write_outcome(state, half, TransactionOutcome.GIVEN_UP, now_ms, copy)
        return None
    if peer is None:
        return None
    rewritten = append_copy(state, record, HALF_PLACE, text, now_ms)
    return _CheckRequest(peer, half, record, properties, rewritten)


def _send_check(state: BrokerCoreState, check: _CheckRequest) -> None:
    """Send a check with the message as consumers would see it, but with the position of its half message."""
    peer, _, record, properties, rewritten = check
    place, unique = real_place(properties), properties.get(UNIQUE_KEY)
    if place is None:
        return
    fields = CheckTransactionState(
        tran_state_table_offset=rewritten.offset,
        commit_log_offset=rewritten.position,
        msg_id=unique,
        transaction_id=unique,
        offset_msg_id=state.broker_properties.offset_message_id(rewritten.position),
        topic=HALF_TOPIC,
        broker=state.options.name,
    )
    message = replace(
        record,
        topic=place.topic.encode(),
        queue_id=place.queue_id,
        offset=rewritten.offset,
        position=rewritten.position,
        properties=encode_raw_properties(properties),
        prepared_offset=0,
    )
    state.send_oneway(peer, RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(message))
