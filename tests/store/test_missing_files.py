"""Files that are missing, swapped, truncated or of another store: only what is really gone is gone, and reported."""

from functools import cache

import pytest

from simulator.disk import SimulatedDisk
from steelyard.store.store import Store
from steelyard.wire.record import decode_record
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, Book, MessageWriter, everything, files, opened

_SEGMENT = 4096


@cache
def directory(*, is_closed: bool, seed: int = 1) -> tuple[SimulatedDisk, Book]:
    """Return a directory with messages in seven log files or more."""
    disk = SimulatedDisk(Dice(seed), page=PAGE)
    store, book = opened(disk), Book()
    MessageWriter(Dice(seed)).fill(store, 100, book)
    store.lookup.build_key_index()
    store.save_consume_queues()
    if is_closed:
        store.close(now_ms=5_000)
    return disk, book


def logs(disk: SimulatedDisk) -> list[str]:
    """Return the paths of the log files."""
    return [f"commitlog/{name}" for name in disk.names("commitlog")]


def lost_in(book: Book, *paths: str) -> Book:
    """Return the messages that are left when log files are gone."""
    gone = {int(path.rpartition("/")[2]) for path in paths}
    left = {
        queue: {
            offset: record
            for offset, record in records.items()
            if decode_record(record).position // _SEGMENT * _SEGMENT not in gone
        }
        for queue, records in book.items()
    }
    return {queue: records for queue, records in left.items() if records}


def write(disk: SimulatedDisk, path: str, content: bytes) -> None:
    """Put other bytes in the place of a file."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, content)
    file.close()


def expect(disk: SimulatedDisk, left: Book, book: Book) -> Store:
    """Open, and expect these messages, that no number is given again, and the same of the next start."""
    store = opened(disk)
    assert everything(store) == left
    lost = sum(map(len, book.values())) - sum(map(len, left.values()))
    assert sum(damage.records or 0 for damage in store.damages) == lost, store.damages
    for queue, records in book.items():
        assert store.bounds(*queue)[1] == max(records) + 1
    more = {queue: dict(records) for queue, records in left.items()}
    MessageWriter(Dice(2), now_ms=6_000).fill(store, 20, more)
    assert everything(store) == more
    assert everything(opened(disk.crash())) == more
    store.close(now_ms=7_000)
    heir = opened(disk.crash())
    assert everything(heir) == more
    return heir


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
class TestLogFiles:
    """What becomes of the log's own files."""

    @pytest.mark.parametrize("which", [[0], [0, 1], [2], [2, 3], [1, 4], [-1], [-2, -1], [0, -1], [*range(-9, 0)]])
    def test_only_messages_of_missing_files_are_lost(self, is_closed: bool, which: list[int]) -> None:
        disk, book = directory(is_closed=is_closed)
        disk = disk.crash()
        paths = logs(disk)
        gone = {paths[number] for number in which if -len(paths) <= number}
        for path in gone:
            disk.remove(path)
        left = lost_in(book, *gone)
        store = opened(disk)
        assert everything(store) == left
        for path in gone - {paths[0]}:
            assert any(damage.what == "missing" for damage in store.damages), path
        for queue, records in book.items():
            assert store.bounds(*queue)[1] == max(records) + 1
        again = disk.crash()
        assert everything(opened(again)) == left
        more = {queue: dict(records) for queue, records in left.items()}
        MessageWriter(Dice(2), now_ms=6_000).fill(store, 20, more)
        assert everything(opened(disk.crash())) == more

    @pytest.mark.parametrize("pair", [(0, 1), (2, 4), (1, -1)])
    def test_swapped_files_serve_nothing_of_each_other(self, is_closed: bool, pair: tuple[int, int]) -> None:
        disk, book = directory(is_closed=is_closed)
        disk = disk.crash()
        one, other = (logs(disk)[number] for number in pair)
        content = disk.read(one), disk.read(other)
        write(disk, one, content[1] or b"")
        write(disk, other, content[0] or b"")
        store = opened(disk)
        assert everything(store) == lost_in(book, one, other)
        assert store.damages or is_closed
        for queue, records in book.items():
            assert store.bounds(*queue)[1] == max(records) + 1

    @pytest.mark.parametrize("which", [0, 2, -1])
    @pytest.mark.parametrize("size", [0, 1, 700, 4095])
    def test_a_file_that_was_cut_short_costs_what_was_cut(self, is_closed: bool, which: int, size: int) -> None:
        disk, book = directory(is_closed=is_closed)
        disk = disk.crash()
        path = logs(disk)[which]
        start = int(path.rpartition("/")[2])
        disk.open(path).truncate(size)
        left = {
            queue: {
                offset: record
                for offset, record in records.items()
                if (at := decode_record(record).position - start) >= _SEGMENT
                or at + len(record) <= max(size, 0)
                or at < 0
            }
            for queue, records in book.items()
        }
        expect(disk, left, book)


def test_a_file_that_was_cut_between_two_records_is_seen() -> None:
    disk, book = directory(is_closed=False)
    starts = sorted(decode_record(record).position for records in book.values() for record in records.values())
    cut = next(start for start in starts if start > _SEGMENT + 1_000)
    disk = disk.crash()
    disk.open(logs(disk)[1]).truncate(cut - _SEGMENT)
    store = opened(disk)
    (damage,) = store.damages
    gone = sum(cut <= start < 2 * _SEGMENT for start in starts)
    assert (damage.path, damage.position, damage.size) == (logs(disk)[1], cut, 2 * _SEGMENT - cut)
    assert (damage.records, damage.what) == (gone, "missing")
    assert sum(map(len, everything(store).values())) == len(starts) - gone


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
@pytest.mark.parametrize("folder", ["consumequeue", "steelyard/sums", "steelyard/keys", "steelyard"])
@pytest.mark.parametrize("what", ["gone", "one gone", "empty", "cut", "of another store", "swapped"])
def test_what_is_beside_the_log_costs_no_message(is_closed: bool, folder: str, what: str) -> None:
    disk, book = directory(is_closed=is_closed)
    disk = disk.crash()
    paths = sorted(path for path in files(disk) if path.startswith(folder + "/"))
    if folder == "steelyard":
        paths = [path for path in paths if path.endswith(".json")]
    if not paths:
        assert (folder, is_closed) == ("steelyard/keys", False)
        return
    if what == "swapped":
        contents = [disk.read(path) or b"" for path in paths]
        for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
            write(disk, path, content)
    elif what == "of another store":
        other = files(directory(is_closed=True, seed=2)[0])
        for path in paths:
            write(disk, path, other.get(path, b""))
    else:
        for path in paths:
            if what == "gone" or (what == "one gone" and path == paths[len(paths) // 2]):
                disk.remove(path)
            elif what != "one gone":
                write(disk, path, b"" if what == "empty" else (disk.read(path) or b"")[:-7])
    store = opened(disk)
    assert everything(store) == book
    if (what, folder) != ("of another store", "consumequeue"):  # it says that there was more, which may be true
        assert not [damage for damage in store.damages if damage.records]
    for queue, records in book.items():
        assert store.bounds(*queue)[0] == 0
        assert store.bounds(*queue)[1] == max(records) + 1 or (what, folder) == ("of another store", "consumequeue")
    more = {queue: dict(records) for queue, records in book.items()}
    MessageWriter(Dice(2), now_ms=6_000).fill(store, 30, more)
    assert everything(opened(disk.crash())) == more
    store.close(now_ms=9_000)
    assert everything(opened(disk.crash())) == more


def test_an_index_of_another_store_does_not_invent_messages() -> None:
    disk, book = directory(is_closed=False)
    disk = disk.crash()
    for path in [path for path in files(disk) if path.startswith("consumequeue/")]:
        disk.remove(path)
    for topic in ("ghost", "orders"):
        folder = f"consumequeue/{topic}/7"
        disk.mkdir(folder)
        write(disk, f"{folder}/{0:020d}", Dice(3).randbytes(600))
        write(disk, f"{folder}/{600:020d}", b"\xff" * 600)
    store = opened(disk)
    assert everything(store) == book
    assert store.queues() == sorted(book)
