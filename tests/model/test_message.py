"""A message is checked once, when it is made; what a broker stored is read through a few named attributes."""

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.message import RESERVED_PROPERTIES

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)
_KEY = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1)
_PROPERTIES = st.dictionaries(_TEXT.filter(lambda name: name not in RESERVED_PROPERTIES), _TEXT)
_QUEUE = Queue("orders", "broker-a", 3)


def _stored(**facts: Any) -> StoredMessage:
    return StoredMessage(**{"queue": _QUEUE, "offset": 41, "body": b"{}", **facts})


@given(
    topic=_TEXT,
    body=st.binary(),
    tags=st.none() | _TEXT,
    keys=st.lists(_KEY),
    properties=_PROPERTIES,
    flag=st.integers(-(2**31), 2**31 - 1),
)
def test_what_is_allowed_is_kept_as_given(
    topic: str, body: bytes, tags: str | None, keys: list[str], properties: dict[str, str], flag: int
) -> None:
    message = Message(topic, body, tags, keys, properties, flag)
    assert (message.topic, message.body, message.tags, message.flag) == (topic, body, tags, flag)
    assert message.keys == tuple(keys)
    assert message.properties == properties


def test_one_key_may_be_given_as_text() -> None:
    assert Message("orders", b"", keys="order-1").keys == ("order-1",)
    assert Message("orders", b"", keys=(key for key in ("a", "b"))).keys == ("a", "b")
    assert Message("orders", b"").keys == ()


@pytest.mark.parametrize("body", [bytearray(b"ab"), memoryview(b"ab"), memoryview(b"a-b-")[::2]])
def test_a_body_of_any_kind_of_bytes_becomes_bytes(body: Any) -> None:
    message = Message("orders", body)
    assert message.body == b"ab"
    assert type(message.body) is bytes


def test_later_changes_of_what_was_given_change_nothing() -> None:
    body, keys, properties = bytearray(b"before"), ["before"], {"name": "before"}
    message = Message("orders", bytes(body), keys=keys, properties=properties)
    body[:] = b"behind"
    keys.append("after")
    properties["KEYS"] = "after"
    assert (message.body, message.keys, message.properties) == (b"before", ("before",), {"name": "before"})


_REFUSED: list[dict[str, Any]] = [
    {"topic": ""},
    {"topic": None},
    {"topic": 5},
    {"topic": b"orders"},
    {"topic": "or\x01ders"},
    {"topic": "\ud800"},
    {"body": "text"},
    {"body": None},
    {"body": 5},
    {"body": [1, 2]},
    {"tags": ""},
    {"tags": 5},
    {"tags": b"paid"},
    {"tags": "a\x01"},
    {"tags": "\udc00"},
    {"keys": ""},
    {"keys": "two words"},
    {"keys": ["fine", ""]},
    {"keys": ["fine", "two words"]},
    {"keys": ["fine", 5]},
    {"keys": [None]},
    {"keys": b"bytes"},
    {"keys": 5},
    {"keys": None},
    {"keys": "a\x02"},
    {"properties": {"": "x"}},
    {"properties": {"x": ""}},
    {"properties": {"x": 5}},
    {"properties": {5: "x"}},
    {"properties": {"x": None}},
    {"properties": {"x\x01": "y"}},
    {"properties": {"x": "y\x02"}},
    {"properties": {"x": "\ud800"}},
    {"properties": [("x", "y")]},
    {"properties": "x=y"},
    {"flag": "1"},
    {"flag": 2**31},
    {"flag": -(2**31) - 1},
    {"flag": None},
]


@pytest.mark.parametrize("wrong", _REFUSED, ids=repr)
def test_a_refusal_says_what_is_wrong_and_what_to_do(wrong: dict[str, Any]) -> None:
    given_before = copy.deepcopy(wrong)
    with pytest.raises(ConfigurationError) as caught:
        Message(**{"topic": "orders", "body": b"{}", **wrong})
    assert caught.value.next_step
    assert wrong == given_before


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_a_reserved_property_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="reserved") as caught:
        Message("orders", b"", properties={name: "x"})
    assert repr(name) in str(caught.value)


def test_properties_may_be_left_out_or_empty() -> None:
    assert Message("orders", b"").properties == {}
    assert Message("orders", b"", properties={}).properties == {}


def test_messages_do_not_share_their_properties() -> None:
    first, second = Message("orders", b""), Message("orders", b"")
    assert first.properties is not second.properties


def test_a_message_is_frozen() -> None:
    message = Message("orders", b"")
    for name in ("topic", "body", "tags", "keys", "properties", "flag"):
        with pytest.raises(AttributeError):
            setattr(message, name, getattr(message, name))


def test_a_message_crosses_a_process_border_unchanged() -> None:
    message = Message("orders", b"{}", tags="paid", keys=["a", "b"], properties={"region": "eu"}, flag=3)
    for each in (message, Message("orders", b""), _stored(properties={"TAGS": "paid"}), _stored()):
        assert ForkingPickler.loads(ForkingPickler.dumps(each)) == each
        assert copy.deepcopy(each) == each


def test_a_stored_message_is_read_by_name() -> None:
    stored = _stored(
        properties={"TAGS": "paid", "KEYS": "order-1 customer-7", "UNIQ_KEY": "AC1100", "region": "eu"},
        born_ms=1_700_000_000_123,
        stored_ms=1_700_000_000_456,
        store_host="127.0.0.1:10911",
    )
    assert (stored.topic, stored.queue, stored.offset, stored.body) == ("orders", _QUEUE, 41, b"{}")
    assert (stored.tags, stored.keys) == ("paid", ("order-1", "customer-7"))
    assert stored.message_id == "AC1100"
    assert stored.properties["region"] == "eu"
    assert stored.born_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert stored.stored_at == datetime(2023, 11, 14, 22, 13, 20, 456_000, UTC)


def test_a_stored_message_without_properties_has_neither_tag_nor_keys() -> None:
    stored = _stored(store_host="127.0.0.1:10911", position=16)
    assert (stored.tags, stored.keys, stored.message_id) == (None, (), "7F00000100002A9F0000000000000010")
    assert isinstance(stored.properties, Mapping)


@pytest.mark.parametrize(
    ("text", "keys"), [("a", ("a",)), ("a b", ("a", "b")), (" a  b ", ("a", "b")), ("", ()), ("a\tb", ("a\tb",))]
)
def test_stored_keys_are_parted_by_blanks_alone(text: str, keys: tuple[str, ...]) -> None:
    assert _stored(properties={"KEYS": text}).keys == keys


@given(st.lists(_KEY))
def test_keys_come_back_as_they_were_given(keys: list[str]) -> None:
    message = Message("orders", b"", keys=keys)
    assert _stored(properties={"KEYS": " ".join(message.keys)}).keys == message.keys


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_a_foreign_clock_wrote_is_a_moment(time_ms: int) -> None:
    moment = _stored(born_ms=time_ms, stored_ms=time_ms).born_at
    assert moment.tzinfo is UTC
    earliest, latest = -62_135_596_800_000, 253_402_300_799_999
    if earliest <= time_ms <= latest:
        assert (moment - datetime.fromtimestamp(0, UTC)).total_seconds() == pytest.approx(time_ms / 1000)
    else:
        assert moment.year == (1 if time_ms < 0 else 9999)
