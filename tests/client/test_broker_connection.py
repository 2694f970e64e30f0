"""BrokerConnection: answers that come too late, connections that do not end, and listeners that send requests."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from steelyard.client.broker_connection import FIRST_SESSION_OPAQUE, BrokerConnection, ConnectionSettings
from steelyard.errors import ConnectionClosed, SteelyardError, TimedOut
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame

_QUESTION = Command(RequestCode.GET_BROKER_CONFIG)
_LONG_MS = 10_000

_Answers = Callable[[Command], Command | None]


class _Server:
    """Answers what it is told to, and keeps the questions."""

    def __init__(self, answers: _Answers | None = None) -> None:
        self.answers = answers or response_to
        self.asked: list[Command] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        splitter = FrameDecoder()
        while data := await reader.read(65_536):
            for command in splitter.feed(data):
                self.asked.append(command)
                self.respond(self.answers(command))
        writer.close()

    def respond(self, command: Command | None) -> None:
        if command is not None:
            self.writers[-1].write(encode_frame(command))


@asynccontextmanager
async def _served(answers: _Answers | None = None) -> AsyncIterator[_Server]:
    server = _Server(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for writer in server.writers:
            writer.close()
        await asyncio.sleep(0.01)


class _Listener:
    """Who is told of connections; does what a test wants done then."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.at_opened: Callable[[BrokerConnection], object] = lambda _: None
        self.at_lost: Callable[[BrokerConnection], object] = lambda _: None
        self.at_received: Callable[[BrokerConnection], object] = lambda _: None
        self.switch = ConnectionSettings(self._opened, self._lost, self._received)

    def _opened(self, connection: BrokerConnection) -> None:
        self.happened.append("opened")
        self.at_opened(connection)

    def _lost(self, connection: BrokerConnection, was_open: bool) -> None:
        self.happened.append("lost" if was_open else "not opened")
        self.at_lost(connection)

    def _received(self, connection: BrokerConnection, _: Command) -> None:
        self.happened.append("heard")
        self.at_received(connection)


@asynccontextmanager
async def _request_loop(server: _Server, listener: _Listener | None = None) -> AsyncIterator[BrokerConnection]:
    connection = BrokerConnection((listener or _Listener()).switch, "broker-0", (server.address,))
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed(1.0)


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


def test_an_answer_that_comes_after_its_time_is_nobody_else_s() -> None:
    async def play() -> None:
        async with _served(lambda _: None) as server, _request_loop(server) as connection:
            with pytest.raises(TimedOut):
                await connection.request(_QUESTION, 20)
            asking = connection.request(_QUESTION, _LONG_MS)
            await _until(lambda: len(server.asked) == 2)
            first, second = server.asked
            server.respond(response_to(first, remark="late"))
            server.respond(response_to(second, remark="in time"))
            server.respond(response_to(second, remark="again"))
            assert (await asking).remark == "in time"

    asyncio.run(play())


def test_numbers_begin_again_above_those_of_members() -> None:
    async def play() -> None:
        async with _served() as server, _request_loop(server) as connection:
            connection._opaque = (1 << 31) - 2
            for _ in range(3):
                await connection.request(_QUESTION, _LONG_MS)
            assert [each.opaque for each in server.asked] == [
                (1 << 31) - 1,
                FIRST_SESSION_OPAQUE,
                FIRST_SESSION_OPAQUE + 1,
            ]

    asyncio.run(play())


def test_a_server_that_moved_is_asked_where_it_is_though_its_old_connection_does_not_end() -> None:
    async def play() -> None:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen()
            old = _Server()
            old.address = f"127.0.0.1:{deaf.getsockname()[1]}"
            async with _served() as new, _request_loop(old) as connection:
                lost = [
                    connection.request(Command(RequestCode.SEND_MESSAGE, body=bytes(1 << 20)), _LONG_MS)
                    for _ in range(16)
                ]
                await _until(lambda: connection.is_write_blocked)
                connection.set_addresses((new.address,))
                answer = await connection.request(_QUESTION, _LONG_MS)
                assert answer.code == ResponseCode.SUCCESS
                assert all(
                    isinstance(each, ConnectionClosed) for each in await asyncio.gather(*lost, return_exceptions=True)
                )

    asyncio.run(play())


def test_a_listener_may_send_a_request_and_drop_the_connection_at_once() -> None:
    async def play() -> None:
        listener, answers = _Listener(), list["asyncio.Future[Command]"]()

        def send_request(connection: BrokerConnection) -> None:
            answers.append(connection.request(_QUESTION, _LONG_MS))
            connection.send(Command(RequestCode.GET_BROKER_CONFIG, opaque=1))

        listener.at_opened = listener.at_lost = send_request
        async with _served() as server, _request_loop(server, listener) as connection:
            connection.connect()
            await _until(lambda: "heard" in listener.happened)
            listener.at_received = lambda connection: None if len(listener.happened) > 12 else connection.drop("enough")
            connection.send(Command(RequestCode.GET_BROKER_CONFIG, opaque=2))
            # The connection may just have been lost: a request before the next one fails at once.
            await _until(lambda: len(listener.happened) > 12 and connection.is_open)
            await asyncio.wait(answers, timeout=20)
            assert (await connection.request(_QUESTION, _LONG_MS)).code == ResponseCode.SUCCESS
            outcomes = await asyncio.gather(*answers, return_exceptions=True)
            assert all(isinstance(each, Command | SteelyardError) for each in outcomes)
            listener.at_opened = listener.at_lost = lambda _: None

    asyncio.run(play())


def test_a_connection_that_is_closed_while_it_opens_leaves_nothing_open() -> None:
    async def play() -> None:
        async with _served() as server:
            for turns in range(6):
                listener = _Listener()
                async with _request_loop(server, listener) as connection:
                    asking = connection.request(_QUESTION, _LONG_MS)
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    connection.close()
                    await connection.wait_closed(1.0)
                    outcome = (await asyncio.gather(asking, return_exceptions=True))[0]
                    assert isinstance(outcome, Command | ConnectionClosed)
                assert not connection.is_open
            await _until(lambda: all(writer.is_closing() for writer in server.writers))

    asyncio.run(play())
