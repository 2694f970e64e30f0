"""Group commit: one sync makes everything durable that was flushed before it.

The store returns what to sync (`SyncJob`), a thread of the shell runs it, and the store gets the result. A job touches
nothing but files, so it can run beside appends. Jobs count in the order they were begun, so that a later one never
vouches for files that an earlier one has not finished. After one failed sync the contents of the disk are unknown, and
later successes prove nothing.
"""

from collections import deque
from dataclasses import dataclass, field

from steelyard.errors import DiskFailed
from steelyard.store.commit_log import CommitLog
from steelyard.store.disk import File


@dataclass(slots=True, eq=False)
class SyncJob:
    """Files to sync, and the log position up to which everything is durable afterwards."""

    end: int
    files: list[File] = field(default_factory=list)
    error: DiskFailed | None = None
    segment_starts: frozenset[int] = frozenset()
    """The segments that the files belong to."""
    has_run: bool = False
    is_finished: bool = False
    took_ms: float | None = None
    """How long it ran, if the caller measured it."""

    def run(self) -> None:
        """Sync all files; may be called in another thread. An error is stored, not raised."""
        try:
            for file in self.files:
                file.sync()
        except DiskFailed as error:
            self.error = error
        self.has_run = True


class SyncTracker:
    """Which segments have unsynced bytes, and up to which position everything is durable."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._unsynced: set[int] = set()
        self._jobs: deque[SyncJob] = deque()
        self.durable = log.end
        """Messages up to this log position survive a power loss."""

    def mark_written(self, start: int) -> None:
        """Record that a segment was written to."""
        self._unsynced.add(start)

    @property
    def unsynced_segments(self) -> frozenset[int]:
        """The segments that are not synced, or whose sync is still running: their files must stay open."""
        return frozenset(self._unsynced).union(*(job.segment_starts for job in self._jobs))

    def begin(self, *, include_running: bool = False) -> SyncJob:
        """Return the sync of everything flushed so far; ``include_running`` repeats what running jobs sync."""
        starts = self.unsynced_segments if include_running else frozenset(self._unsynced)
        self._unsynced.clear()
        if include_running:
            self._jobs.clear()
        segments = [segment for segment in self._log.segments if segment.start in starts]
        job = SyncJob(self._log.end, [segment.file for segment in segments], segment_starts=starts)
        self._jobs.append(job)
        return job

    def end(self, job: SyncJob) -> None:
        """Finish a job; it counts once all jobs before it have succeeded."""
        job.is_finished = True
        while self._jobs and self._jobs[0].is_finished:
            first = self._jobs.popleft()
            if first.error is not None or not first.has_run:
                self._unsynced.update(first.segment_starts, *(later.segment_starts for later in self._jobs))
                self._jobs.clear()
            else:
                self.durable = max(self.durable, first.end)
