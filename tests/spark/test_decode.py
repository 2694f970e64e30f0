from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from steelyard.client.bulk.range_reader import RecordChunk
from steelyard.model import Queue
from steelyard.spark.decode import arrow_schema, decode
from steelyard.spark.schema import schema_for
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.hosts import host_bytes
from steelyard.wire.sysflag import WRAPPED, Compression
from tests.spark.column_values import ALL, as_read, pieces, record_of
from tests.wire.stored_golden import Recorded, record_bodies

_QUEUE = Queue("orders", "broker-a", 0)
_projections = st.permutations(ALL).flatmap(lambda order: st.integers(1, len(ALL)).map(lambda count: order[:count]))


def _piece(*records: bytes, start: int = 0, end: int = 1 << 40, queue: Queue = _QUEUE) -> RecordChunk:
    return RecordChunk(queue, start, end, b"".join(records))


@given(pieces())
def test_any_records_are_read_as_a_consumer_reads_them(some: list[RecordChunk]) -> None:
    batch = decode(some, ALL)
    batch.validate(full=True)
    assert batch.to_pydict() == as_read(some, ALL)


@given(pieces(), _projections, st.sampled_from(["", "eu"]))
def test_any_columns_in_any_order_are_read_as_a_consumer_reads_them(
    some: list[RecordChunk], wanted: list[str], namespace: str
) -> None:
    batch = decode(some, tuple(wanted), namespace=namespace)
    assert list(batch.to_pydict()) == wanted
    assert batch.to_pydict() == as_read(some, wanted, namespace)


@pytest.mark.parametrize("recorded", record_bodies(), ids=lambda recorded: recorded.name)
def test_records_of_apache_are_read_as_a_consumer_reads_them(recorded: Recorded) -> None:
    assert decode([_piece(recorded.body)], ALL).to_pydict() == as_read([_piece(recorded.body)], ALL)


def test_all_records_of_apache_are_read_together() -> None:
    recorded = [_piece(each.body) for each in record_bodies()]
    assert decode(recorded, ALL).to_pydict() == as_read(recorded, ALL)
    assert decode(recorded, ALL).num_rows >= 45


@given(_projections)
def test_the_schema_is_the_one_that_spark_wants(wanted: list[str]) -> None:
    columns = tuple(wanted)
    expected = to_arrow_schema(schema_for(columns), timezone="UTC")
    assert arrow_schema(columns).equals(expected, check_metadata=True)
    for some in ([], [_piece()], [_piece(record_of(7))], [_piece(record_of(7), end=7)]):
        assert decode(some, columns).schema.equals(expected, check_metadata=True)


def test_nothing_becomes_a_batch_without_rows() -> None:
    for nothing in ([], [_piece()], [_piece(), _piece()], [_piece(record_of(7), end=7)]):
        assert decode(nothing, ALL).num_rows == 0


def test_messages_outside_the_range_of_their_piece_are_left_out() -> None:
    some = [
        _piece(*[record_of(offset) for offset in range(10)], start=3, end=8),
        _piece(*[record_of(offset) for offset in range(10)], start=8, end=20),
    ]
    assert decode(some, ("offset",)).to_pydict() == {"offset": [3, 4, 5, 6, 7, 8, 9]}


def test_pieces_keep_their_order_and_their_brokers() -> None:
    there = Queue("orders", "broker-b", 1)
    some = [_piece(record_of(5)), _piece(record_of(1, queue_id=1), record_of(2, queue_id=1), queue=there), _piece()]
    assert decode(some, ("broker", "queue_id", "offset")).to_pylist() == [
        {"broker": "broker-a", "queue_id": 0, "offset": 5},
        {"broker": "broker-b", "queue_id": 1, "offset": 1},
        {"broker": "broker-b", "queue_id": 1, "offset": 2},
    ]


def test_a_batch_stays_as_it_is_while_the_next_one_is_read() -> None:
    first = [_piece(record_of(1, b"one", b"TAGS\x01a\x02")), _piece(record_of(2, b"two", b"TAGS\x01b\x02"))]
    second = [_piece(record_of(3, b"ONE", b"TAGS\x01A\x02")), _piece(record_of(4, b"TWO", b"TAGS\x01B\x02"))]
    batch = decode(first, ALL)
    decode(second, ALL)
    assert batch.to_pydict() == as_read(first, ALL)


@pytest.mark.parametrize("kind", list(Compression))
def test_compressed_bodies_are_opened(kind: Compression) -> None:
    packed = record_of(2, compress(b"steelyard" * 50, kind), sys_flag=with_compression(0, kind))
    some = [_piece(record_of(1, b"before"), packed, record_of(3, b"behind"))]
    assert decode(some, ("body",)).to_pydict() == {"body": [b"before", b"steelyard" * 50, b"behind"]}


def test_a_body_that_is_not_wanted_is_not_opened() -> None:
    some = [_piece(record_of(1, b"this is no zlib", sys_flag=with_compression(0, Compression.ZLIB)))]
    assert decode(some, ("offset",)).to_pydict() == {"offset": [1]}


def test_of_a_batch_stored_as_one_record_only_the_wanted_messages_are_given() -> None:
    items = [BatchItem(0, b"%d" % index, b"TAGS\x01t%d\x02" % index) for index in range(5)]
    wrapped = record_of(10, encode_batch(items), b"INNER_NUM\x015\x02", sys_flag=WRAPPED)
    some = [_piece(record_of(9, b"before"), wrapped, record_of(15, b"behind"), start=12, end=14)]
    assert decode(some, ("offset", "body", "tags")).to_pylist() == [
        {"offset": 12, "body": b"2", "tags": "t2"},
        {"offset": 13, "body": b"3", "tags": "t3"},
    ]


def test_moments_that_no_calendar_has_become_the_nearest_one_that_it_has() -> None:
    far = (-(1 << 63), -62_135_596_800_000, 0, 253_402_300_799_999, (1 << 63) - 1)
    batch = decode([_piece(*[record_of(n, born_ms=ms, stored_ms=ms) for n, ms in enumerate(far)])], ALL)
    expected = [
        datetime.min.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ]
    assert batch.column("born_at").to_pylist() == batch.column("stored_at").to_pylist() == expected


def test_a_message_without_an_id_of_its_own_has_the_one_of_its_place() -> None:
    some = [
        _piece(
            record_of(1, properties=b"UNIQ_KEY\x01MINE\x02"),
            record_of(2, position=1024, store_host=host_bytes("192.168.1.2:10911")),
            record_of(3, position=1, store_host=host_bytes("[::1]:10911")),
        )
    ]
    assert decode(some, ("message_id",)).to_pydict()["message_id"] == [
        "MINE",
        "C0A8010200002A9F0000000000000400",
        "0000000000000000000000000000000100002A9F0000000000000001",
    ]


def test_topics_lose_their_namespace() -> None:
    some = [
        _piece(record_of(1, topic=b"eu%orders"), record_of(2, topic=b"%RETRY%eu%billing"), record_of(3, topic=b"us%a")),
        _piece(record_of(4, topic=b"eu%orders"), queue=Queue("eu%orders", "broker-a", 0)),
    ]
    topics = decode(some, ("topic",), namespace="eu").to_pydict()["topic"]
    assert topics == ["orders", "%RETRY%billing", "us%a", "orders"]
