"""A server that is troubled on purpose: who stands before the core sees each command, and lines are cut or kept out."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.net.served import ECHO, run, served, until

from steelyard.net.core import Replies
from steelyard.wire.command import Command, answer_to
from steelyard.wire.peers import Peer, Reply

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def _stranger(command: Command, peer: Peer, now_ms: int) -> Replies:
    del now_ms
    return (Reply(peer, answer_to(command, body=b"not the core")),)


def test_who_is_put_before_the_core_takes_each_command_until_it_is_taken_away(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            server.board.interpose(_stranger)
            assert (await caller.ask(ECHO, b"1")).body == b"not the core"
            server.board.slow_down(20)
            assert (await caller.ask(ECHO, b"2")).body == b"not the core"
            server.board.interpose(None)
            assert (await caller.ask(ECHO, b"3")).body == b"3"
            server.board.interpose(_stranger)
            server.board.slow_down(0)
            assert (await caller.ask(ECHO, b"4")).body == b"not the core"

    run(make_loop, story())


def test_lines_are_cut_by_their_peer(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            one, other = await server.call(), await server.call()
            await one.ask(ECHO)
            await other.ask(ECHO)
            first, second = server.board.peers()
            assert server.board.cut(lambda peer: peer.number == first.number) == 1
            await until(lambda: server.board.peers() == [second])
            assert (await other.ask(ECHO, b"here")).body == b"here"

    run(make_loop, story())


def test_a_server_that_is_shut_keeps_its_lines_and_takes_no_new_ones(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            one = await server.call()
            await one.ask(ECHO)
            server.board.shut(is_shut=True)
            late = await server.call()
            assert await late.is_closed()
            assert (await one.ask(ECHO, b"here")).body == b"here"
            server.board.shut(is_shut=False)
            assert (await (await server.call()).ask(ECHO, b"new")).body == b"new"

    run(make_loop, story())


def test_a_line_that_opens_while_the_server_goes_away_is_cut(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            server.board.drop()
            late = await server.call()
            assert await late.is_closed()

    run(make_loop, story())


@pytest.mark.parametrize("turns", range(6))
def test_a_line_that_comes_as_the_server_goes_away_is_cut_however_far_it_has_come(
    make_loop: MakeLoop, turns: int
) -> None:
    async def story() -> None:
        async with served() as server:
            with socket.create_connection(("127.0.0.1", server.listener.port)) as late:
                for _ in range(turns):
                    await asyncio.sleep(0)
                server.listener.close()
                server.board.drop()
                await server.listener.closed()
                late.setblocking(False)
                with suppress(ConnectionResetError):
                    async with asyncio.timeout(20):
                        assert await asyncio.get_running_loop().sock_recv(late, 1) == b""

    run(make_loop, story())


def test_a_line_is_not_idle_for_a_time_that_was_only_put_forward(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            await caller.ask(ECHO)
            server.board.excuse(3_600_000)
            server.pass_ms(3_600_000)
            assert (await caller.ask(ECHO, b"still")).body == b"still"
            server.pass_ms(3_600_000)
            assert await caller.is_closed()

    run(make_loop, story())
