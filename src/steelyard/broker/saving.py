"""What of the small state has to be written, and when. The shell runs the writing where it disturbs nobody."""

from collections.abc import Callable
from typing import TypeVar

from steelyard.broker.state import State
from steelyard.broker.timers_for_apache import progress_of
from steelyard.broker.timing import has_come
from steelyard.errors import DiskFailed, LimitExceeded
from steelyard.store.disk import Disk
from steelyard.store.replace import make_folder
from steelyard.store.state import DELAY_OFFSETS, GROUP_OFFSETS, GROUPS, SUBSCRIPTIONS, TOPICS, Document, save

__all__ = ["Save", "Saving"]

T = TypeVar("T")

_PAUSE_MS = 5_000


class Save:
    """One document to be written. `run` it in a thread, then give it to `Saving.done`."""

    def __init__(self, name: str, changes: int, write: Callable[[], None]) -> None:
        self.name, self.changes, self._write = name, changes, write
        self.error: DiskFailed | LimitExceeded | None = None

    def run(self) -> None:
        """Write it; what the disk says is kept in ``error``."""
        try:
            self._write()
        except (DiskFailed, LimitExceeded) as error:
            self.error = error


class Saving:
    """Knows what was saved last, and what changed since."""

    def __init__(self) -> None:
        self._saved: dict[str, int] = {}
        self._next_ms: dict[str, int] = {}
        self._running: set[str] = set()
        self._failed: set[str] = set()
        """What the disk refused the last time: it is not asked five times a second again."""

    def due(self, state: State, now_ms: int, *, everything: bool = False) -> list[Save]:
        """Return what has to be written now; with ``everything``, all that changed, due or not."""
        often, seldom = 200, state.options.offsets_interval_ms
        return [
            *self._of(state.disk, TOPICS, state.topics.changes, state.topics.table, now_ms, often, everything),
            *self._of(state.disk, GROUPS, state.groups.changes, state.groups.table, now_ms, often, everything),
            *self._of(
                state.disk,
                GROUP_OFFSETS,
                state.offsets.changes,
                state.offsets.table,
                now_ms,
                seldom,
                everything,
                # Our own progress with timers is among the offsets, and comes first: Apache's word is only a help.
                then=progress_of(state),
            ),
            *self._of(
                state.disk, DELAY_OFFSETS, state.schedule.changes, state.schedule.table, now_ms, seldom, everything
            ),
            *self._of(
                state.disk,
                SUBSCRIPTIONS,
                state.members.wants_changes + state.kept_subscriptions.changes,
                lambda: state.kept_subscriptions.table(state.members.live_groups()),
                now_ms,
                seldom,
                everything,
            ),
        ]

    def _of(
        self,
        disk: Disk,
        document: Document[T],
        changes: int,
        table: Callable[[], T],
        now_ms: int,
        gap_ms: int,
        everything: bool,
        then: Callable[[], None] | None = None,
    ) -> list[Save]:
        name = document.path
        if changes == self._saved.get(name, 0) or name in self._running:
            return []
        if name in self._failed:
            gap_ms = max(gap_ms, _PAUSE_MS)
        if not everything and not has_come(self._next_ms.get(name, 0), gap_ms, now_ms):
            return []
        self._running.add(name)
        self._next_ms[name] = now_ms + gap_ms
        value = table()
        return [Save(name, changes, lambda: _write(disk, document, value, then))]

    def done(self, job: Save) -> None:
        """Take note of how a save went; one that failed is tried again later."""
        self._running.discard(job.name)
        if job.error is not None:
            self._failed.add(job.name)
            return
        self._failed.discard(job.name)
        self._saved[job.name] = job.changes


def _write(disk: Disk, document: Document[T], value: T, then: Callable[[], None] | None) -> None:
    make_folder(disk, document.path.rpartition("/")[0])
    save(disk, document, value)
    if then is not None:
        then()
