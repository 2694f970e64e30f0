"""Opening a directory: one process at a time, nothing but a store, and no harm by a crash in the middle."""

from pathlib import Path

import pytest

from simulator.disk import DiskFault, DiskFaultKind, ProcessDied, SimulatedDisk
from steelyard.errors import NotAStore, StoreLocked
from steelyard.serve.disks import RealDisk
from steelyard.store.options import StoreOptions
from tests.fuzzing import Dice
from tests.store.sample_messages import (
    OPTIONS,
    PAGE,
    Book,
    Message,
    MessageWriter,
    append,
    everything,
    files,
    opened,
    rounds,
)

_DEATHS: tuple[DiskFaultKind, ...] = ("crash_before", "crash_midway", "crash_after")


def put(disk: SimulatedDisk | RealDisk, path: str, content: bytes) -> None:
    """Write a file."""
    folder = path.rpartition("/")[0]
    disk.mkdir(folder)
    file = disk.open(path, create=True)
    file.write(0, content)
    file.close()


def test_only_one_process_has_a_directory(tmp_path: Path) -> None:
    store = opened(RealDisk(tmp_path))
    append(store, Message((b"orders", 0), b"first"))
    assert store.flush().error is None
    before = files(RealDisk(tmp_path, read_only=True))
    with pytest.raises(StoreLocked):
        opened(RealDisk(tmp_path))
    assert files(RealDisk(tmp_path, read_only=True)) == before
    store.close(now_ms=1)
    heir = opened(RealDisk(tmp_path))
    assert heir.bounds(b"orders", 0) == (0, 1)
    heir.close(now_ms=2)


@pytest.mark.parametrize("path", ["photos/cat.jpg", "notes.txt", "steelyard2/format.json"])
def test_a_directory_that_holds_something_else_is_refused_and_left_alone(path: str) -> None:
    disk = SimulatedDisk()
    put(disk, path, b"mine")
    before = files(disk)
    with pytest.raises(NotAStore, match="which no broker wrote"):
        opened(disk)
    assert files(disk) == before


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_garbage_behind_the_end_of_one_log_file_costs_nothing(number: int, *, is_closed: bool) -> None:
    disk, book = SimulatedDisk(), Book()
    store = opened(disk)
    MessageWriter(Dice(1)).fill(store, 60, book)
    assert store.segment_count > 2
    store.close(now_ms=1) if is_closed else store.abandon()
    name = disk.names("commitlog")[number]
    file = disk.open(f"commitlog/{name}")
    file.write(file.size, b"garbage")
    file.close()
    again = opened(disk)
    assert everything(again) == book
    assert again.damages == []
    again.close(now_ms=2)
    assert {len(content) for path, content in files(disk, "commitlog").items()} == {OPTIONS.segment_bytes}


def test_a_size_that_is_not_that_of_the_files_is_not_believed() -> None:
    """Another program may have put a log of larger files here since: no half of one may be taken for garbage."""
    disk, book = SimulatedDisk(), Book()
    opened(disk).close(now_ms=1)  # says that files have 4,096 bytes
    other = SimulatedDisk()
    larger = opened(other, StoreOptions(segment_bytes=2 * OPTIONS.segment_bytes, keep_ms=None))
    MessageWriter(Dice(1)).fill(larger, 60, book)
    larger.close(now_ms=1)
    for path, content in files(other, "commitlog").items():
        put(disk, path, content)
    assert everything(opened(disk)) == book


@pytest.mark.parametrize("name", ["notes.txt", "1", "0000000000000000000x"])
def test_a_log_with_a_strange_file_is_refused_and_left_alone(name: str) -> None:
    disk = SimulatedDisk()
    opened(disk).close(now_ms=1)
    put(disk, f"commitlog/{name}", b"mine")
    before = files(disk)
    with pytest.raises(NotAStore, match="is not a log file"):
        opened(disk)
    after = files(disk)
    assert after == before
    disk.remove(f"commitlog/{name}")
    opened(disk)


def test_log_files_that_do_not_belong_together_are_refused() -> None:
    disk = SimulatedDisk()
    for name, size in ((0, 4096), (5000, 4096), (9000, 4096)):
        put(disk, f"commitlog/{name:020d}", bytes(size))
    with pytest.raises(NotAStore, match="do not belong together"):
        opened(disk)


def test_a_directory_of_a_newer_release_is_refused_and_left_alone() -> None:
    disk = SimulatedDisk()
    opened(disk).close(now_ms=1)
    disk.remove("steelyard/format.json")
    put(disk, "steelyard/format.json", b'{"v":2}')
    before = files(disk)
    with pytest.raises(NotAStore, match="format 2, this release knows 1"):
        opened(disk)
    assert files(disk) == before


def test_files_keep_the_size_that_a_directory_began_with() -> None:
    disk = SimulatedDisk(page=PAGE)
    store, book = opened(disk), Book()
    MessageWriter(Dice(1)).fill(store, 3, book)
    store.close(now_ms=1)
    for end in (disk, disk.crash()):
        heir = opened(end, StoreOptions(segment_bytes=1 << 16, keep_ms=None))
        MessageWriter(Dice(2)).fill(heir, 30, {})
        assert {len(content) for path, content in files(end).items() if path.startswith("commitlog/")} == {4096}
    shorter = disk.crash()
    shorter.open("commitlog/00000000000000000000").truncate(900)
    heir = opened(shorter, StoreOptions(segment_bytes=1 << 16, keep_ms=None))
    assert len(shorter.read("commitlog/00000000000000000000") or b"") == OPTIONS.segment_bytes
    assert everything(heir)


def unclean(seed: int) -> SimulatedDisk:
    """Return a directory that has everything recovery has to deal with: holes, a torn tail, files behind it."""
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    MessageWriter(Dice(seed)).fill(store, 40, {})
    store.save_consume_queues()
    store.lookup.build_key_index()
    store.lookup.save_key_index()
    MessageWriter(Dice(seed + 1)).fill(store, 12, {})
    disk = disk.crash()
    names = disk.names("commitlog")
    for name, at, junk in ((names[0], 700, b"\x55" * 9), (names[-2], 300, Dice(seed).randbytes(4096 - 300))):
        file = disk.open(f"commitlog/{name}")
        file.write(at, junk)
        file.close()
    last = disk.open(f"commitlog/{names[-1]}")
    last.write(0, Dice(seed).randbytes(4096))
    last.close()
    disk.remove(f"commitlog/{names[1]}")
    for path in files(disk):
        file = disk.open(path)
        file.sync()
        file.close()
    for folder in ("commitlog", "steelyard", "steelyard/sums", ""):
        disk.sync_folder(folder)
    return disk


@pytest.mark.parametrize("kind", _DEATHS)
def test_a_crash_within_recovery_does_no_harm(kind: DiskFaultKind) -> None:
    start = unclean(7)
    calm = start.crash()
    expected = everything(opened(calm))
    assert expected
    end = files(calm)
    calls = calm.calls["any"]
    for nth in range(1, calls + 1, rounds(2, 1)):
        disk = start.crash()
        disk.faults.append(DiskFault("any", nth, kind))
        with pytest.raises(ProcessDied):
            opened(disk)
        ways = (lambda _: 0, lambda outcomes: outcomes - 1, Dice(nth).randrange)
        for number, heir in enumerate((disk.crash(), *map(disk.lose_power, ways))):
            store = opened(heir)
            assert everything(store) == expected, (nth, number)
            found = files(heir)
            assert {path: found[path] for path in found if path.startswith("commitlog")} == {
                path: end[path] for path in end if path.startswith("commitlog")
            }
            if number == 0:
                assert found == end


def test_recovery_again_changes_nothing() -> None:
    disk = unclean(11)
    first = everything(opened(disk))
    second = disk.crash()
    assert everything(opened(second)) == first
    assert files(second) == files(disk)
