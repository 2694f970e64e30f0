from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import MalformedRecord
from steelyard.wire.batch import BatchItem, BatchRecords, build_batch_records, decode_batch, encode_batch
from steelyard.wire.record import head_layout_for, pack_record

BORN, STORE = bytes.fromhex("7f00000100002a9f"), bytes.fromhex("0a00000700002a9f")
TOPIC = b"orders"

items = st.lists(
    st.builds(BatchItem, st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=50), st.binary(max_size=50)),
    min_size=1,
    max_size=6,
)


def records(batch: bytes) -> BatchRecords | None:
    return build_batch_records(batch, head_layout_for(BORN, STORE), TOPIC, 3, 41, 1_000, 7, BORN, 8, STORE, 0)


def is_damaged(batch: bytes) -> bool:
    try:
        return not list(decode_batch(batch))
    except MalformedRecord:
        return True


@given(items)
def test_the_records_are_those_of_the_items_one_by_one(given_items: list[BatchItem]) -> None:
    found = records(encode_batch(given_items))
    assert found is not None
    position = 1_000
    for number, item in enumerate(given_items):
        one = pack_record(
            TOPIC,
            3,
            41 + number,
            position,
            item.body,
            item.properties,
            born_ms=7,
            born_host=BORN,
            stored_ms=8,
            store_host=STORE,
            flag=item.flag,
        )
        assert b"".join(found.parts[3 * number : 3 * number + 3]) == one
        assert (found.positions[number], found.sizes[number]) == (position, len(one))
        position += len(one)
    assert found.end == position
    assert list(found.properties()) == [item.properties for item in given_items]


@given(items, st.data())
def test_whatever_is_damaged_gives_nothing(given_items: list[BatchItem], data: st.DataObject) -> None:
    batch = bytearray(encode_batch(given_items))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    torn = bytes(batch[: data.draw(st.integers(0, len(batch)))])
    for each in (bytes(batch), torn, bytes(batch) + torn):
        assert (records(each) is None) == is_damaged(each)


def test_tags_are_looked_for_only_where_there_may_be_some() -> None:
    without, within = (records(encode_batch([BatchItem(0, b"1", text)])) for text in (b"a\x01b\x02", b"TAGS\x01b\x02"))
    assert without is not None
    assert within is not None
    assert (without.may_have_tags, within.may_have_tags) == (False, True)
