"""Making the log safe from a loss of power: one sync for all who wait.

The store says what to sync (`SyncJob`), a thread of the shell runs it, and the store is told. A job is a value of its
own so that it can run beside appends: it touches nothing but files. Once a sync has failed nobody knows what is on the
disk, and later successes prove nothing: the store takes no more writes.
"""

from dataclasses import dataclass, field

from steelyard.errors import DiskFailed
from steelyard.store.disk import File

__all__ = ["SyncJob"]


@dataclass(slots=True)
class SyncJob:
    """Files to be synced, and the position of the log up to which everything is safe afterwards."""

    end: int
    files: list[File] = field(default_factory=list)
    error: DiskFailed | None = None

    def run(self) -> None:
        """Sync all files; may be called in another thread. What went wrong is kept, not raised."""
        try:
            for file in self.files:
                file.sync()
        except DiskFailed as error:
            self.error = error
