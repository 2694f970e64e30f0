"""Making the log safe from a loss of power: one sync for all who wait.

The store says what to sync (`SyncJob`), a thread of the shell runs it, and the store is told. A job is a value of its
own so that it can run beside appends: it touches nothing but files. Jobs count in the order they were begun, so that a
later one never vouches for files that an earlier one has not finished. Once a sync has failed nobody knows what is on
the disk, and later successes prove nothing.
"""

from collections import deque
from dataclasses import dataclass, field

from steelyard.errors import DiskFailed
from steelyard.store.disk import File
from steelyard.store.log import Log

__all__ = ["SyncJob", "Syncing"]


@dataclass(slots=True, eq=False)
class SyncJob:
    """Files to be synced, and the position of the log up to which everything is safe afterwards."""

    end: int
    files: list[File] = field(default_factory=list)
    error: DiskFailed | None = None
    starts: frozenset[int] = frozenset()
    """The segments that the files are of."""
    is_run: bool = False
    is_over: bool = False
    took_ms: float | None = None
    """How long it ran, if whoever ran it measured that."""

    def run(self) -> None:
        """Sync all files; may be called in another thread. What went wrong is kept, not raised."""
        try:
            for file in self.files:
                file.sync()
        except DiskFailed as error:
            self.error = error
        self.is_run = True


class Syncing:
    """Which segments have something that is not safe, and up to where everything is."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._unsafe: set[int] = set()
        self._jobs: deque[SyncJob] = deque()
        self.durable = log.end
        """Messages up to this position of the log are safe from a loss of power."""

    def note(self, start: int) -> None:
        """Take note that a segment was written to."""
        self._unsafe.add(start)

    @property
    def unsafe(self) -> frozenset[int]:
        """The segments that are not safe, or of which it is not known yet: their files must stay open."""
        return frozenset(self._unsafe).union(*(job.starts for job in self._jobs))

    def begin(self, *, again: bool = False) -> SyncJob:
        """Return what has to be synced for all that is flushed now; ``again`` counts on no job that is under way."""
        starts = self.unsafe if again else frozenset(self._unsafe)
        self._unsafe.clear()
        if again:
            self._jobs.clear()
        segments = [segment for segment in self._log.segments if segment.start in starts]
        job = SyncJob(self._log.end, [segment.file for segment in segments], starts=starts)
        self._jobs.append(job)
        return job

    def end(self, job: SyncJob) -> None:
        """Take note that a job is over; it counts once those before it are over too, and went well."""
        job.is_over = True
        while self._jobs and self._jobs[0].is_over:
            first = self._jobs.popleft()
            if first.error is not None or not first.is_run:
                self._unsafe.update(first.starts, *(later.starts for later in self._jobs))
                self._jobs.clear()
            else:
                self.durable = max(self.durable, first.end)
