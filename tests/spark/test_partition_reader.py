"""A task gives the messages of its slice, each once and in order, in a few large batches; or says what is missing."""

import logging
from collections.abc import Iterator, Mapping
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from steelyard.client.bulk.connection_pool import shared_pool
from steelyard.errors import ConfigurationError, MalformedRecord, MessagesLost
from steelyard.model import OffsetRange
from steelyard.spark.options import ReadOptions
from steelyard.spark.partition_reader import OffsetRangePartition, read_partition
from steelyard.spark.schema import COLUMNS
from steelyard.wire.command import Command
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.headers.pull import PullMessageResponse
from steelyard.wire.sysflag import COMPRESSED, WRAPPED, Compression
from tests.client.scripted_broker import Broker, Held, broker, queue_of, record
from tests.spark.column_values import record_of


@pytest.fixture
def server() -> Iterator[Broker]:
    """Run a broker, with an empty connection pool before and after."""
    shared_pool().close()
    with broker() as running:
        yield running
    shared_pool().close()


def options(server: Broker, **more: str) -> ReadOptions:
    """Return options as a user would write them."""
    given: Mapping[str, str] = {"namesrv": server.address, "subscribe": "orders", **more}
    return ReadOptions.of({name.lower(): text for name, text in given.items()}, streaming=False)


def read(
    server: Broker, *ranges: tuple[int, int, int], columns: tuple[str, ...] = COLUMNS, **more: str
) -> list[pa.RecordBatch]:
    """Read ranges, given by queue, start and end."""
    part = OffsetRangePartition(
        tuple(OffsetRange(queue_of(queue_id), start, end) for queue_id, start, end in ranges),
        {server.name: server.address},
    )
    return list(read_partition(part, options(server, **more), columns))


def column(batches: list[pa.RecordBatch], name: str) -> list[object]:
    """Return the values of a column in all batches."""
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def test_a_slice_crosses_processes_and_tells_its_ranges() -> None:
    part = OffsetRangePartition(
        (OffsetRange(queue_of(3), 10, 25), OffsetRange(queue_of(4), 0, 5)), {"broker-a": "127.0.0.1:1"}
    )
    assert ForkingPickler.loads(ForkingPickler.dumps(part)) == part
    assert repr(part) == "OffsetRangePartition(orders@broker-a:3[10, 25), orders@broker-a:4[0, 5))"
    many = OffsetRangePartition(tuple(OffsetRange(queue_of(number), 0, 5) for number in range(9)), {})
    assert repr(many).endswith("orders@broker-a:2[0, 5), and 6 more)")


def test_all_columns_of_a_range_come_in_order(server: Broker) -> None:
    server.fill(2, 100, lambda offset: "paid" if offset % 2 else None)
    batches = read(server, (2, 10, 90))
    assert batches[0].schema.names == list(COLUMNS)
    assert column(batches, "offset") == list(range(10, 90))
    assert column(batches, "body") == [b"body %d" % offset for offset in range(10, 90)]
    assert column(batches, "tags") == [None, "paid"] * 40
    assert set(column(batches, "queue_id")) == {2}
    assert set(column(batches, "topic")) == {"orders"}


def test_an_empty_slice_gives_nothing(server: Broker) -> None:
    assert read(server) == []
    assert read(server, (0, 7, 7)) == []


def test_few_messages_of_many_queues_are_one_batch(server: Broker) -> None:
    for queue_id in range(64):
        server.fill(queue_id, 20)
    batches = read(server, *[(queue_id, 5, 15) for queue_id in range(64)], columns=("queue_id", "offset"))
    assert len(batches) == 1
    rows = {(row["queue_id"], row["offset"]) for row in batches[0].to_pylist()}
    assert batches[0].num_rows == 640
    assert rows == {(queue_id, offset) for queue_id in range(64) for offset in range(5, 15)}


def test_many_messages_are_batches_of_some_thousand(server: Broker) -> None:
    server.fill(0, 23_000)
    server.most = 1_000
    batches = read(server, (0, 0, 23_000), columns=("offset",))
    assert column(batches, "offset") == list(range(23_000))
    assert {batch.num_rows for batch in batches[:-1]} <= set(range(2_000, 10_001))


def test_large_messages_are_batches_of_some_mebibytes(server: Broker) -> None:
    server.fill(0, 30, size=1_000_000)
    batches = read(server, (0, 0, 30), columns=("offset", "body"))
    assert column(batches, "offset") == list(range(30))
    assert max(batch.num_rows for batch in batches) <= 6


def test_a_body_of_four_mebibytes_is_read(server: Broker) -> None:
    server.fill(0, 2, size=4 << 20)
    assert [len(body) for body in column(read(server, (0, 0, 2)), "body") if isinstance(body, bytes)] == [4 << 20] * 2


@given(st.data())
@settings(max_examples=25)
def test_any_slice_gives_exactly_the_messages_of_its_ranges_that_are_wanted(data: st.DataObject) -> None:
    with broker() as server:
        tags = data.draw(st.lists(st.sampled_from(["Aa", "BB", None]), min_size=1, max_size=3))
        counts = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=3))
        for queue_id, count in enumerate(counts):
            server.fill(queue_id, count, lambda offset: tags[offset % len(tags)])
        server.most = data.draw(st.sampled_from([1, 32, 1_000]))
        server.is_backwards = data.draw(st.booleans())
        more = data.draw(st.sampled_from([{}, {"tags": "Aa"}, {"tags": "BB || none"}]))
        ranges = []
        for queue_id, count in enumerate(counts):
            start, end = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
            ranges.append((queue_id, start, end))
        names = data.draw(st.sampled_from([("queue_id", "offset"), ("offset", "tags", "queue_id")]))
        batches = read(server, *ranges, columns=names, **more)
        assert all(batch.schema.names == list(names) and batch.num_rows for batch in batches)
        wanted = {"Aa", "BB", None} if not more else {more["tags"][:2]}
        for queue_id, start, end in ranges:
            found = [row["offset"] for batch in batches for row in batch.to_pylist() if row["queue_id"] == queue_id]
            assert found == [offset for offset in range(start, end) if tags[offset % len(tags)] in wanted]
    shared_pool().close()


# -- what is lost, and what is damaged --------------------------------------------------------------------------------


def test_a_loss_fails_the_task_and_names_the_offsets(server: Broker) -> None:
    server.fill(0, 500).low = 120
    with pytest.raises(MessagesLost, match=r"offsets \[100, 120\) of orders@broker-a:0 are lost.*failOnDataLoss=false"):
        read(server, (0, 100, 500))


def test_a_task_may_go_on_without_what_is_lost_and_reports_it_once(
    server: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    server.fill(0, 5_000).low = 2_120
    with caplog.at_level(logging.WARNING, logger="steelyard"):
        batches = read(server, (0, 100, 5_000), columns=("offset",), failOnDataLoss="false")
    assert column(batches, "offset") == list(range(2_120, 5_000))
    assert [each.getMessage() for each in caplog.records] == [
        "orders@broker-a:0[100, 2120) is lost and skipped: the broker keeps messages from offset 2120 on"
    ]


def test_messages_that_a_broker_steps_over_are_lost(server: Broker, caplog: pytest.LogCaptureFixture) -> None:
    held = server.fill(0, 100)
    held.records[40:43] = [None] * 3
    with pytest.raises(MessagesLost, match=r"offsets \[40, 43\) of orders@broker-a:0 are lost"):
        read(server, (0, 0, 100))
    batches = read(server, (0, 0, 100), columns=("body", "offset"), failOnDataLoss="false")
    assert column(batches, "offset") == [*range(40), *range(43, 100)]
    assert len(caplog.records) == 1


def test_what_a_filter_leaves_out_is_not_lost(server: Broker) -> None:
    server.fill(0, 100, lambda offset: "paid" if offset == 50 else "new")
    assert column(read(server, (0, 0, 100), columns=("offset",), tags="paid"), "offset") == [50]


def test_messages_that_come_twice_are_damage(server: Broker) -> None:
    twice = record(3) + record(3) + record(4)
    server.respond_with = lambda _: Command(0, PullMessageResponse(0, 6, 0, 6), twice)
    with pytest.raises(MalformedRecord, match=r"orders@broker-a:0: the broker returned messages twice.*\[3, 6\)"):
        read(server, (0, 3, 6))


def test_a_damaged_record_is_named(server: Broker) -> None:
    held = server.fill(0, 100)
    good = held.records[57]
    assert good is not None
    held.records[57] = good[:4] + b"oops" + good[8:]
    with pytest.raises(MalformedRecord, match="orders@broker-a:0, offset 57"):
        read(server, (0, 0, 100))


def test_records_of_other_offsets_are_no_answer(server: Broker) -> None:
    server.respond_with = lambda _: Command(0, PullMessageResponse(0, 6, 0, 6), record(77) + record(78))
    with pytest.raises(MessagesLost, match=r"\[3, 6\)"):
        read(server, (0, 3, 6))


def test_bodies_that_grow_when_they_are_opened_come_in_more_batches(
    server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.spark.decode._MAX_BATCH_BYTES", 1 << 20)
    body = compress(bytes(100_000), Compression.ZLIB)
    records: list[bytes | None] = [
        record_of(offset, body, sys_flag=COMPRESSED | Compression.ZLIB << 8) for offset in range(40)
    ]
    server.held[0] = Held(records, [None] * 40)
    batches = read(server, (0, 0, 40), columns=("offset", "body"))
    assert column(batches, "offset") == list(range(40))
    assert len(batches) > 3
    assert max(batch.nbytes for batch in batches) < 2 << 20


def test_a_body_that_is_too_large_alone_is_an_error(server: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.spark.decode._MAX_BATCH_BYTES", 50_000)
    body = compress(bytes(100_000), Compression.ZLIB)
    server.fill(0, 9)
    server.held[0].records[4] = record_of(4, body, sys_flag=COMPRESSED | Compression.ZLIB << 8)
    with pytest.raises(MalformedRecord, match="orders@broker-a:0, offset 4"):
        read(server, (0, 0, 9))


def test_large_bodies_come_a_few_at_a_time(server: Broker) -> None:
    body = compress(bytes(8 << 20), Compression.ZLIB)
    records: list[bytes | None] = [
        record_of(each, body, sys_flag=with_compression(0, Compression.ZLIB)) for each in range(30)
    ]
    server.held[0] = Held(records, [None] * 30)
    part = OffsetRangePartition((OffsetRange(queue_of(0), 0, 30),), {server.name: server.address})
    offsets: list[int] = []
    for batch in read_partition(part, options(server), ("offset", "body")):
        assert batch.column("body").nbytes <= 80 << 20
        offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(30))


# -- messages that cannot be read -------------------------------------------------------------------------------------

_BAD = {
    "garbage as zlib": (0x301, b"no zlib stream"),
    "garbage as LZ4": (0x101, b"no LZ4 frame"),
    "garbage as zstd": (0x201, b"no zstd frame"),
    "a codec that nobody knows": (0x701, b"?"),
    "a stream that is cut off": (0x301, compress(b"whole" * 100, Compression.ZLIB)[:-5]),
    "a bomb": (0x301, compress(bytes((16 << 20) + 1), Compression.ZLIB)),
    "a batch that is none": (WRAPPED, b"\x00\x00"),
}


@pytest.mark.parametrize("kind", list(_BAD))
def test_a_message_that_cannot_be_read_fails_the_query_or_is_left_out_or_has_no_body(
    server: Broker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    sys_flag, body = _BAD[kind]
    server.fill(0, 9)
    server.held[0].records[4] = record_of(4, body, sys_flag=sys_flag)
    with pytest.raises(MalformedRecord, match="orders@broker-a:0, offset 4"):
        read(server, (0, 0, 9))
    left = read(server, (0, 0, 9), onUnreadable="skip")
    assert column(left, "offset") == [0, 1, 2, 3, 5, 6, 7, 8]
    assert "orders@broker-a:0, offset 4, cannot be read and is left out: " in caplog.text
    without = read(server, (0, 0, 9), onUnreadable="null")
    assert column(without, "offset") == list(range(9))
    assert [body is None for body in column(without, "body")] == [False] * 4 + [True] + [False] * 4
    assert "offset 4, cannot be read and has no body: " in caplog.text


def test_a_query_that_wants_no_body_opens_none(server: Broker) -> None:
    server.fill(0, 9)
    server.held[0].records[4] = record_of(4, b"no zlib stream", sys_flag=0x301)
    assert column(read(server, (0, 0, 9), columns=("offset",)), "offset") == list(range(9))


def test_only_three_things_can_be_done_with_it(server: Broker) -> None:
    with pytest.raises(ConfigurationError, match="give fail, skip or null"):
        options(server, onUnreadable="drop")


# -- lines ------------------------------------------------------------------------------------------------------------


def test_tasks_of_a_process_use_the_same_connection_until_one_fails(
    server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill(0, 100)
    for _ in range(3):
        read(server, (0, 0, 100))
    assert server.connections == 1
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: 1))
    read(server, (0, 0, 100))
    assert server.connections == 2


def test_a_task_that_is_given_up_leaves_no_connection_behind(server: Broker) -> None:
    server.fill(0, 50_000)
    server.most = 1_000
    part = OffsetRangePartition((OffsetRange(queue_of(), 0, 50_000),), {server.name: server.address})
    batches = read_partition(part, options(server), ("offset",))
    assert next(batches).num_rows
    batches.close()
    assert len(shared_pool()) == 0
