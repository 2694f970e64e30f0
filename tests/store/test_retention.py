"""Old messages go with their log files: offsets begin later, nothing else is lost, and no number comes twice."""

import pytest

from simulator.disk import DiskFault, DiskOperation, SimulatedDisk
from steelyard.errors import DiskFailed
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.wire.record import decode_record
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, Book, Message, MessageWriter, append, everything, opened, sync

_SEGMENT = 4096
_BY_SIZE = StoreOptions(segment_bytes=_SEGMENT, keep_ms=None, keep_bytes=3 * _SEGMENT)
_BY_AGE = StoreOptions(segment_bytes=_SEGMENT, keep_ms=100)


def filled(options: StoreOptions, seed: int = 1) -> tuple[SimulatedDisk, Store, Book, int]:
    """Return a store with many log files, all of it synced, what is in it, and the time."""
    disk = SimulatedDisk(Dice(seed), page=PAGE)
    store, teller, book = opened(disk, options), MessageWriter(Dice(seed)), Book()
    append(store, Message((b"idle", 0), b"once"))
    teller.fill(store, 120, book)
    store.save_consume_queues()
    assert sync(store)
    store.lookup.build_key_index()
    store.lookup.save_key_index()
    return disk, store, book, teller.now_ms


def kept(book: Book, start: int) -> Book:
    """Return the messages that lie at or behind a position."""
    left = {
        queue: {offset: record for offset, record in records.items() if decode_record(record).position >= start}
        for queue, records in book.items()
    }
    return {queue: records for queue, records in left.items() if records}


@pytest.mark.parametrize("options", [_BY_SIZE, _BY_AGE], ids=["by size", "by age"])
@pytest.mark.parametrize("seed", range(4))
def test_low_offsets_move_up_and_clean_and_unclean_starts_agree(options: StoreOptions, seed: int) -> None:
    disk, store, book, now_ms = filled(options, seed)
    removed = store.delete_expired_segments(now_ms + 60)
    assert removed
    start = int(disk.names("commitlog")[0])
    assert start == len(removed) * _SEGMENT
    left = kept(book, start)
    assert everything(store) == left
    for queue, records in book.items():
        low, high = store.bounds(*queue)
        assert (low, high) == (min(left.get(queue, {max(records) + 1: b""})), max(records) + 1)
        assert store.read(*queue, 0, max_messages=1).min_offset == low
    assert store.bounds(b"idle", 0) == (1, 1)
    for folder in ("steelyard/sums", "steelyard/keys", "commitlog"):
        assert min(disk.names(folder)) >= f"{start:020d}"
    bounds = {queue: store.bounds(*queue) for queue in store.queues()}
    for heir in (opened(disk.crash(), options), opened(disk.lose_power(), options)):
        assert everything(heir) == left
        assert {queue: heir.bounds(*queue) for queue in heir.queues()} == bounds
        assert not heir.damages
    store.close(now_ms)
    heir = opened(disk.crash(), options)
    assert everything(heir) == left
    assert {queue: heir.bounds(*queue) for queue in heir.queues()} == bounds
    done, _ = append(heir, Message((b"idle", 0), b"again"))
    assert done.offset == 1


@pytest.mark.parametrize("count", [1, 29, 30, 31], ids=["one", "almost a file", "a file of its index", "more"])
def test_the_numbers_of_messages_that_went_are_not_given_again(count: int) -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk, _BY_SIZE)
    for _ in range(count):
        append(store, Message((b"idle", 0), b"once"))
    MessageWriter(Dice(1)).fill(store, 80, {})
    assert sync(store)
    assert store.delete_expired_segments(now_ms=0)
    assert store.bounds(b"idle", 0) == (count, count)
    store.save_consume_queues()
    for end in (disk.crash(), disk.lose_power()):
        for _ in range(2):
            heir = opened(end, _BY_SIZE)
            assert heir.bounds(b"idle", 0) == (count, count)
            assert (b"idle", 0) in heir.queues()
            end = end.crash()
        done, _ = append(heir, Message((b"idle", 0), b"again"))
        assert done.offset == count


def test_numbers_that_an_earlier_process_wrote_are_safe_before_their_messages_go() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk, _BY_SIZE)
    append(store, Message((b"idle", 0), b"once"))
    store.close(now_ms=0)
    store = opened(disk, _BY_SIZE)
    MessageWriter(Dice(1)).fill(store, 80, {})
    assert sync(store)
    assert store.delete_expired_segments(now_ms=0)
    heir = opened(disk.lose_power(), _BY_SIZE)
    assert heir.bounds(b"idle", 0) == (1, 1)


def test_a_close_syncs_no_index_whose_messages_are_in_the_log() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    for number in range(100):
        append(store, Message((b"topic-%d" % number, 0), b"once"))
    assert sync(store)
    before = disk.calls["fsync"] + disk.calls["sync_folder"]
    store.close(now_ms=0)
    assert disk.calls["fsync"] + disk.calls["sync_folder"] - before < 30
    for end in (disk.crash(), disk.lose_power()):
        heir = opened(end)
        assert [heir.bounds(b"topic-%d" % number, 0) for number in range(100)] == [(0, 1)] * 100
        assert not heir.damages


def test_by_size_as_many_bytes_are_kept_as_asked() -> None:
    disk, store, _, now_ms = filled(_BY_SIZE)
    end = store.flush().end
    store.delete_expired_segments(now_ms)
    start = int(disk.names("commitlog")[0])
    assert end - start <= 3 * _SEGMENT < end - start + _SEGMENT
    assert store.delete_expired_segments(now_ms) == []


def test_by_age_no_message_goes_that_is_young_enough() -> None:
    _, store, book, now_ms = filled(_BY_AGE)
    store.delete_expired_segments(now_ms + 50)
    for queue, records in book.items():
        low, _ = store.bounds(*queue)
        assert all(decode_record(records[offset]).stored_ms < now_ms - 50 for offset in range(low))
    store.delete_expired_segments(now_ms + 10_000)
    assert len(everything(store)) > 0, "the file that is written to never goes"


def test_a_time_that_was_damaged_costs_no_file_of_young_messages() -> None:
    disk, store, book, now_ms = filled(_BY_AGE)
    store.close(now_ms)
    records = [decode_record(each) for records in book.values() for each in records.values()]
    first = min((each for each in records if each.position >= _SEGMENT), key=lambda each: each.position)
    file = disk.open(f"commitlog/{_SEGMENT:020d}")
    file.write(first.position - _SEGMENT + 48 + len(first.born_host), bytes(8))
    file.close()
    assert opened(disk, _BY_AGE).delete_expired_segments(1_100) == []


def test_a_disk_that_cannot_remove_is_tried_again() -> None:
    disk, store, book, now_ms = filled(_BY_SIZE)
    operations: tuple[DiskOperation, ...] = ("remove", "sync_folder")
    for operation in operations:
        for nth in (1, 2, 3):
            disk.faults.append(DiskFault(operation, disk.calls[operation] + nth, "error"))
            try:
                store.delete_expired_segments(now_ms)
            except DiskFailed:
                found = everything(store)
                start = min(decode_record(each).position for records in found.values() for each in records.values())
                found.pop((b"idle", 0), None)
                assert found == kept(book, start)
            disk.faults.clear()
    store.delete_expired_segments(now_ms)
    start = int(disk.names("commitlog")[0])
    assert everything(store) == kept(book, start)
    assert everything(opened(disk.crash(), _BY_SIZE)) == kept(book, start)
