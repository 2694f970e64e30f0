"""What every disk does: one suite, run on the real one, on the one that forgets and on the one in memory."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simulator.disk import SimulatedDisk
from steelyard.errors import DiskFailed, StoreLocked
from steelyard.serve.disks import MemoryDisk, RealDisk
from steelyard.store.disk import Disk, File


@pytest.fixture(params=["real", "forgetting", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """Give one disk after the other."""
    if request.param == "real":
        return RealDisk(tmp_path / "store")
    return SimulatedDisk() if request.param == "forgetting" else MemoryDisk()


def test_what_is_written_is_read(disk: Disk) -> None:
    file = disk.open("log", create=True)
    assert file.write(0, b"spring") == 6
    assert file.write(6, b"-summer") == 7
    assert file.size == 13
    assert disk.read("log") == b"spring-summer"
    file.close()
    again = disk.open("log")
    assert bytes(again.view()) == b"spring-summer"
    assert again.write(0, b"S") == 1
    assert disk.read("log") == b"Spring-summer"


def test_a_write_beyond_the_end_leaves_zeros_between(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.write(3, b"x")
    assert disk.read("log") == b"\0\0\0x"
    file.write(9000, b"y")
    assert file.size == 9001
    assert bytes(file.view()) == b"\0\0\0x" + bytes(8996) + b"y"


def test_some_bytes_are_read_as_they_are_and_what_was_never_written_is_zero(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.truncate(1 << 24)
    file.write(9_000, b"spring")
    assert file.read(8_998, 10) == b"\0\0spring\0\0"
    assert file.read((1 << 24) - 3, 100) == bytes(3), "no more than there is"
    assert file.read(1 << 25, 100) == b""
    assert file.read(9_000, 0) == b""
    with pytest.raises(DiskFailed):
        file.read(-1, 10)


def test_writing_nothing_changes_nothing(disk: Disk) -> None:
    file = disk.open("log", create=True)
    assert file.write(100, b"") == 0
    assert file.size == 0


def test_a_lengthened_file_is_zeros_and_takes_no_room(disk: Disk) -> None:
    file = disk.open("log", create=True)
    before = disk.free_bytes()
    file.truncate(1 << 36)
    assert file.size == 1 << 36
    # Others may write to the same real disk meanwhile, but hardly this much.
    assert before - disk.free_bytes() < 1 << 35
    file.truncate(100_000)
    assert bytes(file.view()) == bytes(100_000)


def test_what_was_cut_off_is_gone(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.write(0, b"spring-summer")
    file.truncate(6)
    assert disk.read("log") == b"spring"
    file.truncate(10)
    assert disk.read("log") == b"spring\0\0\0\0"


def test_a_view_shows_later_writes_and_cannot_be_written(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.truncate(10_000)
    view = file.view()
    assert view.readonly
    file.write(5000, b"here")
    assert bytes(view[5000:5004]) == b"here"


def test_a_view_keeps_its_size_and_shows_writes_within_it_when_the_file_grows(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    views = []
    for _ in range(3):
        views.append(file.view())
        file.write(file.size, bytes(5000))
    file.write(4, b"NG..")
    assert [len(view) for view in views] == [6, 5006, 10_006]
    assert bytes(views[0]) == b"spriNG"
    assert all(bytes(view[:8]) == b"spriNG.." for view in views[1:])


def test_behind_what_was_written_there_are_only_zeros(disk: Disk) -> None:
    file = disk.open("log", create=True)
    assert file.zeros_from() == 0
    file.truncate(1 << 24)
    for end in (7, 5_000, 1 << 20):
        file.write(end - 1, b"x")
        assert end <= file.zeros_from() <= end + (1 << 16)
    file.truncate(1 << 19)
    assert file.zeros_from() <= 1 << 19


def test_an_empty_file_has_an_empty_view(disk: Disk) -> None:
    file = disk.open("log", create=True)
    view = file.view()
    assert len(view) == 0
    file.write(0, b"x")
    assert len(view) == 0
    assert bytes(file.view()) == b"x"


def test_views_outlive_the_open_file_and_its_name(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    view = file.view()
    part = view[2:4]
    file.close()
    disk.remove("log")
    assert bytes(view) == b"spring"
    del view
    assert bytes(part) == b"ri"


def test_a_file_that_is_viewed_is_not_truncated(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    early = file.view()
    file.write(6, b"!")
    late = file.view()
    for view in (early, late):
        with pytest.raises(DiskFailed, match="a view of it is still open"):
            file.truncate(2)
        view.release()
    file.truncate(2)
    assert disk.read("log") == b"sp"


def test_two_handles_see_the_same_file(disk: Disk) -> None:
    one = disk.open("log", create=True)
    two = disk.open("log", create=True)
    view = one.view()
    one.write(0, b"spring")
    assert two.size == 6
    view = two.view()
    one.write(0, b"S")
    assert bytes(view) == b"Spring"


def test_a_closed_file_does_nothing_more(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    file.close()
    file.close()
    attempts: list[Callable[[], object]] = [
        lambda: file.size,
        lambda: file.write(0, b"x"),
        file.sync,
        lambda: file.truncate(1),
        file.view,
    ]
    for attempt in attempts:
        with pytest.raises(DiskFailed):
            attempt()
    assert disk.read("log") == b"spring"


def test_a_missing_file_is_an_error_to_open_and_nothing_to_read(disk: Disk) -> None:
    with pytest.raises(DiskFailed) as caught:
        disk.open("config/topics.json")
    assert (caught.value.operation, caught.value.path) == ("open", "config/topics.json")
    assert caught.value.why == "no such file or directory"
    assert disk.read("config/topics.json") is None
    assert disk.read("config") is None
    assert disk.names("") == []


def test_a_file_needs_its_folder(disk: Disk) -> None:
    with pytest.raises(DiskFailed):
        disk.open("commitlog/0", create=True)
    with pytest.raises(DiskFailed):
        disk.lock("commitlog/lock")
    disk.mkdir("commitlog")
    disk.open("commitlog/0", create=True)
    assert disk.names("commitlog") == ["0"]
    assert disk.read("commitlog/0") == b""
    assert disk.read("commitlog/0/x") is None
    assert disk.names("commitlog/0") == []


def test_folders_are_made_with_those_above_and_listed_in_order(disk: Disk) -> None:
    disk.mkdir("consumequeue/orders/0")
    disk.mkdir("consumequeue/orders/0")
    disk.mkdir("consumequeue/orders/10")
    disk.mkdir("consumequeue/orders/2")
    disk.mkdir("")
    assert disk.names("") == ["consumequeue"]
    assert disk.names("consumequeue") == ["orders"]
    assert disk.names("consumequeue/orders") == ["0", "10", "2"]
    assert disk.names("consumequeue/nobody") == []


def test_a_folder_is_no_file_and_a_file_no_folder(disk: Disk) -> None:
    disk.mkdir("folder")
    disk.open("file", create=True)
    attempts: list[Callable[[], object]] = [
        lambda: disk.open("folder", create=True),
        lambda: disk.open(""),
        lambda: disk.read("folder"),
        lambda: disk.mkdir("file"),
        lambda: disk.mkdir("file/inside"),
        lambda: disk.open("file/inside", create=True),
        lambda: disk.rename("file", "folder"),
        lambda: disk.rename("folder", "other"),
        lambda: disk.rename("file", "nowhere/file"),
        lambda: disk.rename("nothing", "file"),
        lambda: disk.sync_folder("file"),
        lambda: disk.sync_folder("nowhere"),
    ]
    for attempt in attempts:
        with pytest.raises(DiskFailed):
            attempt()
    assert disk.names("") == ["file", "folder"]


def test_a_rename_takes_the_place_of_another_file(disk: Disk) -> None:
    old, new = disk.open("offsets.json", create=True), disk.open("offsets.json.tmp", create=True)
    old.write(0, b"old")
    new.write(0, b"new")
    view = old.view()
    disk.rename("offsets.json.tmp", "offsets.json")
    assert disk.names("") == ["offsets.json"]
    assert disk.read("offsets.json") == b"new"
    assert bytes(view) == b"old"
    disk.rename("offsets.json", "offsets.json")
    assert disk.read("offsets.json") == b"new"
    new.write(3, b"er")
    assert disk.read("offsets.json") == b"newer"


def test_a_rename_into_another_folder_moves_the_file(disk: Disk) -> None:
    disk.mkdir("commitlog")
    disk.mkdir("removed")
    disk.open("commitlog/0", create=True).write(0, b"spring")
    disk.rename("commitlog/0", "removed/0")
    assert (disk.names("commitlog"), disk.names("removed")) == ([], ["0"])
    assert disk.read("removed/0") == b"spring"


def test_removing_what_is_gone_is_fine_and_a_full_folder_is_not_removed(disk: Disk) -> None:
    disk.remove("nothing")
    disk.remove("nowhere/nothing")
    disk.mkdir("commitlog")
    disk.open("commitlog/0", create=True)
    disk.remove("commitlog/0/inside")
    with pytest.raises(DiskFailed):
        disk.remove("commitlog")
    with pytest.raises(DiskFailed):
        disk.remove("")
    disk.remove("commitlog/0")
    disk.remove("commitlog")
    assert disk.names("") == []


def test_a_file_made_again_under_an_old_name_is_empty(disk: Disk) -> None:
    disk.open("log", create=True).write(0, b"spring")
    disk.remove("log")
    assert disk.open("log", create=True).size == 0


@pytest.mark.parametrize("path", ["..", "../x", "a/../b", "/etc/passwd", "a//b", "a/", "./a", "a\0b", "/"])
def test_no_path_leads_out_of_the_directory(disk: Disk, path: str) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: disk.open(path, create=True),
        lambda: disk.read(path),
        lambda: disk.names(path),
        lambda: disk.mkdir(path),
        lambda: disk.rename(path, "x"),
        lambda: disk.rename("x", path),
        lambda: disk.remove(path),
        lambda: disk.sync_folder(path),
        lambda: disk.lock(path),
    ]
    for attempt in attempts:
        with pytest.raises(DiskFailed, match="leads elsewhere"):
            attempt()
    assert disk.names("") == []


def test_an_impossible_position_is_an_error(disk: Disk) -> None:
    file = disk.open("log", create=True)
    with pytest.raises(DiskFailed):
        file.write(-1, b"x")
    with pytest.raises(DiskFailed):
        file.truncate(-1)


def test_a_directory_is_locked_once_until_it_is_released(disk: Disk) -> None:
    lock = disk.lock("lock")
    with pytest.raises(StoreLocked):
        disk.lock("lock")
    lock.release()
    lock.release()
    again = disk.lock("lock")
    lock.release()
    with pytest.raises(StoreLocked):
        disk.lock("lock")
    again.release()
    assert disk.names("") == ["lock"]


def test_syncing_changes_nothing_that_is_seen(disk: Disk) -> None:
    disk.mkdir("commitlog")
    file = disk.open("commitlog/0", create=True)
    file.write(5, b"spring")
    file.truncate(20_000)
    view = file.view()
    file.sync()
    disk.sync_folder("commitlog")
    disk.sync_folder("")
    file.write(0, b"early")
    file.sync()
    assert bytes(view) == disk.read("commitlog/0") == b"earlyspring".ljust(20_000, b"\0")


_PATHS = st.sampled_from(["a", "b", "f", "f/a", "f/b", "f/g", "f/g/a", "a/b"])
_PLACES = st.one_of(st.integers(0, 40), st.sampled_from([4090, 4096, 8191, 20_000]))
_BYTES = st.one_of(st.binary(max_size=20), st.sampled_from([b"x" * 4096, b"y" * 5000]))


class BothDisks(RuleBasedStateMachine):
    """Do the same to both disks, and compare what comes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.real: Disk = RealDisk(self.folder)
        self.forgetting: Disk = SimulatedDisk()
        self.files: dict[str, tuple[File, File]] = {}

    def teardown(self) -> None:
        for real, _ in self.files.values():
            real.close()
        shutil.rmtree(self.folder)

    def same(self, act: Callable[[Disk], object]) -> None:
        assert _outcome(lambda: act(self.real)) == _outcome(lambda: act(self.forgetting))

    def same_file(self, name: str, act: Callable[[File], object]) -> None:
        real, forgetting = self.files[name]
        assert _outcome(lambda: act(real)) == _outcome(lambda: act(forgetting))

    @rule(path=_PATHS, create=st.booleans())
    def opens(self, path: str, create: bool) -> None:
        self.same(lambda disk: disk.open(path, create=create).close())
        if path not in self.files and _outcome(lambda: self.real.open(path).close()) is None:
            self.files[path] = self.real.open(path), self.forgetting.open(path)

    @precondition(lambda self: self.files)
    @rule(draw=st.data(), at=_PLACES, data=_BYTES)
    def writes(self, draw: st.DataObject, at: int, data: bytes) -> None:
        self.same_file(self.drawn(draw), lambda file: (file.write(at, data), file.size))

    @precondition(lambda self: self.files)
    @rule(draw=st.data(), size=_PLACES)
    def truncates(self, draw: st.DataObject, size: int) -> None:
        self.same_file(self.drawn(draw), lambda file: file.truncate(size))

    @precondition(lambda self: self.files)
    @rule(draw=st.data(), at=_PLACES, data=_BYTES)
    def writes_under_a_view(self, draw: st.DataObject, at: int, data: bytes) -> None:
        def act(file: File) -> object:
            before = file.view()
            file.write(at, data)
            return bytes(before), bytes(file.view()), file.size

        self.same_file(self.drawn(draw), act)

    @precondition(lambda self: self.files)
    @rule(draw=st.data())
    def syncs(self, draw: st.DataObject) -> None:
        self.same_file(self.drawn(draw), lambda file: file.sync())

    @precondition(lambda self: self.files)
    @rule(draw=st.data())
    def closes(self, draw: st.DataObject) -> None:
        for file in self.files.pop(self.drawn(draw)):
            file.close()

    @rule(path=_PATHS)
    def makes_a_folder(self, path: str) -> None:
        self.same(lambda disk: disk.mkdir(path))

    @rule(old=_PATHS, new=_PATHS)
    def renames(self, old: str, new: str) -> None:
        self.same(lambda disk: disk.rename(old, new))

    @rule(path=_PATHS)
    def removes(self, path: str) -> None:
        self.same(lambda disk: disk.remove(path))

    @rule(folder=st.sampled_from(["", "a", "f", "f/g"]))
    def syncs_a_folder(self, folder: str) -> None:
        self.same(lambda disk: disk.sync_folder(folder))

    @invariant()
    def both_hold_the_same(self) -> None:
        self.same(lambda disk: list(_everything(disk)))

    def drawn(self, draw: st.DataObject) -> str:
        return draw.draw(st.sampled_from(sorted(self.files)))


def _outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except DiskFailed as error:
        return type(error)


def _everything(disk: Disk, folder: str = "") -> Iterator[tuple[str, object]]:
    for name in disk.names(folder):
        path = f"{folder}/{name}".lstrip("/")
        yield path, _outcome(partial(disk.read, path))
        yield from _everything(disk, path)


TestBothDisks = BothDisks.TestCase
TestBothDisks.settings = settings(max_examples=60, stateful_step_count=40)
