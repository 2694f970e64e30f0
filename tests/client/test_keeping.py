"""Lines that nobody needs are hung up after a while: to brokers no route tells of, and to where nothing is asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from steelyard.client import caller as caller_module
from steelyard.client.caller import Caller, Switch
from steelyard.client.connect import Connect
from steelyard.client.keeping import GRACE_MS, IDLE_MS, Keeping
from steelyard.client.session import Session
from steelyard.errors import CannotConnect, TopicNotFound
from steelyard.model import BrokerPlace, Route
from steelyard.net.line import Line
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.frames import Splitter, encode_frame

_CONFIG = Command(RequestCode.GET_BROKER_CONFIG)
_SILENT = Command(RequestCode.PULL_MESSAGE)


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """Run a cluster for all."""
    with Cluster() as cluster:
        yield cluster.namesrv


class _Server:
    """A broker of which tests tell routes: it knows how many lines there are and were, and answers all but pulls."""

    def __init__(self) -> None:
        self.lines = self.came = 0
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        self.came += 1
        splitter = Splitter()
        while data := await reader.read(65_536):
            for command in splitter.feed(data):
                if command.code != _SILENT.code:
                    writer.write(encode_frame(answer_to(command)))
        self.lines -= 1
        writer.close()


@asynccontextmanager
async def _stage(namesrv: str) -> AsyncIterator[tuple[Session, _Server]]:
    server = _Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    session = Session(Connect(namesrv))
    await session.start()
    try:
        yield session, server
    finally:
        await session.close()
        listening.close()
        await _until(lambda: server.lines == 0)


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


def _route(topic: str, server: _Server | None = None) -> Route:
    places = () if server is None else (BrokerPlace("broker-x", "c", {0: server.address}),)
    return Route(topic, places, ())


def test_a_broker_that_no_route_tells_of_is_hung_up_on_after_a_grace(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.learn(_route("orders", server))
        session.learn(_route("audit", server))
        await _until(lambda: server.lines == 1)
        session.learn(_route("orders"))
        session.tidy(0)
        session.tidy(GRACE_MS)
        assert session.broker("broker-x").is_open, "one topic still has it"
        session.learn(_route("audit"))
        session.tidy(GRACE_MS)
        session.tidy(2 * GRACE_MS - 1)
        assert session.broker("broker-x").is_open, "it may be back soon"
        session.tidy(2 * GRACE_MS)
        await _until(lambda: server.lines == 0)

    _on_stage(namesrv, work)


def test_whoever_asks_it_still_reaches_it_and_a_route_that_tells_of_it_has_a_line_kept_again(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.learn(_route("orders", server))
        session.learn(_route("orders"))
        session.tidy(0)
        session.tidy(GRACE_MS)
        await _until(lambda: server.lines == 0)
        assert (await session.ask_well("broker-x", _CONFIG)).code == 0
        assert server.lines == 1
        session.tidy(2 * GRACE_MS)
        await _until(lambda: server.lines == 0)
        session.learn(_route("orders", server))
        await _until(lambda: server.lines == 1)
        session.tidy(4 * GRACE_MS)
        assert session.broker("broker-x").is_open

    _on_stage(namesrv, work)


def test_a_line_on_which_an_answer_is_awaited_stays(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.learn(_route("orders", server))
        asked = [session.broker("broker-x").ask(_SILENT, 60_000), session.at(server.address).ask(_SILENT, 60_000)]
        await _until(lambda: server.lines == 2)
        session.learn(_route("orders"))
        for now_ms in (0, GRACE_MS, 2 * GRACE_MS):
            session.tidy(now_ms)
        await session.at(server.address).ask(_CONFIG, 10_000)
        assert server.came == 2
        assert not any(answer.done() for answer in asked)
        for answer in asked:
            answer.cancel()

    _on_stage(namesrv, work)


def test_a_topic_that_is_gone_names_no_broker_any_more(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        session.learn(_route("no-such-topic", server))
        await _until(lambda: server.lines == 1)
        with pytest.raises(TopicNotFound):
            await session.routes.look_up("no-such-topic")
        session.tidy(0)
        session.tidy(GRACE_MS)
        await _until(lambda: server.lines == 0)

    _on_stage(namesrv, work)


def test_a_member_hears_that_such_a_line_is_gone(namesrv: str) -> None:
    class Listener:
        def __init__(self) -> None:
            self.happened: list[tuple[str, str | None]] = []

        def opened(self, server: str | None) -> None:
            self.happened.append(("opened", server))

        def lost(self, server: str | None) -> None:
            self.happened.append(("lost", server))

        def heard(self, server: str | None, command: Command) -> None:
            del server, command

    async def work(session: Session, server: _Server) -> None:
        session.listener = listener = Listener()
        session.learn(_route("orders", server))
        await _until(lambda: session.broker("broker-x").is_open)
        session.learn(_route("orders"))
        session.tidy(0)
        session.tidy(GRACE_MS)
        assert listener.happened == [("opened", "broker-x"), ("lost", "broker-x")]

    _on_stage(namesrv, work)


def test_a_line_to_a_slave_goes_when_nothing_is_asked_there_and_comes_back_with_the_next_question(namesrv: str) -> None:
    async def work(session: Session, server: _Server) -> None:
        await session.at(server.address).ask(_CONFIG, 10_000)
        session.tidy(0)
        await session.at(server.address).ask(_CONFIG, 10_000)
        session.tidy(IDLE_MS)
        assert server.lines == 1, "it was asked something since"
        session.tidy(2 * IDLE_MS)
        await _until(lambda: server.lines == 0)
        await session.at(server.address).ask(_CONFIG, 10_000)
        assert (server.lines, server.came) == (1, 2)

    _on_stage(namesrv, work)


def test_a_server_that_cannot_be_reached_is_not_called_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    async def refuse(address: str, *_: object, **__: object) -> Line:
        attempts.append(address)
        raise CannotConnect(f"{address} cannot be reached")

    monkeypatch.setattr(caller_module, "open_line", refuse)
    monkeypatch.setattr(caller_module, "_PAUSES_MS", (0,))

    async def turns() -> int:
        """Let the loop go round often enough for many attempts, and return how many were made."""
        before = len(attempts)
        for _ in range(100):
            await asyncio.sleep(0)
        return len(attempts) - before

    async def run() -> None:
        caller = Caller(Switch(_ignore, _ignore, _ignore), "broker-x", ("10.0.0.7:10911",))
        caller.call()
        assert await turns() > 5
        caller.rest()
        await turns()
        assert await turns() == 0
        with pytest.raises(CannotConnect):
            await caller.ask(_CONFIG, 1_000)
        await turns()
        assert await turns() == 0
        caller.stay()
        assert await turns() > 5
        caller.close()
        await caller.closed(1.0)

    asyncio.run(run())


def test_a_line_that_was_being_opened_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def wait(address: str, *_: object, **__: object) -> Line:
        never: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        try:
            return await never
        finally:
            ended.append(address)

    monkeypatch.setattr(caller_module, "open_line", wait)

    async def run() -> None:
        caller = Caller(Switch(_ignore, _ignore, _ignore), None, ("10.0.0.8:10911",), stays=False)
        with pytest.raises(CannotConnect):
            await caller.ask(_CONFIG, 1)
        assert ended == []
        caller.rest()
        await _until(lambda: ended)
        caller.close()
        await caller.closed(1.0)

    asyncio.run(run())


def test_a_broker_that_is_told_of_again_in_time_has_its_whole_grace_anew() -> None:
    keeping = Keeping()
    place = BrokerPlace("broker-x", "c", {0: "10.0.0.7:10911"})
    assert keeping.untold(["broker-x"], 0) == []
    keeping.learn(Route("orders", (place,), ()))
    assert keeping.untold(["broker-x"], GRACE_MS) == []
    keeping.learn(Route("orders", (), ()))
    assert keeping.untold(["broker-x"], GRACE_MS + 1) == []
    assert keeping.untold(["broker-x"], 2 * GRACE_MS) == []
    assert keeping.untold(["broker-x"], 2 * GRACE_MS + 1) == ["broker-x"]
