from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.disk import DiskFaultKind, DiskOperation, SimulatedDisk
from steelyard.errors import ConfigurationError, DiskFailed, DiskFull, LimitExceeded
from steelyard.store.disk import make_folder
from steelyard.store.json_documents import (
    CLEAN_SHUTDOWN,
    DELAY_OFFSETS,
    GROUP_OFFSETS,
    GROUPS,
    STORE_FORMAT,
    TOPICS,
    CleanShutdown,
    JsonDocument,
    LoadedDocument,
    StoreFormat,
    load_document,
    save_document,
)
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from steelyard.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.json_body import ById
from tests.fuzzing import Dice
from tests.store.crash_points import every_end
from tests.wire.body_values import values

_CONFIG: tuple[JsonDocument[Any], ...] = (TOPICS, GROUPS, GROUP_OFFSETS, DELAY_OFFSETS)
_OURS: tuple[JsonDocument[Any], ...] = (STORE_FORMAT, CLEAN_SHUTDOWN)


def _offsets(offset: int) -> ConsumerOffsetTable:
    return ConsumerOffsetTable(offsets={"orders@billing": ById({0: offset, 1: 9})})


_OLDEST, _OLD, _NEW = _offsets(10), _offsets(11), _offsets(12)


def _disk(*saved: ConsumerOffsetTable, choose: Dice | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(choose)
    for folder in ("config", "steelyard"):
        make_folder(disk, folder)
    for offsets in saved:
        save_document(disk, GROUP_OFFSETS, offsets)
    return disk


def _put(disk: SimulatedDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, content)
    file.sync()
    file.close()


def _flip(disk: SimulatedDisk, path: str, bit: int) -> None:
    content = bytearray(disk.read(path) or b"")
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    _put(disk, path, bytes(content))


def _bits(disk: SimulatedDisk, path: str) -> int:
    return 8 * len(disk.read(path) or b"")


# What is written and read


def _with_value(document: JsonDocument[Any]) -> st.SearchStrategy[tuple[JsonDocument[Any], Any]]:
    kind: Any = document.value_type
    return st.tuples(st.just(document), values(kind))


@given(st.one_of([_with_value(document) for document in _CONFIG]))
def test_a_document_comes_back_as_it_was_saved(drawn: tuple[JsonDocument[Any], Any]) -> None:
    document, value = drawn
    disk = _disk()
    save_document(disk, document, value)
    assert load_document(disk, document) == LoadedDocument(value)


def test_our_own_documents_come_back_as_they_were_saved() -> None:
    disk = _disk()
    save_document(disk, STORE_FORMAT, StoreFormat())
    save_document(disk, CLEAN_SHUTDOWN, CleanShutdown(end=4711, closed_ms=1_700_000_000_000, segment_bytes=1 << 30))
    assert load_document(disk, STORE_FORMAT) == LoadedDocument(StoreFormat(v=1))
    assert load_document(disk, CLEAN_SHUTDOWN) == LoadedDocument(
        CleanShutdown(end=4711, closed_ms=1_700_000_000_000, segment_bytes=1 << 30)
    )


@pytest.mark.parametrize("document", [*_CONFIG, *_OURS])
def test_nothing_there_is_no_damage(document: JsonDocument[Any]) -> None:
    assert load_document(_disk(), document) == LoadedDocument(None)
    assert load_document(SimulatedDisk(), document) == LoadedDocument(None)


def test_a_file_has_javas_shape_and_a_checksum_at_its_end() -> None:
    disk = _disk(_NEW)
    text = b'{"offsetTable":{"orders@billing":{0:12,1:9}}}'
    assert disk.read("config/consumerOffset.json") == text[:-1] + b',"steelyard":{"crc32":%d,"v":1}}' % crc32(text)


def test_the_document_before_is_kept_where_java_looks_for_it() -> None:
    disk = _disk(_OLD)
    before = disk.read("config/consumerOffset.json")
    save_document(disk, GROUP_OFFSETS, _NEW)
    assert disk.read("config/consumerOffset.json.bak") == before
    assert disk.names("config") == ["consumerOffset.json", "consumerOffset.json.bak"]


_VERSION = TableVersion(counter=3, timestamp=1_700_000_000_000)

# As the named release writes them: the file of a broker, indented, and that of a replica, which is not.
_OTHERS_FILES: list[tuple[str, JsonDocument[Any], str, Any]] = [
    (
        "4.9",
        TOPICS,
        (
            '{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"timestamp":1700000000000\n\t},\n\t"topicConfigTable":{\n\t\t'
            '"steelyard":{\n\t\t\t"order":false,\n\t\t\t"perm":6,\n\t\t\t"readQueueNums":4,\n\t\t\t"topicFilterType":'
            '"SINGLE_TAG",\n\t\t\t"topicName":"steelyard",\n\t\t\t"topicSysFlag":0,\n\t\t\t"writeQueueNums":4\n\t\t}\n\t}\n}'
        ),
        TopicConfigTable(
            version=_VERSION, topics={"steelyard": TopicConfig(name="steelyard", read_queues=4, write_queues=4)}
        ),
    ),
    (
        "4.9",
        GROUPS,
        (
            '{"dataVersion":{"counter":3,"timestamp":1700000000000},"subscriptionGroupTable":{"steelyard":{"brokerId":0,'
            '"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"steelyard",'
            '"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}}}'
        ),
        SubscriptionGroupTable(version=_VERSION, groups={"steelyard": SubscriptionGroupConfig(name="steelyard")}),
    ),
    (
        "4.9",
        GROUP_OFFSETS,
        '{\n\t"offsetTable":{\n\t\t"orders@billing":{0:12,1:9\n\t\t}\n\t}\n}',
        _NEW,
    ),
    (
        "5.5",
        GROUP_OFFSETS,
        (
            '{\n\t"groupTopicMap":{\n\t\t"billing":[\n\t\t\t"orders"\n\t\t]\n\t},\n\t"offsetTable":{\n\t\t"orders@billing"'
            ":{\n\t\t\t0:12,\n\t\t\t1:9\n\t\t}\n\t}\n}"
        ),
        _NEW,
    ),
    (
        "5.5",
        GROUP_OFFSETS,
        '{"groupTopicMap":{"steelyard":["o"]},"offsetTable":{"o@steelyard":{0:12}}}',
        ConsumerOffsetTable(offsets={"o@steelyard": ById({0: 12})}),
    ),
    ("4.9", DELAY_OFFSETS, '{\n\t"offsetTable":{1:5\n\t}\n}', DelayOffsetTable(offsets=ById({1: 5}))),
    ("4.9", DELAY_OFFSETS, '{"offsetTable":{1:5}}', DelayOffsetTable(offsets=ById({1: 5}))),
]


@pytest.mark.parametrize(("release", "document", "text", "value"), _OTHERS_FILES)
def test_a_file_that_another_program_wrote_is_taken_as_it_is(
    release: str, document: JsonDocument[Any], text: str, value: Any
) -> None:
    disk = _disk()
    _put(disk, document.path, text.encode())
    assert load_document(disk, document) == LoadedDocument(value), release
    save_document(disk, document, value)
    assert disk.read(document.backup) == text.encode()


def test_who_edits_a_file_by_hand_removes_the_checksum() -> None:
    disk = _disk(_OLD)
    edited = (disk.read(GROUP_OFFSETS.path) or b"").replace(b"0:11", b"0:12")
    _put(disk, GROUP_OFFSETS.path, edited)
    assert load_document(disk, GROUP_OFFSETS).value is None
    _put(disk, GROUP_OFFSETS.path, edited.partition(b',"steelyard"')[0] + b"}")
    assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_NEW)


def test_a_file_that_another_program_indented_anew_is_that_programs_own() -> None:
    disk = _disk()
    _put(disk, STORE_FORMAT.path, b'{\n  "v": 7,\n  "steelyard": {\n    "crc32": 2229004093,\n    "v": 1\n  }\n}\n')
    assert load_document(disk, STORE_FORMAT) == LoadedDocument(StoreFormat(v=7))


def test_what_could_not_be_read_back_is_refused_before_anything_is_touched() -> None:
    disk = _disk(_OLD)
    calls = disk.calls["any"]
    with pytest.raises(LimitExceeded):
        save_document(disk, GROUP_OFFSETS, ConsumerOffsetTable(offsets={"x" * (1 << 24): ById({0: 1})}))
    with pytest.raises(ConfigurationError):
        save_document(disk, GROUP_OFFSETS, ConsumerOffsetTable(offsets={"\ud800@billing": ById({0: 1})}))
    assert disk.calls["any"] == calls
    assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_OLD)


# When the process dies, or the lights go out


@pytest.mark.parametrize("saved", [(_OLD,), (_OLDEST, _OLD)])
def test_a_crash_leaves_the_old_document_or_the_new_one(saved: tuple[ConsumerOffsetTable, ...]) -> None:
    values_found = set()
    for disk in every_end(lambda: _disk(*saved), _save_new):
        value = load_document(disk, GROUP_OFFSETS).value
        assert value in (_OLD, _NEW)
        values_found.add(value == _NEW)
        save_document(disk, GROUP_OFFSETS, _offsets(13))
        assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_offsets(13))
    assert values_found == {True, False}


def test_a_crash_in_the_first_save_leaves_nothing_or_the_document() -> None:
    assert all(
        load_document(disk, GROUP_OFFSETS) in (LoadedDocument(None), LoadedDocument(_NEW))
        for disk in every_end(_disk, _save_new)
    )


def test_a_document_that_was_saved_survives_a_loss_of_power() -> None:
    assert all(
        load_document(disk, GROUP_OFFSETS) == LoadedDocument(_NEW) for disk in _disk(_OLD, _NEW).all_power_losses()
    )


@pytest.mark.parametrize("bit", [8, 400])
def test_a_crash_does_not_let_a_damaged_file_take_the_place_of_a_good_backup(bit: int) -> None:
    def damaged() -> SimulatedDisk:
        disk = _disk(_OLDEST, _OLD)
        _flip(disk, GROUP_OFFSETS.path, bit)
        return disk

    assert all(load_document(disk, GROUP_OFFSETS).value in (_OLDEST, _NEW) for disk in every_end(damaged, _save_new))


_FAILURES: list[tuple[DiskOperation, DiskFaultKind]] = [
    ("open", "error"),
    ("write", "error"),
    ("write", "no_space"),
    ("write", "short_write"),
    ("truncate", "error"),
    ("fsync", "error"),
    ("rename", "error"),
    ("sync_folder", "error"),
]


@settings(max_examples=300)
@given(st.lists(st.none() | st.sampled_from(_FAILURES), max_size=6), st.integers(0, 2**32), st.booleans())
def test_whatever_failed_before_the_lights_went_out_what_was_saved_is_there_or_something_newer(
    failures: list[tuple[DiskOperation, DiskFaultKind] | None], seed: int, tears_pages: bool
) -> None:
    dice = Dice(seed)
    disk = _disk(_OLD, choose=dice)
    possible = [_OLD]
    for offset, failure in enumerate(failures, 100):
        possible.append(_offsets(offset))
        disk.faults.clear()
        if failure is not None:
            disk.fail_next(*failure)
        try:
            save_document(disk, GROUP_OFFSETS, possible[-1])
        except DiskFailed:
            continue
        del possible[:-1]
    for after in (disk.crash(), *(disk.lose_power(dice.randrange, unit=16 if tears_pages else None) for _ in range(5))):
        assert load_document(after, GROUP_OFFSETS).value in possible


def test_a_short_write_is_finished() -> None:
    disk = _disk(_OLD)
    disk.fail_next("write", "short_write")
    save_document(disk, GROUP_OFFSETS, _NEW)
    assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_NEW)


@pytest.mark.parametrize(
    ("operation", "kind", "error"),
    [
        ("write", "no_space", DiskFull),
        ("fsync", "error", DiskFailed),
        ("open", "error", DiskFailed),
    ],
)
def test_an_error_of_the_disk_is_passed_on_and_the_old_document_stays(
    operation: DiskOperation, kind: DiskFaultKind, error: type[DiskFailed]
) -> None:
    disk = _disk(_OLD)
    disk.fail_next(operation, kind)
    with pytest.raises(error):
        save_document(disk, GROUP_OFFSETS, _NEW)
    assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_OLD)
    save_document(disk, GROUP_OFFSETS, _NEW)
    assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_NEW)


def _save_new(disk: SimulatedDisk) -> None:
    save_document(disk, GROUP_OFFSETS, _NEW)


# When bits flip


def test_every_flipped_bit_is_seen_and_the_backup_is_used() -> None:
    disk = _disk(_OLD, _NEW)
    for bit in range(_bits(disk, GROUP_OFFSETS.path)):
        _flip(disk, GROUP_OFFSETS.path, bit)
        loaded = load_document(disk, GROUP_OFFSETS)
        assert loaded.value == _OLD, bit
        assert loaded.problem is not None
        assert loaded.problem.startswith("config/consumerOffset.json is damaged (")
        assert loaded.problem.endswith("); its backup was used")
        _flip(disk, GROUP_OFFSETS.path, bit)
    assert load_document(disk, GROUP_OFFSETS) == LoadedDocument(_NEW)


@pytest.mark.parametrize("missing", [True, False])
def test_every_flipped_bit_of_a_backup_that_is_needed_is_reported(missing: bool) -> None:
    disk = _disk(_OLD, _NEW)
    if missing:
        disk.remove(GROUP_OFFSETS.path)
    else:
        _flip(disk, GROUP_OFFSETS.path, 0)
    for bit in range(_bits(disk, GROUP_OFFSETS.backup)):
        _flip(disk, GROUP_OFFSETS.backup, bit)
        loaded = load_document(disk, GROUP_OFFSETS)
        assert loaded.value is None
        assert loaded.problem is not None
        assert "consumerOffset.json.bak is damaged" in loaded.problem
        assert ("consumerOffset.json is damaged" in loaded.problem) is not missing
        _flip(disk, GROUP_OFFSETS.backup, bit)


def test_a_thousand_times_a_few_flips_over_file_and_backup_never_give_a_wrong_value() -> None:
    dice = Dice(4711)
    for _ in range(1000):
        disk = _disk(_OLD, _NEW)
        for _ in range(dice.randint(1, 6)):
            path = dice.choice([GROUP_OFFSETS.path, GROUP_OFFSETS.backup])
            _flip(disk, path, dice.randrange(_bits(disk, path)))
        loaded = load_document(disk, GROUP_OFFSETS)
        assert loaded.value in (_NEW, _OLD, None)
        assert (loaded.problem is None) == (loaded.value == _NEW)


@pytest.mark.parametrize("change", [lambda content: content[: len(content) // 2], lambda _: b"", lambda _: bytes(512)])
def test_a_file_that_was_cut_emptied_or_zeroed_is_damaged(change: Callable[[bytes], bytes]) -> None:
    disk = _disk(_OLD, _NEW)
    _put(disk, GROUP_OFFSETS.path, change(disk.read(GROUP_OFFSETS.path) or b""))
    loaded = load_document(disk, GROUP_OFFSETS)
    assert loaded.value == _OLD
    assert loaded.problem is not None


def test_a_file_cut_at_any_byte_is_damaged() -> None:
    disk = _disk(_OLD, _NEW)
    content = disk.read(GROUP_OFFSETS.path) or b""
    for size in range(len(content)):
        _put(disk, GROUP_OFFSETS.path, content[:size])
        assert load_document(disk, GROUP_OFFSETS).value == _OLD, size


def test_where_a_file_of_another_program_is_broken_is_reported() -> None:
    disk = _disk()
    _put(disk, TOPICS.path, b'{"dataVersion":}')
    note = load_document(disk, TOPICS).problem
    assert note is not None
    assert "config/topics.json is damaged (body of TopicConfigTable, byte 15: " in note


def test_what_an_earlier_close_left_behind_is_not_used() -> None:
    disk = _disk()
    for end in (100, 200):
        save_document(disk, CLEAN_SHUTDOWN, CleanShutdown(end=end, closed_ms=end, segment_bytes=1024))
    assert disk.names("steelyard") == ["closed.json"]
    _flip(disk, CLEAN_SHUTDOWN.path, 40)
    assert load_document(disk, CLEAN_SHUTDOWN) == LoadedDocument(
        None, "steelyard/closed.json is damaged (its checksum does not match)"
    )
