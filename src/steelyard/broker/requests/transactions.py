"""End of transactions: 37; and checks of a given up half message that are resumed: 323.

37 names a half message by its offset in the half topic and its position in the log; both, and the group, must match
(1). It holds 8 commit, 12 roll back, or 0 unknown, which is not answered. A commit writes the message to its real
queue, with the position of the half message as prepared offset. Java's producers send it oneway. One that has its
own check immunity time, and is older than that, can only be ended in response to a check (604).

Unlike Apache, a transaction ends once. The same outcome again changes nothing and is answered with 0, another outcome
with 604, and one that names an earlier record of the half message, from before a check, counts as well.
"""

from collections.abc import Mapping
from contextlib import suppress

from steelyard.broker.append import append_copy, encode_raw_properties, ensure_topic
from steelyard.broker.delivery_dedup import copy_marker
from steelyard.broker.half_messages import OpenHalfMessage, TransactionOutcome
from steelyard.broker.request_errors import request_error, system_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.transactions import (
    HALF_PLACE,
    catch_up,
    committed_place,
    first_offset_of,
    half_record_at,
    immunity_ms,
    write_outcome,
)
from steelyard.errors import ProtocolError
from steelyard.model.reserved_names import UNRESOLVED_TRANSACTIONS_TOPIC
from steelyard.store.store import AppendResult
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.admin import ResumeCheckHalfMessage
from steelyard.wire.headers.send import EndTransaction
from steelyard.wire.message_ids import parse_offset_id
from steelyard.wire.properties import decode_properties, find_property
from steelyard.wire.property_names import CHECK_IMMUNITY_SECONDS, CHECK_TIMES, PREPARED_QUEUE_OFFSET, PRODUCER_GROUP
from steelyard.wire.record import MessageRecord, decode_record
from steelyard.wire.sysflag import TransactionFlag, with_transaction

_OUTCOMES: Mapping[int, TransactionOutcome] = {
    TransactionFlag.COMMITTED: TransactionOutcome.COMMITTED,
    TransactionFlag.ROLLED_BACK: TransactionOutcome.ROLLED_BACK,
}
_OUTCOME_TEXTS = {
    TransactionOutcome.COMMITTED: "was committed",
    TransactionOutcome.ROLLED_BACK: "was rolled back",
    TransactionOutcome.GIVEN_UP: f"was given up, its message is in {UNRESOLVED_TRANSACTIONS_TOPIC}",
    TransactionOutcome.UNKNOWN: "has ended",
}


def _end_transaction(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(EndTransaction)
    if header.commit_or_rollback == TransactionFlag.NONE:
        return None
    outcome = _OUTCOMES.get(header.commit_or_rollback)
    if outcome is None:
        raise system_error(f"a transaction cannot end with {header.commit_or_rollback}: give 8, 12 or 0")
    named = _half_record(state, header)
    catch_up(state)
    first_offset = first_offset_of(named)
    before = state.half_messages.outcome_of(first_offset)
    if before is outcome:
        pending = state.half_messages.pending_outcomes.get(first_offset)
        _acknowledge(state, request, peer, pending.end if pending is not None else state.store.end)
        return None
    half = state.half_messages.open.get(first_offset)
    if before is not None or half is None:
        how = _OUTCOME_TEXTS[before] if before is not None else "ended long ago, or is lost"
        raise request_error(ResponseCode.ILLEGAL_OPERATION, f"the transaction of {header.msg_id[:80]} {how}")
    has_own_immunity = find_property(named.properties, CHECK_IMMUNITY_SECONDS.encode()) is not None
    is_late = has_own_immunity and now_ms - named.born_ms > immunity_ms(state, named.properties)
    if is_late and not header.from_transaction_check:
        raise request_error(ResponseCode.ILLEGAL_OPERATION, "the transaction is about to be checked: answer that check")
    copy = _commit_half(state, half, now_ms) if outcome is TransactionOutcome.COMMITTED else None
    _acknowledge(state, request, peer, write_outcome(state, half, outcome, now_ms, copy).end)
    counters = state.event_counters
    (counters.committed if outcome is TransactionOutcome.COMMITTED else counters.rolled_back).add(half.topic)
    return None


def _half_record(state: BrokerCoreState, header: EndTransaction) -> MessageRecord:
    record = half_record_at(state, header.commit_log_offset)
    if record is None:
        raise system_error("Find prepared transaction message failed")
    if find_property(record.properties, PRODUCER_GROUP.encode()) != header.producer_group.encode():
        raise system_error("The producer group wrong")
    if record.offset != header.tran_state_table_offset:
        raise system_error("The transaction state table offset wrong")
    return record


def _commit_half(state: BrokerCoreState, half: OpenHalfMessage, now_ms: int) -> AppendResult:
    """Append a committed message to its real queue."""
    record = half_record_at(state, half.position)
    if record is None:
        raise system_error("Find prepared transaction message failed")
    place, properties = committed_place(state, record, now_ms)
    ensure_topic(state, place, now_ms)
    return append_copy(
        state,
        record,
        place,
        encode_raw_properties(properties),
        now_ms,
        sys_flag=with_transaction(record.sys_flag, TransactionFlag.COMMITTED),
        prepared_offset=copy_marker(half.position),
    )


def _resume_check(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(ResumeCheckHalfMessage)
    record = None
    with suppress(ProtocolError):
        _, position = parse_offset_id(header.msg_id or "")
        found = state.store.lookup.record_at(position)
        record = decode_record(found) if found is not None else None
    if record is None or record.topic != UNRESOLVED_TRANSACTIONS_TOPIC.encode():
        raise system_error(
            f"{(header.msg_id or '')[:80]!r} is no message of {UNRESOLVED_TRANSACTIONS_TOPIC}: give its offset id"
        )
    if record.position in state.half_messages.resumed:
        _acknowledge(state, request, peer, state.half_messages.resumed[record.position])
        return None
    state.half_messages.check_capacity()
    properties = decode_properties(record.properties)
    properties[CHECK_TIMES] = "0"
    properties.pop(PREPARED_QUEUE_OFFSET, None)
    appended = append_copy(state, record, HALF_PLACE, encode_raw_properties(properties), now_ms)
    state.half_messages.resumed[record.position] = appended.end
    _acknowledge(state, request, peer, appended.end)
    return None


def _acknowledge(state: BrokerCoreState, request: Command, peer: Peer, end: int) -> None:
    """Respond once the log is written; a repeated request is not answered before the first one."""
    if not request.is_oneway:
        state.acknowledge(peer, response_to(request), end, wait_for_sync=state.options.is_sync)


HANDLERS: Mapping[int, RequestHandler] = {
    RequestCode.END_TRANSACTION: _end_transaction,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _resume_check,
}
