"""Lines that nobody needs are hung up after a while: to brokers no route tells of, and to where nothing is asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from steelyard.client import broker_connection as caller_module
from steelyard.client.broker_connection import BrokerConnection, ConnectionSettings
from steelyard.client.config import ClientConfig
from steelyard.client.session import IDLE_CONNECTION_MS, UNROUTED_GRACE_MS, ConnectionRetention, Session
from steelyard.errors import CannotConnect, TopicNotFound
from steelyard.model import BrokerAddresses, TopicRoute
from steelyard.net.client_connection import ClientConnection
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame

_CONFIG = Command(RequestCode.GET_BROKER_CONFIG)
_SILENT = Command(RequestCode.PULL_MESSAGE)


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """Run a cluster for all."""
    with Cluster() as cluster:
        yield cluster.namesrv


class _Server:
    """A broker whose routes tests change: it counts its connections, and answers everything but pulls."""

    def __init__(self) -> None:
        self.connections = self.came = 0
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.came += 1
        splitter = FrameDecoder()
        while data := await reader.read(65_536):
            for command in splitter.feed(data):
                if command.code != _SILENT.code:
                    writer.write(encode_frame(response_to(command)))
        self.connections -= 1
        writer.close()


@asynccontextmanager
async def _stage(namesrv: str) -> AsyncIterator[tuple[Session, _Server]]:
    server = _Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    session = Session(ClientConfig(namesrv))
    await session.start()
    try:
        yield session, server
    finally:
        await session.close()
        listening.close()
        await _until(lambda: server.connections == 0)


def _on_stage(namesrv: str, work: Callable[[Session, _Server], Awaitable[None]]) -> None:
    async def run() -> None:
        async with _stage(namesrv) as (session, server):
            await work(session, server)

    asyncio.run(run())


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


def _ignore(*_: object) -> None:
    """Hear something, and do nothing."""


def _route(topic: str, server: _Server | None = None) -> TopicRoute:
    places = () if server is None else (BrokerAddresses("broker-x", "c", {0: server.address}),)
    return TopicRoute(topic, places, ())


def test_a_broker_that_no_route_tells_of_is_hung_up_on_after_a_grace(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.update_brokers(_route("orders", server))
        session.update_brokers(_route("audit", server))
        await _until(lambda: server.connections == 1)
        session.update_brokers(_route("orders"))
        session.close_unused_connections(0)
        session.close_unused_connections(UNROUTED_GRACE_MS)
        assert session.broker_connection("broker-x").is_open, "one topic still has it"
        session.update_brokers(_route("audit"))
        session.close_unused_connections(UNROUTED_GRACE_MS)
        session.close_unused_connections(2 * UNROUTED_GRACE_MS - 1)
        assert session.broker_connection("broker-x").is_open, "it may be back soon"
        session.close_unused_connections(2 * UNROUTED_GRACE_MS)
        await _until(lambda: server.connections == 0)

    _on_stage(namesrv, work)


def test_a_request_still_reaches_it_and_a_route_that_names_it_keeps_its_connection_again(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.update_brokers(_route("orders", server))
        session.update_brokers(_route("orders"))
        session.close_unused_connections(0)
        session.close_unused_connections(UNROUTED_GRACE_MS)
        await _until(lambda: server.connections == 0)
        assert (await session.request_ok("broker-x", _CONFIG)).code == 0
        assert server.connections == 1
        session.close_unused_connections(2 * UNROUTED_GRACE_MS)
        await _until(lambda: server.connections == 0)
        session.update_brokers(_route("orders", server))
        await _until(lambda: server.connections == 1)
        session.close_unused_connections(4 * UNROUTED_GRACE_MS)
        assert session.broker_connection("broker-x").is_open

    _on_stage(namesrv, work)


def test_a_connection_on_which_an_answer_is_awaited_stays(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.update_brokers(_route("orders", server))
        asked = [
            session.broker_connection("broker-x").request(_SILENT, 60_000),
            session.connection_at(server.address).request(_SILENT, 60_000),
        ]
        await _until(lambda: server.connections == 2)
        session.update_brokers(_route("orders"))
        for now_ms in (0, UNROUTED_GRACE_MS, 2 * UNROUTED_GRACE_MS):
            session.close_unused_connections(now_ms)
        await session.connection_at(server.address).request(_CONFIG, 10_000)
        assert server.came == 2
        assert not any(answer.done() for answer in asked)
        for answer in asked:
            answer.cancel()

    _on_stage(namesrv, work)


def test_a_topic_that_is_gone_names_no_broker_any_more(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.update_brokers(_route("no-such-topic", server))
        await _until(lambda: server.connections == 1)
        with pytest.raises(TopicNotFound):
            await session.routes.look_up("no-such-topic")
        session.close_unused_connections(0)
        session.close_unused_connections(UNROUTED_GRACE_MS)
        await _until(lambda: server.connections == 0)

    _on_stage(namesrv, work)


def test_a_member_is_notified_that_such_a_connection_is_gone(namesrv: str) -> None:
    class Listener:
        def __init__(self) -> None:
            self.happened: list[tuple[str, str | None]] = []

        def connection_opened(self, server: str | None) -> None:
            self.happened.append(("opened", server))

        def connection_lost(self, server: str | None) -> None:
            self.happened.append(("lost", server))

        def command_received(self, server: str | None, command: Command) -> None:
            del server, command

    async def work(session: Session, server: _Server) -> None:
        session.listener = listener = Listener()
        session.update_brokers(_route("orders", server))
        await _until(lambda: session.broker_connection("broker-x").is_open)
        session.update_brokers(_route("orders"))
        session.close_unused_connections(0)
        session.close_unused_connections(UNROUTED_GRACE_MS)
        assert listener.happened == [("opened", "broker-x"), ("lost", "broker-x")]

    _on_stage(namesrv, work)


def test_an_idle_connection_to_a_replica_is_closed_and_reopened_by_the_next_request(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        await session.connection_at(server.address).request(_CONFIG, 10_000)
        session.close_unused_connections(0)
        await session.connection_at(server.address).request(_CONFIG, 10_000)
        session.close_unused_connections(IDLE_CONNECTION_MS)
        assert server.connections == 1, "it was asked something since"
        session.close_unused_connections(2 * IDLE_CONNECTION_MS)
        await _until(lambda: server.connections == 0)
        await session.connection_at(server.address).request(_CONFIG, 10_000)
        assert (server.connections, server.came) == (1, 2)

    _on_stage(namesrv, work)


def test_a_server_that_cannot_be_reached_is_not_called_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    async def refuse(address: str, *_: object, **__: object) -> ClientConnection:
        attempts.append(address)
        raise CannotConnect(f"{address} cannot be reached")

    monkeypatch.setattr(caller_module, "open_connection", refuse)
    monkeypatch.setattr(caller_module, "_RECONNECT_DELAYS_MS", (0,))

    async def turns() -> int:
        """Let the loop go round often enough for many attempts, and return how many were made."""
        before = len(attempts)
        for _ in range(100):
            await asyncio.sleep(0)
        return len(attempts) - before

    async def run() -> None:
        connection = BrokerConnection(ConnectionSettings(_ignore, _ignore, _ignore), "broker-x", ("10.0.0.7:10911",))
        connection.connect()
        assert await turns() > 5
        connection.release()
        await turns()
        assert await turns() == 0
        with pytest.raises(CannotConnect):
            await connection.request(_CONFIG, 1_000)
        await turns()
        assert await turns() == 0
        connection.keep_open()
        assert await turns() > 5
        connection.close()
        await connection.wait_closed(1.0)

    asyncio.run(run())


def test_a_connection_that_was_being_opened_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def wait(address: str, *_: object, **__: object) -> ClientConnection:
        never: asyncio.Future[ClientConnection] = asyncio.get_running_loop().create_future()
        try:
            return await never
        finally:
            ended.append(address)

    monkeypatch.setattr(caller_module, "open_connection", wait)

    async def run() -> None:
        connection = BrokerConnection(
            ConnectionSettings(_ignore, _ignore, _ignore), None, ("10.0.0.8:10911",), keeps_open=False
        )
        with pytest.raises(CannotConnect):
            await connection.request(_CONFIG, 1)
        assert ended == []
        connection.release()
        await _until(lambda: ended)
        connection.close()
        await connection.wait_closed(1.0)

    asyncio.run(run())


def test_a_broker_that_is_told_of_again_in_time_has_its_whole_grace_anew() -> None:
    keeping = ConnectionRetention()
    place = BrokerAddresses("broker-x", "c", {0: "10.0.0.7:10911"})
    assert keeping.unrouted_brokers(["broker-x"], 0) == []
    keeping.record_route(TopicRoute("orders", (place,), ()))
    assert keeping.unrouted_brokers(["broker-x"], UNROUTED_GRACE_MS) == []
    keeping.record_route(TopicRoute("orders", (), ()))
    assert keeping.unrouted_brokers(["broker-x"], UNROUTED_GRACE_MS + 1) == []
    assert keeping.unrouted_brokers(["broker-x"], 2 * UNROUTED_GRACE_MS) == []
    assert keeping.unrouted_brokers(["broker-x"], 2 * UNROUTED_GRACE_MS + 1) == ["broker-x"]
