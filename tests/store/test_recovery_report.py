"""What a start tells of itself: what it found, what it read, and what it had to give up."""

from tests.fuzzing import Dice
from tests.store.story import OPTIONS, PAGE, Book, Teller, opened

from steelyard.sim.disk import ForgettingDisk
from steelyard.store.recovery import CUT_OFF
from steelyard.store.starting import Recovery, StartedFrom

_LOG = "commitlog/00000000000000000000"


def filled(count: int = 10) -> tuple[ForgettingDisk, int]:
    """Return a disk of a process that has written some messages into one file and runs still, and where they end."""
    disk = ForgettingDisk(page=PAGE)
    store = opened(disk)
    Teller(Dice(1), most_bytes=30).fill(store, count, Book())
    assert store.files == 1
    return disk, store.end


def test_an_empty_directory_has_nothing_to_read() -> None:
    assert opened(ForgettingDisk(page=PAGE)).recovery == Recovery(StartedFrom.NOTHING)


def test_what_was_closed_in_order_is_not_read() -> None:
    disk = ForgettingDisk(page=PAGE)
    store = opened(disk)
    Teller(Dice(1), most_bytes=30).fill(store, 10, Book())
    store.close(2_000)
    assert opened(disk).recovery == Recovery(StartedFrom.CLOSED)


def test_what_a_crash_left_is_read_and_counted() -> None:
    disk, end = filled()
    assert opened(disk.crash()).recovery == Recovery(StartedFrom.UNCLOSED, records=10, read_bytes=end)


def test_a_torn_tail_is_told_in_bytes() -> None:
    disk, end = filled()
    left = disk.crash()
    left.open(_LOG).write(end, b"half a record")
    recovery = opened(left).recovery
    assert (recovery.records, recovery.read_bytes, recovery.cut_bytes) == (10, end, len(b"half a record"))
    assert [damage.what for damage in recovery.damages] == [CUT_OFF]
    assert opened(left.crash()).recovery.cut_bytes == 0, "it is gone"


def test_damage_in_the_middle_is_told_apart_from_the_tail() -> None:
    disk, _ = filled()
    left = disk.crash()
    left.open(_LOG).write(100, b"\xff" * 8)
    store = opened(left)
    assert store.recovery.records < 10
    assert store.recovery.cut_bytes == 0
    assert store.recovery.damages
    assert list(store.recovery.damages) == store.damages


def test_files_are_counted() -> None:
    store = opened(ForgettingDisk(page=PAGE))
    assert store.files == 0
    Teller(Dice(1)).fill(store, 40, Book())
    assert store.files == -(-store.end // OPTIONS.segment_bytes) > 1
