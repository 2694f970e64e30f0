"""The end of a transaction: 37; and a given up half message that is taken up again: 323.

Spec facts. 37 names a half by its offset in the topic of halves and its position in the log; both, and the group, must
be right (1). It says 8 commit, 12 roll back, or 0 not known yet, which is not answered. A commit writes the message to
its real queue, with the half's position as its prepared offset. Java's producers want no answer to it. With a time of
its own before the first question, a half that is older than that is only ended by answers to questions (604).

Unlike Apache, a transaction ends once. The same end again changes nothing and is answered with 0, the other end with
604, and an end that names an earlier record of the half, from before a question, ends it as well.
"""

from collections.abc import Mapping
from contextlib import suppress

from steelyard.broker.copies import trace_of
from steelyard.broker.halves import Ending, Half
from steelyard.broker.handlers import Handler
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.broker.storing import as_text, make_topic, put_copy
from steelyard.broker.transactions import (
    HALF_PLACE,
    catch_up,
    committed_place,
    immunity_ms,
    origin_of,
    record_at,
    write_ending,
)
from steelyard.errors import ProtocolError, ServerError
from steelyard.model.names import UNRESOLVED_TOPIC
from steelyard.store.store import Appended
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.admin import ResumeCheck
from steelyard.wire.headers.send import EndTransaction
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.peers import Peer
from steelyard.wire.properties import find_property, parse_properties
from steelyard.wire.property_names import CHECK_IMMUNITY_SECONDS, CHECK_TIMES, PREPARED_QUEUE_OFFSET, PRODUCER_GROUP
from steelyard.wire.record import Record, decode_record
from steelyard.wire.sysflag import Transaction, with_transaction

__all__ = ["HANDLERS"]

_ENDINGS: Mapping[int, Ending] = {Transaction.COMMITTED: Ending.COMMITTED, Transaction.ROLLED_BACK: Ending.ROLLED_BACK}
_HOW = {
    Ending.COMMITTED: "was committed",
    Ending.ROLLED_BACK: "was rolled back",
    Ending.GIVEN_UP: f"was given up, its message is in {UNRESOLVED_TOPIC}",
    Ending.UNKNOWN: "has ended",
}


def _end(state: State, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(EndTransaction)
    if header.commit_or_rollback == Transaction.NONE:
        return None
    ending = _ENDINGS.get(header.commit_or_rollback)
    if ending is None:
        raise _wrong(f"a transaction cannot end with {header.commit_or_rollback}: give 8, 12 or 0")
    named = _named_record(state, header)
    catch_up(state)
    origin = origin_of(named)
    before = state.halves.ending_of(origin)
    if before is ending:
        on_its_way = state.halves.ending.get(origin)
        _answer_later(state, request, peer, on_its_way.end if on_its_way is not None else state.store.end)
        return None
    half = state.halves.open.get(origin)
    if before is not None or half is None:
        how = _HOW[before] if before is not None else "ended long ago, or is lost"
        raise refusal(ResponseCode.ILLEGAL_OPERATION, f"the transaction of {header.msg_id[:80]} {how}")
    if not header.from_transaction_check and _is_too_late(state, named, now_ms):
        raise refusal(ResponseCode.ILLEGAL_OPERATION, "the transaction is about to be asked for: answer that question")
    copy = _commit(state, half, now_ms) if ending is Ending.COMMITTED else None
    _answer_later(state, request, peer, write_ending(state, half, ending, now_ms, copy).end)
    tallies = state.tallies
    (tallies.committed if ending is Ending.COMMITTED else tallies.rolled_back).add(half.topic)
    return None


def _named_record(state: State, header: EndTransaction) -> Record:
    record = record_at(state, header.commit_log_offset)
    if record is None:
        raise _wrong("Find prepared transaction message failed")
    if find_property(record.properties, PRODUCER_GROUP.encode()) != header.producer_group.encode():
        raise _wrong("The producer group wrong")
    if record.offset != header.tran_state_table_offset:
        raise _wrong("The transaction state table offset wrong")
    return record


def _is_too_late(state: State, record: Record, now_ms: int) -> bool:
    has_own_time = find_property(record.properties, CHECK_IMMUNITY_SECONDS.encode()) is not None
    return has_own_time and now_ms - record.born_ms > immunity_ms(state, record.properties)


def _commit(state: State, half: Half, now_ms: int) -> Appended:
    """Write a committed message to the queue it was meant for."""
    record = record_at(state, half.position)
    if record is None:
        raise _wrong("Find prepared transaction message failed")
    place, properties = committed_place(state, record, now_ms)
    make_topic(state, place, now_ms)
    return put_copy(
        state,
        record,
        place,
        as_text(properties),
        now_ms,
        sys_flag=with_transaction(record.sys_flag, Transaction.COMMITTED),
        prepared_offset=trace_of(half.position),
    )


def _resume(state: State, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(ResumeCheck)
    record = None
    with suppress(ProtocolError):
        _, position = read_offset_id(header.msg_id or "")
        found = state.store.lookup.at(position)
        record = decode_record(found) if found is not None else None
    if record is None or record.topic != UNRESOLVED_TOPIC.encode():
        raise _wrong(f"{(header.msg_id or '')[:80]!r} is no message of {UNRESOLVED_TOPIC}: give the id of its place")
    if record.position in state.halves.resumed:
        _answer_later(state, request, peer, state.halves.resumed[record.position])
        return None
    state.halves.check_room()
    properties = parse_properties(record.properties)
    properties[CHECK_TIMES] = "0"
    properties.pop(PREPARED_QUEUE_OFFSET, None)
    done = put_copy(state, record, HALF_PLACE, as_text(properties), now_ms)
    state.halves.resumed[record.position] = done.end
    _answer_later(state, request, peer, done.end)
    return None


def _answer_later(state: State, request: Command, peer: Peer, end: int) -> None:
    """Answer once the log has it; who says again what is on its way there hears no sooner than who said it first."""
    if not request.is_oneway:
        state.acknowledge(peer, answer_to(request), end, waits=state.options.is_sync)


def _wrong(remark: str) -> ServerError:
    return refusal(ResponseCode.SYSTEM_ERROR, remark)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.END_TRANSACTION: _end,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _resume,
}
