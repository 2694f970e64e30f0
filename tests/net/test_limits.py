"""Whatever a peer does, a server keeps within its limits, and the other lines do not notice."""

import asyncio
from collections.abc import Callable
from dataclasses import fields

import pytest
from tests.net.served import ECHO, SHOUT, SILENT, Caller, Served, run, served, until

from steelyard.errors import ConfigurationError
from steelyard.net.limits import LineLimits
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame

MakeLoop = Callable[[], asyncio.AbstractEventLoop]

_BIG = 100_000


@pytest.mark.parametrize("name", [each.name for each in fields(LineLimits)])
def test_a_limit_is_a_positive_number(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is -1; give a positive number"):
        LineLimits(**{name: -1})


async def _still_served(server: Served) -> None:
    caller = await server.call()
    assert (await caller.ask(ECHO, b"fine")).body == b"fine"
    await caller.close()


def test_one_line_too_many_is_closed_and_the_others_stay(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(lines=3)) as server:
            callers = [await server.call() for _ in range(3)]
            for caller in callers:
                await caller.ask(ECHO)
            assert await (await server.call()).is_closed()
            for caller in callers:
                assert (await caller.ask(ECHO, b"mine")).body == b"mine"
            await callers[0].close()
            await until(lambda: len(server.board) == 2)
            await _still_served(server)

    run(make_loop, story())


def test_one_host_cannot_have_all_lines(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(lines_of_address=2)) as server:
            callers = [await server.call() for _ in range(2)]
            for caller in callers:
                await caller.ask(ECHO)
            assert await (await server.call()).is_closed()
            await callers[0].close()
            await until(lambda: len(server.board) == 1)
            await _still_served(server)

    run(make_loop, story())


def test_a_line_on_which_nobody_speaks_is_closed(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            quiet, speaking = await server.call(), await server.call()
            await quiet.ask(ECHO)
            server.pass_ms(119_000)
            await speaking.ask(ECHO)
            server.pass_ms(2_000)
            assert await quiet.is_closed()
            assert (await speaking.ask(ECHO, b"here")).body == b"here"

    run(make_loop, story())


def test_a_line_on_which_only_the_server_speaks_stays(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            listening, speaking = await server.call(), await server.call()
            await listening.ask(ECHO)
            for _ in range(4):
                server.pass_ms(60_000)
                speaking.write(Command(SHOUT, body=b"news"))
                assert (await listening.read()).body == b"news"
            assert len(server.board) == 2

    run(make_loop, story())


def test_a_frame_that_takes_too_long_closes_its_line(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(frame_ms=5_000)) as server:
            callers = [await server.call() for _ in range(50)]
            frame = encode_frame(Command(ECHO, body=b"x" * 60))
            for at in range(6):
                for caller in callers:
                    caller.writer.write(frame[at : at + 1])
                await asyncio.sleep(0.005)
                server.pass_ms(1_000)
            for caller in callers:
                assert await caller.is_closed()
            await _still_served(server)

    run(make_loop, story())


def test_a_line_that_is_slow_and_gets_its_frames_done_stays(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(frame_ms=5_000)) as server:
            caller = await server.call()
            frame = encode_frame(Command(ECHO, body=b"slow"))
            for _ in range(5):
                caller.writer.write(frame[:50])
                await asyncio.sleep(0.005)
                server.pass_ms(4_000)
                caller.writer.write(frame[50:])
                assert (await caller.read()).body == b"slow"

    run(make_loop, story())


def test_a_peer_that_does_not_read_is_not_read_from(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            _ask_for_much(caller, 1_000)
            await _until_it_stands_still(server)
            handled = len(server.core.seen)
            assert handled < 300, "the answers of all would be 100 MB"
            await _still_served(server)
            assert [(await caller.read()).opaque for _ in range(1_000)] == list(range(1_000))

    run(make_loop, story())


def test_a_peer_that_never_reads_is_closed(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(stall_ms=5_000)) as server:
            caller = await server.call()
            _ask_for_much(caller, 1_000)
            await _until_it_stands_still(server)
            for _ in range(7):
                server.pass_ms(1_000)
            await until(lambda: len(server.board) == 0)
            await _still_served(server)

    run(make_loop, story())


def test_a_peer_that_reads_slowly_and_steadily_stays(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(stall_ms=5_000)) as server:
            caller = await server.call()
            _ask_for_much(caller, 200)
            for opaque in range(200):
                assert (await caller.read()).opaque == opaque
                await asyncio.sleep(0.001)
                server.pass_ms(50)

    run(make_loop, story())


def test_a_peer_that_is_told_more_than_it_ever_reads_is_given_up(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(backlog_bytes=1_000_000)) as server:
            deaf, speaking = await server.call(), await server.call()
            await deaf.ask(ECHO)
            for _ in range(400):
                speaking.write(Command(SHOUT, body=b"x" * _BIG))
                await speaking.read()
            await until(lambda: len(server.board) == 1)
            await _still_served(server)

    run(make_loop, story())


def test_answers_that_nobody_reads_have_an_end_together(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(all_backlogs_bytes=3_000_000)) as server:
            callers = [await server.call() for _ in range(20)]
            for caller in callers:
                _ask_for_much(caller, 200)
            await _until_it_stands_still(server)
            server.board.sweep()
            await until(lambda: len(server.board) <= 12)
            await _still_served(server)

    run(make_loop, story())


def test_half_frames_have_an_end_together(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served(LineLimits(all_halves_bytes=1_000_000)) as server:
            half = encode_frame(Command(SILENT, body=b"x" * 300_000))[:-1]
            callers = [await server.call() for _ in range(10)]
            for caller in callers:
                caller.writer.write(half)
            await until(lambda: len(server.board) <= 4)
            small = await server.call()
            small.writer.write(encode_frame(Command(ECHO, body=b"small"))[:-1])
            await asyncio.sleep(0.01)
            small.writer.write(b"l")
            assert (await small.read()).body == b"small"

    run(make_loop, story())


def _ask_for_much(caller: Caller, count: int) -> None:
    caller.write(*(Command(ECHO, {"times": str(_BIG)}, b"x", opaque=opaque) for opaque in range(count)))


async def _until_it_stands_still(server: Served) -> None:
    seen = -1
    while seen != len(server.core.seen):
        seen = len(server.core.seen)
        await asyncio.sleep(0.1)
