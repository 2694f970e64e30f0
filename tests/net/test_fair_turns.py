"""Connections take turns: a client that sends very much does not delay the others."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from steelyard.net.limits import ConnectionLimits
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from tests.net.toy_server import ECHO, SILENT, run, toy_server, until

BODY = bytes(1024)
FEW = 4 * 256_000 // len(BODY)
"""What a few reads of a loop bring."""
LAST = 1_000_000


def test_a_connection_that_sends_much_lets_others_have_their_turn(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            await client.request(ECHO)
            with socket.create_connection(("127.0.0.1", server.listener.port)) as greedy:
                greedy.setblocking(False)
                frame, sent = encode_frame(Command(SILENT, opaque=LAST - 1, body=BODY)), 0
                handful = frame * 64
                greedy.sendall(frame)
                await until(lambda: server.core.seen[-1] == LAST - 1)
                with suppress(BlockingIOError):
                    while sent < 16 * FEW * len(frame):
                        sent += greedy.send(handful[sent % len(frame) :])
                # All of it has arrived before the loop turns: from now on it is a matter of turns alone.
                assert (await client.request(ECHO, opaque=LAST)).opaque == LAST
                assert len(server.core.seen) <= FEW < sent // len(frame)

    run(make_loop, scenario())


def test_requests_that_take_long_are_done_in_turns_and_in_order(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(turn_ms=5)) as server:
            flood, server.core.costs_ns = await server.connect(), 1_000_000
            flood.write(*(Command(ECHO, opaque=number) for number in range(600)))
            assert [(await flood.read()).opaque for _ in range(600)] == list(range(600))
            assert server.core.seen == list(range(600))
            assert server.core.flushed >= 600 // 5, "a turn had more than five requests of a millisecond each"

    run(make_loop, scenario())


def test_nothing_is_read_from_a_connection_whose_requests_wait_for_their_turn(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(turn_ms=1)) as server:
            server.core.costs_ns = 1_000_000
            flood = await server.connect()
            most, sent = 0, 4_000
            flood.write(*(Command(SILENT, opaque=number, body=BODY) for number in range(sent)))
            while len(server.core.seen) < sent:
                (channel,) = server.remoting._connections.values()
                most = max(most, channel.partial_frame_bytes)
                await asyncio.sleep(0)
            assert most < 2 * 256 * 1024, "more than one read waits"
            assert server.core.seen == list(range(sent))

    run(make_loop, scenario())


def test_many_connections_with_much_to_do_share_one_turn(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        async with toy_server(ConnectionLimits(turn_ms=5)) as server:
            client, server.core.costs_ns = await server.connect(), 1_000_000
            floods = [await server.connect() for _ in range(40)]
            for flood in floods:
                flood.write(*(Command(ECHO, opaque=number) for number in range(200)))
            while len(server.core.peers) < len(floods):
                await asyncio.sleep(0)
            client.write(Command(ECHO, opaque=LAST))
            began = len(server.core.seen)
            assert began < 40 * 200, "all of it was done before anybody else had a turn"
            await client.read()
            before = server.core.seen.index(LAST) - began
            assert before <= 50, f"{before} requests of others were handled first"

    run(make_loop, scenario())
