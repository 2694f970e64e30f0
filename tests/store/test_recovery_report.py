"""What recovery reports: what it found, what it read, and what it had to give up."""

from simulator.disk import SimulatedDisk
from steelyard.store.recovery import CUT_OFF, PreviousShutdown, RecoverySummary
from tests.fuzzing import Dice
from tests.store.sample_messages import OPTIONS, PAGE, Book, MessageWriter, opened

_LOG = "commitlog/00000000000000000000"


def filled(count: int = 10) -> tuple[SimulatedDisk, int]:
    """Return a disk of a process that has written some messages into one file and runs still, and where they end."""
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    MessageWriter(Dice(1), most_bytes=30).fill(store, count, Book())
    assert store.segment_count == 1
    return disk, store.end


def test_an_empty_directory_has_nothing_to_read() -> None:
    assert opened(SimulatedDisk(page=PAGE)).recovery == RecoverySummary(PreviousShutdown.EMPTY)


def test_what_was_closed_in_order_is_not_read() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    MessageWriter(Dice(1), most_bytes=30).fill(store, 10, Book())
    store.close(2_000)
    assert opened(disk).recovery == RecoverySummary(PreviousShutdown.CLEAN)


def test_what_a_crash_left_is_read_and_counted() -> None:
    disk, end = filled()
    assert opened(disk.crash()).recovery == RecoverySummary(PreviousShutdown.UNCLEAN, records=10, read_bytes=end)


def test_a_torn_tail_is_reported_in_bytes() -> None:
    disk, end = filled()
    left = disk.crash()
    left.open(_LOG).write(end, b"half a record")
    recovery = opened(left).recovery
    assert (recovery.records, recovery.read_bytes, recovery.cut_bytes) == (10, end, len(b"half a record"))
    assert [damage.what for damage in recovery.damages] == [CUT_OFF]
    assert opened(left.crash()).recovery.cut_bytes == 0, "it is gone"


def test_damage_in_the_middle_is_reported_apart_from_the_tail() -> None:
    disk, _ = filled()
    left = disk.crash()
    left.open(_LOG).write(100, b"\xff" * 8)
    store = opened(left)
    assert store.recovery.records < 10
    assert store.recovery.cut_bytes == 0
    assert store.recovery.damages
    assert list(store.recovery.damages) == store.damages


def test_files_are_counted() -> None:
    store = opened(SimulatedDisk(page=PAGE))
    assert store.segment_count == 0
    MessageWriter(Dice(1)).fill(store, 40, Book())
    assert store.segment_count == -(-store.end // OPTIONS.segment_bytes) > 1
