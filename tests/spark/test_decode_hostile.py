from itertools import islice

import pytest

from steelyard.client.bulk.range_reader import RecordChunk
from steelyard.errors import LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model import Queue
from steelyard.spark.decode import decode
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.hosts import host_bytes
from steelyard.wire.record import pack_blank
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6, WRAPPED, Compression
from tests.fuzzing import mutations, rounds
from tests.spark.column_values import ALL, as_read, record_of
from tests.wire.stored_golden import record_bodies

_QUEUE = Queue("orders", "broker-a", 3)
_ALWAYS = -(1 << 63), (1 << 63) - 1


def _piece(records: bytes) -> RecordChunk:
    return RecordChunk(_QUEUE, *_ALWAYS, records)


def test_damage_names_the_queue_the_offset_and_what_is_wrong() -> None:
    good = [record_of(offset) for offset in range(40, 50)]
    broken = bytearray(good[5])
    broken[4:8] = b"nope"
    with pytest.raises(MalformedRecord, match=r"^orders@broker-a:3, offset 45: record, byte \d+: the magic is 0x6e6f"):
        decode([_piece(good[0]), _piece(b"".join([*good[1:5], broken, *good[6:]]))], ALL)


def test_a_body_that_cannot_be_opened_names_the_queue_and_the_offset() -> None:
    packed = record_of(41, b"this is no zlib", sys_flag=with_compression(0, Compression.ZLIB))
    with pytest.raises(MalformedRecord, match=r"^orders@broker-a:3, offset 41: body: the ZLIB stream"):
        decode([_piece(record_of(40) + packed)], ("body",))


def test_a_batch_that_cannot_be_unwrapped_names_the_queue_and_the_offset() -> None:
    wrapped = record_of(41, b"no batch", sys_flag=WRAPPED)
    with pytest.raises(MalformedRecord, match=r"^orders@broker-a:3, offset 41: "):
        decode([_piece(record_of(40) + wrapped)], ("offset",))


def test_a_topic_that_is_not_unicode_names_the_queue_and_the_offset() -> None:
    with pytest.raises(MalformedRecord, match=r"^orders@broker-a:3, offset 41: .*the topic b'\\xff' is not UTF-8"):
        decode([_piece(record_of(40)), _piece(record_of(41, topic=b"\xff"))], ("topic",))


@pytest.mark.parametrize("born", ["127.0.0.1:1", "[::1]:1"])
@pytest.mark.parametrize("topic", [b"orders", b"o" * 128])
def test_a_record_cut_at_any_byte_is_damage(born: str, topic: bytes) -> None:
    record = record_of(1, b"body", b"a\x01b\x02", topic=topic, born_host=host_bytes(born), store_host=host_bytes(born))
    for length in range(1, len(record)):
        with pytest.raises(MalformedRecord):
            decode([_piece(record[:length])], ("offset",))
        with pytest.raises(MalformedRecord):
            decode([_piece(record + record[:length])], ALL)


def test_a_record_may_not_go_over_the_end_of_its_piece() -> None:
    records = record_of(1) + record_of(2)
    with pytest.raises(MalformedRecord, match=r"^orders@broker-a:3, offset 2: "):
        decode([_piece(records[:150]), _piece(records[150:])], ("offset",))


@pytest.mark.parametrize("at", [0, 84])
@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 1, 90])
def test_lengths_that_lie_are_damage(at: int, length: int) -> None:
    broken = bytearray(record_of(1, b"body"))
    broken[at : at + 4] = length.to_bytes(4, "big")
    for before in (0, 1, 40, 100):
        with pytest.raises(MalformedRecord):
            decode([_piece(record_of(0, b"body") * before + bytes(broken))], ("offset",))


def test_a_small_record_that_claims_hosts_of_ipv6_is_damage() -> None:
    broken = bytearray(record_of(1, b""))
    broken[36:40] = (BORN_IPV6 | STORE_IPV6).to_bytes(4, "big")
    with pytest.raises(MalformedRecord):
        decode([_piece(bytes(broken))], ("offset",))


def test_the_blank_at_the_end_of_a_log_file_is_no_message() -> None:
    with pytest.raises(MalformedRecord, match="a blank is here"):
        decode([_piece(record_of(1) + pack_blank(200) + bytes(192))], ("offset",))


def test_more_than_a_column_can_hold_is_refused_before_anything_is_read() -> None:
    with pytest.raises(LimitExceeded, match="size of one batch is 268435457"):
        decode([_piece(bytes((1 << 28) + 1))], ("offset",))


def test_what_comes_out_of_all_records_of_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.spark.decode._MAX_BATCH_BYTES", 2_000)
    packed = record_of(0, compress(bytes(900), Compression.ZLIB), sys_flag=with_compression(0, Compression.ZLIB))
    wrapped = record_of(0, encode_batch([BatchItem(0, b"", b"")] * 4), sys_flag=WRAPPED)
    for record in (packed, wrapped):
        assert decode([_piece(record)], ALL).num_rows in (1, 4)
        with pytest.raises(LimitExceeded, match=r"^records: decompressed size of one batch exceeds 2000"):
            decode([_piece(record * 3)], ALL)


@pytest.mark.fuzz
def test_broken_records_are_read_as_a_consumer_reads_them_or_are_damaged() -> None:
    wrapped = record_of(1, encode_batch([BatchItem(1, b"abc", b"a\x01b\x02")] * 3), sys_flag=WRAPPED)
    packed = [
        record_of(2, compress(b"steelyard" * 50, kind), sys_flag=with_compression(0, kind)) for kind in Compression
    ]
    plain = [record_of(n, bytes(n % 5), b"TAGS\x01paid\x02KEYS\x01%d\x02" % n) for n in range(100)]
    corpus = [wrapped, *packed, b"".join(plain), *(recorded.body for recorded in record_bodies())]
    for broken in islice(mutations(corpus, seed=5), rounds()):
        try:
            expected = as_read([_piece(broken)], ALL)
        except ProtocolError:
            with pytest.raises(ProtocolError):
                decode([_piece(broken)], ALL)
            continue
        batch = decode([_piece(broken)], ALL)
        batch.validate(full=True)
        assert batch.to_pydict() == expected


@pytest.mark.fuzz
def test_noise_is_damage() -> None:
    for broken in islice(mutations([b"", bytes(200), record_of(1)], seed=6), rounds()):
        try:
            decode([_piece(broken[:50]), _piece(broken[50:])], ("body", "tags"))
        except ProtocolError:
            continue
