"""What a disk forgets: the pages of a file that were not synced, and the names of a folder that was not.

Everything is kept twice, as programs see it and as it is known to be safe, with the changes that lead from one to the
other. A loss of power picks, change by change, what had reached the disk. How it picks is handed in: a function that
is given how many outcomes there are, the oldest first, and returns which one it was.

The rules are those a careful program may count on, and no more. A page is old, new, or anything it was in between, and
each page for itself; so is the size. Of names, a change is whole or not at all, and changes of the same name or file
happened in their order; changes of different ones in any. A file whose folder is gone is gone. When a sync failed, the
pages that were to be written count as clean from then on, as they do in Linux: a later sync leaves them alone, and only
writing them again can make them safe.

Left out: that a system short of memory may drop a page that failed to sync and read the old one back.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

__all__ = ["FOLDER", "Choose", "Content", "Entry", "Folder", "Names"]

# How many outcomes there are → which one it was.
Choose: TypeAlias = Callable[[int], int]


class Content:
    """The bytes of one file, as they are seen and as they are safe.

    >>> content = Content(page=4)
    >>> content.write(0, b"spring")
    >>> content.sync()
    >>> content.write(0, b"summer")
    >>> [bytes(content.after_power_loss(lambda n, kept=kept: kept % n).view()) for kept in (0, 1)]
    [b'spring', b'summer']
    """

    __slots__ = ("_dirty", "_older", "_page", "_pages", "_safe", "_seen", "_sizes", "_unsafe", "size")

    def __init__(self, page: int) -> None:
        self.size = 0
        self._page = page
        # Shorter than the file if its end was never written: zeros take no room.
        self._seen = bytearray()
        self._safe = bytearray()
        # What the size may turn out to be.
        self._sizes = [0]
        # The writes that each page has seen since it was safe.
        self._unsafe: dict[int, list[tuple[int, bytes]]] = {}
        self._dirty: set[int] = set()
        self._pages: set[int] = set()
        # A buffer that somebody views cannot grow. It is replaced, and written to as long as it is viewed.
        self._older: list[bytearray] = []

    @property
    def room_bytes(self) -> int:
        """How much of the disk it takes: pages never written take none."""
        return len(self._pages) * self._page

    def writable_bytes(self, at: int, count: int, free_bytes: int) -> int:
        """Say how many of the bytes can be written before the room is used up."""
        for number in self._numbers(at, at + count):
            if number not in self._pages:
                free_bytes -= self._page
                if free_bytes < 0:
                    return max(0, number * self._page - at)
        return count

    @property
    def zeros_from(self) -> int:
        """Where the last byte ends that is not zero."""
        return len(self._seen.rstrip(b"\0"))

    def read(self, at: int = 0, size: int | None = None) -> bytes:
        """Return all of it, as it is seen, or some bytes from one on."""
        end = self.size if size is None else min(at + size, self.size)
        return bytes(self._seen[at:end]).ljust(max(0, end - at), b"\0")

    def write(self, at: int, data: bytes) -> None:
        """Change what is seen; nothing of it is safe yet."""
        if not data:
            return
        end = at + len(data)
        self._grow(end)
        for buffer in (self._seen, *self._older):
            stop = min(end, len(buffer))
            if at < stop:
                buffer[at:stop] = data[: stop - at]
        self._note(at, data)
        self._pages.update(self._numbers(at, end))
        if end > self.size:
            self.size = end
            self._sizes.append(end)

    def truncate(self, size: int) -> bool:
        """Cut or lengthen it, and return True; or False if that cannot be, because somebody holds a view."""
        self._drop_unviewed()
        if self._older or _is_viewed(self._seen):
            return False
        if size < len(self._seen):
            # To a page, being cut off is being zero; that the file is shorter is told by its size.
            self._note(size, bytes(len(self._seen) - size))
            del self._seen[size:]
        self._pages = {number for number in self._pages if number * self._page < size}
        self.size = size
        self._sizes.append(size)
        return True

    def view(self) -> memoryview:
        """Return all of it for reading; later writes show."""
        if not self.size:
            return memoryview(b"")
        self._grow(self.size)
        return memoryview(self._seen).toreadonly()

    def sync(self) -> None:
        """Make safe what is dirty."""
        # Another thread may write meanwhile: what it changes after the page was let go counts as unsafe, seen or not.
        dirty, self._dirty, self._sizes = list(self._dirty), set(), [self.size]
        for number in dirty:
            self._unsafe.pop(number, None)
            _patch(self._safe, number * self._page, self._image(number).ljust(self._page, b"\0"))

    def fail_sync(self) -> None:
        """Let everything dirty count as clean, wherever it is."""
        self._dirty.clear()

    def copy(self) -> "Content":
        """Return the same content, safe and unsafe, that nobody views."""
        twin = Content(self._page)
        twin.size = self.size
        twin._seen, twin._safe, twin._sizes = self._seen[:], self._safe[:], self._sizes[:]
        twin._unsafe = {number: writes[:] for number, writes in self._unsafe.items()}
        twin._dirty, twin._pages = self._dirty.copy(), self._pages.copy()
        return twin

    def after_power_loss(self, choose: Choose, *, unit: int | None = None) -> "Content":
        """Return what the disk holds after all; pieces of ``unit`` bytes, a page if None, were written whole."""
        twin = Content(self._page)
        held = self._safe[:]
        step = min(unit or self._page, self._page)
        for number, writes in sorted(self._unsafe.items()):
            for start in range(number * self._page, (number + 1) * self._page, step):
                _replay(held, start, start + step, writes[: choose(len(writes) + 1)])
        twin.size = self._sizes[choose(len(self._sizes))]
        del held[twin.size :]
        twin._safe, twin._seen, twin._sizes = held, held[:], [twin.size]
        twin._pages = {number for number in twin._numbers(0, len(held)) if twin._image(number).strip(b"\0")}
        return twin

    def _image(self, number: int) -> bytes:
        return bytes(self._seen[number * self._page : (number + 1) * self._page])

    def _numbers(self, start: int, end: int) -> range:
        return range(start // self._page, -(-end // self._page))

    def _note(self, at: int, data: bytes) -> None:
        for number in self._numbers(at, at + len(data)):
            self._unsafe.setdefault(number, []).append((at, data))
            self._dirty.add(number)

    def _grow(self, size: int) -> None:
        missing = size - len(self._seen)
        if missing <= 0:
            return
        if _is_viewed(self._seen):
            self._drop_unviewed()
            self._older.append(self._seen)
            self._seen = self._seen[:]
        self._seen.extend(bytes(missing))

    def _drop_unviewed(self) -> None:
        self._older = [buffer for buffer in self._older if _is_viewed(buffer)]


class Folder:
    """A name that stands for a folder."""

    __slots__ = ()


FOLDER = Folder()

Entry: TypeAlias = Content | Folder


class _Change:
    """Names that change together: what each stands for from now on, and what it must wait for."""

    __slots__ = ("after", "entries")

    def __init__(self, entries: dict[str, Entry | None], after: Iterable["str | Content"] = ()) -> None:
        self.entries = entries
        files = (entry for entry in entries.values() if isinstance(entry, Content))
        self.after: frozenset[str | Content] = frozenset((*entries, *files, *after))

    def is_in(self, folder: str) -> bool:
        return any(_parent(path) == folder for path in self.entries)


class Names:
    """The folders and files of a disk by their paths, as they are seen and as they are safe."""

    __slots__ = ("_safe", "_seen", "_unsafe")

    def __init__(self, entries: dict[str, Entry] | None = None) -> None:
        self._seen: dict[str, Entry] = {"": FOLDER} if entries is None else entries
        self._safe = self._seen.copy()
        self._unsafe: list[_Change] = []

    def get(self, path: str) -> Entry | None:
        """Return what has that name."""
        return self._seen.get(path)

    def files(self) -> Iterator[Content]:
        """Go through the contents of all files."""
        return (entry for entry in self._seen.values() if isinstance(entry, Content))

    def inside(self, folder: str) -> list[str]:
        """List the names in a folder, sorted."""
        return sorted(path.rpartition("/")[2] for path in self._seen if path and _parent(path) == folder)

    def add(self, path: str, entry: Entry) -> None:
        """Give something new a name."""
        self._change(_Change({path: entry}))

    def move(self, old: str, new: str) -> None:
        """Give a file another name, in one change."""
        self._change(_Change({old: None, new: self._seen[old]}))

    def drop(self, path: str) -> None:
        """Take a name away; a folder's only after all that happened in it."""
        earlier = (change.after for change in self._unsafe if change.is_in(path))
        self._change(_Change({path: None}, frozenset().union(*earlier)))

    def sync(self, folder: str) -> None:
        """Make safe what changed in a folder, and what must have happened before."""
        synced: list[_Change] = []
        waits: list[_Change] = []
        needed: set[str | Content] = set()
        for change in reversed(self._unsafe):
            if change.is_in(folder) or not needed.isdisjoint(change.after):
                synced.append(change)
                needed |= change.after
            else:
                waits.append(change)
        for change in reversed(synced):
            _apply(self._safe, change)
        self._unsafe = waits[::-1]

    def copy(self) -> "Names":
        """Return the same names, safe and unsafe, over copies of the contents."""
        twins: dict[Entry, Entry] = {FOLDER: FOLDER}

        def twin(entry: Entry) -> Entry:
            if entry not in twins and isinstance(entry, Content):
                twins[entry] = entry.copy()
            return twins[entry]

        names = Names({path: twin(entry) for path, entry in self._seen.items()})
        names._safe = {path: twin(entry) for path, entry in self._safe.items()}
        for change in self._unsafe:
            entries = {path: entry and twin(entry) for path, entry in change.entries.items()}
            after = (twins[key] if isinstance(key, Content) else key for key in change.after)
            names._unsafe.append(_Change(entries, (key for key in after if not isinstance(key, Folder))))
        return names

    def after_power_loss(self, choose: Choose, *, unit: int | None = None) -> "Names":
        """Return the names that the disk holds after all, over the contents that it holds."""
        held = self._safe.copy()
        lost: set[str | Content] = set()
        for change in self._unsafe:
            possible = lost.isdisjoint(change.after) and all(_has_place(held, path) for path in change.entries)
            if possible and choose(2):
                _apply(held, change)
            else:
                lost |= change.after
        return Names(
            {
                path: entry if isinstance(entry, Folder) else entry.after_power_loss(choose, unit=unit)
                for path, entry in held.items()
                if _has_place(held, path)
            }
        )

    def _change(self, change: _Change) -> None:
        _apply(self._seen, change)
        self._unsafe.append(change)


def _apply(entries: dict[str, Entry], change: _Change) -> None:
    for path, entry in change.entries.items():
        if entry is None:
            entries.pop(path, None)
        else:
            entries[path] = entry


def _parent(path: str) -> str | None:
    """Return the folder that a path lies in; the directory itself lies in none."""
    return path.rpartition("/")[0] if path else None


def _has_place(entries: dict[str, Entry], path: str) -> bool:
    """Say whether all folders above a path are there."""
    while path:
        path = path.rpartition("/")[0]
        if not isinstance(entries.get(path), Folder):
            return False
    return True


def _is_viewed(buffer: bytearray) -> bool:
    """Say whether somebody holds a view: only then does Python refuse to change the length."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False


def _patch(buffer: bytearray, at: int, data: bytes) -> None:
    """Write into a buffer, lengthening it by zeros if need be."""
    if at + len(data) > len(buffer):
        buffer.extend(bytes(at + len(data) - len(buffer)))
    buffer[at : at + len(data)] = data


def _replay(buffer: bytearray, start: int, end: int, writes: list[tuple[int, bytes]]) -> None:
    """Do some writes again, within a range only."""
    for at, data in writes:
        first, last = max(start, at), min(end, at + len(data))
        if first < last:
            _patch(buffer, first, data[first - at : last - at])
