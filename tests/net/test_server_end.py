"""A server that goes away takes its connections along, however far they are; a clock that jumps ends none."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.net.toy_server import ECHO, run, toy_server

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def test_a_connection_that_opens_while_the_server_goes_away_is_aborted(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            server.remoting.abort()
            late = await server.connect()
            assert await late.is_closed()

    run(make_loop, scenario())


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_arrives_as_the_server_goes_away_is_aborted_however_far_it_is(
    make_loop: MakeLoop, turns: int
) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            with socket.create_connection(("127.0.0.1", server.listener.port)) as late:
                for _ in range(turns):
                    await asyncio.sleep(0)
                server.listener.close()
                server.remoting.abort()
                await server.listener.wait_closed()
                late.setblocking(False)
                with suppress(ConnectionResetError):
                    async with asyncio.timeout(20):
                        assert await asyncio.get_running_loop().sock_recv(late, 1) == b""

    run(make_loop, scenario())


def test_a_connection_is_not_idle_for_a_time_that_the_clock_only_jumped(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            await client.request(ECHO)
            server.remoting.shift_deadlines(3_600_000)
            server.pass_ms(3_600_000)
            assert (await client.request(ECHO, b"still")).body == b"still"
            server.pass_ms(3_600_000)
            assert await client.is_closed()

    run(make_loop, scenario())
