"""A disk in memory that fails on purpose and loses what was not synced.

It keeps the promises of store/disk.py and no others, so that a store which survives on it builds on nothing else. Each
change can be made to fail, or to be the last thing the process does: a `DiskFault` says which call, and how. From the
disk that a dead process leaves behind, `crash` makes the one its successor finds if the machine went on (everything
written is there), and `lose_power` one that it may find if the machine did not (page_cache.py). Both leave the old disk
as it is, so that one history can be given many ends.

Left out: bytes that change by themselves (write them over the file), and disks that are slow.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Literal, NoReturn, TypeAlias

from simulator.page_cache import FOLDER, ChooseOutcome, DirectoryTree, FileContent, FolderEntry
from steelyard.errors import DiskFailed, DiskFull, StoreLocked
from steelyard.store.disk import checked_path

DiskOperation: TypeAlias = Literal[
    "write", "fsync", "open", "rename", "truncate", "mkdir", "remove", "sync_folder", "any"
]
DiskFaultKind: TypeAlias = Literal["error", "no_space", "short_write", "crash_before", "crash_midway", "crash_after"]

# What a disk without a capacity says is free: more than any test writes.
_UNLIMITED_BYTES = 1 << 40
# A view needs all of its bytes in memory, even those that are zero: more than this is surely not meant for a test.
_MAX_VIEW_BYTES = 64 << 20
# What happened before a failure; a trace that kept everything would outgrow the disk.
_MAX_TRACE = 1000
_PLANNED_REASON = "it was planned to"


class ProcessDied(BaseException):
    """The process is dead. It is not an `Exception`, so that no handler survives its own process."""


@dataclass(frozen=True, slots=True)
class DiskFault:
    """The ``nth`` call of an operation, counted from 1, goes wrong in a certain way.

    ``error`` and ``no_space`` do nothing and raise; ``short_write`` writes a part and returns how much, or is an
    ``error`` where nothing is written; the rest end the process: ``crash_midway`` within a write, elsewhere it is
    ``crash_before``. The operation ``any`` counts the calls of all.
    """

    operation: DiskOperation
    nth: int
    kind: DiskFaultKind


class SimulatedDisk:
    """A disk that loses what was not synced: all of it without ``random``; then a short write is half of it.

    ``capacity`` is how many bytes there is room for, in whole pages; ``faults`` may be added to at any time.

    >>> disk = SimulatedDisk()
    >>> file = disk.open("abort", create=True)
    >>> file.write(0, b"running")
    7
    >>> disk.crash().read("abort"), disk.lose_power().read("abort")
    (b'running', None)
    >>> disk.fail_next("write", "error")
    >>> file.write(7, b"!")
    Traceback (most recent call last):
    ...
    steelyard.errors.DiskFailed: write of abort failed (it was planned to); check the disk's health
    """

    def __init__(
        self,
        random: Random | None = None,
        capacity: int | None = None,
        page: int = 4096,
        *,
        faults: Iterable[DiskFault] = (),
    ) -> None:
        self.faults = list(faults)
        self.choose_fault: Callable[[DiskOperation], DiskFaultKind | None] | None = None
        """Called for each operation without a planned fault: returns how it goes wrong, or None."""
        self.calls: Counter[DiskOperation] = Counter()
        self.trace: deque[str] = deque(maxlen=_MAX_TRACE)
        self._random, self._capacity, self._page = random, capacity, page
        self._tree = DirectoryTree()
        self._locks: dict[str, _HeldLock] = {}
        self._dead = False

    def fail_next(self, operation: DiskOperation, kind: DiskFaultKind) -> None:
        """Make the next call of an operation fail."""
        self.faults.append(DiskFault(operation, self.calls[operation] + 1, kind))

    def crash(self) -> "SimulatedDisk":
        """Return the disk as the next process finds it: everything that was written, safe or not."""
        return self._next_disk(self._tree.copy())

    def lose_power(self, choose: ChooseOutcome | None = None, *, unit: int | None = None) -> "SimulatedDisk":
        """Return the disk as it may be after a power loss.

        ``choose`` is given how many outcomes there are, the oldest first, and returns which one it was; ``unit`` is the
        size of the pieces that are written whole or not at all: a page if None, 512 for a disk that tears pages.
        """
        return self._next_disk(self._tree.after_power_loss(choose or self._choose, unit=unit))

    def all_power_losses(self, *, unit: int | None = None) -> Iterator["SimulatedDisk"]:
        """Yield every possible outcome of a power loss: for histories with few unsynced pages and names."""
        turn = _AllChoices()
        while True:
            yield self.lose_power(turn, unit=unit)
            if not turn.advance():
                return

    def open(self, path: str, *, create: bool = False) -> "_OpenFile":
        """Open a file for reading and writing; without ``create`` it must exist."""
        checked_path(path, "open")
        with self._operation("open", path):
            entry = self._tree.get(path)
            if isinstance(entry, FolderEntry):
                raise DiskFailed("open", path=path, why="is a directory")
            if entry is None:
                if not create:
                    raise DiskFailed("open", path=path, why="no such file or directory")
                self._require_parent(path, "open")
                entry = FileContent(self._page)
                self._tree.add(path, entry)
            return _OpenFile(self, path, entry)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        self._check_alive()
        return self._tree.list_folder(checked_path(folder, "names"))

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""
        self._check_alive()
        entry = self._tree.get(checked_path(path, "read"))
        if isinstance(entry, FolderEntry):
            raise DiskFailed("read", path=path, why="is a directory")
        return None if entry is None else entry.read()

    def mkdir(self, folder: str) -> None:
        """Make a folder and those above it; no error if it is there."""
        checked_path(folder, "mkdir")
        with self._operation("mkdir", folder):
            parts = folder.split("/") if folder else []
            for count in range(1, len(parts) + 1):
                path = "/".join(parts[:count])
                entry = self._tree.get(path)
                if isinstance(entry, FileContent):
                    raise DiskFailed("mkdir", path=folder, why="file exists")
                if entry is None:
                    self._tree.add(path, FOLDER)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; a file with the new name is replaced."""
        checked_path(old, "rename")
        checked_path(new, "rename")
        with self._operation("rename", f"{old} to {new}"):
            entry = self._tree.get(old)
            if entry is None:
                raise DiskFailed("rename", path=old, why="no such file or directory")
            for path in (old, new):
                if isinstance(self._tree.get(path), FolderEntry):
                    raise DiskFailed("rename", path=path, why="is a directory")
            self._require_parent(new, "rename")
            if old != new:
                self._tree.move(old, new)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty; no error if it is gone."""
        checked_path(path, "remove")
        with self._operation("remove", path):
            entry = self._tree.get(path)
            if not path:
                raise DiskFailed("remove", path="the directory itself", why="only what is in it can be removed")
            if isinstance(entry, FolderEntry) and self._tree.list_folder(path):
                raise DiskFailed("remove", path=path, why="directory not empty")
            if entry is not None:
                self._tree.remove(path)

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder survive a power loss."""
        checked_path(folder, "sync_folder")
        with self._operation("sync_folder", folder):
            if not isinstance(self._tree.get(folder), FolderEntry):
                raise DiskFailed("sync_folder", path=folder, why="no such file or directory")
            self._tree.sync(folder)

    def free_bytes(self) -> int:
        """Return how many bytes can still be written."""
        self._check_alive()
        if self._capacity is None:
            return _UNLIMITED_BYTES
        return max(0, self._capacity - sum(content.used_bytes for content in self._tree.files()))

    def size_bytes(self) -> int | None:
        """Return the capacity; None if it is unlimited."""
        return self._capacity

    def lock(self, path: str) -> "_HeldLock":
        """Lock the directory by a file in it; `StoreLocked` if it is locked already."""
        self._check_alive()
        checked_path(path, "lock")
        if path in self._locks:
            raise StoreLocked(f"the directory is in use: its file {path} is locked")
        if self._tree.get(path) is None:
            self._require_parent(path, "lock")
            self._tree.add(path, FileContent(self._page))
        self._locks[path] = _HeldLock(self._locks, path)
        return self._locks[path]

    def _check_alive(self) -> None:
        # What a dead process does in its ``finally`` never was.
        if self._dead:
            raise ProcessDied("the process is dead; go on with the disk that crash() or lose_power() returns")

    def _die(self) -> NoReturn:
        self._dead = True
        raise ProcessDied(self.trace[-1])

    @contextmanager
    def _operation(self, operation: DiskOperation, path: str, detail: str = "") -> Iterator[DiskFaultKind | None]:
        """Count a call and let it fail as planned; faults within a write are left to the write."""
        self._check_alive()
        self.calls[operation] += 1
        self.calls["any"] += 1
        planned = (fault for fault in self.faults if fault.operation in (operation, "any"))
        kind = next((fault.kind for fault in planned if self.calls[fault.operation] == fault.nth), None)
        if kind is None and self.choose_fault is not None:
            kind = self.choose_fault(operation)
        self.trace.append(" ".join(filter(None, (operation, path, detail, kind))))
        within_write = operation == "write" and kind in ("short_write", "crash_midway")
        if kind == "no_space":
            raise DiskFull(operation, path=path, why=_PLANNED_REASON)
        if kind == "error" or (kind == "short_write" and not within_write):
            raise DiskFailed(operation, path=path, why=_PLANNED_REASON)
        if kind == "crash_before" or (kind == "crash_midway" and not within_write):
            self._die()
        yield kind
        if kind in ("crash_midway", "crash_after"):
            self._die()

    def _choose(self, outcomes: int) -> int:
        return self._random.randrange(outcomes) if self._random else 0

    def _short_count(self, count: int) -> int:
        """Draw how many bytes a short write writes: at least one of two or more."""
        return 1 + self._choose(count - 1) if self._random and count > 1 else count // 2

    def _next_disk(self, tree: DirectoryTree) -> "SimulatedDisk":
        disk = SimulatedDisk(self._random, self._capacity, self._page)
        disk._tree, disk.choose_fault = tree, self.choose_fault
        return disk

    def _require_parent(self, path: str, operation: str) -> None:
        if not isinstance(self._tree.get(path.rpartition("/")[0]), FolderEntry):
            raise DiskFailed(operation, path=path, why="no such file or directory")


class _OpenFile:
    """One open file of a disk in memory."""

    __slots__ = ("_content", "_disk", "_open", "_path")

    def __init__(self, disk: SimulatedDisk, path: str, content: FileContent) -> None:
        self._disk, self._path, self._content, self._open = disk, path, content, True

    @property
    def size(self) -> int:
        self._check_open("size")
        return self._content.size

    def read(self, at: int, size: int) -> bytes:
        self._check_open("read")
        if at < 0 or size < 0:
            raise DiskFailed("read", path=self._path, why="invalid argument")
        return self._content.read(at, size)

    def write(self, at: int, data: bytes) -> int:
        self._check_open("write")
        disk = self._disk
        with disk._operation("write", self._path, f"at {at}, {len(data)} bytes") as kind:
            if at < 0:
                raise DiskFailed("write", path=self._path, why="invalid argument")
            count = len(data) if kind not in ("short_write", "crash_midway") else disk._short_count(len(data))
            if disk._capacity is not None:
                fitting = self._content.writable_bytes(at, count, disk.free_bytes())
                if count and not fitting:
                    raise DiskFull("write", path=self._path, why="no space left on device")
                count = fitting
            self._content.write(at, bytes(data[:count]))
            return count

    def sync(self) -> None:
        self._check_open("fsync")
        try:
            with self._disk._operation("fsync", self._path):
                self._content.sync()
        except DiskFailed:
            self._content.fail_sync()
            raise

    def truncate(self, size: int) -> None:
        self._check_open("truncate")
        with self._disk._operation("truncate", self._path, f"to {size}"):
            if size < 0:
                raise DiskFailed("truncate", path=self._path, why="invalid argument")
            if not self._content.truncate(size):
                raise DiskFailed("truncate", path=self._path, why="a view of it is still open")

    def zeros_from(self) -> int:
        self._check_open("zeros_from")
        return self._content.zeros_from

    def view(self) -> memoryview:
        self._check_open("view")
        if self.size > _MAX_VIEW_BYTES:
            why = f"it has {self.size} bytes, and a disk in memory shows {_MAX_VIEW_BYTES} at most: use smaller files"
            raise DiskFailed("view", path=self._path, why=why)
        return self._content.view()

    def close(self) -> None:
        self._open = False

    def _check_open(self, operation: str) -> None:
        self._disk._check_alive()
        if not self._open:
            raise DiskFailed(operation, path=self._path, why="it is closed")


class _HeldLock:
    """A lock on the directory until it is released, or its process is dead."""

    __slots__ = ("_locks", "_path")

    def __init__(self, locks: "dict[str, _HeldLock]", path: str) -> None:
        self._locks, self._path = locks, path

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class _AllChoices:
    """Enumerates all sequences of choices, one run at a time."""

    __slots__ = ("_choices", "_prefix")

    def __init__(self) -> None:
        self._prefix: list[int] = []
        self._choices: list[tuple[int, int]] = []

    def __call__(self, outcomes: int) -> int:
        at = len(self._choices)
        choice = self._prefix[at] if at < len(self._prefix) else 0
        self._choices.append((choice, outcomes))
        return choice

    def advance(self) -> bool:
        """Advance to the next sequence; return False if this was the last."""
        while self._choices and self._choices[-1][0] + 1 == self._choices[-1][1]:
            self._choices.pop()
        self._prefix = [choice for choice, _ in self._choices]
        self._choices.clear()
        if self._prefix:
            self._prefix[-1] += 1
        return bool(self._prefix)
