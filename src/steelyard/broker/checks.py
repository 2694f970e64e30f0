"""Half messages that nobody resolved: their producers are asked, and given up on after a while.

A round begins every half minute. It writes each half anew whose time has come, with one more to its count of questions,
as Apache does, and asks a producer of its group (39): what became of this transaction? The answer is an ordinary end
(37), or none. After fifteen questions the half goes to a topic of its own, where an administrator finds it (323).

Unlike Apache, only a question that was asked counts: while no producer of the group is there, its halves wait, up to a
day, so that a producer which is down for some minutes finds its transactions open.
"""

from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from steelyard.broker.flushing import flush
from steelyard.broker.halves import Ending, Half
from steelyard.broker.state import State
from steelyard.broker.storing import Place, as_text, put_copy, real_place, whole_number
from steelyard.broker.timing import has_come
from steelyard.broker.transactions import (
    HALF_PLACE,
    feed,
    record_at,
    write_ending,
    write_replaced,
)
from steelyard.errors import LimitExceeded, ServerError, StoreError
from steelyard.model.names import HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP, UNRESOLVED_TOPIC
from steelyard.store.store import Appended
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import CheckTransaction
from steelyard.wire.peers import Peer
from steelyard.wire.properties import parse_properties
from steelyard.wire.property_names import CHECK_TIMES, PREPARED_QUEUE_OFFSET, PRODUCER_GROUP, UNIQUE_KEY
from steelyard.wire.record import Record, encode_record

__all__ = ["settle", "tick"]

_ASKED_A_TICK = 200
_BYTES_A_TICK = 8 << 20
"""A tick writes no more halves anew than this: everybody else waits while it does."""

_FED_A_TICK = 10
"""How many times a tick looks for more in the log; there is very much only after a start."""

_UNASKED_MS = 24 * 3_600_000
"""A half whose producers never came back is given up after this time."""

_UNRESOLVED_PLACE = Place(UNRESOLVED_TOPIC, 0)


class _Question(NamedTuple):
    """What a producer is asked once the half is written anew."""

    peer: Peer
    half: Half
    record: Record
    properties: dict[str, str]
    anew: Appended


def tick(state: State, now_ms: int) -> None:
    """Ask about half messages that are due."""
    settle(state)
    with suppress(StoreError):  # the store takes no writes just now, and tells so to all who send
        if not any(feed(state) for _ in range(_FED_A_TICK)):
            return
        state.halves.note(state.store.end)
        _begin_round(state, now_ms)
        if state.halves.round:
            _ask(state, now_ms)


def settle(state: State) -> None:
    """Count as ended for good what is safe on the disk by now."""
    reached = state.halves.progress.safe(state.store.durable)
    if reached is not None:
        with suppress(ServerError):  # with too many offsets already, the next start has more to look at
            state.offsets.put(TRANSACTION_GROUP, HALF_TOPIC, 0, reached[0])
            state.offsets.put(TRANSACTION_GROUP, OP_TOPIC, 0, reached[1])


def _begin_round(state: State, now_ms: int) -> None:
    halves, gap_ms = state.halves, state.options.transaction_check_ms
    if halves.round_ms is None:
        halves.round_ms = now_ms + gap_ms
    if has_come(halves.round_ms, gap_ms, now_ms) and not halves.round:
        halves.round_ms = now_ms + gap_ms
        due = [half for half in halves.open.values() if half.ask_ms < now_ms]
        halves.round = [half.origin for half in sorted(due, key=lambda half: half.offset, reverse=True)]


def _ask(state: State, now_ms: int) -> None:
    """Write some halves of the round anew, and ask about those that could be written."""
    halves = state.halves
    questions: list[_Question] = []
    room = _BYTES_A_TICK
    try:
        while halves.round and len(questions) < _ASKED_A_TICK and room > 0:
            half = halves.open.get(halves.round[-1])
            if half is not None and half.origin not in halves.ending:
                question = _written_anew(state, half, now_ms)
                if question is not None:
                    questions.append(question)
                    room -= question.anew.size
            halves.round.pop()
    finally:
        if questions:
            write_replaced(state, [question.half.offset for question in questions], now_ms)
        if state.store.is_dirty:
            flushed = flush(state, now_ms)
            for question in questions:
                if question.anew.end <= flushed.end:
                    _send(state, question)


def _written_anew(state: State, half: Half, now_ms: int) -> _Question | None:
    """Write a half anew for the question about it; None if it cannot be asked, or is given up."""
    record = record_at(state, half.position)
    properties = {} if record is None else parse_properties(record.properties)
    if record is None or real_place(properties) is None:
        state.notes.append(f"the half message at {half.position} of the log is lost: its transaction is given up")
        write_ending(state, half, Ending.GIVEN_UP, now_ms)
        return None
    asked = whole_number(properties.get(CHECK_TIMES, "0")) or 0
    properties[CHECK_TIMES] = str(asked + 1)
    properties[PREPARED_QUEUE_OFFSET] = str(half.origin)
    peer = state.producers.next_of(properties.get(PRODUCER_GROUP, ""))
    is_over = asked >= state.options.transaction_checks or (peer is None and now_ms - half.stored_ms > _UNASKED_MS)
    try:
        text = as_text(properties)
    except LimitExceeded:  # another broker took it, and left no room for the count
        is_over = True
    if is_over:
        copy = put_copy(state, record, _UNRESOLVED_PLACE, record.properties, now_ms)
        write_ending(state, half, Ending.GIVEN_UP, now_ms, copy)
        return None
    if peer is None:
        return None
    anew = put_copy(state, record, HALF_PLACE, text, now_ms)
    return _Question(peer, half, record, properties, anew)


def _send(state: State, question: _Question) -> None:
    """Ask: the message as its consumers would see it, but with the place of its half."""
    peer, _, record, properties, anew = question
    place, unique = real_place(properties), properties.get(UNIQUE_KEY)
    if place is None:
        return
    fields = CheckTransaction(
        tran_state_table_offset=anew.offset,
        commit_log_offset=anew.position,
        msg_id=unique,
        transaction_id=unique,
        offset_msg_id=state.stamps.place_id(anew.position),
        topic=HALF_TOPIC,
        broker=state.options.name,
    )
    shown = replace(
        record,
        topic=place.topic.encode(),
        queue_id=place.queue_id,
        offset=anew.offset,
        position=anew.position,
        properties=as_text(properties),
        prepared_offset=0,
    )
    state.tell(peer, RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(shown))
