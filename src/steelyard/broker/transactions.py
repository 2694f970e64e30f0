"""Transactions in the log: halves, and records of how they ended, as Apache writes them.

Both lie in topics of their own, and what is open is what the one has and the other has not. The table of open halves is
fed by reading the two topics, after a start and while the broker runs alike, so that it never knows more than the log.
An end is a record with the tag ``d`` and the offsets of halves, as Apache's; a property that Apache passes over says
how it ended, and another one where the message went. The copy of a committed message is written before its end. Should
the end be missing after a crash, the copy is found (copies.py), and the end written after all; should the copy be
missing after a loss of power, the end does not count.
"""

from contextlib import suppress

from steelyard.broker.copies import Copies
from steelyard.broker.halves import Ended, Ending, Half
from steelyard.broker.state import State
from steelyard.broker.storing import Place, as_text, delayed_place, put, real_place, whole_number
from steelyard.errors import MalformedRecord, ProtocolError, ServerError
from steelyard.model.names import HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from steelyard.store.store import Appended
from steelyard.wire.hosts import host_bytes
from steelyard.wire.properties import find_property, parse_properties
from steelyard.wire.property_names import (
    CHECK_IMMUNITY_SECONDS,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    UNIQUE_KEY,
)
from steelyard.wire.record import Record, decode_record, read_records

__all__ = [
    "HALF_PLACE",
    "catch_up",
    "committed_place",
    "feed",
    "immunity_ms",
    "origin_of",
    "record_at",
    "write_ending",
    "write_replaced",
]


HALF_PLACE = Place(HALF_TOPIC, 0)

_HALF_KEY, _OP_KEY = HALF_TOPIC.encode(), OP_TOPIC.encode()
_REMOVED_TAG = "d"
_ENDING = "STEELYARD_END"
_REPLACED = "replaced"
_COPY = "STEELYARD_COPY"
_ENDINGS = {ending.value.encode(): ending for ending in Ending}
_FED_AT_ONCE = 2_000
_FED_BYTES = 4 << 20
_LOOKED_BACK = 10_000
"""So many ends before those needed are read after a start, to know how they ended."""

_LONGEST_IMMUNITY_MS = 24 * 3_600_000
"""Later than this a producer is asked anyway: a half must not outlive the log file it is in."""


def catch_up(state: State) -> None:
    """Let the table know all that is in the log."""
    while not feed(state):
        pass


def feed(state: State) -> bool:
    """Look at some of what is new in the log; say whether that was all."""
    halves, store = state.halves, state.store
    low, high = store.bounds(_HALF_KEY, 0)
    op_low, op_high = store.bounds(_OP_KEY, 0)
    if halves.fed < 0:
        saved = state.offsets.of(TRANSACTION_GROUP, HALF_TOPIC).get(0, 0)
        saved_op = state.offsets.of(TRANSACTION_GROUP, OP_TOPIC).get(0, 0)
        halves.fed = min(max(low, saved), high)
        halves.fed_ops = min(max(op_low, min(saved_op, op_high - _LOOKED_BACK)), op_high)
    if halves.fed < high:
        found = store.read(_HALF_KEY, 0, halves.fed, most=_FED_AT_ONCE, most_bytes=_FED_BYTES)
        for record in read_records(found.joined()):
            halves.add(_half(state, record))
        halves.fed = found.next_offset
        return False
    if halves.fed_ops < op_high:
        found = store.read(_OP_KEY, 0, halves.fed_ops, most=_FED_AT_ONCE, most_bytes=_FED_BYTES)
        for record in read_records(found.joined()):
            _add_op(state, record)
        halves.fed_ops = found.next_offset
        return False
    if not store.is_dirty:
        halves.ending.clear()  # what was written is known from the log now, what could not be written did not happen
    if halves.is_unsure:
        _find_commits(state)
        halves.is_unsure = False
    return True


def _half(state: State, record: Record) -> Half:
    ask_ms = record.stored_ms
    if find_property(record.properties, CHECK_TIMES.encode()) is None:
        ask_ms += immunity_ms(state, record.properties)
    return Half(origin_of(record), record.offset, record.position, record.stored_ms, ask_ms, _topic_of(record))


def _topic_of(record: Record) -> str:
    said = find_property(record.properties, REAL_TOPIC.encode())
    return "" if said is None else said.decode("utf-8", "replace")


def origin_of(record: Record) -> int:
    """Return the offset of the first record of a half's transaction."""
    said = find_property(record.properties, PREPARED_QUEUE_OFFSET.encode())
    first = None if said is None else whole_number(said.decode("ascii", "replace"))
    return record.offset if first is None or not 0 <= first < record.offset else first


def immunity_ms(state: State, properties: bytes) -> int:
    """Return how long a half is left alone before its producer is asked."""
    said = find_property(properties, CHECK_IMMUNITY_SECONDS.encode())
    seconds = whole_number(said.decode("ascii", "replace")) if said is not None else None
    if seconds is None or seconds < 0:
        return state.options.transaction_timeout_ms
    return min(seconds * 1_000, _LONGEST_IMMUNITY_MS)


def _add_op(state: State, record: Record) -> None:
    texts = record.body.decode("ascii", "replace").split(",")
    offsets = [offset for text in texts if (offset := whole_number(text)) is not None]
    said = find_property(record.properties, _ENDING.encode())
    ending = None if said == _REPLACED.encode() else _ENDINGS.get(said or b"", Ending.UNKNOWN)
    if ending is not None and state.halves.is_unsure and _lost_its_copy(state, record):
        ending = None
    state.halves.add_op(record.offset, offsets, ending)


def _lost_its_copy(state: State, record: Record) -> bool:
    """Whether an end is there and its message is not: a loss of power may take the earlier and leave the later."""
    said = find_property(record.properties, _COPY.encode())
    position = None if said is None else whole_number(said.decode("ascii", "replace"))
    return position is not None and position >= state.store.start and state.store.lookup.at(position) is None


def write_ending(state: State, half: Half, ending: Ending, now_ms: int, copy: Appended | None = None) -> Appended:
    """Write down how a transaction ended, and where its message went, if it did."""
    offsets = [half.offset] if half.offset == half.origin else [half.offset, half.origin]
    done = _write_op(state, offsets, ending.value, now_ms, copy)
    state.halves.ending[half.origin] = Ended(ending, done.end)
    return done


def write_replaced(state: State, offsets: list[int], now_ms: int) -> Appended:
    """Write down that halves were written anew, for a broker that does not see it by itself."""
    return _write_op(state, offsets, _REPLACED, now_ms)


def _write_op(state: State, offsets: list[int], what: str, now_ms: int, copy: Appended | None = None) -> Appended:
    properties = {TAGS: _REMOVED_TAG, UNIQUE_KEY: state.stamps.unique_key(now_ms), _ENDING: what}
    if copy is not None:
        properties[_COPY] = str(copy.position)
    body = "".join([f"{offset}," for offset in offsets]).encode()
    host = host_bytes(state.options.address)
    return put(state, OP_TOPIC, _OP_KEY, 0, body, as_text(properties), now_ms, host, now_ms)


def record_at(state: State, position: int) -> Record | None:
    """Return the half message at a position of the log; None if there is none, or something else."""
    found = state.store.lookup.at(position)
    if found is None:
        return None
    record = decode_record(found)
    return record if record.topic == _HALF_KEY else None


def committed_place(state: State, record: Record, now_ms: int) -> tuple[Place, dict[str, str]]:
    """Return where a committed message goes, which may be where it waits, and its properties there."""
    properties = parse_properties(record.properties)
    place = real_place(properties)
    if place is None:
        raise MalformedRecord(
            "a half message does not say which queue it is for", where="transaction", at=record.position
        )
    # TRAN_MSG stays, as with Apache: consumers tell by it that a message has a transaction's id.
    for name in (REAL_TOPIC, REAL_QUEUE_ID, PREPARED_QUEUE_OFFSET):
        properties.pop(name, None)
    return delayed_place(properties, place, now_ms, most_ms=state.options.timer_max_ms), properties


def _find_commits(state: State) -> None:
    """Write down the ends of transactions whose committed message is there, and whose end is not."""
    copies = Copies(state.store)
    for half in sorted(state.halves.open.values(), key=lambda half: half.stored_ms):
        record = record_at(state, half.position)
        if record is None:
            continue
        # A time of its own may have been over when it was committed: then it did not wait.
        places = {real_place(parse_properties(record.properties))}
        with suppress(ServerError, ProtocolError):
            places.add(committed_place(state, record, half.stored_ms)[0])
        if any(place is not None and copies.has(*place, half.position, half.stored_ms) for place in places):
            write_ending(state, half, Ending.COMMITTED, state.started_ms)
