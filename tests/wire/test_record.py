from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord, ProtocolError
from steelyard.wire import limits
from steelyard.wire.hosts import host_bytes, host_text
from steelyard.wire.record import (
    BLANK_MAGIC,
    MIN_RECORD_BYTES,
    V1_MAGIC,
    V2_MAGIC,
    MessageRecord,
    decode_record,
    decode_records,
    encode_record,
    pack_blank,
    pack_record,
    peek_record,
)
from steelyard.wire.sysflag import BORN_IPV6, STORE_IPV6
from tests.fuzzing import mutations, rounds
from tests.memory import assert_peak_below
from tests.wire.stored_golden import Recorded, record_bodies
from tests.wire.stored_values import HELLO_RECORD, HOST, RecordParts, hosts, parts


def _packed(
    topic: bytes = b"orders",
    body: bytes = b"{}",
    properties: bytes = b"",
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> bytes:
    filled = {"queue_id": 0, "offset": 0, "position": 0, "born_ms": 0, "stored_ms": 0} | dict(numbers)
    return pack_record(topic, body=body, properties=properties, born_host=HOST, store_host=HOST, **filled)


def test_a_record_of_apache_is_read() -> None:
    record = decode_record(HELLO_RECORD, check_crc=True)
    assert record == MessageRecord(
        topic=b"TopicTest",
        queue_id=3,
        offset=5,
        position=1024,
        body=b"hello",
        properties=b"TAGS\x01TagA\x02",
        born_ms=1_700_000_000_000,
        born_host=host_bytes("127.0.0.1:5000"),
        stored_ms=1_700_000_000_001,
        store_host=host_bytes("192.168.1.2:10911"),
        flag=0,
        sys_flag=0,
        reconsume_times=0,
        prepared_offset=0,
        crc=907_060_870,
        size=115,
    )


def test_a_record_of_apache_is_written_byte_for_byte() -> None:
    assert (
        pack_record(
            b"TopicTest",
            3,
            5,
            1024,
            b"hello",
            b"TAGS\x01TagA\x02",
            born_ms=1_700_000_000_000,
            born_host=host_bytes("127.0.0.1:5000"),
            stored_ms=1_700_000_000_001,
            store_host=host_bytes("192.168.1.2:10911"),
        )
        == HELLO_RECORD
    )


def test_there_are_recorded_bodies_to_read() -> None:
    assert sum(len(list(decode_records(recorded.body))) for recorded in record_bodies()) == 45


@pytest.mark.parametrize("recorded", record_bodies(), ids=lambda recorded: recorded.name)
def test_recorded_records_are_read_and_written_again_byte_for_byte(recorded: Recorded) -> None:
    records = list(decode_records(recorded.body, check_crc=True))
    assert b"".join(map(encode_record, records)) == recorded.body
    assert sum(record.size for record in records) == len(recorded.body)


@given(parts())
def test_what_is_packed_is_read_back(given_parts: RecordParts) -> None:
    packed = pack_record(**given_parts)
    record = decode_record(packed)
    assert encode_record(record) == packed
    assert record.size == len(packed)
    expected: dict[str, object] = dict(given_parts)
    del expected["crc"], expected["sys_flag"]
    assert {name: getattr(record, name) for name in expected} == expected
    assert record.crc == (crc32(record.body) & 0x7FFFFFFF if given_parts["crc"] is None else given_parts["crc"])
    assert bool(record.sys_flag & BORN_IPV6) == (len(record.born_host) == 20)
    assert bool(record.sys_flag & STORE_IPV6) == (len(record.store_host) == 20)
    assert (record.sys_flag ^ given_parts["sys_flag"]) & ~(BORN_IPV6 | STORE_IPV6) == 0
    start = peek_record(packed)
    assert start is not None
    assert start.magic == (V1_MAGIC if len(record.topic) <= limits.TOPIC_BYTES_V1 else V2_MAGIC)


@given(st.lists(parts(), max_size=4))
def test_records_back_to_back_are_read_in_order(many: list[RecordParts]) -> None:
    packed = [pack_record(**each) for each in many]
    body = b"".join(packed)
    expected = [decode_record(each) for each in packed]
    for buffer in (body, bytearray(body), memoryview(body)):
        assert list(decode_records(buffer)) == expected


@given(parts(), st.binary(max_size=20), st.binary(max_size=20))
def test_one_record_is_read_out_of_the_middle_of_a_log(given_parts: RecordParts, before: bytes, behind: bytes) -> None:
    packed = pack_record(**given_parts)
    log = before + packed + behind
    for buffer in (log, bytearray(log), memoryview(log)):
        record = decode_record(buffer, len(before))
        assert record == decode_record(packed)
        assert type(record.body) is type(record.topic) is type(record.properties) is bytes


@pytest.mark.parametrize(
    ("born", "store"), [("127.0.0.1:1", "[::1]:2"), ("[fe80::1]:1", "127.0.0.1:2"), ("[::]:0",) * 2]
)
def test_a_record_cut_at_any_byte_is_damaged(born: str, store: str) -> None:
    for topic in (b"orders", b"o" * 128):
        packed = pack_record(
            topic,
            0,
            0,
            0,
            b"body",
            b"a\x01b\x02",
            born_ms=0,
            born_host=host_bytes(born),
            stored_ms=0,
            store_host=host_bytes(store),
        )
        assert decode_record(packed).topic == topic
        for size in range(len(packed)):
            for cut in (packed[:size], memoryview(packed)[:size]):
                with pytest.raises(MalformedRecord):
                    decode_record(cut)
            # The same cut, but the record says so itself: now its parts do not add up.
            with pytest.raises(MalformedRecord):
                decode_record(size.to_bytes(4, "big") + packed[4:])


@pytest.mark.parametrize(
    ("at", "broken", "says"),
    [
        (0, "00000074", "byte 0: the size is 116; a record like this has 91 or more, 115 bytes are left"),
        (0, "ffffffff", "byte 0: the size is -1; a record like this has 91 or more, 115 bytes are left"),
        (4, "daa320a8", "byte 4: the magic is 0xdaa320a8, not that of a message"),
        (4, "cbd43194", "byte 0: a blank is here: the end of a log file, not a message"),
        (8, "00000000", "byte 8: the body's checksum does not fit the body"),
        (84, "ffffffff", "byte 84: the body's length is -1, there is room for 24"),
        (84, "00000019", "byte 84: the body's length is 25, there is room for 24"),
        (93, "80", "byte 93: the topic's length is -128, there is room for 19"),
        (93, "14", "byte 93: the topic's length is 20, there is room for 19"),
        (103, "0009", "byte 103: the properties' length is 9, the record has 10 bytes left for them"),
        (103, "800a", "byte 103: the properties' length is -32758, the record has 10 bytes left for them"),
    ],
)
def test_damage_is_named_with_its_byte(at: int, broken: str, says: str) -> None:
    patch = bytes.fromhex(broken)
    record = HELLO_RECORD[:at] + patch + HELLO_RECORD[at + len(patch) :]
    for buffer in (record, memoryview(record)):
        with pytest.raises(MalformedRecord) as caught:
            decode_record(buffer, check_crc=True)
        assert str(caught.value) == f"record, {says}"
    # In the middle of an answer the byte is the answer's.
    with pytest.raises(MalformedRecord) as caught:
        list(decode_records(HELLO_RECORD + record, check_crc=True))
    assert caught.value.at is not None
    assert caught.value.at >= len(HELLO_RECORD)


def test_a_length_beyond_fifteen_bits_is_damage_even_where_it_fits() -> None:
    packed = bytearray(_packed(topic=b"", body=b"x" * 40_000))
    # The body's end becomes properties of 33,000 bytes: no writer can have meant that.
    packed[84:88] = (40_000 - 33_000).to_bytes(4, "big")
    packed[88 + 7_000 : 88 + 7_003] = b"\x00" + (33_000).to_bytes(2, "big")
    with pytest.raises(MalformedRecord, match="properties' length is -32536"):
        decode_record(bytes(packed))


def test_records_before_a_damaged_one_are_good() -> None:
    reader = decode_records(HELLO_RECORD + HELLO_RECORD + b"?")
    assert [next(reader).offset, next(reader).offset] == [5, 5]
    with pytest.raises(MalformedRecord, match="record, byte 230: 1 bytes are left"):
        next(reader)


def test_the_checksum_is_looked_at_only_when_asked() -> None:
    packed = _packed(numbers={"crc": 1})
    assert decode_record(packed).crc == 1
    with pytest.raises(MalformedRecord, match="checksum"):
        decode_record(packed, check_crc=True)


@pytest.mark.parametrize("name", ["queue_id", "flag", "sys_flag", "reconsume_times", "crc"])
def test_a_number_beyond_32_bits_is_refused_by_name(name: str) -> None:
    for number in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(
            ConfigurationError, match=f"the {name} of a record is {number}; it must be .* 32 signed bits"
        ):
            _packed(numbers={name: number})


@pytest.mark.parametrize("name", ["offset", "position", "born_ms", "stored_ms", "prepared_offset"])
def test_a_number_beyond_64_bits_is_refused_by_name(name: str) -> None:
    for number in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(
            ConfigurationError, match=f"the {name} of a record is {number}; it must be .* 64 signed bits"
        ):
            _packed(numbers={name: number})


def test_names_and_properties_beyond_their_lengths_are_refused() -> None:
    longest = b"x" * 32_767
    assert decode_record(_packed(topic=longest, properties=longest)).size == 88 + 2 + 2 + 32_767 + 2 + 32_767
    with pytest.raises(LimitExceeded, match="record: topic is 32768, the limit is 32767"):
        _packed(topic=longest + b"x")
    with pytest.raises(LimitExceeded, match="record: properties text is 32768, the limit is 32767"):
        _packed(properties=longest + b"x")


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 19, 21])
def test_a_host_of_another_length_is_refused(size: int) -> None:
    for born, store in ((bytes(size), HOST), (HOST, bytes(size))):
        with pytest.raises(ConfigurationError, match="a host of a record is"):
            pack_record(b"t", 0, 0, 0, b"", b"", born_ms=0, born_host=born, stored_ms=0, store_host=store)
    with pytest.raises(MalformedRecord):
        host_text(bytes(size))


@given(hosts)
def test_a_host_is_the_same_as_text(host: bytes) -> None:
    assert host_bytes(host_text(host)) == host


@pytest.mark.parametrize(
    "text", ["", "here:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "[::1]", "1.2.3.4:4294967296"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a host"):
        host_bytes(text)


def test_the_smallest_record_is_as_small_as_the_layout_says() -> None:
    assert len(_packed(topic=b"", body=b"")) == MIN_RECORD_BYTES == 91


def test_a_blank_says_how_far_the_file_goes_on() -> None:
    blank = pack_blank(4096)
    start = peek_record(b"before" + blank + b"whatever", 6)
    assert start is not None
    assert (start.size, start.magic, len(blank)) == (4096, BLANK_MAGIC, 8)
    assert peek_record(blank, 1) is None
    for size in (-1, 7, 1 << 31):
        with pytest.raises(ConfigurationError, match=f"a blank cannot have {size} bytes"):
            pack_blank(size)


@pytest.mark.fuzz
def test_broken_records_are_either_read_or_damaged() -> None:
    corpus = [recorded.body for recorded in record_bodies()] + [HELLO_RECORD, pack_blank(100)]

    def read_all() -> None:
        for broken in islice(mutations(corpus, seed=1), rounds()):
            try:
                records = list(decode_records(broken, check_crc=True))
            except ProtocolError:
                continue
            assert sum(record.size for record in records) == len(broken)

    assert_peak_below(100 * max(map(len, corpus)), read_all)
