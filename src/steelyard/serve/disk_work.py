"""What a broker wants of its disk and nobody should wait for: syncs and saves, each kind in a thread of its own.

One sync runs at a time. While it runs others gather who wait for the disk; when it is over, all whom it covered are
answered at once, and the next one starts for the rest.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from steelyard.broker.core import Broker, Replies
from steelyard.broker.saving import Save
from steelyard.net.clock import steady_ns
from steelyard.store.syncing import SyncJob

__all__ = ["DiskWork"]


def _run_timed(job: SyncJob) -> None:
    began_ns = steady_ns()
    job.run()
    job.took_ms = (steady_ns() - began_ns) / 1_000_000


class DiskWork:
    """The threads of one broker. All methods are called on the loop's thread."""

    def __init__(self, broker: Broker, post: Callable[[Replies], None], clock: Callable[[], int]) -> None:
        self._broker, self._post, self._clock = broker, post, clock
        self._loop = asyncio.get_running_loop()
        self._syncer = ThreadPoolExecutor(1, f"sync-{broker.state.options.name}")
        self._saver = ThreadPoolExecutor(1, f"save-{broker.state.options.name}")
        self._running: set[asyncio.Future[None]] = set()
        self._is_syncing = self._is_over = False

    def sync(self, now_ms: int) -> None:
        """Start a sync if one is wanted and none runs."""
        if self._is_syncing or self._is_over or not self._broker.wants_sync(now_ms):
            return
        job = self._broker.begin_sync(now_ms)
        if job.files:
            self._is_syncing = True
            self._start(self._syncer, partial(_run_timed, job), partial(self._synced, job))
        else:
            job.run()  # nothing to do takes no thread
            self._post(self._broker.end_sync(job))

    def _synced(self, job: SyncJob) -> None:
        self._is_syncing = False
        self._post(self._broker.end_sync(job))
        self.sync(self._clock())

    def save(self, now_ms: int) -> None:
        """Start the saves that are due."""
        if not self._is_over:
            for job in self._broker.saves(now_ms):
                self._start(self._saver, job.run, partial(self._saved, job))

    def _saved(self, job: Save) -> None:
        self._broker.saved(job, self._clock())

    def _start(self, worker: ThreadPoolExecutor, run: Callable[[], None], then: Callable[[], None]) -> None:
        running = self._loop.run_in_executor(worker, run)
        self._running.add(running)

        def done(over: "asyncio.Future[None]") -> None:
            self._running.discard(over)
            if not over.cancelled():
                over.result()  # a job keeps what the disk said; anything else is a bug and must be seen
                then()

        running.add_done_callback(done)

    async def finish(self) -> None:
        """Wait for what runs, and start nothing more."""
        self._is_over = True
        if self._running:
            await asyncio.wait(set(self._running))
            await asyncio.sleep(0)  # for what is done when a job is over
        self._syncer.shutdown()
        self._saver.shutdown()
