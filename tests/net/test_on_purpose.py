"""A server that is troubled on purpose: who stands before the core sees each command, and lines are cut or kept out."""

import asyncio
from collections.abc import Callable

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
