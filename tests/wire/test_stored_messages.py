from itertools import islice
from multiprocessing.reduction import ForkingPickler

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model import StoredMessage
from steelyard.model.queue import Queue
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.properties import encode_properties
from steelyard.wire.record import decode_record, decode_records, pack_record
from steelyard.wire.stored_messages import (
    decode_messages,
    decode_sealed_messages,
    record_to_message,
    unseal_message,
    unseal_message_prefix,
)
from steelyard.wire.sysflag import INNER_BATCH, NEEDS_UNWRAP, WRAPPED, Compression
from tests.compressions import EACH, INSTALLED, needs_lz4
from tests.fuzzing import mutations, rounds
from tests.wire.stored_golden import Recorded, record_bodies
from tests.wire.stored_values import HELLO_RECORD, HOST, batch_items


def _packed(
    body: bytes, *, topic: bytes = b"orders", properties: bytes = b"", sys_flag: int = 0, offset: int = 7, flag: int = 0
) -> bytes:
    return pack_record(
        topic,
        2,
        offset,
        4096,
        body,
        properties,
        born_ms=1_000,
        born_host=HOST,
        stored_ms=2_000,
        store_host=HOST,
        flag=flag,
        sys_flag=sys_flag,
        reconsume_times=3,
        prepared_offset=11,
    )


def test_a_record_of_apache_becomes_a_message() -> None:
    (message,) = decode_messages(HELLO_RECORD, "broker-a", check_crc=True)
    assert message.queue == Queue("TopicTest", "broker-a", 3)
    assert (message.topic, message.offset, message.body, message.tags) == ("TopicTest", 5, b"hello", "TagA")
    assert (message.born_ms, message.stored_ms) == (1_700_000_000_000, 1_700_000_000_001)
    assert (message.born_host, message.store_host) == ("127.0.0.1:5000", "192.168.1.2:10911")
    assert (message.position, message.size, message.flag, message.sys_flag) == (1024, 115, 0, 0)
    assert (message.reconsume_times, message.prepared_offset, message.keys) == (0, 0, ())
    assert message.offset_id == message.message_id == "C0A8010200002A9F0000000000000400"
    assert ForkingPickler.loads(ForkingPickler.dumps(message)) == message


@pytest.mark.parametrize("recorded", record_bodies(), ids=lambda recorded: recorded.name)
def test_recorded_answers_become_messages(recorded: Recorded) -> None:
    for record, message in zip(decode_records(recorded.body), decode_messages(recorded.body, "broker-a"), strict=True):
        assert message.topic.encode() == record.topic
        assert message.message_id == message.properties["UNIQ_KEY"]
        assert message.store_host.startswith("127.0.0.1:")
        assert (message.body != record.body) == bool(record.sys_flag & 1)
        assert message.sys_flag == record.sys_flag & ~1
        assert "\x01" not in "".join([*message.properties, *message.properties.values()])


@pytest.mark.parametrize("kind", EACH)
def test_a_compressed_body_is_opened_and_only_the_first_bit_goes(kind: Compression) -> None:
    body = b"steelyard " * 500
    (message,) = decode_messages(_packed(compress(body, kind), sys_flag=with_compression(0x8, kind)), "broker-a")
    assert message.body == body
    assert message.sys_flag == kind | 0x8


def test_an_empty_body_is_never_opened() -> None:
    (message,) = decode_messages(_packed(b"", sys_flag=0x301), "broker-a")
    assert (message.body, message.sys_flag) == (b"", 0x301)


def test_a_body_that_is_not_what_the_flag_says_is_damage() -> None:
    with pytest.raises(MalformedRecord, match="body: the ZLIB stream cannot be opened"):
        list(decode_messages(_packed(b"plain", sys_flag=0x001), "broker-a"))
    with pytest.raises(MalformedRecord, match="names the compression 5"):
        list(decode_messages(_packed(b"plain", sys_flag=0x501), "broker-a"))


def test_a_bomb_in_a_record_stops_at_the_limit() -> None:
    bomb = compress(bytes(17 * 1024 * 1024), Compression.ZLIB)
    with pytest.raises(LimitExceeded):
        list(decode_messages(_packed(bomb, sys_flag=0x301), "broker-a"))


def test_a_topic_that_is_not_text_is_damage() -> None:
    with pytest.raises(MalformedRecord, match="is not UTF-8"):
        record_to_message(decode_record(_packed(b"", topic=b"\xff\xfe")), "broker-a")


@given(st.lists(batch_items, min_size=1, max_size=5), st.sampled_from([None, *INSTALLED]))
def test_a_batch_stored_as_one_record_is_unwrapped(items: list[BatchItem], kind: Compression | None) -> None:
    stream = encode_batch(items)
    packed = _packed(
        stream if kind is None else compress(stream, kind),
        properties=encode_properties({"INNER_NUM": str(len(items))}),
        sys_flag=WRAPPED if kind is None else with_compression(WRAPPED, kind),
        flag=99,
    )
    inner = list(decode_messages(packed + HELLO_RECORD, "broker-a"))
    assert inner.pop().body == b"hello"
    assert [(m.flag, m.body) for m in inner] == [(item.flag, item.body) for item in items]
    assert [m.offset for m in inner] == list(range(7, 7 + len(items)))
    outer = record_to_message(decode_record(packed), "broker-a")
    assert outer.body == stream
    for m in inner:
        assert (m.queue, m.born_ms, m.stored_ms, m.position, m.sys_flag) == (
            outer.queue,
            1_000,
            2_000,
            4096,
            outer.sys_flag,
        )
        assert (m.born_host, m.store_host, m.reconsume_times, m.prepared_offset) == (
            "127.0.0.1:10911",
            "127.0.0.1:10911",
            3,
            11,
        )


def test_items_keep_their_own_properties() -> None:
    items = [BatchItem(0, b"a", b"TAGS\x01x\x02"), BatchItem(0, b"b", b"")]
    first, second = decode_messages(
        _packed(encode_batch(items), properties=b"TAGS\x01outer\x02", sys_flag=WRAPPED), "broker-a"
    )
    assert (first.tags, second.tags) == ("x", None)


@pytest.mark.parametrize("bits", [0, NEEDS_UNWRAP, INNER_BATCH])
def test_one_bit_alone_does_not_unwrap(bits: int) -> None:
    stream = encode_batch([BatchItem(0, b"a", b"")])
    (message,) = decode_messages(_packed(stream, sys_flag=bits), "broker-a")
    assert message.body == stream


def test_a_batch_with_another_count_than_promised_is_damage() -> None:
    stream = encode_batch([BatchItem(0, b"a", b"")] * 2)
    for promised in (b"1", b"3", b"many"):
        packed = _packed(stream, properties=b"INNER_NUM\x01" + promised, sys_flag=WRAPPED)
        with pytest.raises(MalformedRecord, match="2 messages are in a batch of"):
            list(decode_messages(packed, "broker-a"))


@pytest.mark.fuzz
def test_broken_answers_become_messages_or_are_damaged() -> None:
    wrapped = _packed(encode_batch([BatchItem(1, b"abc", b"a\x01b\x02")] * 3), sys_flag=WRAPPED)
    opened = [_packed(compress(b"steelyard" * 50, kind), sys_flag=with_compression(0, kind)) for kind in INSTALLED]
    corpus = [wrapped, HELLO_RECORD, *opened, *(recorded.body for recorded in record_bodies())]
    for broken in islice(mutations(corpus, seed=2), rounds()):
        try:
            for message in decode_messages(broken, "broker-a"):
                assert message.message_id
                assert message.born_at <= message.born_at
                assert repr(message)
        except ProtocolError:
            continue


# -- sealed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EACH)
def test_a_sealed_message_is_as_it_is_stored_until_it_is_opened(kind: Compression) -> None:
    body, sys_flag = compress(b"steelyard" * 100, kind), with_compression(0, kind)
    data = _packed(body, sys_flag=sys_flag)
    (sealed,) = decode_sealed_messages(StoredMessage, data, "broker-a")
    assert (sealed.body, sealed.sys_flag) == (body, sys_flag)
    assert [unseal_message(sealed)] == list(decode_messages(data, "broker-a"))
    start = unseal_message_prefix(sealed, 9)
    assert (start.body, start.sys_flag) == (b"steelyard", sys_flag)
    assert unseal_message_prefix(sealed, 900) == unseal_message(sealed)


@pytest.mark.parametrize(
    "sys_flag", [0x301, pytest.param(0x101, marks=needs_lz4), 0x201, 0x701, WRAPPED, WRAPPED | 0x301]
)
def test_what_cannot_be_opened_hurts_nothing_around_it(sys_flag: int) -> None:
    data = b"".join([_packed(b"a", offset=1), _packed(b"?", offset=2, sys_flag=sys_flag), _packed(b"c", offset=3)])
    first, bad, last = decode_sealed_messages(StoredMessage, data, "broker-a")
    assert (unseal_message(first).body, bad.offset, bad.body, unseal_message(last).body) == (b"a", 2, b"?", b"c")
    with pytest.raises(ProtocolError):
        unseal_message(bad)
    assert unseal_message_prefix(bad, 10) == bad


def test_a_batch_is_unwrapped_and_its_items_are_not_to_be_unwrapped_again() -> None:
    items = [BatchItem(0, b"one", b""), BatchItem(0, b"two", b"")]
    data = _packed(encode_batch(items), sys_flag=WRAPPED, properties=encode_properties({"INNER_NUM": "2"}))
    sealed = list(decode_sealed_messages(StoredMessage, data, "broker-a"))
    assert [unseal_message(message).body for message in sealed] == [b"one", b"two"]
    assert [message.offset for message in sealed] == [7, 8]


def test_batches_of_one_answer_take_no_more_memory_than_one_body_may() -> None:
    wrapped = compress(encode_batch([BatchItem(0, bytes(10 << 20), b"")]), Compression.ZLIB)
    data = b"".join(
        _packed(wrapped, sys_flag=with_compression(WRAPPED, Compression.ZLIB), offset=each) for each in range(5)
    )
    found: list[int] = []
    with pytest.raises(LimitExceeded):
        found.extend(message.offset for message in decode_sealed_messages(StoredMessage, data, "broker-a"))
    messages_before = decode_sealed_messages(StoredMessage, data, "broker-a")
    assert [message.offset for message in islice(messages_before, 2)] == [0, 1]
