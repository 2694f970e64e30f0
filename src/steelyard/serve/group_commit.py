"""One sync for all who wait, in a thread of its own, so that the event loop never stands still for a disk.

Whoever wants to know that a message is safe waits for its end in the log. While a sync runs, others gather; when it is
over, all whose messages it covered are told at once, and the next one starts for the rest. All methods are called on
the loop's thread; only `SyncJob.run` happens elsewhere.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from steelyard.store.store import Store
from steelyard.store.syncing import SyncJob

__all__ = ["GroupCommit"]


class GroupCommit:
    """Tells waiters when their messages are safe.

    ``call_soon`` runs a function on the loop's thread, from any thread: an event loop's ``call_soon_threadsafe``.
    """

    def __init__(self, store: Store, worker: Executor, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._store, self._worker, self._call_soon = store, worker, call_soon
        self._waiting: list[tuple[int, Callable[[bool], None]]] = []
        self._is_running = False

    def wait(self, end: int, tell: Callable[[bool], None]) -> None:
        """Call ``tell`` once everything before a position of the log is safe, or never will be."""
        if self._store.refusal is not None or end <= self._store.durable:
            tell(self._store.refusal is None)
            return
        self._waiting.append((end, tell))
        self._start()

    def sync(self) -> None:
        """Start a sync if none runs, whether anybody waits or not: what an interval does."""
        if not self._is_running and self._store.refusal is None:
            self._run()

    def _start(self) -> None:
        if self._waiting and not self._is_running:
            self._run()

    def _run(self) -> None:
        self._is_running = True
        job = self._store.begin_sync()
        self._worker.submit(job.run).add_done_callback(lambda done: self._call_soon(lambda: self._finished(job, done)))

    def _finished(self, job: SyncJob, done: "Future[None]") -> None:
        self._is_running = False
        done.result()  # a job keeps what the disk said; anything else is a bug and must be seen
        self._store.end_sync(job)
        durable, failed = self._store.durable, self._store.refusal is not None
        waiting, self._waiting = self._waiting, []
        for end, tell in waiting:
            if failed or end <= durable:
                tell(not failed)
            else:
                self._waiting.append((end, tell))
        self._start()
