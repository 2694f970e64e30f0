"""A server of a core that tests play with, on a real loop and real sockets; its clock and its sweeps are the test's."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from steelyard.net.limits import LineLimits
from steelyard.net.listener import Listener
from steelyard.net.switchboard import Switchboard
from steelyard.wire.command import Command, answer_to
from steelyard.wire.frames import Splitter, encode_frame
from steelyard.wire.peers import Hangup, Peer, Reply

__all__ = ["ECHO", "HANG_UP", "RAISE", "SHOUT", "SILENT", "Caller", "Served", "ToyCore", "run", "served", "until"]

ECHO, SHOUT, RAISE, HANG_UP, SILENT = 1, 2, 3, 4, 5
"""Answer with the body; tell all peers the body; have a bug; close the line; answer nothing."""


class ToyCore:
    """A core that does what a request's code says."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.peers: dict[int, Peer] = {}
        self.gone: list[int] = []
        self.times: list[int] = []
        self.flushed = 0
        self.spent_ns = 0
        """How long all requests took: a clock that no busy machine makes go faster."""
        self.costs_ns = 0
        """What each request takes."""

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Sequence[Reply | Hangup]:
        self.seen.append(command.opaque)
        self.peers[peer.number] = peer
        self.times.append(now_ms)
        self.spent_ns += self.costs_ns
        if command.code == RAISE:
            raise ZeroDivisionError("a bug")
        if command.code == HANG_UP:
            return [Reply(peer, answer_to(command, 0, body=b"bye")), Hangup(peer, "it asked for it")]
        if command.code == SHOUT:
            return [Reply(each, Command(77, body=command.body)) for each in self.peers.values()]
        if command.code == SILENT:
            return ()
        return [Reply(peer, answer_to(command, 0, body=command.body * int(command.texts().get("times", "1"))))]

    def flush(self, now_ms: int) -> Sequence[Reply | Hangup]:
        del now_ms
        self.flushed += 1
        return ()

    def tick(self, now_ms: int) -> Sequence[Reply | Hangup]:
        self.times.append(now_ms)
        return ()

    def closed(self, peer: Peer, now_ms: int) -> Sequence[Reply | Hangup]:
        self.times.append(now_ms)
        self.peers.pop(peer.number, None)
        self.gone.append(peer.number)
        return ()


class Served:
    """A running server: its core, its switchboard, and a clock that stands still."""

    def __init__(self, limits: LineLimits) -> None:
        self.now_ms = 1_000_000
        self.core = ToyCore()
        self.board = Switchboard(
            self.core,
            asyncio.get_running_loop(),
            limits,
            clock=lambda: self.now_ms,
            elapsed_ns=lambda: self.core.spent_ns,
        )
        self.listener = Listener.bind("127.0.0.1", 0)
        self._callers: list[Caller] = []

    async def call(self) -> "Caller":
        """Open a line."""
        self._callers.append(caller := Caller(*await asyncio.open_connection("127.0.0.1", self.listener.port)))
        return caller

    async def stop(self) -> None:
        """Close everything."""
        self.listener.close()
        self.board.drop()
        for caller in self._callers:
            await caller.close()
        await until(lambda: len(self.board) == 0)

    def pass_ms(self, count: int) -> None:
        """Let time pass, then sweep."""
        self.now_ms += count
        self.board.sweep()


class Caller:
    """The other end of a line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._splitter = Splitter()
        self._arrived: list[Command] = []

    def write(self, *commands: Command) -> None:
        """Send commands."""
        self.writer.write(b"".join(map(encode_frame, commands)))

    async def read(self) -> Command:
        """Wait for the next command."""
        while not self._arrived:
            async with asyncio.timeout(20):
                received = await self.reader.read(1 << 16)
            assert received, "the line is closed"
            self._arrived += self._splitter.feed(received)
        return self._arrived.pop(0)

    async def ask(self, code: int, body: bytes = b"", opaque: int = 1) -> Command:
        """Ask, and return the next command that comes back."""
        self.write(Command(code, body=body, opaque=opaque))
        return await self.read()

    async def is_closed(self) -> bool:
        """Wait for the server to close the line; whatever it still sends is passed over."""
        try:
            arrived = b"."
            while arrived:
                async with asyncio.timeout(20):
                    arrived = await self.reader.read(1 << 20)
        except ConnectionError:
            return True
        return True

    async def close(self) -> None:
        """Hang up."""
        self.writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def served(limits: LineLimits | None = None) -> AsyncIterator[Served]:
    """Run a server, and stop it."""
    server = Served(limits or LineLimits())
    server.listener.start(server.board)
    try:
        yield server
    finally:
        await server.stop()


def run(make_loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    """Run a test on a loop of its own."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(work)


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is true, or fail."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.002)
