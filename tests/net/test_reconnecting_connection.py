"""A reconnecting connection: requests get their responses, and failures are our own errors."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from steelyard.errors import CannotConnect, ConfigurationError, ConnectionClosed, TimedOut
from steelyard.net.client_connection import ReconnectingConnection
from steelyard.wire.command import Command
from tests.net.toy_server import ECHO, HANG_UP, SHOUT, SILENT, run, toy_server, until

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def test_questions_get_their_own_answers(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            link = ReconnectingConnection(f"127.0.0.1:{server.listener.port}")
            asked = [link.request(Command(ECHO, body=bytes((number,))), timeout_ms=20_000) for number in range(50)]
            answers = await asyncio.gather(*asked)
            assert [answer.body for answer in answers] == [bytes((number,)) for number in range(50)]
            assert len(server.remoting) == 1
            link.close()

    run(make_loop, scenario())


def test_what_the_server_asks_of_its_own_accord_is_passed_over(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            link = ReconnectingConnection(f"127.0.0.1:{server.listener.port}")
            with pytest.raises(TimedOut):
                await link.request(Command(SHOUT), timeout_ms=50)
            assert (await link.request(Command(ECHO, body=b"on"), timeout_ms=20_000)).body == b"on"
            link.close()

    run(make_loop, scenario())


def test_an_answer_that_does_not_come_is_timed_out_and_the_connection_goes_on(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            link = ReconnectingConnection(f"127.0.0.1:{server.listener.port}")
            with pytest.raises(TimedOut, match=r"did not answer request 5 in 30 ms"):
                await link.request(Command(SILENT), timeout_ms=30)
            assert (await link.request(Command(ECHO), timeout_ms=20_000)).code == 0
            assert len(server.remoting) == 1
            link.close()

    run(make_loop, scenario())


def test_a_lost_connection_fails_its_requests_is_reported_and_opens_again(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        lost: list[str] = []
        async with toy_server() as server:
            link = ReconnectingConnection(f"127.0.0.1:{server.listener.port}", on_closed=lambda: lost.append("lost"))
            waiting = asyncio.ensure_future(link.request(Command(SILENT), timeout_ms=20_000))
            await until(lambda: len(server.core.seen) == 1)
            assert (await link.request(Command(HANG_UP), timeout_ms=20_000)).body == b"bye"
            with pytest.raises(ConnectionClosed, match="closed the connection"):
                await waiting
            assert lost == ["lost"]
            assert (await link.request(Command(ECHO), timeout_ms=20_000)).code == 0
            link.close()
            await until(lambda: len(server.remoting) == 0)
            assert lost == ["lost"], "who hangs up himself has not lost anything"

    run(make_loop, scenario())


def test_a_server_that_is_not_there_cannot_be_connected_to(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            connection = ReconnectingConnection(f"127.0.0.1:{closed.getsockname()[1]}")
            with pytest.raises(CannotConnect, match="cannot be reached"):
                await connection.request(Command(ECHO), timeout_ms=20_000)
        with pytest.raises(CannotConnect):
            await ReconnectingConnection("no.such.host.invalid:1").request(Command(ECHO), timeout_ms=1_000)

    run(make_loop, scenario())


def test_an_address_that_is_none_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigurationError, match="'name-server' is not an address"):
        ReconnectingConnection("name-server")


def test_a_closed_connection_fails_its_own_requests_and_not_those_of_the_next(
    make_loop: MakeLoop,
) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            link = ReconnectingConnection(f"127.0.0.1:{server.listener.port}")
            waiting = asyncio.ensure_future(link.request(Command(SILENT), timeout_ms=20_000))
            await until(lambda: len(server.core.seen) == 1)
            link.close()
            assert (await link.request(Command(ECHO, body=b"on"), timeout_ms=20_000)).body == b"on"
            with pytest.raises(ConnectionClosed, match="we closed the connection"):
                await waiting
            link.close()

    run(make_loop, scenario())
