"""A disk in memory that forgets and fails on purpose.

It keeps the promises of store/disk.py and no others, so that a store which survives on it builds on nothing else. Each
change can be made to fail, or to be the last thing the process does: a `Fault` says which call, and how. From the disk
that a dead process leaves behind, `crash` gives the one its successor finds when the machine went on (everything
written is there), and `lose_power` one it may find when the machine did not (see sim/forgetting.py). Both leave the old
disk as it is, so that many ends of one history can be looked at.

Left out: bytes that change by themselves (write them over the file), and disks that are slow.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Literal, NoReturn, TypeAlias

from steelyard.errors import DiskFailed, DiskFull, StoreLocked
from steelyard.sim.forgetting import FOLDER, Choose, Content, Folder, Names
from steelyard.store.paths import checked_path

__all__ = ["Fault", "FaultKind", "ForgettingDisk", "Operation", "ProcessDied"]

Operation: TypeAlias = Literal["write", "fsync", "open", "rename", "truncate", "mkdir", "remove", "sync_folder", "any"]
FaultKind: TypeAlias = Literal["error", "no_space", "short_write", "crash_before", "crash_midway", "crash_after"]

# What a disk without a capacity says is free: more than any test writes.
_PLENTY_BYTES = 1 << 40
# A view needs all of its bytes in memory, even those that are zero: more than this is surely not meant for a test.
_VIEW_BYTES = 64 << 20
# What happened before a failure; a trace that kept everything would outgrow the disk.
_TRACED = 1000
_PLANNED = "it was planned to"


class ProcessDied(BaseException):
    """The process is no more. No error of ours and not even an `Exception`, so that nobody handles his own death."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` call of an operation, counted from 1, goes wrong in a certain way.

    ``error`` and ``no_space`` do nothing and raise; ``short_write`` writes a part and returns how much, or is an
    ``error`` where nothing is written; the rest end the process: ``crash_midway`` within a write, elsewhere it is
    ``crash_before``. The operation ``any`` counts the calls of all.
    """

    operation: Operation
    nth: int
    kind: FaultKind


class ForgettingDisk:
    """A disk that loses what was not synced; without chance handed in it loses all of it, and a short write is half.

    ``capacity`` is how many bytes there is room for, in whole pages; ``faults`` may be added to at any time.

    >>> disk = ForgettingDisk()
    >>> file = disk.open("abort", create=True)
    >>> file.write(0, b"running")
    7
    >>> disk.crash().read("abort"), disk.lose_power().read("abort")
    (b'running', None)
    >>> disk.fail_next("write", "error")
    >>> file.write(7, b"!")
    Traceback (most recent call last):
    ...
    steelyard.errors.DiskFailed: write of abort failed (it was planned to); look at the disk and its cables
    """

    def __init__(
        self,
        random: Random | None = None,
        capacity: int | None = None,
        page: int = 4096,
        *,
        faults: Iterable[Fault] = (),
    ) -> None:
        self.faults = list(faults)
        self.whim: Callable[[Operation], FaultKind | None] | None = None
        """Asked about each call for which no fault is planned, if there is one: how it goes wrong."""
        self.calls: Counter[Operation] = Counter()
        self.trace: deque[str] = deque(maxlen=_TRACED)
        self._random, self._capacity, self._page = random, capacity, page
        self._names = Names()
        self._locks: dict[str, _HeldLock] = {}
        self._dead = False

    def fail_next(self, operation: Operation, kind: FaultKind) -> None:
        """Let the next call of an operation go wrong."""
        self.faults.append(Fault(operation, self.calls[operation] + 1, kind))

    def crash(self) -> "ForgettingDisk":
        """Return the disk as the next process finds it: everything that was written, safe or not."""
        return self._successor(self._names.copy())

    def lose_power(self, choose: Choose | None = None, *, unit: int | None = None) -> "ForgettingDisk":
        """Return the disk as it may be after the lights went out.

        ``choose`` is given how many outcomes there are, the oldest first, and returns which one it was; ``unit`` is the
        size of the pieces that are written whole or not at all: a page if None, 512 for a disk that tears pages.
        """
        return self._successor(self._names.after_power_loss(choose or self._choose, unit=unit))

    def power_losses(self, *, unit: int | None = None) -> Iterator["ForgettingDisk"]:
        """Go through every way in which the lights can go out: for histories with few unsafe pages and names."""
        turn = _Turn()
        while True:
            yield self.lose_power(turn, unit=unit)
            if not turn.is_next():
                return

    def open(self, path: str, *, create: bool = False) -> "_OpenFile":
        """Open a file for reading and writing; without ``create`` it must exist."""
        checked_path(path, "open")
        with self._operation("open", path):
            entry = self._names.get(path)
            if isinstance(entry, Folder):
                raise DiskFailed("open", path=path, why="is a directory")
            if entry is None:
                if not create:
                    raise DiskFailed("open", path=path, why="no such file or directory")
                self._need_folder_above(path, "open")
                entry = Content(self._page)
                self._names.add(path, entry)
            return _OpenFile(self, path, entry)

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if there is no such folder."""
        self._check_alive()
        return self._names.inside(checked_path(folder, "names"))

    def read(self, path: str) -> bytes | None:
        """Read a whole small file; None if there is no such file."""
        self._check_alive()
        entry = self._names.get(checked_path(path, "read"))
        if isinstance(entry, Folder):
            raise DiskFailed("read", path=path, why="is a directory")
        return None if entry is None else entry.read()

    def mkdir(self, folder: str) -> None:
        """Make a folder and those above it; no error if it is there."""
        checked_path(folder, "mkdir")
        with self._operation("mkdir", folder):
            parts = folder.split("/") if folder else []
            for count in range(1, len(parts) + 1):
                path = "/".join(parts[:count])
                entry = self._names.get(path)
                if isinstance(entry, Content):
                    raise DiskFailed("mkdir", path=folder, why="file exists")
                if entry is None:
                    self._names.add(path, FOLDER)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, taking the place of a file that has it."""
        checked_path(old, "rename")
        checked_path(new, "rename")
        with self._operation("rename", f"{old} to {new}"):
            entry = self._names.get(old)
            if entry is None:
                raise DiskFailed("rename", path=old, why="no such file or directory")
            for path in (old, new):
                if isinstance(self._names.get(path), Folder):
                    raise DiskFailed("rename", path=path, why="is a directory")
            self._need_folder_above(new, "rename")
            if old != new:
                self._names.move(old, new)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty; no error if it is gone."""
        checked_path(path, "remove")
        with self._operation("remove", path):
            entry = self._names.get(path)
            if not path:
                raise DiskFailed("remove", path="the directory itself", why="only what is in it can be removed")
            if isinstance(entry, Folder) and self._names.inside(path):
                raise DiskFailed("remove", path=path, why="directory not empty")
            if entry is not None:
                self._names.drop(path)

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder safe from a loss of power."""
        checked_path(folder, "sync_folder")
        with self._operation("sync_folder", folder):
            if not isinstance(self._names.get(folder), Folder):
                raise DiskFailed("sync_folder", path=folder, why="no such file or directory")
            self._names.sync(folder)

    def free_bytes(self) -> int:
        """Return how many bytes can still be written."""
        self._check_alive()
        if self._capacity is None:
            return _PLENTY_BYTES
        return max(0, self._capacity - sum(content.room_bytes for content in self._names.files()))

    def size_bytes(self) -> int | None:
        """Return how many bytes there are at all; None without a capacity."""
        return self._capacity

    def lock(self, path: str) -> "_HeldLock":
        """Lock the directory by a file in it; `StoreLocked` if it is locked already."""
        self._check_alive()
        checked_path(path, "lock")
        if path in self._locks:
            raise StoreLocked(f"the directory is in use: its file {path} is locked")
        if self._names.get(path) is None:
            self._need_folder_above(path, "lock")
            self._names.add(path, Content(self._page))
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
    def _operation(self, operation: Operation, path: str, detail: str = "") -> Iterator[FaultKind | None]:
        """Count a call and let it go wrong as planned; what can happen only within a write is left to the write."""
        self._check_alive()
        self.calls[operation] += 1
        self.calls["any"] += 1
        planned = (fault for fault in self.faults if fault.operation in (operation, "any"))
        kind = next((fault.kind for fault in planned if self.calls[fault.operation] == fault.nth), None)
        if kind is None and self.whim is not None:
            kind = self.whim(operation)
        self.trace.append(" ".join(filter(None, (operation, path, detail, kind))))
        within_write = operation == "write" and kind in ("short_write", "crash_midway")
        if kind == "no_space":
            raise DiskFull(operation, path=path, why=_PLANNED)
        if kind == "error" or (kind == "short_write" and not within_write):
            raise DiskFailed(operation, path=path, why=_PLANNED)
        if kind == "crash_before" or (kind == "crash_midway" and not within_write):
            self._die()
        yield kind
        if kind in ("crash_midway", "crash_after"):
            self._die()

    def _choose(self, outcomes: int) -> int:
        return self._random.randrange(outcomes) if self._random else 0

    def _part(self, count: int) -> int:
        """Draw how many of some bytes are written when not all are: at least one, if there are two."""
        return 1 + self._choose(count - 1) if self._random and count > 1 else count // 2

    def _successor(self, names: Names) -> "ForgettingDisk":
        disk = ForgettingDisk(self._random, self._capacity, self._page)
        disk._names, disk.whim = names, self.whim
        return disk

    def _need_folder_above(self, path: str, operation: str) -> None:
        if not isinstance(self._names.get(path.rpartition("/")[0]), Folder):
            raise DiskFailed(operation, path=path, why="no such file or directory")


class _OpenFile:
    """One open file of a disk in memory."""

    __slots__ = ("_content", "_disk", "_open", "_path")

    def __init__(self, disk: ForgettingDisk, path: str, content: Content) -> None:
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
            count = len(data) if kind not in ("short_write", "crash_midway") else disk._part(len(data))
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
                raise DiskFailed("truncate", path=self._path, why="somebody still views it")

    def zeros_from(self) -> int:
        self._check_open("zeros_from")
        return self._content.zeros_from

    def view(self) -> memoryview:
        self._check_open("view")
        if self.size > _VIEW_BYTES:
            why = f"it has {self.size} bytes, and a disk in memory shows {_VIEW_BYTES} at most: use smaller files"
            raise DiskFailed("view", path=self._path, why=why)
        return self._content.view()

    def close(self) -> None:
        self._open = False

    def _check_open(self, operation: str) -> None:
        self._disk._check_alive()
        if not self._open:
            raise DiskFailed(operation, path=self._path, why="it is closed")


class _HeldLock:
    """A directory that is locked until it is released, or its process is dead."""

    __slots__ = ("_locks", "_path")

    def __init__(self, locks: "dict[str, _HeldLock]", path: str) -> None:
        self._locks, self._path = locks, path

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class _Turn:
    """Choices that are made again and again, differently each time, until all were made."""

    __slots__ = ("_made", "_script")

    def __init__(self) -> None:
        self._script: list[int] = []
        self._made: list[tuple[int, int]] = []

    def __call__(self, outcomes: int) -> int:
        at = len(self._made)
        choice = self._script[at] if at < len(self._script) else 0
        self._made.append((choice, outcomes))
        return choice

    def is_next(self) -> bool:
        """Turn to the next choices; False if these were the last."""
        while self._made and self._made[-1][0] + 1 == self._made[-1][1]:
            self._made.pop()
        self._script = [choice for choice, _ in self._made]
        self._made.clear()
        if self._script:
            self._script[-1] += 1
        return bool(self._script)
