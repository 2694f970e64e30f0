from collections.abc import Mapping
from itertools import islice
from multiprocessing.reduction import ForkingPickler

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, LimitExceeded
from steelyard.model.message import RESERVED_PROPERTIES, Message
from steelyard.wire import property_names
from steelyard.wire.properties import (
    LazyProperties,
    append_properties,
    build_properties,
    decode_properties,
    encode_properties,
    find_property,
    property_text,
)
from steelyard.wire.record import decode_records
from tests.fuzzing import mutations, rounds
from tests.wire.stored_golden import record_bodies
from tests.wire.stored_values import properties, property_texts


def _as_java_reads(text: str) -> dict[str, str]:
    """Read as Apache's parser does: by indexes, entry by entry."""
    found: dict[str, str] = {}
    index = 0
    while index < len(text):
        end = text.find("\x02", index)
        end = len(text) if end < 0 else end
        mark = text.find("\x01", index)
        if end - index >= 3 and index < mark < end - 1:
            found[text[index:mark]] = text[mark + 1 : end]
        index = end + 1
    return found


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", {}),
        (b"a\x01b\x02c\x01\x02d\x01e", {"a": "b", "d": "e"}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"\x01b\x02a\x01\x02\x01\x02\x02ab\x02", {}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x01first\x02b\x01x\x02a\x01last\x02", {"a": "last", "b": "x"}),
        (b"a\x01first\x02a\x01\x02", {"a": "first"}),
        (b"a\x01\xff\x02", {"a": "\N{REPLACEMENT CHARACTER}"}),
        (b"a\x01b\x02__CRC32#\x010123456789\x02", {"a": "b"}),
        ("größe\x01ü😀\x02".encode(), {"größe": "ü😀"}),
    ],
)
def test_a_text_is_read_by_the_rules_all_readers_share(raw: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(raw) == expected


@given(property_texts)
def test_reading_agrees_with_apache_on_any_text(raw: bytes) -> None:
    expected = _as_java_reads(raw.decode("utf-8", "replace"))
    expected.pop("__CRC32#", None)
    assert decode_properties(raw) == expected


@given(property_texts, st.sampled_from([b"TAGS", b"KEYS", b"TAG", b"S", b"x", "ü".encode(), b"TAGSx"]))
def test_one_name_is_found_exactly_as_reading_everything_would(raw: bytes, name: bytes) -> None:
    found = find_property(raw, name)
    assert (found and found.decode("utf-8", "replace")) == decode_properties(raw).get(name.decode())


@pytest.mark.parametrize(
    "raw",
    [
        b"KEYS\x01TAGS\x02",
        b"MYTAGS\x01x\x02",
        b"TAGSx\x01y\x02",
        b"KEYS\x01a TAGS\x01x\x02",
        b"TAGS\x02x\x01y\x02",
        b"TAGS\x01\x02",
        b"TAGS",
        b"",
    ],
)
def test_a_value_or_a_longer_name_never_passes_for_a_name(raw: bytes) -> None:
    assert find_property(raw, b"TAGS") is None


@given(properties, st.booleans())
def test_what_is_written_is_read_back(written: dict[str, str], closed: bool) -> None:
    written.pop("__CRC32#", None)
    raw = encode_properties(written, closed=closed)
    assert decode_properties(raw) == written
    assert raw.endswith(b"\x02") == (closed and bool(written))
    for name, value in written.items():
        assert find_property(raw, name.encode()) == value.encode()


def test_the_last_separator_is_written_unless_asked_not_to() -> None:
    assert encode_properties({"WAIT": "true", "TAGS": "x"}) == bytes.fromhex("5741495401747275650254414753017802")
    assert encode_properties({"a": "b", "c": "d"}, closed=False) == b"a\x01b\x02c\x01d"
    assert encode_properties({}) == encode_properties({}, closed=False) == b""


@pytest.mark.parametrize("bad", ["", "a\x01b", "\x02", "\ud800"])
def test_what_could_not_be_read_back_is_refused(bad: str) -> None:
    for broken in ({"good": "x", bad: "x"}, {"good": "x", "name": bad}):
        for closed in (True, False):
            with pytest.raises(ConfigurationError, match="cannot be written"):
                encode_properties(broken, closed=closed)


def test_a_text_of_more_than_fifteen_bits_is_refused() -> None:
    longest = encode_properties({"a": "x" * 32_764})
    assert len(longest) == 32_767
    for broken in ({"a": "x" * 32_765}, {"a": "ü" * 16_383}):
        with pytest.raises(LimitExceeded, match="the limit is 32767"):
            encode_properties(broken)
    with pytest.raises(LimitExceeded, match="properties: properties text is 32768"):
        append_properties(longest, b"x")


@given(properties, properties, st.booleans())
def test_added_properties_win(first: dict[str, str], second: dict[str, str], closed: bool) -> None:
    joined = append_properties(encode_properties(first, closed=closed), encode_properties(second))
    expected = first | second
    expected.pop("__CRC32#", None)
    assert decode_properties(joined) == expected


def test_a_message_says_its_tag_keys_id_and_whether_to_wait() -> None:
    message = Message("orders", b"", tags="paid", keys=["a", "b"], properties={"region": "eu"})
    text = build_properties(message, unique_key="A1", wait=False, extra="TTL\x019\x02")
    assert decode_properties(text.encode()) == {
        "region": "eu",
        "TAGS": "paid",
        "KEYS": "a b",
        "UNIQ_KEY": "A1",
        "WAIT": "false",
        "TTL": "9",
    }
    assert build_properties(Message("orders", b"")) == "WAIT\x01true\x02"
    assert message.properties == {"region": "eu"}


@given(properties)
def test_what_a_message_says_is_written_as_any_properties_are(own: dict[str, str]) -> None:
    own = {name: value for name, value in own.items() if name not in RESERVED_PROPERTIES}
    written = build_properties(Message("orders", b"", tags="paid", properties=own), unique_key="A1")
    assert written.encode() == encode_properties(own | {"TAGS": "paid", "UNIQ_KEY": "A1", "WAIT": "true"})


@pytest.mark.parametrize("letter", ["x", "ß", "漢", "😀"])
def test_a_message_may_say_as_much_as_a_record_holds(letter: str) -> None:
    room = 32_767 - len(build_properties(Message("orders", b""), unique_key="A1")) - len("a\x01\x02")
    longest = letter * (room // len(letter.encode()))
    assert len(build_properties(Message("orders", b"", properties={"a": longest}), unique_key="A1").encode()) <= 32_767
    with pytest.raises(ConfigurationError, match=r"properties of a message to 'orders' have .* bytes together"):
        build_properties(Message("orders", b"", properties={"a": longest + letter}), unique_key="A1")


@given(properties)
def test_lazy_properties_are_a_mapping_like_any_other(written: dict[str, str]) -> None:
    written.pop("__CRC32#", None)
    lazy = LazyProperties(encode_properties(written))
    assert isinstance(lazy, Mapping)
    assert lazy == written
    assert (dict(lazy), len(lazy), list(lazy), repr(lazy)) == (written, len(written), list(written), repr(written))
    assert lazy.get("\x01") is None
    assert ForkingPickler.loads(ForkingPickler.dumps(lazy)) == written
    with pytest.raises(KeyError):
        lazy["\x01"]


def test_reserved_is_what_java_reserves_but_what_its_newest_clients_alone_can_set_otherwise() -> None:
    # MessageConst.STRING_HASH_SET of 5.5.0.
    by_java = """
        1ST_POP_TIME ARRIVE_TIME BORN_TIMESTAMP BUYER_ID CLUSTER CONSUME_START_TIME CORRECTION_FLAG CORRELATION_ID DELAY
        DLQ_ORIGIN_MESSAGE_ID DLQ_ORIGIN_TOPIC DUP_INFO EXTEND_UNIQ_INFO INNER_MULTI_QUEUE_OFFSET INSTANCE_ID KEYS
        MAX_OFFSET MAX_RECONSUME_TIMES MIN_OFFSET MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_GROUP ORIGIN_MESSAGE_ID PGROUP
        POP_CK POP_CK_OFFSET PUSH_REPLY_TIME REAL_QID REAL_TOPIC RECONSUME_TIME REPLY_TO_CLIENT RETRY_TOPIC TAGS
        TIMER_DELAY_LEVEL TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DEL_UNIQKEY TIMER_DEQUEUE_MS
        TIMER_ENQUEUE_MS TIMER_OUT_MS TIMER_ROLL_TIMES TRACE_ON TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET TTL
        UNIQ_KEY WAIT _SYS_MSG_PRIORITY_ __BORNHOST __CRC32# __LITE_TOPIC
    """
    assert set(by_java.split()) - RESERVED_PROPERTIES == {"ORIGIN_GROUP", "_SYS_MSG_PRIORITY_", "__LITE_TOPIC"}
    assert set(by_java.split()) >= RESERVED_PROPERTIES


@given(st.text(st.characters(), max_size=60), st.integers(3, 40))
def test_any_text_can_be_made_a_property_of_a_bounded_size(text: str, most: int) -> None:
    made = property_text(text, most)
    assert len(made.encode()) <= most
    assert made.isprintable()
    assert property_text(made, most) == made
    if made:
        assert decode_properties(encode_properties({"why": made})) == {"why": made}


def test_no_two_constants_name_one_property() -> None:
    named = {getattr(property_names, name) for name in property_names.__all__}
    assert len(named) == len(property_names.__all__)


@pytest.mark.fuzz
def test_any_bytes_are_properties() -> None:
    corpus = [record.properties for recorded in record_bodies() for record in decode_records(recorded.body)]
    for broken in islice(mutations(corpus, seed=3), rounds()):
        found = decode_properties(broken)
        for name in ("UNIQ_KEY", "TAGS", "CLUSTER"):
            raw = find_property(broken, name.encode())
            assert (raw and raw.decode("utf-8", "replace")) == found.get(name)
        for text in (*found, *found.values()):
            assert text
            assert "\x02" not in text
