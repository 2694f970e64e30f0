"""A broker process: its ports, its core, its disk threads and its connections to the name servers.

The core decides. This calls it for each command and each read, ticks it twenty times a second and logs its warnings.
`_DiskWorker` runs syncs and saves, each kind in a thread of its own. One sync runs at a time (group commit): requests
that arrive meanwhile wait for the next one, and each sync answers all requests that it covers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from steelyard.broker.broker import BrokerCore, Replies, SaveJob
from steelyard.broker.options import BrokerOptions
from steelyard.errors import StoreError
from steelyard.metrics.families import Histogram
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.clock import steady_ms, steady_ns
from steelyard.net.event_loop import PeriodicTimer
from steelyard.net.limits import ConnectionLimits
from steelyard.net.server import RemotingServer, TcpListener
from steelyard.serve.registration import NameServerRegistration
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions
from steelyard.store.sync import SyncJob
from steelyard.wire.command import Command, Peer
from steelyard.wire.hosts import host_bytes


def _run_sync_timed(job: SyncJob) -> None:
    began_ns = steady_ns()
    job.run()
    job.took_ms = (steady_ns() - began_ns) / 1_000_000


class _DiskWorker:
    """The disk threads of one broker. All methods are called on the loop's thread."""

    def __init__(self, broker: BrokerCore, send_replies: Callable[[Replies], None], clock: Callable[[], int]) -> None:
        self._broker, self._send_replies, self._clock = broker, send_replies, clock
        self._loop = asyncio.get_running_loop()
        self._sync_executor = ThreadPoolExecutor(1, f"sync-{broker.state.options.name}")
        self._save_executor = ThreadPoolExecutor(1, f"save-{broker.state.options.name}")
        self._running: set[asyncio.Future[None]] = set()
        self._is_syncing = self._is_finished = False

    def sync(self, now_ms: int) -> None:
        """Start a sync if one is due and none runs."""
        if self._is_syncing or self._is_finished or not self._broker.is_sync_due(now_ms):
            return
        job = self._broker.begin_sync(now_ms)
        if job.files:
            self._is_syncing = True
            self._submit(self._sync_executor, partial(_run_sync_timed, job), partial(self._synced, job))
        else:
            job.run()  # nothing to sync needs no thread
            self._send_replies(self._broker.end_sync(job))

    def _synced(self, job: SyncJob) -> None:
        self._is_syncing = False
        self._send_replies(self._broker.end_sync(job))
        self.sync(self._clock())

    def save(self, now_ms: int) -> None:
        """Start the saves that are due."""
        if not self._is_finished:
            for job in self._broker.due_saves(now_ms):
                self._submit(self._save_executor, job.run, partial(self._saved, job))

    def _saved(self, job: SaveJob) -> None:
        self._broker.save_finished(job, self._clock())

    def _submit(self, executor: ThreadPoolExecutor, run: Callable[[], None], on_done: Callable[[], None]) -> None:
        running = self._loop.run_in_executor(executor, run)
        self._running.add(running)

        def done(over: "asyncio.Future[None]") -> None:
            self._running.discard(over)
            if not over.cancelled():
                over.result()  # a job keeps errors of the disk; anything else is a bug and must be seen
                on_done()

        running.add_done_callback(done)

    async def finish(self) -> None:
        """Wait for the running jobs, and start no more."""
        self._is_finished = True
        if self._running:
            await asyncio.wait(set(self._running))
            await asyncio.sleep(0)  # let the callbacks of the jobs run
        self._sync_executor.shutdown()
        self._save_executor.shutdown()


_log = logging.getLogger("steelyard.broker")

_TICK_MS = 50
_SWEEP_MS = 1_000
_MIN_CLOCK_JUMP_MS = 1_000
_MAX_CLOCK_DRIFT_MS = 5
"""What a clock that NTP slews may gain between two ticks: that is no jump."""
_MILLISECOND_NS = 1_000_000
_LOOP_LAG_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
# How long connections may take to read their last responses when the broker stops.
_CLOSE_TIMEOUT_MS = 300


class RunningBroker:
    """A broker on a bound port. Make one with `start`, on a running loop."""

    def __init__(
        self,
        broker: BrokerCore,
        listener: TcpListener,
        name_servers: Iterable[str],
        limits: ConnectionLimits | None = None,
        clock: Callable[[], int] = read_clock,
        vip_listener: TcpListener | None = None,
    ) -> None:
        self.broker, self._clock = broker, clock
        self._listeners = (listener,) if vip_listener is None else (listener, vip_listener)
        self.name, self.address = broker.state.options.name, broker.state.options.address
        self._topics = broker.state.topics
        self._topics_changed = False
        """Whether the current read created or deleted a topic."""
        self.server = RemotingServer(self, asyncio.get_running_loop(), limits, name=self.name, clock=clock)
        self._registration = NameServerRegistration(broker, name_servers, clock)
        self._disk_worker = _DiskWorker(broker, self._send_when_registered, clock)
        self._timers = (PeriodicTimer(_TICK_MS, self._tick), PeriodicTimer(_SWEEP_MS, self.server.sweep))
        self.loop_lag = Histogram(_LOOP_LAG_BOUNDS_S)
        """How many seconds late each tick was: everything on this loop waits that long."""
        self._due_ns = steady_ns() + _TICK_MS * _MILLISECOND_NS
        self._ticked_ms, self._ahead_of_steady_ms = clock(), clock() - steady_ms()
        """When the last tick was, and how far the clock was ahead of the monotonic one."""

    @classmethod
    async def start(
        cls,
        options: BrokerOptions,
        disk: Disk,
        listener: TcpListener,
        *,
        vip_listener: TcpListener | None = None,
        name_servers: Iterable[str] = (),
        store_options: StoreOptions | None = None,
        limits: ConnectionLimits | None = None,
        clock: Callable[[], int] = read_clock,
        on_start: "Callable[[RunningBroker], None] | None" = None,
    ) -> "RunningBroker":
        """Open the directory, accept connections, register. The port is the listener's, whatever the options say.

        ``vip_listener`` is a second port of the same broker, for Java clients that use a VIP channel. ``on_start`` is
        called with the broker before it accepts connections.
        """
        try:
            options = replace(options, port=listener.port)
            kept = replace(store_options or StoreOptions(), store_host=host_bytes(options.address))
            # In a thread: recovering a long log takes time, and other servers share the loop.
            began_ms = steady_ms()
            broker = await asyncio.to_thread(BrokerCore.open, options, disk, kept, now_ms=clock())
            broker.state.open_duration_ms = steady_ms() - began_ms
        except BaseException:
            listener.close()
            if vip_listener is not None:
                vip_listener.close()
            raise
        running = cls(broker, listener, name_servers, limits, clock, vip_listener)
        if on_start is not None:
            on_start(running)
        for each_listener in running._listeners:
            each_listener.start_accepting(running.server)
        for each in running._timers:
            each.start()
        await running._registration.start()
        running._log_notes()
        return running

    # -- ServerCore ---------------------------------------------------------------------------------------------------

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Handle a command; one that creates or deletes a topic is answered once the name servers know."""
        if now_ms - self._ticked_ms > _MIN_CLOCK_JUMP_MS:
            self._detect_clock_jump(now_ms)  # before this command finds members and locks that only seem to be expired
        changes = self._topics.changes
        replies = self.broker.handle(command, peer, now_ms)
        if changes == self._topics.changes:
            return replies
        self._topics_changed = True
        self._send_when_registered(replies)
        return ()

    def flush(self, now_ms: int) -> Replies:
        """Finish a read, and start a sync if a request waits for one."""
        replies = self.broker.flush(now_ms)
        if self.broker.state.unsynced_acks:
            self._disk_worker.sync(now_ms)
        if self._topics_changed:
            # One of these replies may be to a send that created its topic.
            self._topics_changed = False
            self._send_when_registered(replies)
            return ()
        return replies

    def _send_when_registered(self, replies: Replies) -> None:
        """Hold replies until the name servers know the topics; send them at once if they do."""
        if replies:
            self._registration.run_when_registered(lambda: self.server.send_replies(replies))

    def tick(self, now_ms: int) -> Replies:
        """Do what is due."""
        return self.broker.tick(now_ms)

    def connection_closed(self, peer: Peer, now_ms: int) -> Replies:
        """Handle the end of a connection."""
        return self.broker.connection_closed(peer, now_ms)

    # -- timers, clock, end -------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._detect_clock_jump(self._clock())
        began_ns = steady_ns()
        self.loop_lag.add(max(0, began_ns - self._due_ns) / 1e9)
        self._due_ns = began_ns + _TICK_MS * _MILLISECOND_NS
        self._ticked_ms = self._clock()
        self.server.tick()
        now_ms = self._clock()
        self._disk_worker.sync(now_ms)
        self._disk_worker.save(now_ms)
        self._registration.tick(now_ms)
        if self.broker.state.warnings:
            self._log_notes()

    def _log_notes(self) -> None:
        notes = self.broker.state.warnings
        while notes:
            _log.warning("%s: %s", self.name, notes.pop(0))

    def _detect_clock_jump(self, now_ms: int) -> None:
        """Detect that the clock was set forward: no member is late and no lease expires because of that.

        A machine that slept is different: the holders of leases count that time, too.
        """
        lead_ms = now_ms - steady_ms()
        missed_ms = lead_ms - self._ahead_of_steady_ms
        if missed_ms > _MIN_CLOCK_JUMP_MS:
            _log.warning("%s: the clock was set forward by %.1f s", self.name, missed_ms / 1_000)
            self._shift_deadlines(missed_ms, now_ms)
        else:
            self._ahead_of_steady_ms += min(missed_ms, _MAX_CLOCK_DRIFT_MS)

    def _shift_deadlines(self, missed_ms: int, now_ms: int) -> None:
        self._ahead_of_steady_ms += missed_ms
        self.server.shift_deadlines(missed_ms)
        self.broker.clock_advanced(missed_ms, now_ms)

    def clock_advanced(self, missed_ms: int) -> None:
        """Do what is due after the clock was advanced; no connected client expires because of that."""
        self._shift_deadlines(missed_ms, self._clock())
        store = self.broker.state.store
        end = -1
        while store.end != end:  # one tick delivers a limited number of messages
            end = store.end
            self.server.tick()

    async def stop(self) -> None:
        """Unregister, send the last responses, write everything, release port and directory."""
        self._stop_timers_and_listeners()
        await self._registration.unregister()
        self.server.send_replies(self.broker.flush(self._clock()))
        await self._disk_worker.finish()
        self.server.send_replies(self.broker.notify_stopping())
        self.server.close("the broker stops")
        end_ms = steady_ms() + _CLOSE_TIMEOUT_MS
        while len(self.server) and steady_ms() < end_ms:
            await asyncio.sleep(0.005)
        self.server.abort()
        await self._wait_listeners_closed()
        await asyncio.sleep(0)
        try:
            await asyncio.to_thread(self.broker.close, self._clock())
        except StoreError as error:
            # Everything confirmed is in the log, so a full or failing disk is no reason not to stop.
            self.broker.state.warnings.append(f"not closed cleanly, the next start scans the whole log: {error}")
        self._log_notes()

    async def kill(self) -> None:
        """Stop as a crash does: nothing is sent or written; the directory is free afterwards."""
        self._stop_timers_and_listeners()
        self._registration.close()
        self.server.abort()
        await self._disk_worker.finish()
        await self._wait_listeners_closed()
        await asyncio.sleep(0)  # connections release their views of the log
        self.broker.state.store.abandon()

    def _stop_timers_and_listeners(self) -> None:
        for each in self._timers:
            each.stop()
        for listener in self._listeners:
            listener.close()

    async def _wait_listeners_closed(self) -> None:
        for listener in self._listeners:
            await listener.wait_closed()
