from collections.abc import Iterable
from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.store.disk import make_folder
from steelyard.store.key_index import KEY_INDEX_FOLDER, KeyIndex, key_index_path, record_keys
from steelyard.wire.properties import encode_properties, find_property
from tests.store.crash_points import every_end
from tests.wire.stored_values import property_texts

_START = 4096
_HEAD_BYTES, _ENTRY_BYTES = 32, 16

_words = st.text(alphabet="abcdef#é", min_size=1, max_size=3)
_records = st.lists(
    st.tuples(
        st.sampled_from(["orders", "orders#a", "refunds"]),
        st.lists(_words, max_size=3),
        st.none() | _words,
    ),
    max_size=12,
)
_Record = tuple[str, list[str], str | None]


def _properties(words: list[str], unique: str | None) -> bytes:
    both = {"KEYS": " ".join(words), "UNIQ_KEY": unique or "", "TAGS": "paid"}
    return encode_properties({name: value for name, value in both.items() if value})


def _index(records: Iterable[_Record]) -> KeyIndex:
    index = KeyIndex(_START)
    for topic, words, unique in records:
        position = index.indexed_to
        index.add(topic.encode(), _properties(words, unique), position, position + 100)
    return index


def _disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    make_folder(disk, KEY_INDEX_FOLDER)
    return disk


def _put(disk: SimulatedDisk, start: int, content: bytes) -> None:
    file = disk.open(key_index_path(start), create=True)
    file.truncate(0)
    file.write(0, content)
    file.close()


def _saved(index: KeyIndex) -> bytes:
    disk = _disk()
    index.save(disk)
    content = disk.read(key_index_path(index.start))
    assert content is not None
    return content


def _hash(topic: bytes, key: bytes) -> bytes:
    index = KeyIndex(0)
    index.add(topic, encode_properties({"KEYS": key.decode()}), 0, 100)
    return _saved(index)[_HEAD_BYTES : _HEAD_BYTES + 8]


@given(_records)
def test_every_record_is_found_by_each_of_its_keys_and_by_no_other(records: list[_Record]) -> None:
    index = _index(records)
    having: dict[tuple[str, str], list[int]] = {}
    for number, (topic, words, unique) in enumerate(records):
        for key in {*words, *filter(None, [unique])}:
            having.setdefault((topic, key), []).append(_START + number * 100)
    for topic in ("orders", "orders#a", "refunds"):
        for key in {key for _, key in having} | {"unheard"}:
            assert [*index.find(topic.encode(), key.encode())] == having.get((topic, key), [])[::-1]


@given(property_texts)
def test_the_keys_are_those_that_every_other_reader_sees(properties: bytes) -> None:
    words = (find_property(properties, b"KEYS") or b"").split(b" ")
    unique = find_property(properties, b"UNIQ_KEY") or b""
    assert record_keys(properties) == [key for key in (*words, unique) if key]


def test_an_entry_without_a_value_does_not_hide_the_one_before() -> None:
    assert record_keys(b"KEYS\x01o-1\x02UNIQ_KEY\x01AC11\x02KEYS\x01\x02UNIQ_KEY\x01") == [b"o-1", b"AC11"]


def test_only_blanks_part_words() -> None:
    assert record_keys(b"KEYS\x01 a\tb  c\xc2\xa0d \x02") == [b"a\tb", b"c\xc2\xa0d"]
    assert record_keys(b"KEYS\x01   \x02") == []


def test_a_record_that_has_a_key_twice_is_found_once() -> None:
    index = _index([("orders", ["a", "b", "a"], "a")])
    assert [*index.find(b"orders", b"a")] == [_START]


def test_a_record_that_was_fed_before_is_passed_over() -> None:
    index = _index([("orders", ["a"], None), ("orders", ["a"], None)])
    index.add(b"orders", _properties(["a"], None), _START, _START + 100)
    assert [*index.find(b"orders", b"a")] == [_START + 100, _START]
    assert len(index) == 2


def test_a_record_without_keys_counts_as_fed() -> None:
    index = _index([("orders", [], None)])
    assert (len(index), index.indexed_to) == (0, _START + 100)


def test_a_position_that_looks_like_the_hash_is_no_entry() -> None:
    position, key = next(
        (int.from_bytes(hashed, "big"), key)
        for key in (b"%d" % number for number in range(100))
        if (hashed := _hash(b"orders", key))[0] < 0x80
    )
    index = KeyIndex(0)
    index.add(b"orders", _properties(["other"], None), position, position + 100)
    assert [*index.find(b"orders", b"other")] == [position]
    assert [*index.find(b"orders", key)] == []


def test_the_file_is_the_same_in_every_process() -> None:
    content = _saved(_index([("orders", ["o-1"], None)]))
    assert content[:24] == pack(">4sIqq", b"SYKI", 1, _START, _START + 100)
    assert content[_HEAD_BYTES:] == bytes.fromhex("7afb3fceb110e6e7") + _START.to_bytes(8, "big")


@given(_records)
def test_an_index_comes_back_as_it_was_saved(records: list[_Record]) -> None:
    index, disk = _index(records), _disk()
    index.save(disk)
    again = KeyIndex.load(disk, _START)
    assert again is not None
    assert (again.start, again.indexed_to, len(again)) == (index.start, index.indexed_to, len(index))
    for topic, words, _ in records:
        for word in words:
            assert [*again.find(topic.encode(), word.encode())] == [*index.find(topic.encode(), word.encode())]
    again.add(b"orders", _properties(["later"], None), again.indexed_to, again.indexed_to + 100)
    assert [*again.find(b"orders", b"later")] == [index.indexed_to]


def test_what_is_missing_or_damaged_is_not_loaded() -> None:
    assert KeyIndex.load(_disk(), _START) is None
    content, disk = _saved(_index([("orders", ["a", "b"], "c"), ("refunds", [], "d")])), _disk()
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        _put(disk, _START, bytes(flipped))
        assert KeyIndex.load(disk, _START) is None, bit
    for size in range(len(content)):
        _put(disk, _START, content[:size])
        assert KeyIndex.load(disk, _START) is None, size
    for wrong in (content + content[-_ENTRY_BYTES:], content + b"\0"):
        _put(disk, _START, wrong)
        assert KeyIndex.load(disk, _START) is None


def test_the_index_of_another_segment_is_not_loaded() -> None:
    disk = _disk()
    _put(disk, 0, _saved(_index([("orders", ["a"], None)])))
    assert KeyIndex.load(disk, 0) is None


@given(_records, st.integers(-100, 1400))
def test_an_index_that_is_cut_is_one_that_was_never_fed_more(records: list[_Record], end: int) -> None:
    index = _index(records)
    kept = [record for number, record in enumerate(records) if number * 100 < end]
    index.truncate(_START + end)
    shorter = _index(kept)
    shorter.indexed_to = min(shorter.indexed_to, max(_START, _START + end))
    assert _saved(index) == _saved(shorter)


def test_a_crash_leaves_the_old_index_or_the_new_one() -> None:
    early = _index([("orders", ["a"], None)])
    late = _index([("orders", ["a"], None), ("orders", ["b"], None)])

    def saved() -> SimulatedDisk:
        disk = _disk()
        early.save(disk)
        return disk

    found = [KeyIndex.load(disk, _START) for disk in every_end(saved, late.save)]
    assert {index and index.indexed_to for index in found} == {early.indexed_to, late.indexed_to}
