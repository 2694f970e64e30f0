"""One broker that runs: its port, its core, its disk, and its lines to the name servers.

The core decides; here is the loop that asks it. It is asked for each command and each read, ticks twenty times a
second, and what it says to whoever runs it goes to the log.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from steelyard.broker.core import Broker, Replies
from steelyard.broker.options import BrokerOptions
from steelyard.errors import StoreError
from steelyard.model.buckets import Buckets
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.clock import steady_ms, steady_ns
from steelyard.net.limits import LineLimits
from steelyard.net.listener import Listener
from steelyard.net.switchboard import Switchboard
from steelyard.serve.announcing import Announcer
from steelyard.serve.disk_work import DiskWork
from steelyard.serve.rounds import Round
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions
from steelyard.wire.command import Command
from steelyard.wire.hosts import host_bytes
from steelyard.wire.peers import Peer

__all__ = ["RunningBroker"]

_log = logging.getLogger("steelyard.broker")

_TICK_MS = 50
_SWEEP_MS = 1_000
_JUMP_MS = 1_000
_DRIFT_MS = 5
"""What a clock that is corrected bit by bit, as by NTP, may gain between two ticks: that is no jump."""
_MILLISECOND_NS = 1_000_000
_LAG_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
# How long lines may take to take their last answers when the broker stops.
_GOODBYE_MS = 300


class RunningBroker:
    """A broker on a port that was bound before. Make one with `start`, on a running loop."""

    def __init__(
        self,
        broker: Broker,
        listener: Listener,
        name_servers: Iterable[str],
        limits: LineLimits | None = None,
        clock: Callable[[], int] = read_clock,
        vip: Listener | None = None,
    ) -> None:
        self.broker, self._clock = broker, clock
        self._listeners = (listener,) if vip is None else (listener, vip)
        self.name, self.address = broker.state.options.name, broker.state.options.address
        self._topics = broker.state.topics
        self._is_changed = False
        """Whether the read at hand made or removed a topic."""
        self.board = Switchboard(self, asyncio.get_running_loop(), limits, name=self.name, clock=clock)
        self._announcer = Announcer(broker, name_servers, clock)
        self._disk_work = DiskWork(broker, self._hold, clock)
        self._rounds = (Round(_TICK_MS, self._tick), Round(_SWEEP_MS, self.board.sweep))
        self.loop_lag = Buckets(_LAG_BOUNDS_MS)
        """How many milliseconds later than it was due each tick came: all that runs on this loop waits so long."""
        self._due_ns = steady_ns() + _TICK_MS * _MILLISECOND_NS
        self._ticked_ms, self._lead_ms = clock(), clock() - steady_ms()
        """When the last tick was, and how far the clock was ahead of one that nobody can set."""

    @classmethod
    async def start(
        cls,
        options: BrokerOptions,
        disk: Disk,
        listener: Listener,
        *,
        vip: Listener | None = None,
        name_servers: Iterable[str] = (),
        store_options: StoreOptions | None = None,
        limits: LineLimits | None = None,
        clock: Callable[[], int] = read_clock,
        attend: "Callable[[RunningBroker], None] | None" = None,
    ) -> "RunningBroker":
        """Open the directory, take lines, register. The options' port is that of the listener, whatever they say.

        ``vip`` is a second port at which the same broker listens, for Java's clients that want a VIP channel.
        ``attend`` is called with the broker before it takes lines.
        """
        try:
            options = replace(options, port=listener.port)
            kept = replace(store_options or StoreOptions(), store_host=host_bytes(options.address))
            # In a thread: a long log that was not closed takes its time, and others share the loop.
            began_ms = steady_ms()
            broker = await asyncio.to_thread(Broker.open, options, disk, kept, now_ms=clock())
            broker.state.opening_ms = steady_ms() - began_ms
        except BaseException:
            listener.close()
            if vip is not None:
                vip.close()
            raise
        running = cls(broker, listener, name_servers, limits, clock, vip)
        if attend is not None:
            attend(running)
        for listens in running._listeners:
            listens.start(running.board)
        for each in running._rounds:
            each.start()
        await running._announcer.start()
        running._say_notes()
        return running

    # -- what the lines want of a core --------------------------------------------------------------------------------

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Take a command; who makes or removes a topic hears of it after the name servers did."""
        if now_ms - self._ticked_ms > _JUMP_MS:
            self._excuse_jump(now_ms)  # before this command sees members and locks that only seem to be late
        changes = self._topics.changes
        replies = self.broker.handle(command, peer, now_ms)
        if changes == self._topics.changes:
            return replies
        self._is_changed = True
        self._hold(replies)
        return ()

    def flush(self, now_ms: int) -> Replies:
        """Finish a read, and start a sync if somebody waits for one."""
        replies = self.broker.flush(now_ms)
        self._disk_work.sync(now_ms)
        if self._is_changed:
            # A send that made its topic is among those that are answered now.
            self._is_changed = False
            self._hold(replies)
            return ()
        return replies

    def _hold(self, replies: Replies) -> None:
        """Keep replies back until the name servers know the topics: not at all, if they do."""
        if replies:
            self._announcer.hold(lambda: self.board.post(replies))

    def tick(self, now_ms: int) -> Replies:
        """Do what is due."""
        return self.broker.tick(now_ms)

    def closed(self, peer: Peer, now_ms: int) -> Replies:
        """Take note that a line is gone."""
        return self.broker.closed(peer, now_ms)

    # -- its life -----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._excuse_jump(self._clock())
        began_ns = steady_ns()
        self.loop_lag.add(max(0, began_ns - self._due_ns) / _MILLISECOND_NS)
        self._due_ns = began_ns + _TICK_MS * _MILLISECOND_NS
        self._ticked_ms = self._clock()
        self.board.tick()
        now_ms = self._clock()
        self._disk_work.sync(now_ms)
        self._disk_work.save(now_ms)
        self._announcer.tick(now_ms)
        if self.broker.state.notes:
            self._say_notes()

    def _say_notes(self) -> None:
        notes = self.broker.state.notes
        while notes:
            _log.warning("%s: %s", self.name, notes.pop(0))

    def _excuse_jump(self, now_ms: int) -> None:
        """See whether the day was set forward: nobody who is there is late by that, and no lease is over.

        A machine that slept is another thing: those who hold leases count that time too.
        """
        lead_ms = now_ms - steady_ms()
        missed_ms = lead_ms - self._lead_ms
        if missed_ms > _JUMP_MS:
            _log.warning("%s: the clock was set forward by %.1f s", self.name, missed_ms / 1_000)
            self._excuse(missed_ms, now_ms)
        else:
            self._lead_ms += min(missed_ms, _DRIFT_MS)

    def _excuse(self, missed_ms: int, now_ms: int) -> None:
        self._lead_ms += missed_ms
        self.board.excuse(missed_ms)
        self.broker.put_forward(missed_ms, now_ms)

    def put_forward(self, missed_ms: int) -> None:
        """Do what is due now that the clock was put forward by so much; nobody who is there is late by that."""
        self._excuse(missed_ms, self._clock())
        store = self.broker.state.store
        end = -1
        while store.end != end:  # a tick does no more than so much
            end = store.end
            self.board.tick()

    async def stop(self) -> None:
        """Say goodbye to name servers and lines, write everything, let go of port and directory."""
        self._halt()
        self.board.slow_down(0)
        await self._announcer.leave()
        self.board.post(self.broker.flush(self._clock()))
        await self._disk_work.finish()
        self.board.post(self.broker.dismiss())
        self.board.close("the broker stops")
        end_ms = steady_ms() + _GOODBYE_MS
        while len(self.board) and steady_ms() < end_ms:
            await asyncio.sleep(0.005)
        self.board.drop()
        await self._listened()
        await asyncio.sleep(0)
        try:
            await asyncio.to_thread(self.broker.close, self._clock())
        except StoreError as error:
            # All that was answered for is in the log: a disk that is full or fails is no reason not to stop.
            self.broker.state.notes.append(f"not closed in order, the next start reads the whole log: {error}")
        self._say_notes()

    async def kill(self) -> None:
        """Stop as a crash does: no goodbye, nothing written; the directory is free afterwards."""
        self._halt()
        self._announcer.drop()
        self.board.drop()
        await self._disk_work.finish()
        await self._listened()
        await asyncio.sleep(0)  # lines let go of what they still had of the log
        self.broker.state.store.abandon()

    def _halt(self) -> None:
        for each in self._rounds:
            each.stop()
        for listener in self._listeners:
            listener.close()

    async def _listened(self) -> None:
        for listener in self._listeners:
            await listener.closed()
