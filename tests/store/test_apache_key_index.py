"""The key index that an Apache broker finds: complete after a close, and never of messages that are not there.

Apache's way to look up a key is a few lines here: slot, newest entry, and from each to the one before.
"""

from collections.abc import Iterator
from struct import Struct as Layout

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.errors import DiskFailed
from steelyard.model.java_strings import java_hash
from steelyard.store import store as stores
from steelyard.store.apache_key_index import APACHE_KEY_INDEX_FOLDER, ApacheKeyIndex
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store

_SLOTS, _ENTRIES = 7, 40
_SIZE = 40 + 4 * _SLOTS + 20 * _ENTRIES
_HEAD, _ENTRY = Layout(">qqqqii"), Layout(">iqii")
_NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be small, so that slots are shared and files get full."""
    monkeypatch.setattr(
        stores, "ApacheKeyIndex", lambda disk, log, checksums: ApacheKeyIndex(disk, log, checksums, _SLOTS, _ENTRIES)
    )


def _opened(disk: SimulatedDisk) -> Store:
    return Store.open(disk, StoreOptions(segment_bytes=1 << 16, keeps_apache_keys=True, keep_ms=None))


def _fill(store: Store, start: int, end: int, keys: str = "k{0} both") -> None:
    for number in range(start, end):
        properties = f"UNIQ_KEY\x01U{number}\x02KEYS\x01{keys.format(number)}\x02".encode()
        store.append(
            b"orders", 0, b"%d" % number, properties, born_ms=1, born_host=bytes(8), stored_ms=_NOW_MS + number
        )
    assert store.flush().error is None


def _found(disk: SimulatedDisk, key: str, topic: str = "orders") -> list[int]:
    """Return the positions that Apache finds, the newest first."""
    return [
        position
        for name in sorted(disk.names(APACHE_KEY_INDEX_FOLDER), reverse=True)
        for position in _in(disk, name, f"{topic}#{key}")
    ]


def _in(disk: SimulatedDisk, name: str, key: str) -> Iterator[int]:
    content = disk.read(f"{APACHE_KEY_INDEX_FOLDER}/{name}") or b""
    assert (len(content), len(name), name.isdigit()) == (_SIZE, 17, True)
    first_ms, last_ms, _, last_position, _, count = _HEAD.unpack_from(content)
    wanted = abs(java_hash(key)) & 0x7FFFFFFF
    number = int.from_bytes(content[40 + wanted % _SLOTS * 4 :][:4], "big")
    while 0 < number < count:
        value, position, seconds, before = _ENTRY.unpack_from(content, 40 + 4 * _SLOTS + number * 20)
        assert before < number
        assert position <= last_position
        assert first_ms + seconds * 1000 <= last_ms
        if value == wanted:
            yield position
        number = before


def _positions(store: Store) -> list[int]:
    low, high = store.bounds(b"orders", 0)
    places = [store.lookup.position_of(b"orders", 0, offset) for offset in range(low, high)]
    return [place[0] for place in places if place is not None]


@pytest.mark.parametrize("count", [1, 9, 13, 14, 60])
def test_apache_finds_every_message_after_a_close(count: int) -> None:
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, count)
    positions = _positions(store)
    store.close(_NOW_MS)
    for number, position in enumerate(positions):
        assert _found(disk, f"k{number}") == _found(disk, f"U{number}") == [position]
    assert _found(disk, "both") == positions[::-1]
    assert _found(disk, "both", topic="bills") == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 25), max_size=6))
def test_each_close_adds_what_is_new(counts: list[int]) -> None:
    disk, end = SimulatedDisk(), 0
    positions: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            stores,
            "ApacheKeyIndex",
            lambda disk, log, checksums: ApacheKeyIndex(disk, log, checksums, _SLOTS, _ENTRIES),
        )
        for count in counts:
            store = _opened(disk)
            _fill(store, end, end + count)
            end += count
            positions = _positions(store)
            store.close(_NOW_MS)
        assert _found(disk, "both") == positions[::-1]
        assert [_found(disk, f"U{number}") for number in range(end)] == [[position] for position in positions]


def test_it_follows_a_little_at_a_time() -> None:
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, 10)
    assert store.apache_key_index is not None
    assert [store.apache_key_index.build(16) for _ in range(4)] == [False, False, True, True]
    assert disk.names(APACHE_KEY_INDEX_FOLDER) == []
    positions = _positions(store)
    store.close(_NOW_MS)
    assert _found(disk, "both") == positions[::-1]


def test_a_close_adds_only_so_many_and_the_next_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MAX_INDEXED_AT_CLOSE", 24)
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, 10)
    positions = _positions(store)
    store.close(_NOW_MS)
    assert _found(disk, "both") == positions[5::-1]
    store = _opened(disk)
    assert store.apache_key_index is not None
    assert not store.apache_key_index.is_complete
    store.close(_NOW_MS)
    assert _found(disk, "both") == positions[::-1]


@pytest.mark.parametrize("end", ["crash", "lose_power"])
def test_after_a_crash_the_old_index_is_gone_and_a_new_one_is_made(end: str) -> None:
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, 10)
    store.close(_NOW_MS)
    store = _opened(disk)
    _fill(store, 10, 20)
    disk = disk.crash() if end == "crash" else disk.lose_power()
    store = _opened(disk)
    assert disk.names(APACHE_KEY_INDEX_FOLDER) == []
    _fill(store, 20, 25)
    positions = _positions(store)
    store.close(_NOW_MS)
    assert _found(disk, "both") == positions[::-1]


def test_an_index_that_knows_more_than_the_log_is_removed() -> None:
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, 10)
    positions = _positions(store)
    store.close(_NOW_MS)
    file = disk.open("commitlog/00000000000000000000")
    file.write(positions[4], bytes(positions[9] + 500 - positions[4]))  # another broker cut the log, and closed
    file.close()
    disk.remove("steelyard/closed.json")
    store = _opened(disk)
    assert store.end < positions[5]
    store.close(_NOW_MS)
    assert _found(disk, "both") == positions[3::-1]


def test_files_of_another_size_are_left_alone() -> None:
    disk = SimulatedDisk()
    store = Store.open(disk, StoreOptions(segment_bytes=1 << 16))
    _fill(store, 0, 5)
    store.close(_NOW_MS)
    disk.mkdir(APACHE_KEY_INDEX_FOLDER)
    file = disk.open(f"{APACHE_KEY_INDEX_FOLDER}/20231114221320000", create=True)
    file.write(0, _HEAD.pack(1, 1, 0, 0, 1, 2) + bytes(400))
    file.close()
    store = _opened(disk)
    _fill(store, 5, 10)
    before = disk.read(f"{APACHE_KEY_INDEX_FOLDER}/20231114221320000")
    store.close(_NOW_MS)
    store = _opened(disk)
    store.close(_NOW_MS)
    assert disk.names(APACHE_KEY_INDEX_FOLDER) == ["20231114221320000"]
    assert disk.read(f"{APACHE_KEY_INDEX_FOLDER}/20231114221320000") == before


def test_a_file_whose_messages_are_all_gone_is_removed() -> None:
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, 13)  # a full file
    store.close(_NOW_MS)
    store = _opened(disk)
    _fill(store, 13, 600)
    assert store.segment_count == 2
    store.close(_NOW_MS)
    assert len(disk.names(APACHE_KEY_INDEX_FOLDER)) > 20
    store = Store.open(disk, StoreOptions(segment_bytes=1 << 16, keeps_apache_keys=True, keep_bytes=1))
    assert store.delete_expired_segments(_NOW_MS)
    positions = _positions(store)
    store.close(_NOW_MS)
    assert set(positions) <= set(_found(disk, "both"))
    assert min(_found(disk, "both")) > 0


def test_a_disk_that_takes_no_index_still_closes() -> None:
    disk = SimulatedDisk()
    store = _opened(disk)
    _fill(store, 0, 5)
    with pytest.MonkeyPatch.context() as patch:

        def fail(_: ApacheKeyIndex, now_ms: int) -> None:
            raise DiskFailed("write", path=f"index/{now_ms}", why="no space")

        patch.setattr(ApacheKeyIndex, "save", fail)
        store.close(_NOW_MS)
    assert "abort" not in disk.names("")
    assert disk.names(APACHE_KEY_INDEX_FOLDER) == []


def test_without_the_option_no_index_is_written() -> None:
    disk = SimulatedDisk()
    store = Store.open(disk, StoreOptions(segment_bytes=1 << 16))
    _fill(store, 0, 5)
    store.close(_NOW_MS)
    assert disk.names(APACHE_KEY_INDEX_FOLDER) == []
