"""Records of the rebalance history are decoded as they were encoded, and no other text is an error."""

import json

from hypothesis import given
from hypothesis import strategies as st

from steelyard.wire.rebalance_history import (
    MemberChangeEntry,
    QueueMoveEntry,
    RebalanceEntry,
    RebalanceHistoryRecord,
    decode_history_record,
    encode_history_record,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(0, (1 << 31) - 1)
moves = st.builds(
    QueueMoveEntry,
    topic=names,
    queue=numbers,
    before=st.none() | names,
    after=st.none() | names,
    gap_ms=st.none() | numbers,
    kind=names,
    why=names,
    at_ms=numbers,
)
records = st.builds(
    RebalanceHistoryRecord,
    group=names,
    broker=names,
    at_ms=numbers,
    members=st.lists(names, max_size=3).map(tuple),
    changed=st.lists(st.builds(MemberChangeEntry, names, names, numbers), max_size=3).map(tuple),
    owners=st.dictionaries(names, st.lists(st.integers(-1, 2), max_size=4).map(tuple), max_size=3),
    moves=st.lists(moves, max_size=3).map(tuple),
    rebalance=st.none() | st.builds(RebalanceEntry, began_ms=numbers, ended_ms=numbers, moved=numbers, least=numbers),
    left_out=numbers,
)


@given(records)
def test_a_record_comes_back_as_it_was_written(record: RebalanceHistoryRecord) -> None:
    assert decode_history_record(encode_history_record(record)) == record


@given(
    st.binary()
    | st.recursive(st.none() | names | numbers, lambda inner: st.lists(inner)).map(json.dumps).map(str.encode)
)
def test_what_is_no_record_is_none_and_no_error(body: bytes) -> None:
    assert decode_history_record(body) is None


def test_moves_have_from_and_to() -> None:
    line = QueueMoveEntry(
        topic="orders", queue=2, before="c1", after="c2", gap_ms=7, kind="given up", why="c2 joined", at_ms=9
    )
    record = RebalanceHistoryRecord(group="billing", broker="broker-0", at_ms=9, moves=(line,))
    (written,) = json.loads(encode_history_record(record))["moves"]
    assert (written["from"], written["to"], written["gap_ms"]) == ("c1", "c2", 7)


def test_a_stored_record_has_the_shape_that_users_read() -> None:
    # It stays in topics for days and is read with Spark, so a later release must write and read the same.
    stored = (
        b'{"version":1,"group":"billing","broker":"broker-0","at_ms":500,"members":["c-1","c-2"],'
        b'"changed":[{"member":"c-2","what":"joined","at_ms":405}],"owners":{"orders":[0,1]},'
        b'"moves":[{"topic":"orders","queue":1,"from":"c-1","to":"c-2","gap_ms":3,"kind":"given up",'
        b'"why":"c-2 joined","at_ms":412}],'
        b'"rebalance":{"began_ms":405,"ended_ms":412,"moved":1,"least":1},"left_out":0}'
    )
    record = decode_history_record(stored)
    assert record is not None
    assert (record.group, record.moves[0].before, record.moves[0].after) == ("billing", "c-1", "c-2")
    assert encode_history_record(record) == stored
    short = decode_history_record(b'{"version":1,"group":"billing","broker":"broker-0","at_ms":5}')
    assert short == RebalanceHistoryRecord(group="billing", broker="broker-0", at_ms=5)


def test_deep_and_long_texts_are_none() -> None:
    assert decode_history_record(b"[" * 100_000) is None
    assert decode_history_record(b'{"group":"g","broker":"b","at_ms":' + b"9" * 5_000 + b"}") is None
