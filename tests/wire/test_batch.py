from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model.message import Message
from steelyard.wire.batch import BatchItem, decode_batch, encode_batch, make_batch_item
from steelyard.wire.properties import decode_properties, encode_properties
from tests.fuzzing import mutations, rounds
from tests.wire.stored_golden import Recorded, batch_bodies
from tests.wire.stored_values import batch_items

_ABC = bytes.fromhex("0000002a0000000000000000000000000000000361626300115741495401747275650254414753017802")


def test_an_item_of_apache_is_written_and_read() -> None:
    item = BatchItem(0, b"abc", encode_properties({"WAIT": "true", "TAGS": "x"}))
    assert encode_batch([item]) == _ABC
    assert list(decode_batch(_ABC)) == [item]


def test_there_are_recorded_batches_to_read() -> None:
    assert [len(list(decode_batch(recorded.body))) for recorded in batch_bodies()] == [3, 3]


@pytest.mark.parametrize("recorded", batch_bodies(), ids=lambda recorded: recorded.name)
def test_recorded_batches_are_read_and_written_again_byte_for_byte(recorded: Recorded) -> None:
    items = list(decode_batch(recorded.body))
    assert encode_batch(items) == recorded.body
    assert [item.body for item in items] == [b"b0", b"b1", b"b2"]
    assert all("UNIQ_KEY" in decode_properties(item.properties) for item in items)


@given(st.lists(batch_items, max_size=6))
def test_what_is_written_is_read_back(items: list[BatchItem]) -> None:
    assert list(decode_batch(encode_batch(items))) == items


def test_a_message_becomes_an_item_with_its_own_id() -> None:
    item = make_batch_item(Message("orders", b"{}", tags="paid", keys="a", flag=5), unique_key="A1")
    assert (item.flag, item.body) == (5, b"{}")
    assert decode_properties(item.properties) == {"TAGS": "paid", "KEYS": "a", "UNIQ_KEY": "A1", "WAIT": "true"}


def test_the_two_unused_integers_may_be_anything() -> None:
    assert list(decode_batch(_ABC[:4] + b"\xff" * 8 + _ABC[12:])) == list(decode_batch(_ABC))


def test_a_batch_cut_at_any_byte_is_damaged() -> None:
    for size in range(1, len(_ABC)):
        with pytest.raises(MalformedRecord):
            list(decode_batch(_ABC[:size]))
        reader = decode_batch(_ABC + _ABC[:size])
        assert next(reader).body == b"abc"
        with pytest.raises(MalformedRecord) as caught:
            next(reader)
        assert caught.value.at == len(_ABC)


@pytest.mark.parametrize(
    ("at", "broken", "says"),
    [
        (0, "0000002b", "byte 0: the item's size is 43, 42 bytes are left"),
        (0, "00000000", "byte 0: the item's size is 0, 42 bytes are left"),
        (0, "ffffffff", "byte 0: the item's size is -1, 42 bytes are left"),
        (16, "00000015", "byte 16: the body's length is 21 in an item of 42 bytes"),
        (16, "ffffffff", "byte 16: the body's length is -1 in an item of 42 bytes"),
        (23, "0010", "byte 23: the properties' length is 16, 17 bytes are left of the item"),
        (23, "8011", "byte 23: the properties' length is 32785, 17 bytes are left of the item"),
    ],
)
def test_damage_is_named_with_its_byte(at: int, broken: str, says: str) -> None:
    patch = bytes.fromhex(broken)
    with pytest.raises(MalformedRecord) as caught:
        list(decode_batch(_ABC[:at] + patch + _ABC[at + len(patch) :]))
    assert str(caught.value) == f"batch, {says}"


def test_more_messages_than_an_answer_can_list_are_refused() -> None:
    item = BatchItem(0, b"", b"")
    assert len(encode_batch([item] * 960)) == 960 * 22
    with pytest.raises(LimitExceeded, match="batch: number of messages exceeds 960"):
        encode_batch([item] * 961)


def test_what_does_not_fit_an_item_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="item 1 of a batch has the flag 2147483648"):
        encode_batch([BatchItem(0, b"", b""), BatchItem(1 << 31, b"", b"")])
    with pytest.raises(LimitExceeded, match="properties text of item 0 is 32768"):
        encode_batch([BatchItem(0, b"", b"x" * 32_768)])


@pytest.mark.fuzz
def test_broken_batches_are_either_read_or_damaged() -> None:
    corpus = [_ABC, _ABC * 3, *(recorded.body for recorded in batch_bodies())]
    for broken in islice(mutations(corpus, seed=4), rounds()):
        try:
            items = list(decode_batch(broken))
        except ProtocolError:
            continue
        assert sum(22 + len(item.body) + len(item.properties) for item in items) == len(broken)
