"""A name server process: its port, its core, and the file of its key-value configuration."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from steelyard.errors import StoreError
from steelyard.nameserver.name_server import NameServerCore
from steelyard.nameserver.options import NameServerOptions
from steelyard.net.clock import awake_ms
from steelyard.net.event_loop import PeriodicTimer
from steelyard.net.limits import ConnectionLimits
from steelyard.net.server import RemotingServer, Replies, TcpListener
from steelyard.store.disk import DirectoryLock, Disk, replace_file
from steelyard.wire.command import Command, Peer

_log = logging.getLogger("steelyard.nameserver")

_TICK_MS = 1_000
_SETTINGS_PATH = "kvConfig.json"
_LOCK_PATH = "lock"


class RunningNameServer:
    """A name server on a bound port. Make one with `start`, on a running loop."""

    def __init__(
        self,
        core: NameServerCore,
        disk: Disk | None,
        lock: DirectoryLock | None,
        listener: TcpListener,
        limits: ConnectionLimits | None = None,
        clock: Callable[[], int] = awake_ms,
    ) -> None:
        self._core, self._disk, self._lock, self._listener = core, disk, lock, listener
        self.address = listener.address
        self.server = RemotingServer(self, asyncio.get_running_loop(), limits, name="name server", clock=clock)
        self._timer = PeriodicTimer(_TICK_MS, self._tick)
        self._save_task: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        listener: TcpListener,
        *,
        options: NameServerOptions | None = None,
        disk: Disk | None = None,
        limits: ConnectionLimits | None = None,
        clock: Callable[[], int] = awake_ms,
    ) -> "RunningNameServer":
        """Accept connections; with a disk, its configuration survives a restart."""
        lock: DirectoryLock | None = None
        try:
            lock = disk.lock(_LOCK_PATH) if disk is not None else None
            saved = disk.read(_SETTINGS_PATH) if disk is not None else None
            server = NameServerCore(replace(options or NameServerOptions(), port=listener.port), saved=saved)
        except BaseException:
            listener.close()
            if lock is not None:
                lock.release()
            raise
        running = cls(server, disk, lock, listener, limits, clock)
        listener.start_accepting(running.server)
        running._timer.start()
        return running

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Handle a command of a connection."""
        return self._core.handle(command, peer, now_ms)

    def flush(self, now_ms: int) -> Replies:
        """Finish a read: a name server answers everything at once."""
        del now_ms
        return ()

    def tick(self, now_ms: int) -> Replies:
        """Do what is due."""
        return self._core.tick(now_ms)

    def connection_closed(self, peer: Peer, now_ms: int) -> Replies:
        """Handle the end of a connection."""
        return self._core.connection_closed(peer, now_ms)

    def client_peers(self) -> list[Peer]:
        """Return the peers that are not brokers."""
        return [peer for peer in self.server.peers() if not self._core.is_broker(peer)]

    def _tick(self) -> None:
        self.server.tick()
        self.server.sweep()
        if self._core.has_unsaved_changes and (self._save_task is None or self._save_task.done()):
            self._save_task = asyncio.get_running_loop().create_task(
                asyncio.to_thread(self._save, self._core.export_state())
            )

    def _save(self, state: bytes) -> None:
        if self._disk is not None:
            try:
                replace_file(self._disk, _SETTINGS_PATH, state)
            except StoreError as error:
                _log.warning("the name server's settings could not be saved: %s", error)

    async def stop(self) -> None:
        """Save the configuration, close all connections, release port and directory."""
        if self._save_task is not None:
            await self._save_task
        if self._core.has_unsaved_changes:
            self._save(self._core.export_state())
        await self.kill()

    async def kill(self) -> None:
        """Abort all connections, release port and directory; nothing is written."""
        self._timer.stop()
        self._listener.close()
        self.server.abort()
        await self._listener.wait_closed()
        await asyncio.sleep(0)
        if self._lock is not None:
            self._lock.release()
