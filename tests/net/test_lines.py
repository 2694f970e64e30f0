"""A line carries commands to the core and its replies back, however the bytes are cut."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.net.served import ECHO, HANG_UP, RAISE, SHOUT, SILENT, run, served, until

from steelyard.wire.codes import HeaderType
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.frames import encode_frame

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def test_a_command_is_answered_however_its_bytes_are_cut(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            for byte in encode_frame(Command(ECHO, body=b"hello", opaque=7)):
                caller.writer.write(bytes((byte,)))
                await caller.writer.drain()
                await asyncio.sleep(0)
            answer = await caller.read()
            assert (answer.opaque, answer.body, answer.is_answer) == (7, b"hello", True)

    run(make_loop, story())


def test_many_commands_of_one_read_are_flushed_once_and_answered_in_order(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            caller.write(*(Command(ECHO, opaque=opaque) for opaque in range(100)))
            assert [(await caller.read()).opaque for _ in range(100)] == list(range(100))
            assert server.core.flushed < 50

    run(make_loop, story())


def test_an_answer_has_the_header_type_of_its_request(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            for kind in HeaderType:
                caller.write(Command(ECHO, header_type=kind))
                assert (await caller.read()).header_type is kind

    run(make_loop, story())


def test_a_reply_reaches_another_line(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            one, other = await server.call(), await server.call()
            await one.ask(ECHO)
            await other.ask(ECHO)
            one.write(Command(SHOUT, body=b"news"))
            assert (await one.read()).body == (await other.read()).body == b"news"

    run(make_loop, story())


def test_a_broken_frame_closes_its_line_after_the_answers_before_it(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller, other = await server.call(), await server.call()
            caller.writer.write(encode_frame(Command(ECHO, body=b"fine")) + b"GET / HTTP/1.1\r\n\r\n")
            assert (await caller.read()).body == b"fine"
            assert await caller.is_closed()
            assert (await other.ask(ECHO, b"still here")).body == b"still here"
            await until(lambda: len(server.core.gone) == 1)

    run(make_loop, story())


def test_a_bug_is_logged_and_answered_and_the_line_goes_on(
    make_loop: MakeLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            answer = await caller.ask(RAISE, opaque=3)
            assert (answer.code, answer.opaque) == (1, 3)
            assert "bug" in (answer.remark or "")
            caller.write(Command(RAISE, flag=ONEWAY), Command(ECHO, body=b"on"))
            assert (await caller.read()).body == b"on"

    with caplog.at_level(logging.ERROR, "steelyard.net"):
        run(make_loop, story())
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert "request 3" in caplog.records[0].getMessage()


def test_many_bugs_do_not_flood_the_log(make_loop: MakeLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            caller.write(*(Command(RAISE, opaque=opaque) for opaque in range(500)))
            for _ in range(500):
                assert (await caller.read()).code == 1
            server.pass_ms(1_000)

    with caplog.at_level(logging.ERROR, "steelyard.net"):
        run(make_loop, story())
    assert len(caplog.records) < 10
    assert "more times" in caplog.records[-1].getMessage()


def test_an_answer_that_cannot_be_written_becomes_one_that_says_so(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            caller.write(Command(ECHO, {"times": str(40)}, body=b"x" * 500_000, opaque=9))
            answer = await caller.read()
            assert (answer.code, answer.opaque, answer.body) == (1, 9, b"")
            assert "16777216" in (answer.remark or "")

    run(make_loop, story())


def test_a_core_can_hang_up_after_its_last_word(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            caller = await server.call()
            assert (await caller.ask(HANG_UP)).body == b"bye"
            assert await caller.is_closed()

    run(make_loop, story())


def test_a_core_learns_once_of_each_line_that_is_gone(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            callers = [await server.call() for _ in range(5)]
            for caller in callers:
                caller.write(Command(SILENT))
            await until(lambda: len(server.core.peers) == 5)
            numbers = set(server.core.peers)
            for caller in callers:
                await caller.close()
            await until(lambda: len(server.core.gone) == 5)
            assert set(server.core.gone) == numbers
            assert len(server.board) == 0

    run(make_loop, story())
