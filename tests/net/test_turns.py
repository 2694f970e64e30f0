"""Lines have turns: who sends very much does not keep the others waiting."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from tests.net.served import ECHO, SILENT, run, served, until

from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame

BODY = bytes(1024)
FEW = 4 * 256_000 // len(BODY)
"""What a few reads of a loop bring."""
LAST = 1_000_000


def test_a_line_that_sends_much_lets_others_have_their_turn(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            await caller.ask(ECHO)
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
                assert (await caller.ask(ECHO, opaque=LAST)).opaque == LAST
                assert len(server.core.seen) <= FEW < sent // len(frame)

    run(make_loop, story())
