"""One name server that runs: its port, its core, and the file of its settings."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from steelyard.errors import StoreError
from steelyard.nameserver.core import NameServer
from steelyard.nameserver.options import NameServerOptions
from steelyard.net.clock import awake_ms
from steelyard.net.core import Replies
from steelyard.net.limits import LineLimits
from steelyard.net.listener import Listener
from steelyard.net.switchboard import Switchboard
from steelyard.serve.rounds import Round
from steelyard.store.disk import Disk, Lock
from steelyard.store.replace import replace_file
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["RunningNameServer"]

_log = logging.getLogger("steelyard.nameserver")

_TICK_MS = 1_000
_SETTINGS_PATH = "kvConfig.json"
_LOCK_PATH = "lock"


class RunningNameServer:
    """A name server on a port that was bound before. Make one with `start`, on a running loop."""

    def __init__(
        self,
        server: NameServer,
        disk: Disk | None,
        lock: Lock | None,
        listener: Listener,
        limits: LineLimits | None = None,
        clock: Callable[[], int] = awake_ms,
    ) -> None:
        self._server, self._disk, self._lock, self._listener = server, disk, lock, listener
        self.address = listener.address
        self.board = Switchboard(self, asyncio.get_running_loop(), limits, name="name server", clock=clock)
        self._round = Round(_TICK_MS, self._tick)
        self._saving: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        listener: Listener,
        *,
        options: NameServerOptions | None = None,
        disk: Disk | None = None,
        limits: LineLimits | None = None,
        clock: Callable[[], int] = awake_ms,
    ) -> "RunningNameServer":
        """Take lines; with a disk, its settings outlive it."""
        lock: Lock | None = None
        try:
            lock = disk.lock(_LOCK_PATH) if disk is not None else None
            saved = disk.read(_SETTINGS_PATH) if disk is not None else None
            server = NameServer(
                replace(options or NameServerOptions(), port=listener.port), now_ms=clock(), saved=saved
            )
        except BaseException:
            listener.close()
            if lock is not None:
                lock.release()
            raise
        running = cls(server, disk, lock, listener, limits, clock)
        listener.start(running.board)
        running._round.start()
        return running

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Take a command of a line."""
        return self._server.handle(command, peer, now_ms)

    def flush(self, now_ms: int) -> Replies:
        """Finish a read: a name server answers everything at once."""
        del now_ms
        return ()

    def tick(self, now_ms: int) -> Replies:
        """Do what is due."""
        return self._server.tick(now_ms)

    def closed(self, peer: Peer, now_ms: int) -> Replies:
        """Take note that a line is gone."""
        return self._server.closed(peer, now_ms)

    def clients(self) -> list[Peer]:
        """List who is on a line and is no broker."""
        return [peer for peer in self.board.peers() if not self._server.is_broker(peer)]

    def _tick(self) -> None:
        self.board.tick()
        self.board.sweep()
        if self._server.is_changed and (self._saving is None or self._saving.done()):
            self._saving = asyncio.get_running_loop().create_task(asyncio.to_thread(self._save, self._server.state()))

    def _save(self, state: bytes) -> None:
        if self._disk is not None:
            try:
                replace_file(self._disk, _SETTINGS_PATH, state)
            except StoreError as error:
                _log.warning("the name server's settings could not be saved: %s", error)

    async def stop(self) -> None:
        """Write the settings, close the lines, let go of port and directory."""
        if self._saving is not None:
            await self._saving
        if self._server.is_changed:
            self._save(self._server.state())
        await self.kill()

    async def kill(self) -> None:
        """Cut all lines and let go of port and directory; nothing is written."""
        self._round.stop()
        self._listener.close()
        self.board.drop()
        await self._listener.closed()
        await asyncio.sleep(0)
        if self._lock is not None:
            self._lock.release()
