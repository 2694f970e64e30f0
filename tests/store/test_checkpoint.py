from struct import pack, unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.store.checkpoint import (
    CHECKPOINT_BYTES,
    CHECKPOINT_PATH,
    Checkpoint,
    write_checkpoint,
)
from tests.store.crash_points import every_end

_times = st.integers(-(2**63), 2**63 - 1)
_EARLY, _LATE = Checkpoint(1, 2, 3), Checkpoint(4, 5, 6)


def read_checkpoint(disk: SimulatedDisk) -> Checkpoint:
    return Checkpoint(*unpack_from(">qqq", (disk.read(CHECKPOINT_PATH) or b"").ljust(CHECKPOINT_BYTES, b"\0")))


def _holding(content: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    file = disk.open(CHECKPOINT_PATH, create=True)
    file.write(0, content)
    file.close()
    return disk


@given(st.builds(Checkpoint, _times, _times, _times))
def test_what_is_written_is_read(checkpoint: Checkpoint) -> None:
    disk = SimulatedDisk()
    write_checkpoint(disk, checkpoint)
    assert read_checkpoint(disk) == checkpoint


def test_the_file_is_one_page_that_begins_with_three_times() -> None:
    disk = SimulatedDisk()
    write_checkpoint(disk, Checkpoint(log_ms=1_700_000_000_000, queues_ms=1_699_999_999_000, index_ms=7))
    content = disk.read(CHECKPOINT_PATH)
    assert content is not None
    assert content == pack(">qqq", 1_700_000_000_000, 1_699_999_999_000, 7).ljust(CHECKPOINT_BYTES, b"\0")


def test_the_positions_that_newer_brokers_keep_there_stay() -> None:
    disk = _holding(pack(">qqqqq", 1, 2, 3, 4711, 4712).ljust(CHECKPOINT_BYTES, b"\0"))
    assert read_checkpoint(disk) == Checkpoint(1, 2, 3)
    write_checkpoint(disk, Checkpoint(10, 20, 30))
    assert disk.read(CHECKPOINT_PATH) == pack(">qqqqq", 10, 20, 30, 4711, 4712).ljust(CHECKPOINT_BYTES, b"\0")


@pytest.mark.parametrize("content", [b"", bytes(7), bytes(CHECKPOINT_BYTES), bytes(CHECKPOINT_BYTES + 9)])
def test_what_holds_no_times_has_none(content: bytes) -> None:
    assert read_checkpoint(SimulatedDisk()) == Checkpoint()
    disk = _holding(content)
    assert read_checkpoint(disk) == Checkpoint()
    write_checkpoint(disk, _LATE)
    assert len(disk.read(CHECKPOINT_PATH) or b"") == CHECKPOINT_BYTES


def test_a_crash_leaves_the_old_times_or_the_new_ones() -> None:
    def written() -> SimulatedDisk:
        disk = SimulatedDisk()
        write_checkpoint(disk, _EARLY)
        return disk

    found = {read_checkpoint(disk) for disk in every_end(written, lambda disk: write_checkpoint(disk, _LATE))}
    assert found == {_EARLY, _LATE}
