"""A server with a core for tests, on a real loop and real sockets; the test owns its clock and its sweeps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from steelyard.net.limits import ConnectionLimits
from steelyard.net.server import RemotingServer, TcpListener
from steelyard.wire.command import CloseConnection, Command, Peer, Reply, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.waiting import LONGEST_S

ECHO, SHOUT, RAISE, HANG_UP, SILENT = 1, 2, 3, 4, 5
"""Answer with the body; tell all peers the body; have a bug; close the connection; answer nothing."""


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

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Sequence[Reply | CloseConnection]:
        self.seen.append(command.opaque)
        self.peers[peer.connection_id] = peer
        self.times.append(now_ms)
        self.spent_ns += self.costs_ns
        if command.code == RAISE:
            raise ZeroDivisionError("a bug")
        if command.code == HANG_UP:
            return [Reply(peer, response_to(command, 0, body=b"bye")), CloseConnection(peer, "it asked for it")]
        if command.code == SHOUT:
            return [Reply(each, Command(77, body=command.body)) for each in self.peers.values()]
        if command.code == SILENT:
            return ()
        return [Reply(peer, response_to(command, 0, body=command.body * int(command.texts().get("times", "1"))))]

    def flush(self, now_ms: int) -> Sequence[Reply | CloseConnection]:
        del now_ms
        self.flushed += 1
        return ()

    def tick(self, now_ms: int) -> Sequence[Reply | CloseConnection]:
        self.times.append(now_ms)
        return ()

    def connection_closed(self, peer: Peer, now_ms: int) -> Sequence[Reply | CloseConnection]:
        self.times.append(now_ms)
        self.peers.pop(peer.connection_id, None)
        self.gone.append(peer.connection_id)
        return ()


class ToyServer:
    """A running server: its core, its switchboard, and a clock that stands still."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.now_ms = 1_000_000
        self.core = ToyCore()
        self.remoting = RemotingServer(
            self.core,
            asyncio.get_running_loop(),
            limits,
            clock=lambda: self.now_ms,
            elapsed_ns=lambda: self.core.spent_ns,
        )
        self.listener = TcpListener.bind("127.0.0.1", 0)
        self._clients: list[ToyClient] = []

    async def connect(self) -> "ToyClient":
        """Open a connection."""
        self._clients.append(client := ToyClient(*await asyncio.open_connection("127.0.0.1", self.listener.port)))
        return client

    async def stop(self) -> None:
        """Close everything."""
        self.listener.close()
        self.remoting.abort()
        for client in self._clients:
            await client.close()
        await until(lambda: len(self.remoting) == 0)

    def pass_ms(self, count: int) -> None:
        """Let time pass, then sweep."""
        self.now_ms += count
        self.remoting.sweep()


class ToyClient:
    """The other end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._decoder = FrameDecoder()
        self._received: list[Command] = []

    def write(self, *commands: Command) -> None:
        """Send commands."""
        self.writer.write(b"".join(map(encode_frame, commands)))

    async def read(self) -> Command:
        """Wait for the next command."""
        while not self._received:
            async with asyncio.timeout(LONGEST_S):
                received = await self.reader.read(1 << 16)
            assert received, "the connection is closed"
            self._received += self._decoder.feed(received)
        return self._received.pop(0)

    async def request(self, code: int, body: bytes = b"", opaque: int = 1) -> Command:
        """Ask, and return the next command that comes back."""
        self.write(Command(code, body=body, opaque=opaque))
        return await self.read()

    async def is_closed(self) -> bool:
        """Wait for the server to close the connection; whatever it still sends is passed over."""
        try:
            arrived = b"."
            while arrived:
                async with asyncio.timeout(LONGEST_S):
                    arrived = await self.reader.read(1 << 20)
        except ConnectionError:
            return True
        return True

    async def close(self) -> None:
        """Hang up."""
        self.writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def toy_server(limits: ConnectionLimits | None = None) -> AsyncIterator[ToyServer]:
    """Run a server, and stop it."""
    server = ToyServer(limits or ConnectionLimits())
    server.listener.start_accepting(server.remoting)
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
    async with asyncio.timeout(LONGEST_S):
        while not true():
            await asyncio.sleep(0.002)
