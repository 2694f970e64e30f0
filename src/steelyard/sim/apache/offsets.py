"""Apache's committed offsets: the last word counts, higher or lower, and it is safe only every five seconds.

The table is in memory. A file gets all of it every `FLUSH_MS`, first after `FIRST_FLUSH_MS`, and when the broker stops
in peace. A broker that is killed starts with the file.
"""

from collections.abc import Mapping

from steelyard.model import Queue

__all__ = ["FIRST_FLUSH_MS", "FLUSH_MS", "Offsets"]

FLUSH_MS = 5_000
FIRST_FLUSH_MS = 10_000


class Offsets:
    """How far each group has come in each queue.

    >>> offsets, queue = Offsets({}), Queue("orders", "b1", 0)
    >>> offsets.commit("g", queue, 7), offsets.commit("g", queue, 3), offsets.get("g", queue)
    (None, 7, 3)
    """

    def __init__(self, file: dict[tuple[str, Queue], int]) -> None:
        self._file = file
        self._now = dict(file)
        self._is_dirty = False

    def get(self, group: str, queue: Queue) -> int | None:
        """Return what a group committed, or None."""
        return self._now.get((group, queue))

    def commit(self, group: str, queue: Queue, offset: int) -> int | None:
        """Take an offset, and return what was there before."""
        before = self._now.get((group, queue))
        if before != offset:
            self._now[group, queue] = offset
            self._is_dirty = True
        return before

    def flush(self) -> None:
        """Write the file."""
        if self._is_dirty:
            self._file.update(self._now)
            self._is_dirty = False

    def table(self) -> Mapping[tuple[str, Queue], int]:
        """Return all that is committed."""
        return self._now
