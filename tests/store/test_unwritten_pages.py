"""What of a log file was never written is never looked at through its map: on tmpfs that takes room, or the process.

The directory of POSIX shared memory is such a file system. A look at a hole makes a page there, which can be counted.
"""

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.serve.disks import RealDisk
from steelyard.store.dump import dump_file, dump_messages
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.store.verify import verify_store
from tests.fuzzing import Dice
from tests.store.sample_messages import Book, Message, MessageWriter, append, everything

_MEMORY = Path("/dev", "shm")
_PAGE = 4_096
_SEGMENT_BYTES = 64 * _PAGE
_OPTIONS = StoreOptions(segment_bytes=_SEGMENT_BYTES, keep_ms=None)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not _MEMORY.is_dir(), reason="needs a file system in memory that tells of its pages"
)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Give a directory whose files are in memory."""
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="steelyard-") as name:
        yield Path(name)


def pages(directory: Path) -> dict[str, int]:
    """Return how many pages each file of the log has."""
    return {file.name: file.stat().st_blocks * 512 // _PAGE for file in sorted((directory / "commitlog").iterdir())}


def filled(directory: Path) -> tuple[Store, Book]:
    """Return a store with one file that ends with a hole behind its blank, and another that is mostly one."""
    store, book = Store.open(RealDisk(directory), _OPTIONS), Book()
    MessageWriter(Dice(1)).fill(store, 100, book)
    for _ in range(6):
        append(store, Message((b"large", 0), b"x" * (12 * _PAGE)))
    assert store.flush().error is None
    assert store.segment_count == 2
    book |= {(b"large", 0): everything(store)[b"large", 0]}
    return store, book


def test_a_write_that_failed_is_undone_without_a_look_at_what_it_never_wrote(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, book = filled(directory)
    before = pages(directory)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _takes_nothing)
        append(store, Message((b"orders", 0), bytes(10 * _PAGE)))
        assert store.flush().error is not None
    assert pages(directory) == before
    assert everything(store) == book
    done, record = append(store, Message((b"orders", 0), b"again"))
    assert store.flush().error is None
    assert everything(store)[b"orders", 0][done.offset] == record
    store.close(2_000)


def _takes_nothing(_handle: int, _data: bytes, _at: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_start_and_all_that_is_asked_then_make_no_page(directory: Path, *, is_closed: bool) -> None:
    store, book = filled(directory)
    before = pages(directory)
    assert any(count < _SEGMENT_BYTES // _PAGE for count in before.values()), "there are holes"
    store.close(2_000) if is_closed else store.abandon()
    again = Store.open(RealDisk(directory), _OPTIONS)
    for position in range(0, again.end, _PAGE // 2):
        again.lookup.record_at(position)
    for queue in again.queues():
        again.lookup.offset_by_time(*queue, 1_010)
    again.lookup.find_by_key(b"orders", b"k9", max_messages=1_000, start_ms=0, end_ms=1 << 60)
    assert everything(again) == book
    assert pages(directory) == before
    again.close(3_000)
    assert pages(directory) == before


def test_a_look_into_a_directory_makes_no_page(directory: Path) -> None:
    store, book = filled(directory)
    before = pages(directory)
    disk = RealDisk(directory, read_only=True)
    for _ in ("while it is open", "after it was closed"):
        verdict = verify_store(disk, lambda _done, _size: None)
        assert verdict.is_sound, verdict.findings
        assert verdict.messages == sum(map(len, book.values()))
        assert len(list(dump_messages(disk, lambda _: True))) == verdict.messages
        for name in before:
            assert list(dump_file(RealDisk(directory / "commitlog", read_only=True), name, lambda _: True))
        assert pages(directory) == before
        store.close(2_000)


def test_a_record_in_a_body_that_claims_to_go_on_behind_the_log_makes_no_page(directory: Path) -> None:
    store = Store.open(RealDisk(directory), _OPTIONS)
    inner, _ = append(store, Message((b"inner", 0), b"y" * (20 * _PAGE)))
    assert store.flush().error is None
    # The same record, claiming to lie where it will be inside of another one.
    record = bytearray(store.read(b"inner", 0, 0).joined()[: 2 * _PAGE])
    at = inner.end + 88
    record[28:36] = at.to_bytes(8, "big")
    done, _ = append(store, Message((b"orders", 0), bytes(record)))
    assert store.flush().error is None
    assert done.position == inner.end
    before = pages(directory)
    assert store.lookup.record_at(at) is None
    assert pages(directory) == before
    store.close(2_000)


def test_holes_within_messages_are_made_pages_when_a_log_is_opened(directory: Path) -> None:
    """A copy that leaves out zeros has them; one who reads a message must not be the first to look."""
    store = Store.open(RealDisk(directory), _OPTIONS)
    for body in (bytes(8 * _PAGE), b"the last"):
        append(store, Message((b"orders", 0), body))
    assert store.flush().error is None
    book = everything(store)
    store.close(2_000)
    (log,) = (directory / "commitlog").iterdir()
    content = log.read_bytes()
    with log.open("r+b") as file:
        file.truncate(_PAGE)
        file.truncate(_SEGMENT_BYTES)
        os.pwrite(file.fileno(), content[8 * _PAGE : 9 * _PAGE], 8 * _PAGE)
    assert pages(directory) == {log.name: 2}
    assert log.read_bytes() == content
    again = Store.open(RealDisk(directory), _OPTIONS)
    assert pages(directory) == {log.name: 9}
    assert everything(again) == book
    again.close(3_000)
