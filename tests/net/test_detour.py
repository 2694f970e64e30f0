"""A server that is made slow handles everything later, in order, and holds up nobody but those who wait for it."""

import asyncio
from collections.abc import Callable

import pytest
from tests.net.served import ECHO, RAISE, SHOUT, SILENT, run, served, until

from steelyard.errors import ConfigurationError
from steelyard.net.detour import Detour
from steelyard.wire.command import Command

MakeLoop = Callable[[], asyncio.AbstractEventLoop]

_LONG_MS = 3_600_000


def test_a_command_waits_its_time_and_is_then_answered(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            server.board.slow_down(60)
            start_s = asyncio.get_running_loop().time()
            assert (await caller.ask(ECHO, b"late")).body == b"late"
            assert asyncio.get_running_loop().time() - start_s >= 0.055

    run(make_loop, story())


def test_commands_of_all_lines_are_handled_in_the_order_in_which_they_came(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            callers = [await server.call() for _ in range(3)]

            async def arrived(count: int) -> None:
                await until(lambda: server.board.waiting + len(server.core.seen) == count)

            server.board.slow_down(30)
            for opaque in range(60):
                if opaque == 30:
                    server.board.slow_down(1)  # who asks for less overtakes nobody
                callers[opaque % 3].write(Command(SILENT, opaque=opaque))
                await arrived(opaque + 1)
            await until(lambda: len(server.core.seen) == 60)
            assert server.core.seen == list(range(60))

    run(make_loop, story())


def test_what_waits_holds_up_neither_the_loop_nor_what_the_server_says_by_itself(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller, other = await server.call(), await server.call()
            await other.ask(ECHO)
            caller.write(Command(SHOUT, body=b"to all"))
            assert (await other.read()).body == b"to all"
            server.board.slow_down(_LONG_MS)
            caller.write(Command(ECHO, opaque=9))
            await until(lambda: server.board.waiting == 1)
            server.board.tick()
            assert server.core.seen[-1] != 9
            server.board.slow_down(0)
            assert [(await caller.read()).body, (await caller.read()).opaque] == [b"to all", 9]

    run(make_loop, story())


def test_the_end_of_a_line_comes_after_its_last_command(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            server.board.slow_down(_LONG_MS)
            caller.write(Command(SILENT, opaque=5))
            await until(lambda: server.board.waiting == 1)
            await caller.close()
            await until(lambda: server.board.waiting == 2)
            assert (len(server.board), server.core.gone) == (0, [])
            server.board.slow_down(0)
            assert server.core.seen == [5]
            assert len(server.core.gone) == 1
            assert server.core.peers == {}

    run(make_loop, story())


def test_a_bug_of_the_core_is_answered_late_too(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            server.board.slow_down(5)
            assert (await caller.ask(RAISE)).code == 1
            assert (await caller.ask(ECHO, b"fine")).body == b"fine"

    run(make_loop, story())


def test_each_lot_that_is_done_is_settled(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            server.board.slow_down(20)
            caller.write(*(Command(SILENT, opaque=number) for number in range(10)))
            await until(lambda: len(server.core.seen) == 10)
            # Once for the read, which handled nothing, and at least once for what was handled afterwards.
            await until(lambda: server.core.flushed >= 2)

    run(make_loop, story())


def test_a_server_that_goes_away_drops_what_waits(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            server.board.slow_down(_LONG_MS)
            caller.write(Command(SILENT, opaque=5))
            await until(lambda: server.board.waiting == 1)
            server.board.drop()
            assert await caller.is_closed()
            await until(lambda: len(server.core.gone) == 1)
            assert (server.board.waiting, server.core.seen) == (0, [])

    run(make_loop, story())


@pytest.mark.parametrize("delay_ms", [-1, 3_600_001])
def test_a_delay_that_cannot_be_is_refused(make_loop: MakeLoop, delay_ms: int) -> None:
    async def story() -> None:
        async with served() as server:
            with pytest.raises(ConfigurationError, match=f"a delay of {delay_ms} ms cannot be; give 0 to"):
                server.board.slow_down(delay_ms)

    run(make_loop, story())


def test_what_is_sent_while_something_arrives_comes_after_it(make_loop: MakeLoop) -> None:
    async def story() -> None:
        done: list[str] = []
        detour = Detour(asyncio.get_running_loop(), lambda: done.append("after"))
        detour.delay_ms = 1

        def first() -> None:
            done.append("first")
            detour.send(lambda: done.append("third"))

        detour.send(first)
        detour.send(lambda: done.append("second"))
        await until(lambda: "third" in done)
        assert [each for each in done if each != "after"] == ["first", "second", "third"]

    run(make_loop, story())
