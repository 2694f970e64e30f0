"""The end of a transaction, and questions about those that have none, as Apache has them: 37, and 39 to producers.

37 names a half by its offset in the topic of halves and its position in the log, and both must be right, as must the
group (1). A commit stores a copy, whether or not one was stored before; 0 is not answered. Every round of questions
writes each open half anew and asks any producer of its group; after fifteen it is given up.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.model.names import HALF_TOPIC, UNRESOLVED_TOPIC
from steelyard.sim.apache.halves import CHECKS, HALF_PLACE, Half
from steelyard.sim.apache.log import Entry
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.headers.send import CheckTransaction, EndTransaction
from steelyard.wire.message_ids import offset_id
from steelyard.wire.properties import encode_properties, parse_properties
from steelyard.wire.property_names import CHECK_TIMES, PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, UNIQUE_KEY
from steelyard.wire.record import Record, encode_record
from steelyard.wire.sysflag import Transaction, with_transaction

__all__ = ["HANDLERS", "ask_producers"]


def _end(state: State, request: Command, _line: Line, now_ms: int) -> Command | None:
    header = request.header(EndTransaction)
    if header.commit_or_rollback == Transaction.NONE:
        return None
    entry = state.log.at(header.commit_log_offset)
    if entry is None or entry.place != HALF_PLACE:
        remark = "Find prepared transaction message failed"
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
    record = entry.record()
    properties = parse_properties(record.properties)
    if properties.get(PRODUCER_GROUP) != header.producer_group or entry.offset != header.tran_state_table_offset:
        remark = "The producer group wrong, or the transaction state table offset"
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
    if header.commit_or_rollback == Transaction.COMMITTED:
        state.stored(_commit(state, record, properties, now_ms), now_ms)
    state.kept.halves.end(entry.offset)
    return state.answer(request)


def _commit(state: State, record: Record, properties: dict[str, str], now_ms: int) -> Entry:
    place = properties[REAL_TOPIC], int(properties[REAL_QUEUE_ID])
    if state.release is Release.V5:
        del properties[REAL_TOPIC], properties[REAL_QUEUE_ID]
    place = state.kept.delays.place(properties, place)
    return state.log.copy(
        record,
        place,
        encode_properties(properties),
        now_ms,
        sys_flag=with_transaction(record.sys_flag, Transaction.COMMITTED),
        prepared_offset=record.position,
    )


def ask_producers(state: State, now_ms: int) -> None:
    """Ask about every half that has waited for long enough."""
    for half in state.kept.halves.due(now_ms):
        entry = state.log.at(half.position)
        if entry is not None:
            _ask(state, half, entry.record(), now_ms)


def _ask(state: State, half: Half, record: Record, now_ms: int) -> None:
    state.kept.halves.end(half.offset)
    properties = parse_properties(record.properties)
    if half.checks >= CHECKS:
        state.log.copy(record, (UNRESOLVED_TOPIC, 0), record.properties, now_ms)
        return
    properties[CHECK_TIMES] = str(half.checks + 1)
    anew = state.log.copy(record, HALF_PLACE, encode_properties(properties), now_ms)
    state.kept.halves.add(anew, now_ms, half.checks + 1)
    producers = state.producers.get(properties.get(PRODUCER_GROUP, ""), {})
    lines = [state.lines[number] for number in producers if number in state.lines]
    if not lines:
        return
    is_new = state.release is Release.V5
    fields = CheckTransaction(
        tran_state_table_offset=anew.offset,
        commit_log_offset=anew.position,
        msg_id=properties.get(UNIQUE_KEY),
        transaction_id=properties.get(UNIQUE_KEY),
        offset_msg_id=offset_id(state.address, anew.position),
        topic=HALF_TOPIC if is_new else None,
        broker=state.name if is_new else None,
    )
    shown = replace(
        anew.record(), topic=properties[REAL_TOPIC].encode(), queue_id=int(properties[REAL_QUEUE_ID]), prepared_offset=0
    )
    lines[state.next_turn() % len(lines)].say(
        state.request(RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(shown), flag=ONEWAY)
    )


HANDLERS: Mapping[int, Handler] = {RequestCode.END_TRANSACTION: _end}
