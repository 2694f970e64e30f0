"""Where one log file ends and the next begins, and what does not fit into any."""

import pytest

from simulator.disk import SimulatedDisk
from steelyard.errors import ConfigurationError, LimitExceeded
from steelyard.store.options import StoreOptions
from steelyard.store.tags_code import SCHEDULE_TOPIC, compute_tags_code
from steelyard.wire.record import BLANK_BYTES, BLANK_MAGIC, MIN_RECORD_BYTES, peek_record
from tests.store.sample_messages import OPTIONS, PAGE, Message, append, everything, files, opened

_QUEUE = (b"orders", 0)
_EMPTY_BYTES = MIN_RECORD_BYTES + len(b"orders")
_FIRST, _SECOND = "commitlog/00000000000000000000", "commitlog/00000000000000004096"


def test_files_are_as_large_as_apaches_unless_asked_otherwise() -> None:
    assert StoreOptions().segment_bytes == 1_073_741_824


@pytest.mark.parametrize("left", range(20))
def test_a_file_ends_with_a_blank_as_apache_writes_it(left: int) -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    body = b"x" * (OPTIONS.segment_bytes - _EMPTY_BYTES - left)
    _, begin = append(store, Message(_QUEUE, b"")) if left < BLANK_BYTES else (None, b"")
    big, record = append(store, Message(_QUEUE, body)) if left >= BLANK_BYTES else (None, b"")
    if left < BLANK_BYTES:
        # It would leave fewer bytes than a blank takes, so not even an empty file has room.
        with pytest.raises(LimitExceeded, match="record"):
            append(store, Message(_QUEUE, body))
    last, end = append(store, Message(_QUEUE, b"next"))
    assert store.flush().error is None
    records = [each for each in (begin, record, end) if each]
    assert everything(store) == {_QUEUE: dict(enumerate(records))}
    if big is not None:
        assert last.position == OPTIONS.segment_bytes
        content = disk.read(_FIRST) or b""
        blank = peek_record(content, big.size)
        assert blank is not None
        assert (blank.size, blank.magic) == (left, BLANK_MAGIC)
        assert not any(content[big.size + BLANK_BYTES :])
        assert (disk.read(_SECOND) or b"").startswith(end)
    heir = opened(disk.crash())
    assert everything(heir) == {_QUEUE: dict(enumerate(records))}
    assert not heir.damages


@pytest.mark.parametrize("left", range(7, 12))
def test_a_second_record_goes_into_the_next_file_if_a_blank_would_not_fit_behind_it(left: int) -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    first, _ = append(store, Message(_QUEUE, b"a" * 1_000))
    second, _ = append(store, Message(_QUEUE, b"b" * (4_096 - first.size - _EMPTY_BYTES - left)))
    third, _ = append(store, Message(_QUEUE, b"c"))
    assert second.position == (first.size if left >= BLANK_BYTES else 4_096)
    assert third.position == (4_096 if left >= BLANK_BYTES else 4_096 + second.size)
    assert store.flush().error is None
    heir = opened(disk.crash())
    assert [len(records) for records in everything(heir).values()] == [3]
    assert not heir.damages


def test_a_record_that_fits_no_file_is_refused_and_loses_nothing() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    _, first = append(store, Message(_QUEUE, b"first"))
    with pytest.raises(LimitExceeded, match="a record is 4097, the limit is 4088"):
        append(store, Message(_QUEUE, b"x" * 4_000))
    _, second = append(store, Message(_QUEUE, b"second"))
    assert store.flush().error is None
    assert everything(store) == {_QUEUE: {0: first, 1: second}}
    assert disk.names("commitlog") == ["00000000000000000000"]


def test_a_message_that_cannot_be_written_leaves_no_trace() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk, StoreOptions(segment_bytes=65_536, keep_ms=None))
    _, first = append(store, Message(_QUEUE, b"x" * 40_000))
    for bad in (
        Message(_QUEUE, b"", b"p" * 40_000),
        Message(_QUEUE, b"", born_host=b"short"),
        Message((b"orders", 1 << 40), b""),
        Message((b"../orders", 0), b""),
        Message((b"a/b", 0), b""),
        Message((b"", 0), b""),
        Message((b"\xff\xfe", 0), b""),
        Message((b"t" * 300, 0), b""),
        Message(_QUEUE, b"", stored_ms=1 << 70),
    ):
        with pytest.raises((ConfigurationError, LimitExceeded)):
            append(store, bad)
    _, second = append(store, Message(_QUEUE, b"second"))
    assert store.flush().error is None
    assert everything(store) == {_QUEUE: {0: first, 1: second}}
    assert store.queues() == [_QUEUE]
    store.close(now_ms=1)
    assert everything(opened(disk)) == {_QUEUE: {0: first, 1: second}}


def test_views_stay_valid_when_their_file_is_gone_and_the_store_closed() -> None:
    disk = SimulatedDisk(page=PAGE)
    options = StoreOptions(segment_bytes=4_096, keep_ms=None, keep_bytes=4_096)
    store = opened(disk, options)
    records = [append(store, Message(_QUEUE, bytes((number,)) * 1_500))[1] for number in range(8)]
    assert store.flush().error is None
    held = store.read(*_QUEUE, 0, max_messages=2)
    job = store.begin_sync()
    job.run()
    store.end_sync(job)
    assert store.delete_expired_segments(now_ms=0)
    assert store.bounds(*_QUEUE)[0] > 0
    store.close(now_ms=0)
    assert held.joined() == b"".join(records[:2])


def test_a_file_that_is_being_synced_is_not_removed() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk, StoreOptions(segment_bytes=4_096, keep_ms=None, keep_bytes=4_096))
    for number in range(8):
        append(store, Message(_QUEUE, bytes((number,)) * 1_500))
    assert store.flush().error is None
    assert store.delete_expired_segments(now_ms=0) == []
    job = store.begin_sync()
    assert store.delete_expired_segments(now_ms=0) == []
    job.run()
    assert job.error is None
    store.end_sync(job)
    assert len(store.delete_expired_segments(now_ms=0)) == 3
    assert [path for path in files(disk) if path.startswith("commitlog/")] == [f"commitlog/{3 * 4096:020d}"]


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [(b"DELAY\x013\x02", 11_000), (b"DELAY\x0118\x02", 7_201_000), (b"DELAY\x0119\x02", 2_000), (b"", 2_000)],
)
def test_the_tags_code_of_a_delayed_message_is_when_it_is_due(properties: bytes, due_ms: int) -> None:
    # Apache's broker reads it in a directory that was ours, and delivers the message then.
    assert compute_tags_code(SCHEDULE_TOPIC, properties, 1_000) == due_ms


def test_a_delayed_message_without_a_sensible_delay_has_a_tags_code_all_the_same() -> None:
    disk = SimulatedDisk(page=PAGE)
    options = StoreOptions(segment_bytes=65_536, keep_ms=None)
    store = opened(disk, options)
    queue = (b"SCHEDULE_TOPIC_XXXX", 0)
    records = [
        append(store, Message(queue, b"", properties, stored_ms=stored_ms))[1]
        for properties in (b"", b"DELAY\x01x\x02", b"DELAY\x01" + b"9" * 9_000 + b"\x02", b"DELAY\x0118\x02")
        for stored_ms in (0, (1 << 63) - 1)
    ]
    assert store.flush().error is None
    assert everything(opened(disk.crash(), options)) == {queue: dict(enumerate(records))}
