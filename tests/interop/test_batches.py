"""Batches and properties, as producers write them and as brokers and consumers read them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.wire import limits
from steelyard.wire.batch import BatchItem, decode_batch, encode_batch
from steelyard.wire.properties import decode_properties, encode_properties
from tests.interop.java_values import ASTRAL, int32, properties
from tests.interop.peer import Peer, Word
from tests.wire.stored_golden import batch_bodies
from tests.wire.stored_values import property_texts

CHECKSUM = "__CRC32#"

Item = tuple[int, bytes, dict[str, str]]
items = st.tuples(int32, st.binary(max_size=60), properties)


def closes(java: Peer) -> bool:
    """Say whether a release puts a mark behind the last property too."""
    return not java.is_4


def read_by_us(data: bytes) -> list[dict[str, object]]:
    return [
        {"flag": item.flag, "body": item.body.hex(), "properties": decode_properties(item.properties)}
        for item in decode_batch(data)
    ]


@settings(max_examples=200)
@given(batch=st.lists(items, min_size=1, max_size=5))
def test_a_batch_passes_both_ways(java: Peer, batch: list[Item]) -> None:
    ours = encode_batch(BatchItem(flag, body, encode_properties(each)) for flag, body, each in batch)
    assert java.ask("read-batch", ours) == read_by_us(ours)
    words: list[Word] = [word for item in batch for word in item]
    theirs = java.ask_bytes("write-batch", *words)
    assert read_by_us(theirs) == read_by_us(ours)
    closed = closes(java)
    assert theirs == encode_batch(
        BatchItem(flag, body, encode_properties(each, closed=closed)) for flag, body, each in batch
    )


def test_the_largest_batch_passes(java: Peer) -> None:
    full = encode_properties({"p": "v" * (limits.PROPERTIES_BYTES - 3)})
    batch = [BatchItem(0, b"", full), *(BatchItem(number, b"x", b"") for number in range(limits.BATCH_ITEMS - 1))]
    assert java.ask("read-batch", encode_batch(batch)) == read_by_us(encode_batch(batch))


def test_both_read_every_recorded_batch_alike(java: Peer) -> None:
    for name, data in batch_bodies():
        assert java.ask("read-batch", data) == read_by_us(data), name


@settings(max_examples=200)
@given(written=properties)
def test_properties_are_written_alike_byte_for_byte(java: Peer, written: dict[str, str]) -> None:
    theirs = java.ask_bytes("write-properties", written)
    assert theirs == encode_properties(written, closed=closes(java))
    assert decode_properties(theirs) == java.ask("read-properties", encode_properties(written)) == written


# Broken in any way but one: a surrogate in UTF-8 begins with this byte.
broken = property_texts | st.binary(max_size=40).filter(lambda text: b"\xed" not in text)


@settings(max_examples=300)
@given(text=broken)
def test_broken_properties_are_read_alike(java: Peer, text: bytes) -> None:
    theirs = java.ask("read-properties", text)
    # We keep the store's checksum from users.
    theirs.pop(CHECKSUM, None)
    assert decode_properties(text) == theirs


def test_a_surrogate_in_utf8_is_one_replacement_to_java_and_three_to_us(java: Peer) -> None:
    text = b"TAGS\x01\xed\xa0\xbd\x02"
    assert java.ask("read-properties", text) == {"TAGS": "\ufffd"}
    assert decode_properties(text) == {"TAGS": "\ufffd" * 3}


def test_astral_properties_are_read_alike(java: Peer) -> None:
    text = encode_properties({ASTRAL: ASTRAL, "TAGS": "\ud7ff\ue000\uffff"})
    assert java.ask("read-properties", text) == decode_properties(text)
