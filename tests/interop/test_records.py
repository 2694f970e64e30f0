"""Stored messages: Java's consumers read our records, and we read the records that Java writes."""

from typing import Any, NamedTuple
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from steelyard.errors import MalformedRecord
from steelyard.model.message import StoredMessage
from steelyard.wire import limits
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.properties import encode_properties
from steelyard.wire.record import MessageRecord, decode_records, encode_record
from steelyard.wire.stored_messages import decode_messages
from steelyard.wire.sysflag import BORN_IPV6, COMPRESSED, STORE_IPV6, WRAPPED, Compression
from tests.interop.java_values import ASTRAL, int32, int64
from tests.interop.java_values import properties as any_properties
from tests.interop.peer import JavaRefused, Peer
from tests.wire.stored_golden import record_bodies

BROKER = "broker-a"
IPV4 = bytes.fromhex("c0a8010200002a9f")
IPV6 = bytes.fromhex("20010db8000000000000000000000001") + bytes.fromhex("00002a9f")
IPV4_IN_IPV6 = bytes.fromhex("00000000000000000000ffffc0a80102") + bytes.fromhex("00002a9f")

ports = st.integers(0, 65_535).map(lambda port: port.to_bytes(4, "big"))
addresses = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16).filter(
    lambda address: not address.startswith(IPV4_IN_IPV6[:12])
)
hosts = st.builds(bytes.__add__, addresses, ports)
topics = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
ids = st.sampled_from([{}, {"UNIQ_KEY": "0A000007109218B4AAC247B760000001"}])


class Drawn(NamedTuple):
    """A record, and its properties before they became a text."""

    record: MessageRecord
    properties: dict[str, str]


ORDINARY = MessageRecord(
    topic=b"t",
    queue_id=3,
    offset=5,
    position=1024,
    body=b"",
    properties=b"",
    born_ms=1_700_000_000_000,
    born_host=IPV4,
    stored_ms=1_700_000_000_001,
    store_host=IPV4,
    flag=0,
    sys_flag=0,
    reconsume_times=0,
    prepared_offset=0,
    crc=0,
    size=0,
)


def record_of(topic: str, body: bytes, properties: dict[str, str], **others: Any) -> MessageRecord:
    """Make a record; what is not given is ordinary, and the bits of IPv6 follow from the hosts."""
    parts = {
        "topic": topic.encode(),
        "body": body,
        "properties": encode_properties(properties),
        "crc": crc32(body) & 0x7FFFFFFF,
    }
    record = replace(ORDINARY, **parts | others)
    born = BORN_IPV6 if len(record.born_host) > len(IPV4) else 0
    store = STORE_IPV6 if len(record.store_host) > len(IPV4) else 0
    return replace(record, sys_flag=record.sys_flag & ~(BORN_IPV6 | STORE_IPV6) | born | store)


@st.composite
def drawn_records(draw: st.DrawFn) -> Drawn:
    """Draw any record of version 1 that Java can hold: ports are 16 bits, and nothing pretends to be compressed."""
    properties = draw(any_properties) | draw(ids)
    record = record_of(
        draw(topics),
        draw(st.binary(max_size=80)),
        properties,
        queue_id=draw(int32),
        offset=draw(int64),
        position=draw(int64),
        born_ms=draw(int64),
        born_host=draw(hosts),
        stored_ms=draw(int64),
        store_host=draw(hosts),
        flag=draw(int32),
        sys_flag=draw(int32) & ~(COMPRESSED | WRAPPED),
        reconsume_times=draw(int32),
        prepared_offset=draw(int64),
        crc=draw(int32),
    )
    return Drawn(record, properties)


def as_java_has_it(message: StoredMessage, record: MessageRecord) -> dict[str, Any]:
    """Say how Java sees a message that we made of a record."""
    return {
        "topic": message.topic,
        "queue_id": message.queue.queue_id,
        "offset": message.offset,
        "position": message.position,
        "body": message.body.hex() or None,
        "properties": dict(message.properties),
        "born_ms": message.born_ms,
        "born_host": host_as_java_has_it(record.born_host),
        "stored_ms": message.stored_ms,
        "store_host": host_as_java_has_it(record.store_host),
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "prepared_offset": message.prepared_offset,
        "crc": record.crc,
        "size": message.size,
        "message_id": message.message_id,
        "offset_id": message.offset_id,
    }


def host_as_java_has_it(host: bytes) -> str:
    return f"{host[:-4].hex()}:{int.from_bytes(host[-4:], 'big')}"


def read_by_java(java: Peer, data: bytes) -> list[dict[str, Any]]:
    """Let Java read a pull's body. It has no properties at all, instead of none, where their text is empty."""
    return [found | {"properties": found["properties"] or {}} for found in java.ask("read-records", data)]


def read_by_us(data: bytes) -> list[dict[str, Any]]:
    return list(map(as_java_has_it, decode_messages(data, BROKER), decode_records(data)))


def written_by_java(java: Peer, record: MessageRecord, properties: dict[str, str]) -> bytes:
    born, stored = record.born_host, record.store_host
    return java.ask_bytes(
        "write-record",
        record.topic,
        record.queue_id,
        record.offset,
        record.position,
        record.body,
        record.born_ms,
        born[:-4],
        int.from_bytes(born[-4:], "big"),
        record.stored_ms,
        stored[:-4],
        int.from_bytes(stored[-4:], "big"),
        record.flag,
        record.sys_flag,
        record.reconsume_times,
        record.prepared_offset,
        record.crc,
        properties,
    )


@settings(max_examples=200)
@given(drawn=st.lists(drawn_records(), min_size=1, max_size=3))
def test_java_reads_the_records_of_a_pull(java: Peer, drawn: list[Drawn]) -> None:
    data = b"".join(encode_record(each.record) for each in drawn)
    found = read_by_java(java, data)
    assert found == read_by_us(data)
    assert [each["properties"] for each in found] == [each.properties for each in drawn]


@settings(max_examples=200)
@given(drawn=drawn_records())
def test_we_read_any_record_of_javas(java: Peer, drawn: Drawn) -> None:
    written = written_by_java(java, *drawn)
    # 4.9 leaves out the mark behind the last property; all else is the same, byte for byte.
    text = encode_properties(drawn.properties, closed=not java.is_4)
    assert written == encode_record(replace(drawn.record, properties=text))
    assert read_by_java(java, written) == read_by_us(written)


def test_both_read_every_recorded_record_alike(java: Peer) -> None:
    for name, data in record_bodies():
        # 4.9 leaves the bit "compressed" where it was: see below.
        found = [each | {"sys_flag": each["sys_flag"] & ~COMPRESSED} for each in read_by_java(java, data)]
        assert found == read_by_us(data), name


@pytest.mark.parametrize("store_host", [IPV4, IPV6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize(
    ("topic", "body", "properties"),
    [
        ("t", b"", {}),
        ("t" * 127, b"\x00\xff", {"TAGS": ASTRAL}),
        ("%RETRY%" + "g" * 120, bytes(100_000), {"KEYS": "a b", ASTRAL: ASTRAL}),
        ("t", b"body", {"p": "v" * (limits.PROPERTIES_BYTES - 3)}),
        ("t", b"body", {"p": "\U0001f40e" * ((limits.PROPERTIES_BYTES - 3) // 4)}),
    ],
    ids=["empty", "topic-of-127", "large", "properties-of-32767", "properties-astral"],
)
def test_corners_pass_both_ways(
    java: Peer, topic: str, body: bytes, properties: dict[str, str], store_host: bytes
) -> None:
    record = record_of(topic, body, properties, store_host=store_host)
    data = encode_record(record)
    assert read_by_java(java, data) == read_by_us(data)
    written = written_by_java(java, record, properties)
    (found,) = read_by_us(written)
    assert found == read_by_us(data)[0] | {"size": len(written)}


def test_a_topic_beyond_127_bytes_is_for_5_alone(java: Peer) -> None:
    record = record_of("t" * 200, b"body", {"TAGS": "a"})
    data = encode_record(record)
    if java.is_4:
        # 4.9 does not look at the magic number: it takes half of the topic's length for the whole, and loses its way.
        assert "t" * 200 not in [found["topic"] for found in read_by_java(java, data)]
    else:
        assert read_by_java(java, data) == read_by_us(data)
    # Only brokers write version 2; the writer of Java's clients fails.
    with pytest.raises(JavaRefused):
        written_by_java(java, record, {"TAGS": "a"})


@pytest.mark.parametrize("kind", [*Compression, None], ids=lambda kind: kind.name if kind else "unnamed")
@settings(max_examples=40)
@given(body=st.binary(min_size=1, max_size=300) | st.builds(bytes.__mul__, st.binary(min_size=1), st.integers(1, 3000)))
def test_compressed_bodies_are_opened_by_both(java: Peer, kind: Compression | None, body: bytes) -> None:
    sys_flag = COMPRESSED if kind is None else with_compression(0, kind)
    closed = compress(body, kind or Compression.ZLIB)
    by_us = encode_record(record_of("t", closed, {}, sys_flag=sys_flag))
    by_java = written_by_java(java, record_of("t", body, {}, sys_flag=sys_flag), {})
    for data in (by_us, by_java):
        (found,), (ours,) = read_by_java(java, data), read_by_us(data)
        assert found["body"] == ours["body"] == body.hex()
        # 5.x takes the bit away when it has opened the body, as we do; 4.9 leaves it.
        still_marked = COMPRESSED if java.is_4 else 0
        assert found == ours | {"sys_flag": ours["sys_flag"] | still_marked}


@pytest.mark.parametrize("kind", Compression, ids=lambda kind: kind.name)
@pytest.mark.parametrize("size", [1, 65_536, 65_537, 4 * 1024 * 1024])
def test_large_bodies_are_compressed_alike(java: Peer, kind: Compression, size: int) -> None:
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    assert java.ask_bytes("decompress", kind.name, compress(body, kind)) == body
    data = encode_record(
        record_of("t", java.ask_bytes("compress", kind.name, body), {}, sys_flag=with_compression(0, kind))
    )
    assert [message.body for message in decode_messages(data, BROKER)] == [body]


def test_both_stop_at_a_damaged_record(java: Peer) -> None:
    good = encode_record(record_of("t", b"body", {}))
    cut = good + good[:-1]
    assert len(read_by_java(java, cut)) == 1
    ours = decode_messages(cut, BROKER)
    assert next(ours).body == b"body"
    with pytest.raises(MalformedRecord):
        next(ours)


def test_java_stops_at_a_port_beyond_16_bits_and_we_do_not(java: Peer) -> None:
    data = encode_record(record_of("t", b"body", {}, born_host=bytes.fromhex("c0a8010200010000")))
    assert read_by_java(java, data) == []
    assert [message.born_host for message in decode_messages(data, BROKER)] == ["192.168.1.2:65536"]


def test_java_makes_ipv4_of_an_ipv4_address_in_ipv6(java: Peer) -> None:
    data = encode_record(record_of("t", b"body", {}, store_host=IPV4_IN_IPV6))
    (found,), (ours,) = read_by_java(java, data), read_by_us(data)
    assert found["store_host"] == "c0a80102:10911"
    # Its offset id is then the short one, filled up with zeros to the length of the long one; ours can be read back.
    assert found["offset_id"] == "C0A8010200002A9F0000000000000400" + "0" * 24
    assert ours["offset_id"] == "00000000000000000000FFFFC0A8010200002A9F0000000000000400"


def test_java_shows_the_checksum_that_we_keep_from_users(java: Peer) -> None:
    data = encode_record(record_of("t", b"body", {"TAGS": "a", "__CRC32#": "6807060709"}))
    (found,), (ours,) = read_by_java(java, data), read_by_us(data)
    assert found["properties"] == {"TAGS": "a", "__CRC32#": "6807060709"}
    assert ours["properties"] == {"TAGS": "a"}


@settings(max_examples=50)
@given(bodies=st.lists(st.binary(max_size=20), min_size=1, max_size=4))
def test_5_and_we_unwrap_a_batch_stored_as_one_record(java: Peer, bodies: list[bytes]) -> None:
    items = [BatchItem(number, body, encode_properties({"TAGS": f"t{number}"})) for number, body in enumerate(bodies)]
    count = {"INNER_NUM": str(len(items))}
    data = encode_record(record_of("t", encode_batch(items), count, sys_flag=WRAPPED, reconsume_times=0))
    if java.is_4:
        with pytest.raises(JavaRefused, match="NoSuchMethod"):
            java.ask("unwrap-record", data)
        return
    ours = list(decode_messages(data, BROKER))
    (outer,) = decode_records(data)
    for found, message in zip(java.ask("unwrap-record", data), ours, strict=True):
        # Java leaves out what it does not need to hand on, and forgets that a body can be empty.
        forgotten = {"crc": 0, "size": 0, "offset_id": None, "message_id": None, "body": message.body.hex()}
        added = {"properties": dict(message.properties) | {"WAIT": "true"}}
        assert found == as_java_has_it(message, outer) | forgotten | added
