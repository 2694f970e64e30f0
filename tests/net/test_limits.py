"""Whatever a peer does, a server keeps within its limits, and the other connections do not notice."""

import asyncio
from collections.abc import Callable
from dataclasses import fields

import pytest

from steelyard.errors import ConfigurationError
from steelyard.net.limits import ConnectionLimits
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from tests.net.toy_server import ECHO, SHOUT, SILENT, ToyClient, ToyServer, run, toy_server, until
from tests.waiting import LONGEST_S

MakeLoop = Callable[[], asyncio.AbstractEventLoop]

_BIG = 100_000
_OTHERS = 1 << 20
"""The number of each request of a connection that is served beside the others."""


@pytest.mark.parametrize("name", [each.name for each in fields(ConnectionLimits)])
@pytest.mark.parametrize("number", [0, -1])
def test_a_limit_is_a_positive_number(name: str, number: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {number}; give a positive number"):
        ConnectionLimits(**{name: number})


async def _still_served(server: ToyServer) -> None:
    client = await server.connect()
    assert (await client.request(ECHO, b"fine")).body == b"fine"
    await client.close()


def test_one_connection_too_many_is_closed_and_the_others_stay(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(connections=3)) as server:
            clients = [await server.connect() for _ in range(3)]
            for client in clients:
                await client.request(ECHO)
            assert await (await server.connect()).is_closed()
            for client in clients:
                assert (await client.request(ECHO, b"mine")).body == b"mine"
            await clients[0].close()
            await until(lambda: len(server.remoting) == 2)
            await _still_served(server)

    run(make_loop, scenario())


def test_one_host_cannot_have_all_connections(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(connections_per_host=2)) as server:
            clients = [await server.connect() for _ in range(2)]
            for client in clients:
                await client.request(ECHO)
            assert await (await server.connect()).is_closed()
            await clients[0].close()
            await until(lambda: len(server.remoting) == 1)
            await _still_served(server)

    run(make_loop, scenario())


def test_an_idle_connection_is_closed(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            quiet, speaking = await server.connect(), await server.connect()
            await quiet.request(ECHO)
            server.pass_ms(119_000)
            await speaking.request(ECHO)
            server.pass_ms(2_000)
            assert await quiet.is_closed()
            assert (await speaking.request(ECHO, b"here")).body == b"here"

    run(make_loop, scenario())


def test_a_connection_on_which_only_the_server_sends_stays(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            listening, speaking = await server.connect(), await server.connect()
            await listening.request(ECHO)
            for _ in range(4):
                server.pass_ms(60_000)
                speaking.write(Command(SHOUT, body=b"news"))
                assert (await listening.read()).body == b"news"
            assert len(server.remoting) == 2

    run(make_loop, scenario())


def test_a_frame_that_takes_too_long_closes_its_connection(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(frame_timeout_ms=5_000)) as server:
            clients = [await server.connect() for _ in range(50)]
            frame = encode_frame(Command(ECHO, body=b"x" * 60))
            for at in range(6):
                for client in clients:
                    client.writer.write(frame[at : at + 1])
                await asyncio.sleep(0.005)
                server.pass_ms(1_000)
            for client in clients:
                assert await client.is_closed()
            await _still_served(server)

    run(make_loop, scenario())


def test_a_connection_that_is_slow_and_gets_its_frames_done_stays(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(frame_timeout_ms=5_000)) as server:
            client = await server.connect()
            frame = encode_frame(Command(ECHO, body=b"slow"))
            for _ in range(5):
                client.writer.write(frame[:50])
                await asyncio.sleep(0.005)
                server.pass_ms(4_000)
                client.writer.write(frame[50:])
                assert (await client.read()).body == b"slow"

    run(make_loop, scenario())


def test_a_peer_that_does_not_read_is_not_read_from(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            _ask_for_much(client, 1_000)
            await _until_it_stands_still(server)
            handled = len([opaque for opaque in server.core.seen if opaque != _OTHERS])
            assert handled < 300, "the answers of all would be 100 MB"
            await _still_served(server)
            assert [(await client.read()).opaque for _ in range(1_000)] == list(range(1_000))

    run(make_loop, scenario())


def test_a_peer_that_never_reads_is_closed(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(stall_timeout_ms=5_000)) as server:
            client = await server.connect()
            _ask_for_much(client, 1_000)
            await _until_it_stands_still(server)
            for _ in range(7):
                server.pass_ms(1_000)
            await until(lambda: len(server.remoting) == 0)
            await _still_served(server)

    run(make_loop, scenario())


def test_a_peer_that_reads_slowly_and_steadily_stays(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(stall_timeout_ms=5_000)) as server:
            client = await server.connect()
            _ask_for_much(client, 200)
            for opaque in range(200):
                assert (await client.read()).opaque == opaque
                await asyncio.sleep(0.001)
                server.pass_ms(50)

    run(make_loop, scenario())


def test_a_peer_that_reads_less_than_it_is_sent_is_aborted(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(backlog_bytes=1_000_000)) as server:
            deaf, speaking = await server.connect(), await server.connect()
            await deaf.request(ECHO)
            for _ in range(400):
                speaking.write(Command(SHOUT, body=b"x" * _BIG))
                await speaking.read()
            await until(lambda: len(server.remoting) == 1)
            await _still_served(server)

    run(make_loop, scenario())


def test_unread_responses_are_limited_in_all(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(total_backlog_bytes=3_000_000)) as server:
            clients = [await server.connect() for _ in range(20)]
            for client in clients:
                await client.request(ECHO)
            for client in clients:
                _ask_for_much(client, 200)
            await _until_it_stands_still(server)
            server.remoting.sweep()
            await until(lambda: len(server.remoting) <= 12)
            await _still_served(server)

    run(make_loop, scenario())


def test_half_frames_have_an_end_together(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(total_partial_frame_bytes=1_000_000)) as server:
            half = encode_frame(Command(SILENT, body=b"x" * 300_000))[:-1]
            clients = [await server.connect() for _ in range(10)]
            for client in clients:
                client.writer.write(half)
            await until(lambda: len(server.remoting) <= 4)
            small = await server.connect()
            small.writer.write(encode_frame(Command(ECHO, body=b"small"))[:-1])
            await asyncio.sleep(0.01)
            small.writer.write(b"l")
            assert (await small.read()).body == b"small"

    run(make_loop, scenario())


def _ask_for_much(client: ToyClient, count: int) -> None:
    client.write(*(Command(ECHO, {"times": str(_BIG)}, b"x", opaque=opaque) for opaque in range(count)))


async def _until_it_stands_still(server: ToyServer) -> None:
    """Wait until a connection is served a hundred times, and meanwhile no other is read from."""
    client, alone = await server.connect(), 0
    async with asyncio.timeout(LONGEST_S):
        while alone < 100:
            before = len(server.core.seen)
            await client.request(ECHO, opaque=_OTHERS)
            alone = alone + 1 if len(server.core.seen) == before + 1 else 0
    await client.close()
