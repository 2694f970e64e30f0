"""The page cache of a simulated disk: pages of files that were not synced, and names of folders that were not.

Everything is kept twice, as programs see it and as it is durable, with the changes that lead from one to the other. A
power loss picks, change by change, what had reached the disk. The picker is an argument: a function from the number of
outcomes, the oldest first, to the one that happened.

The rules are those that a careful program may rely on, and no more. A page is old, new, or in any state in between,
independently of other pages; so is the size. A change of names is atomic; changes of the same name or file keep their
order, others do not. A file whose folder is lost is lost. After a failed sync its pages count as clean, as in Linux: a
later sync ignores them, and only another write can make them durable.

Left out: under memory pressure Linux may drop a page that failed to sync, and read the old one back.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

# How many outcomes there are → which one it was.
ChooseOutcome: TypeAlias = Callable[[int], int]


class FileContent:
    """The bytes of one file, as they are visible and as they are durable.

    >>> content = FileContent(page=4)
    >>> content.write(0, b"spring")
    >>> content.sync()
    >>> content.write(0, b"summer")
    >>> [bytes(content.after_power_loss(lambda n, kept=kept: kept % n).view()) for kept in (0, 1)]
    [b'spring', b'summer']
    """

    __slots__ = ("_dirty", "_durable", "_page", "_pages", "_sizes", "_undurable", "_viewed_buffers", "_visible", "size")

    def __init__(self, page: int) -> None:
        self.size = 0
        self._page = page
        # Shorter than the file if its end was never written: zeros take no room.
        self._visible = bytearray()
        self._durable = bytearray()
        # What the size may turn out to be.
        self._sizes = [0]
        # The writes to each page since it was durable.
        self._undurable: dict[int, list[tuple[int, bytes]]] = {}
        self._dirty: set[int] = set()
        self._pages: set[int] = set()
        # A buffer with an open view cannot grow. It is replaced, and still written to while the view is open.
        self._viewed_buffers: list[bytearray] = []

    @property
    def used_bytes(self) -> int:
        """The space it takes on the disk: pages never written take none."""
        return len(self._pages) * self._page

    def writable_bytes(self, at: int, count: int, free_bytes: int) -> int:
        """Return how many of the bytes fit into the free space."""
        for number in self._page_numbers(at, at + count):
            if number not in self._pages:
                free_bytes -= self._page
                if free_bytes < 0:
                    return max(0, number * self._page - at)
        return count

    @property
    def zeros_from(self) -> int:
        """The end of the last byte that is not zero."""
        return len(self._visible.rstrip(b"\0"))

    def read(self, at: int = 0, size: int | None = None) -> bytes:
        """Return the visible bytes: all, or ``size`` of them from ``at`` on."""
        end = self.size if size is None else min(at + size, self.size)
        return bytes(self._visible[at:end]).ljust(max(0, end - at), b"\0")

    def write(self, at: int, data: bytes) -> None:
        """Change the visible bytes; none of it is durable yet."""
        if not data:
            return
        end = at + len(data)
        self._grow(end)
        for buffer in (self._visible, *self._viewed_buffers):
            stop = min(end, len(buffer))
            if at < stop:
                buffer[at:stop] = data[: stop - at]
        self._mark_dirty(at, data)
        self._pages.update(self._page_numbers(at, end))
        if end > self.size:
            self.size = end
            self._sizes.append(end)

    def truncate(self, size: int) -> bool:
        """Change the size and return True; return False if a view is open."""
        self._drop_unviewed()
        if self._viewed_buffers or _is_viewed(self._visible):
            return False
        if size < len(self._visible):
            # A page that is cut off becomes zero; that the file is shorter is kept in its size.
            self._mark_dirty(size, bytes(len(self._visible) - size))
            del self._visible[size:]
        self._pages = {number for number in self._pages if number * self._page < size}
        self.size = size
        self._sizes.append(size)
        return True

    def view(self) -> memoryview:
        """Return all of it for reading; later writes show."""
        if not self.size:
            return memoryview(b"")
        self._grow(self.size)
        return memoryview(self._visible).toreadonly()

    def sync(self) -> None:
        """Make the dirty pages durable."""
        # Another thread may write meanwhile: what it changes after its page was taken off the list is not durable.
        dirty, self._dirty, self._sizes = list(self._dirty), set(), [self.size]
        for number in dirty:
            self._undurable.pop(number, None)
            _write_at(self._durable, number * self._page, self._page_bytes(number).ljust(self._page, b"\0"))

    def fail_sync(self) -> None:
        """Mark all dirty pages clean, although they are not durable."""
        self._dirty.clear()

    def copy(self) -> "FileContent":
        """Return the same content, durable or not, without views."""
        twin = FileContent(self._page)
        twin.size = self.size
        twin._visible, twin._durable, twin._sizes = self._visible[:], self._durable[:], self._sizes[:]
        twin._undurable = {number: writes[:] for number, writes in self._undurable.items()}
        twin._dirty, twin._pages = self._dirty.copy(), self._pages.copy()
        return twin

    def after_power_loss(self, choose: ChooseOutcome, *, unit: int | None = None) -> "FileContent":
        """Return what a power loss leaves; pieces of ``unit`` bytes (None: a page) are written whole or not."""
        twin = FileContent(self._page)
        durable = self._durable[:]
        step = min(unit or self._page, self._page)
        for number, writes in sorted(self._undurable.items()):
            for start in range(number * self._page, (number + 1) * self._page, step):
                _replay_writes(durable, start, start + step, writes[: choose(len(writes) + 1)])
        twin.size = self._sizes[choose(len(self._sizes))]
        del durable[twin.size :]
        twin._durable, twin._visible, twin._sizes = durable, durable[:], [twin.size]
        twin._pages = {
            number for number in twin._page_numbers(0, len(durable)) if twin._page_bytes(number).strip(b"\0")
        }
        return twin

    def _page_bytes(self, number: int) -> bytes:
        return bytes(self._visible[number * self._page : (number + 1) * self._page])

    def _page_numbers(self, start: int, end: int) -> range:
        return range(start // self._page, -(-end // self._page))

    def _mark_dirty(self, at: int, data: bytes) -> None:
        for number in self._page_numbers(at, at + len(data)):
            self._undurable.setdefault(number, []).append((at, data))
            self._dirty.add(number)

    def _grow(self, size: int) -> None:
        missing = size - len(self._visible)
        if missing <= 0:
            return
        if _is_viewed(self._visible):
            self._drop_unviewed()
            self._viewed_buffers.append(self._visible)
            self._visible = self._visible[:]
        self._visible.extend(bytes(missing))

    def _drop_unviewed(self) -> None:
        self._viewed_buffers = [buffer for buffer in self._viewed_buffers if _is_viewed(buffer)]


class FolderEntry:
    """A name that stands for a folder."""

    __slots__ = ()


FOLDER = FolderEntry()

_TreeEntry: TypeAlias = FileContent | FolderEntry


class _NameChange:
    """Names that change together: the new entry of each, and what has to happen before."""

    __slots__ = ("depends_on", "entries")

    def __init__(self, entries: dict[str, _TreeEntry | None], depends_on: Iterable["str | FileContent"] = ()) -> None:
        self.entries = entries
        files = (entry for entry in entries.values() if isinstance(entry, FileContent))
        self.depends_on: frozenset[str | FileContent] = frozenset((*entries, *files, *depends_on))

    def is_in(self, folder: str) -> bool:
        return any(_parent(path) == folder for path in self.entries)


class DirectoryTree:
    """The folders and files of a disk by path, as they are visible and as they are durable."""

    __slots__ = ("_durable", "_undurable", "_visible")

    def __init__(self, entries: dict[str, _TreeEntry] | None = None) -> None:
        self._visible: dict[str, _TreeEntry] = {"": FOLDER} if entries is None else entries
        self._durable = self._visible.copy()
        self._undurable: list[_NameChange] = []

    def get(self, path: str) -> _TreeEntry | None:
        """Return the entry of a path."""
        return self._visible.get(path)

    def files(self) -> Iterator[FileContent]:
        """Yield the contents of all files."""
        return (entry for entry in self._visible.values() if isinstance(entry, FileContent))

    def list_folder(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(path.rpartition("/")[2] for path in self._visible if path and _parent(path) == folder)

    def add(self, path: str, entry: _TreeEntry) -> None:
        """Add an entry."""
        self._apply_change(_NameChange({path: entry}))

    def move(self, old: str, new: str) -> None:
        """Rename a file, in one change."""
        self._apply_change(_NameChange({old: None, new: self._visible[old]}))

    def remove(self, path: str) -> None:
        """Remove a name; a folder's depends on everything that happened in it."""
        earlier = (change.depends_on for change in self._undurable if change.is_in(path))
        self._apply_change(_NameChange({path: None}, frozenset().union(*earlier)))

    def sync(self, folder: str) -> None:
        """Make the changes in a folder durable, and those they depend on."""
        synced: list[_NameChange] = []
        remaining: list[_NameChange] = []
        needed: set[str | FileContent] = set()
        for change in reversed(self._undurable):
            if change.is_in(folder) or not needed.isdisjoint(change.depends_on):
                synced.append(change)
                needed |= change.depends_on
            else:
                remaining.append(change)
        for change in reversed(synced):
            _apply(self._durable, change)
        self._undurable = remaining[::-1]

    def copy(self) -> "DirectoryTree":
        """Return the same names, durable or not, with copies of the contents."""
        twins: dict[_TreeEntry, _TreeEntry] = {FOLDER: FOLDER}

        def twin(entry: _TreeEntry) -> _TreeEntry:
            if entry not in twins and isinstance(entry, FileContent):
                twins[entry] = entry.copy()
            return twins[entry]

        names = DirectoryTree({path: twin(entry) for path, entry in self._visible.items()})
        names._durable = {path: twin(entry) for path, entry in self._durable.items()}
        for change in self._undurable:
            entries = {path: entry and twin(entry) for path, entry in change.entries.items()}
            after = (twins[key] if isinstance(key, FileContent) else key for key in change.depends_on)
            names._undurable.append(_NameChange(entries, (key for key in after if not isinstance(key, FolderEntry))))
        return names

    def after_power_loss(self, choose: ChooseOutcome, *, unit: int | None = None) -> "DirectoryTree":
        """Return the names that a power loss leaves, with the contents that it leaves."""
        durable = self._durable.copy()
        lost: set[str | FileContent] = set()
        for change in self._undurable:
            possible = lost.isdisjoint(change.depends_on) and all(
                _parents_exist(durable, path) for path in change.entries
            )
            if possible and choose(2):
                _apply(durable, change)
            else:
                lost |= change.depends_on
        return DirectoryTree(
            {
                path: entry if isinstance(entry, FolderEntry) else entry.after_power_loss(choose, unit=unit)
                for path, entry in durable.items()
                if _parents_exist(durable, path)
            }
        )

    def _apply_change(self, change: _NameChange) -> None:
        _apply(self._visible, change)
        self._undurable.append(change)


def _apply(entries: dict[str, _TreeEntry], change: _NameChange) -> None:
    for path, entry in change.entries.items():
        if entry is None:
            entries.pop(path, None)
        else:
            entries[path] = entry


def _parent(path: str) -> str | None:
    """Return the folder of a path; the root has none."""
    return path.rpartition("/")[0] if path else None


def _parents_exist(entries: dict[str, _TreeEntry], path: str) -> bool:
    """Return whether all folders above a path exist."""
    while path:
        path = path.rpartition("/")[0]
        if not isinstance(entries.get(path), FolderEntry):
            return False
    return True


def _is_viewed(buffer: bytearray) -> bool:
    """Return whether a view is open: only then does Python refuse to change the length."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False


def _write_at(buffer: bytearray, at: int, data: bytes) -> None:
    """Write into a buffer, and extend it with zeros if needed."""
    if at + len(data) > len(buffer):
        buffer.extend(bytes(at + len(data) - len(buffer)))
    buffer[at : at + len(data)] = data


def _replay_writes(buffer: bytearray, start: int, end: int, writes: list[tuple[int, bytes]]) -> None:
    """Repeat some writes, within a range only."""
    for at, data in writes:
        first, last = max(start, at), min(end, at + len(data))
        if first < last:
            _write_at(buffer, first, data[first - at : last - at])
