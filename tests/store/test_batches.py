import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.errors import LimitExceeded, MalformedRecord
from steelyard.model import tag_hash
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.stored_messages import decode_messages
from tests.store.sample_messages import everything, opened

OPTIONS = StoreOptions(segment_bytes=2048)
HOST = OPTIONS.store_host


def bodies(store: Store) -> list[bytes]:
    return [
        message.body for message in decode_messages(store.read(b"orders", 0, 0, max_messages=100).joined(), "broker-a")
    ]


def test_a_batch_becomes_messages_with_consecutive_offsets_that_survive_a_crash() -> None:
    disk = SimulatedDisk()
    store = Store.open(disk, OPTIONS)
    items = [BatchItem(number, b"body %d" % number * 20, b"TAGS\x01paid\x02") for number in range(20)]
    taken = store.append_batch(b"orders", 0, encode_batch(items), born_ms=1, born_host=HOST, stored_ms=2)
    assert store.flush().error is None
    assert [each.offset for each in taken] == list(range(20))
    again = Store.open(disk.crash(), OPTIONS)
    assert again.damages == []
    read = decode_messages(again.read(b"orders", 0, 0, max_messages=100).joined(), "broker-a")
    for number, message in enumerate(read):
        assert (message.offset, message.flag, message.body) == (number, number, items[number].body)
        assert dict(message.properties) == {"TAGS": "paid"}


def test_a_batch_that_is_damaged_or_too_large_is_refused_whole() -> None:
    store = Store.open(SimulatedDisk(), OPTIONS)
    good = encode_batch([BatchItem(0, b"first", b""), BatchItem(0, b"second", b"")])
    with pytest.raises(MalformedRecord):
        store.append_batch(b"orders", 0, good[:-1], born_ms=1, born_host=HOST, stored_ms=2)
    large = encode_batch([BatchItem(0, b"first", b""), BatchItem(0, bytes(2048), b"")])
    with pytest.raises(LimitExceeded):
        store.append_batch(b"orders", 0, large, born_ms=1, born_host=HOST, stored_ms=2)
    store.append_batch(b"orders", 0, good, born_ms=1, born_host=HOST, stored_ms=2)
    store.flush()
    assert bodies(store) == [b"first", b"second"]


@given(st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=6), max_size=12), st.integers(0, 3))
def test_a_batch_is_stored_as_its_messages_one_by_one_would_be(batches: list[list[int]], seed: int) -> None:
    together, apart = opened(SimulatedDisk()), opened(SimulatedDisk())
    for number, sizes in enumerate(batches):
        items = [BatchItem(seed, b"%d" % number * size, b"TAGS\x01t%d\x02" % size) for size in sizes]
        done = together.append_batch(b"orders", seed, encode_batch(items), born_ms=1, born_host=HOST, stored_ms=2)
        one_by_one = [
            apart.append(
                b"orders", seed, each.body, each.properties, born_ms=1, born_host=HOST, stored_ms=2, flag=each.flag
            )
            for each in items
        ]
        assert done == one_by_one
        together.flush()
        apart.flush()
    assert everything(together) == everything(apart)
    codes = frozenset({tag_hash("t7")})
    assert (
        together.read(b"orders", seed, 0, tags_codes=codes).joined()
        == apart.read(b"orders", seed, 0, tags_codes=codes).joined()
    )
