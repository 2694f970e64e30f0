"""What the simulated disk loses and when it fails."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simulator.disk import DiskFault, DiskFaultKind, DiskOperation, ProcessDied, SimulatedDisk
from steelyard.errors import DiskFailed, DiskFull, SteelyardError, StoreLocked
from steelyard.store.disk import File

_PAGE = 8
_CHANCE = st.randoms(use_true_random=False)


def all_lost(_: int) -> int:
    """Let nothing survive that was not synced."""
    return 0


def all_kept(outcomes: int) -> int:
    """Let everything survive."""
    return outcomes - 1


def safe_file(disk: SimulatedDisk, path: str, text: bytes) -> File:
    """Make a file that survives every power loss."""
    file = disk.open(path, create=True)
    file.write(0, text)
    file.sync()
    disk.sync_folder(path.rpartition("/")[0])
    return file


# What a power loss leaves of a file.


class OneFile(RuleBasedStateMachine):
    """Write, truncate and sync one file, and remember every state since the last sync."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk(page=_PAGE)
        self.file = safe_file(self.disk, "log", b"")
        self.states = [b""]

    @rule(at=st.integers(0, 40), text=st.binary(max_size=20))
    def writes(self, at: int, text: bytes) -> None:
        now = self.states[-1]
        if text:
            now = now.ljust(at, b"\0")
            now = now[:at] + text + now[at + len(text) :]
        self.file.write(at, text)
        self.states.append(now)

    @rule(size=st.integers(0, 40))
    def truncates(self, size: int) -> None:
        self.file.truncate(size)
        self.states.append(self.states[-1][:size].ljust(size, b"\0"))

    @rule()
    def syncs(self) -> None:
        self.file.sync()
        self.states = self.states[-1:]

    @rule()
    def is_opened_by_the_next_process(self) -> None:
        self.disk = self.disk.crash()
        self.file = self.disk.open("log")

    @invariant()
    def a_crash_loses_nothing_that_was_written(self) -> None:
        assert self.disk.crash().read("log") == self.states[-1]
        assert self.disk.lose_power(all_kept).read("log") == self.states[-1]

    @invariant()
    def what_was_safe_survives_when_all_else_is_lost(self) -> None:
        assert self.disk.lose_power(all_lost).read("log") == self.states[0]

    @rule(chance=_CHANCE, unit=st.sampled_from([None, 2, 1]))
    def every_piece_is_one_that_was_there_since_it_was_safe(self, chance: Random, unit: int | None) -> None:
        left = self.disk.lose_power(chance.randrange, unit=unit).read("log")
        assert left is not None
        assert len(left) in {len(state) for state in self.states}
        step = unit or _PAGE
        for start in range(0, len(left), step):
            piece = left[start : start + step]
            possible = {state.ljust(64, b"\0")[start : start + len(piece)] for state in self.states}
            assert piece in possible


TestOneFile = OneFile.TestCase
TestOneFile.settings = settings(max_examples=80, stateful_step_count=25)


def test_pages_survive_each_for_itself() -> None:
    disk = SimulatedDisk(page=_PAGE)
    file = safe_file(disk, "log", bytes(3 * _PAGE))
    file.write(0, b"x" * 3 * _PAGE)
    old, new = bytes(_PAGE), b"x" * _PAGE
    pages = [first + second + third for first in (old, new) for second in (old, new) for third in (old, new)]
    assert [after.read("log") for after in disk.all_power_losses()] == pages


def test_a_page_is_torn_where_a_disk_writes_smaller_pieces() -> None:
    disk = SimulatedDisk(page=_PAGE)
    file = safe_file(disk, "log", b"old page")
    file.write(0, b"new")
    file.write(4, b"FACE")
    halves = [first + second for first in (b"old ", b"new ") for second in (b"page", b"FACE")]
    assert {after.read("log") for after in disk.all_power_losses(unit=4)} == set(halves)


@given(_CHANCE)
def test_the_same_chance_loses_the_same(chance: Random) -> None:
    disk = SimulatedDisk(chance, page=_PAGE)
    disk.open("log", create=True).write(0, bytes(range(200)))
    state = chance.getstate()
    first = disk.lose_power().read("log")
    chance.setstate(state)
    assert disk.lose_power().read("log") == first


def test_without_chance_all_that_is_not_safe_is_lost() -> None:
    disk = SimulatedDisk()
    safe_file(disk, "log", b"safe").write(4, b" and not")
    assert disk.lose_power().read("log") == b"safe"


def test_what_happens_after_an_end_does_not_change_the_disk_before_it() -> None:
    disk = SimulatedDisk(page=_PAGE, capacity=100)
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    view = file.view()
    ends = [after.read("log") for after in disk.all_power_losses()]
    for after in (disk.lose_power(), disk.crash()):
        later = after.open("log", create=True)
        later.write(0, b"summer")
        later.write(10, b"autumn")
        later.sync()
        after.sync_folder("")
    assert bytes(view) == disk.read("log") == b"spring"
    assert [after.read("log") for after in disk.all_power_losses()] == ends
    assert disk.free_bytes() == 100 - _PAGE
    file.sync()
    disk.sync_folder("")
    assert [after.read("log") for after in disk.all_power_losses()] == [b"spring"]


def test_a_write_since_the_sync_is_still_unsafe_for_the_next_process() -> None:
    disk = SimulatedDisk()
    safe_file(disk, "log", b"safe").write(4, b" and not")
    after = disk.crash()
    assert after.read("log") == b"safe and not"
    assert after.lose_power(all_lost).read("log") == b"safe"
    after.open("log").sync()
    assert after.lose_power(all_lost).read("log") == b"safe and not"


# What a power loss leaves of names.


class OneFolder(RuleBasedStateMachine):
    """Make, rename and remove files with different contents, and remember where each has been since the last sync."""

    _names = st.sampled_from(["a", "b", "c", "d"])

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk(page=_PAGE)
        self.places: dict[bytes, list[str | None]] = {}
        self.made = 0

    def owner(self, name: str) -> bytes | None:
        return next((text for text, places in self.places.items() if places[-1] == name), None)

    @rule(name=_names)
    def makes(self, name: str) -> None:
        if self.owner(name) is None:
            self.made += 1
            text = b"file %d" % self.made
            file = self.disk.open(name, create=True)
            file.write(0, text)
            file.sync()
            self.places[text] = [None, name]

    @rule(old=_names, new=_names)
    def renames(self, old: str, new: str) -> None:
        moved, replaced = self.owner(old), self.owner(new)
        if moved is not None:
            self.disk.rename(old, new)
            if replaced is not None and replaced != moved:
                self.places[replaced].append(None)
            self.places[moved].append(new)

    @rule(name=_names)
    def removes(self, name: str) -> None:
        self.disk.remove(name)
        removed = self.owner(name)
        if removed is not None:
            self.places[removed].append(None)

    @rule()
    def syncs(self) -> None:
        self.disk.sync_folder("")
        self.places = {text: places[-1:] for text, places in self.places.items()}

    @rule()
    def goes_on_in_another_process(self) -> None:
        self.disk = self.disk.crash()

    @rule(chance=_CHANCE)
    def every_file_is_whole_and_where_it_was_since_it_was_safe(self, chance: Random) -> None:
        after = self.disk.lose_power(chance.randrange)
        found = {after.read(name): name for name in after.names("")}
        assert len(found) == len(after.names(""))
        assert set(found) <= set(self.places)
        for text, places in self.places.items():
            assert found.get(text) in places

    @invariant()
    def all_or_nothing_is_kept(self) -> None:
        for choose, when in ((all_lost, 0), (all_kept, -1)):
            after = self.disk.lose_power(choose)
            expected = {places[when]: text for text, places in self.places.items() if places[when]}
            assert {name: after.read(name) for name in after.names("")} == expected


TestOneFolder = OneFolder.TestCase
TestOneFolder.settings = settings(max_examples=80, stateful_step_count=25)


def test_a_rename_leaves_the_old_or_the_new_content_and_never_a_mix() -> None:
    disk = SimulatedDisk(page=_PAGE)
    safe_file(disk, "offsets.json", b"the old offsets")
    new = disk.open("offsets.json.tmp", create=True)
    new.write(0, b"the new offsets, and more")
    new.sync()
    disk.rename("offsets.json.tmp", "offsets.json")
    left = {after.read("offsets.json") for after in disk.all_power_losses()}
    assert left == {b"the old offsets", b"the new offsets, and more"}
    disk.sync_folder("")
    assert {after.read("offsets.json") for after in disk.all_power_losses()} == {b"the new offsets, and more"}


def test_a_rename_of_a_file_that_was_not_synced_may_leave_anything_of_it() -> None:
    disk = SimulatedDisk(page=_PAGE)
    safe_file(disk, "offsets.json", b"the old offsets")
    disk.open("offsets.json.tmp", create=True).write(0, b"the new offsets")
    disk.rename("offsets.json.tmp", "offsets.json")
    disk.sync_folder("")
    left = {after.read("offsets.json") for after in disk.all_power_losses()}
    assert left == {b"", bytes(15), b"the new " + bytes(7), bytes(8) + b"offsets", b"the new offsets"}


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    disk = SimulatedDisk()
    disk.open("log", create=True).sync()
    assert disk.lose_power(all_lost).names("") == []
    disk.sync_folder("")
    assert disk.lose_power(all_lost).names("") == ["log"]


def test_a_file_in_a_folder_that_was_not_synced_may_be_gone() -> None:
    disk = SimulatedDisk()
    disk.mkdir("consumequeue/orders")
    safe_file(disk, "consumequeue/orders/0", b"entries")
    disk.sync_folder("consumequeue")
    assert disk.lose_power(all_lost).names("") == []
    disk.sync_folder("")
    assert disk.lose_power(all_lost).read("consumequeue/orders/0") == b"entries"


def test_a_file_that_moves_to_another_folder_is_in_one_of_them() -> None:
    disk = SimulatedDisk(page=_PAGE)
    disk.mkdir("old")
    disk.sync_folder("")
    safe_file(disk, "old/log", b"entries")
    disk.mkdir("new")
    disk.rename("old/log", "new/log")
    disk.remove("old")
    left = [(after.names(""), after.read("old/log"), after.read("new/log")) for after in disk.all_power_losses()]
    assert left == [
        (["old"], b"entries", None),
        (["new", "old"], b"entries", None),
        (["new", "old"], None, b"entries"),
        (["new"], None, b"entries"),
    ]


def test_a_folder_that_is_synced_has_its_files_and_no_other_folder_has_them_too() -> None:
    disk = SimulatedDisk()
    disk.mkdir("old")
    disk.mkdir("new")
    disk.sync_folder("")
    safe_file(disk, "old/a", b"entries")
    disk.rename("old/a", "old/b")
    disk.rename("old/b", "new/c")
    disk.sync_folder("new")
    assert [(after.names("old"), after.names("new")) for after in disk.all_power_losses()] == [([], ["c"])]


# Syncs that fail.


@pytest.mark.parametrize("kind", ["error", "no_space"])
def test_after_a_failed_sync_a_good_one_promises_nothing_about_the_bytes_before(kind: DiskFaultKind) -> None:
    disk = SimulatedDisk(page=_PAGE)
    file = safe_file(disk, "log", b"safe")
    file.write(8, b"in doubt")
    disk.fail_next("fsync", kind)
    with pytest.raises(DiskFailed):
        file.sync()
    file.write(16, b"after it")
    file.sync()
    assert disk.read("log") == b"safe\0\0\0\0in doubtafter it"
    assert disk.lose_power(all_lost).read("log") == b"safe" + bytes(12) + b"after it"
    assert disk.crash().lose_power(all_lost).read("log") == b"safe" + bytes(12) + b"after it"
    assert disk.lose_power(all_kept).read("log") == b"safe\0\0\0\0in doubtafter it"


def test_writing_again_makes_safe_what_a_failed_sync_left_in_doubt() -> None:
    disk = SimulatedDisk(page=_PAGE)
    file = safe_file(disk, "log", b"safe")
    file.write(8, b"in doubt")
    disk.fail_next("fsync", "error")
    with pytest.raises(DiskFailed):
        file.sync()
    file.write(15, b"T")
    file.sync()
    assert disk.lose_power(all_lost).read("log") == b"safe\0\0\0\0in doubT"


# Faults.


def do_everything(disk: SimulatedDisk) -> None:
    """Call every operation that can fail, once."""
    disk.mkdir("commitlog")
    file = disk.open("commitlog/0", create=True)
    assert file.write(0, b"spring") == 6
    file.truncate(4)
    file.sync()
    disk.rename("commitlog/0", "commitlog/1")
    disk.remove("commitlog/1")
    disk.sync_folder("commitlog")


_IN_ORDER: list[DiskOperation] = ["mkdir", "open", "write", "truncate", "fsync", "rename", "remove", "sync_folder"]


def test_calls_are_counted_and_traced() -> None:
    disk = SimulatedDisk()
    do_everything(disk)
    do_everything(disk)
    assert disk.calls == {**dict.fromkeys(_IN_ORDER, 2), "any": 16}
    assert list(disk.trace)[:3] == ["mkdir commitlog", "open commitlog/0", "write commitlog/0 at 0, 6 bytes"]


@pytest.mark.parametrize("operation", _IN_ORDER)
@pytest.mark.parametrize(("kind", "error"), [("error", DiskFailed), ("no_space", DiskFull)])
def test_the_nth_call_fails_and_changes_nothing(
    operation: DiskOperation, kind: DiskFaultKind, error: type[SteelyardError]
) -> None:
    disk = SimulatedDisk(faults=[DiskFault(operation, 2, kind)])
    do_everything(disk)
    with pytest.raises(error) as caught:
        do_everything(disk)
    assert type(caught.value) is error
    by_count = SimulatedDisk(faults=[DiskFault("any", 9 + _IN_ORDER.index(operation), kind)])
    do_everything(by_count)
    with pytest.raises(error):
        do_everything(by_count)
    assert list(by_count.trace) == list(disk.trace)
    if operation not in ("mkdir", "open"):
        left = {"write": b"", "truncate": b"spring", "fsync": b"spri", "rename": b"spri"}
        assert disk.read("commitlog/0") == left.get(operation)
    do_everything(disk)


@pytest.mark.parametrize("operation", _IN_ORDER)
def test_a_process_dies_before_or_after_any_call_and_does_nothing_more(operation: DiskOperation) -> None:
    step = _IN_ORDER.index(operation)
    ends: list[tuple[DiskFaultKind, int]] = [("crash_before", step), ("crash_after", step + 1)]
    for kind, done in ends:
        disk = SimulatedDisk(faults=[DiskFault(operation, 1, kind)])
        with pytest.raises(ProcessDied):
            do_everything(disk)
        stopped = SimulatedDisk(faults=[DiskFault("any", done + 1, "error")])
        if done < len(_IN_ORDER):
            with pytest.raises(DiskFailed):
                do_everything(stopped)
            assert disk.crash().names("commitlog") == stopped.crash().names("commitlog")
            assert disk.crash().read("commitlog/0") == stopped.crash().read("commitlog/0")
        with pytest.raises(ProcessDied):
            disk.names("")
        with pytest.raises(ProcessDied):
            disk.mkdir("posthumous")
        assert "posthumous" not in disk.crash().names("")


def test_no_handler_catches_the_death_of_a_process_by_accident() -> None:
    disk = SimulatedDisk(faults=[DiskFault("write", 1, "crash_before")])
    file = disk.open("log", create=True)

    def careless() -> None:
        try:
            file.write(0, b"spring")
        except Exception:
            pytest.fail("it was caught")
        finally:
            file.close()

    with pytest.raises(ProcessDied):
        careless()
    with pytest.raises(ProcessDied):
        file.write(0, b"spring")


@given(_CHANCE, st.binary(min_size=2, max_size=40), st.sampled_from(["short_write", "crash_midway"]))
def test_a_write_can_be_done_in_part(chance: Random, text: bytes, kind: DiskFaultKind) -> None:
    disk = SimulatedDisk(chance, faults=[DiskFault("write", 1, kind)])
    file = disk.open("log", create=True)
    if kind == "short_write":
        count = file.write(0, text)
    else:
        with pytest.raises(ProcessDied):
            file.write(0, text)
        disk = disk.crash()
        count = disk.open("log").size
    assert 0 < count < len(text)
    assert disk.read("log") == text[:count]


def test_where_nothing_is_written_a_short_write_is_an_error() -> None:
    disk = SimulatedDisk()
    disk.fail_next("rename", "short_write")
    with pytest.raises(DiskFailed):
        disk.rename("a", "b")
    disk.fail_next("mkdir", "crash_midway")
    with pytest.raises(ProcessDied):
        disk.mkdir("a")


# Capacity.


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = SimulatedDisk(capacity=4 * _PAGE, page=_PAGE)
    file = disk.open("log", create=True)
    assert file.write(0, bytes(3 * _PAGE)) == 3 * _PAGE
    assert disk.free_bytes() == _PAGE
    assert file.write(3 * _PAGE - 2, b"x" * 20) == 10
    for at in (4 * _PAGE, 4 * _PAGE + 3):
        with pytest.raises(DiskFull):
            file.write(at, b"y" * 20)
    assert file.write(0, b"over what is there") == 18
    assert file.size == 4 * _PAGE


def test_zeros_that_were_never_written_take_no_room_and_what_is_cut_or_removed_gives_it_back() -> None:
    disk = SimulatedDisk(capacity=4 * _PAGE, page=_PAGE)
    file = disk.open("log", create=True)
    file.truncate(1 << 30)
    assert disk.free_bytes() == 4 * _PAGE
    file.write(_PAGE - 1, b"xx")
    assert disk.free_bytes() == 2 * _PAGE
    assert disk.crash().free_bytes() == 2 * _PAGE
    file.truncate(_PAGE)
    assert disk.free_bytes() == 3 * _PAGE
    disk.remove("log")
    assert disk.free_bytes() == 4 * _PAGE


def test_a_large_view_is_refused_before_it_takes_the_memory() -> None:
    file = SimulatedDisk().open("log", create=True)
    file.truncate(1 << 30)
    file.write(5, b"x")
    with pytest.raises(DiskFailed, match="use smaller files"):
        file.view()


# Locks.


def test_a_lock_ends_with_the_process_that_held_it() -> None:
    disk = SimulatedDisk()
    disk.lock("lock")
    with pytest.raises(StoreLocked):
        disk.lock("lock")
    disk.crash().lock("lock").release()
    disk.lose_power().lock("lock").release()
