"""A proxy between a client and a server: it cuts connections, refuses them, and delays or drops answers.

It knows frames, so whole answers are late or lost and the connection stays readable. It runs in a thread of its own,
and its switches may be turned from any thread. A `Detour` puts one before every broker of a cluster, and one before its
name server that tells the brokers' addresses as those of the proxies.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from steelyard.net.server import reserve_port
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command, decode_command

T = TypeVar("T")

_SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class Proxy:
    """One server's proxy. Start it, and give its `address` to a client."""

    def __init__(self, target: str, *, renames: Mapping[str, str] | None = None) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.renames = dict(renames or {})
        """What is replaced in answers by what: addresses, to lead a client elsewhere."""
        self.delay_ms = 0
        """How late each answer is."""
        self.swallows = False
        """Whether answers are dropped."""
        self.cuts_after_sends = 0
        """Cut the connection when so many more messages arrived, before the last is handed on; 0 is never."""
        self.on_send: Callable[[], None] | None = None
        """Called for each message that arrives, before it is handed on."""
        self.seen: list[Command] = []
        """The requests that came, in order."""
        self._answers: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Nobody else gets the port while it is refused here: another test's broker would accept the messages.
        self._reserved = reserve_port("127.0.0.1", 0)
        self._port = 0 if self._reserved is None else self._reserved.getsockname()[1]

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    @property
    def lines(self) -> int:
        """How many connections of clients are open."""
        return len(self._connections)

    def requests(self, code: int) -> list[Command]:
        """Return what came with a code."""
        return [command for command in self.seen if command.code == code]

    def answers(self, code: int) -> int:
        """Return how many answers, or requests of the server, came with a code."""
        return self._answers[code]

    def start(self) -> "Proxy":
        """Listen at a free port."""
        self._thread.start()
        self.accept()
        return self

    def stop(self) -> None:
        """Close everything."""
        self.refuse()
        self._do(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._reserved is not None:
            self._reserved.close()

    def cut(self) -> None:
        """Cut all connections; new ones are taken."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Cut all connections and take no new ones."""
        self._do(self._refuse())

    def accept(self) -> None:
        """Take connections again, at the same address."""
        self._do(self._accept())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            # asyncio leaks a connection if its server is closed between accepting and opening it.
            for listening in server.sockets:
                self._loop.remove_reader(listening)
            await asyncio.sleep(0)
            server.close()
            # Opened, made known to `_serve`, and aborted there.
            for _ in range(4):
                await asyncio.sleep(0)
        await self._cut()

    async def _cut(self) -> None:
        gone = set(self._connections)
        for line in gone:
            line.transport.abort()
        while self._connections & gone:
            await asyncio.sleep(0.001)

    async def _end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._join(reader, writer)
        finally:
            writer.transport.abort()
            self._connections.discard(writer)
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        ways = {
            asyncio.ensure_future(_pump(reader, lambda frame: self._request(frame, far_writer, writer))),
            asyncio.ensure_future(_pump(far_reader, lambda frame: self._answer(frame, writer))),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.transport.abort()

    def _request(self, frame: bytes, far: asyncio.StreamWriter, near: asyncio.StreamWriter) -> None:
        self.seen.append(request := _decoded(frame))
        if self.on_send is not None and request.code in _SENDS:
            self.on_send()
        if self.cuts_after_sends and request.code in _SENDS:
            self.cuts_after_sends -= 1
            if not self.cuts_after_sends:
                near.transport.abort()
                return
        far.write(frame)

    def _answer(self, frame: bytes, near: asyncio.StreamWriter) -> None:
        self._answers[_decoded(frame).code] += 1
        if self.swallows:
            return
        for old, new in self.renames.items():
            frame = frame.replace(old.encode(), new.encode())
        frame = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
        if self.delay_ms:
            self._loop.call_later(self.delay_ms / 1000, _write, near, frame)
        else:
            _write(near, frame)


async def _pump(reader: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while True:
        size = await reader.readexactly(4)
        take(size + await reader.readexactly(int.from_bytes(size, "big")))


def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    if not writer.transport.is_closing():
        writer.write(frame)


def _decoded(frame: bytes) -> Command:
    start = 8 + int.from_bytes(frame[5:8], "big")
    return decode_command(HeaderType(frame[4]), frame[8:start], frame[start:])


class Place(Protocol):
    """A cluster with one name server."""

    @property
    def namesrv(self) -> str:
        """The name server's address."""

    @property
    def brokers(self) -> dict[str, str]:
        """The brokers' addresses, by name."""


class Detour:
    """A cluster behind proxies."""

    def __init__(self, brokers: dict[str, Proxy], name_server: Proxy) -> None:
        self.brokers = brokers
        """By name."""
        self.name_server = name_server

    @property
    def namesrv(self) -> str:
        """What clients are given."""
        return self.name_server.address


@contextmanager
def detour(cluster: Place) -> Iterator[Detour]:
    """Put proxies before a cluster with one name server."""
    brokers = {name: Proxy(address).start() for name, address in cluster.brokers.items()}
    renames = {address: brokers[name].address for name, address in cluster.brokers.items()}
    name_server = Proxy(cluster.namesrv, renames=renames).start()
    try:
        yield Detour(brokers, name_server)
    finally:
        name_server.stop()
        for proxy in brokers.values():
            proxy.stop()
