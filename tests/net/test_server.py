"""A connection carries commands to the core and its replies back, however the bytes are cut."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from steelyard.wire.codes import HeaderType
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.frames import encode_frame
from tests.net.toy_server import ECHO, HANG_UP, RAISE, SHOUT, SILENT, run, toy_server, until

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def test_a_command_is_answered_however_its_bytes_are_cut(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            for byte in encode_frame(Command(ECHO, body=b"hello", opaque=7)):
                client.writer.write(bytes((byte,)))
                await client.writer.drain()
                await asyncio.sleep(0)
            answer = await client.read()
            assert (answer.opaque, answer.body, answer.is_response) == (7, b"hello", True)

    run(make_loop, scenario())


def test_many_commands_of_one_read_are_flushed_once_and_answered_in_order(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            client.write(*(Command(ECHO, opaque=opaque) for opaque in range(100)))
            assert [(await client.read()).opaque for _ in range(100)] == list(range(100))
            assert server.core.flushed < 50

    run(make_loop, scenario())


def test_an_answer_has_the_header_type_of_its_request(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            for kind in HeaderType:
                client.write(Command(ECHO, header_type=kind))
                assert (await client.read()).header_type is kind

    run(make_loop, scenario())


def test_a_reply_reaches_another_connection(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            one, other = await server.connect(), await server.connect()
            await one.request(ECHO)
            await other.request(ECHO)
            one.write(Command(SHOUT, body=b"news"))
            assert (await one.read()).body == (await other.read()).body == b"news"

    run(make_loop, scenario())


def test_a_broken_frame_closes_its_connection_after_the_answers_before_it(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client, other = await server.connect(), await server.connect()
            client.writer.write(encode_frame(Command(ECHO, body=b"fine")) + b"GET / HTTP/1.1\r\n\r\n")
            assert (await client.read()).body == b"fine"
            assert await client.is_closed()
            assert (await other.request(ECHO, b"still here")).body == b"still here"
            await until(lambda: len(server.core.gone) == 1)

    run(make_loop, scenario())


def test_a_bug_is_logged_and_answered_and_the_connection_goes_on(
    make_loop: MakeLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            answer = await client.request(RAISE, opaque=3)
            assert (answer.code, answer.opaque) == (1, 3)
            assert "bug" in (answer.remark or "")
            client.write(Command(RAISE, flag=ONEWAY_FLAG), Command(ECHO, body=b"on"))
            assert (await client.read()).body == b"on"

    with caplog.at_level(logging.ERROR, "steelyard.net"):
        run(make_loop, scenario())
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert "request 3" in caplog.records[0].getMessage()


def test_many_bugs_do_not_flood_the_log(make_loop: MakeLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            client.write(*(Command(RAISE, opaque=opaque) for opaque in range(500)))
            for _ in range(500):
                assert (await client.read()).code == 1
            server.pass_ms(1_000)

    with caplog.at_level(logging.ERROR, "steelyard.net"):
        run(make_loop, scenario())
    assert len(caplog.records) < 10
    assert "more times" in caplog.records[-1].getMessage()


def test_an_answer_that_cannot_be_written_becomes_one_that_reports_it(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            client.write(Command(ECHO, {"times": str(40)}, body=b"x" * 500_000, opaque=9))
            answer = await client.read()
            assert (answer.code, answer.opaque, answer.body) == (1, 9, b"")
            assert "16777216" in (answer.remark or "")

    run(make_loop, scenario())


def test_a_core_can_hang_up_after_its_last_word(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            client = await server.connect()
            assert (await client.request(HANG_UP)).body == b"bye"
            assert await client.is_closed()

    run(make_loop, scenario())


def test_a_core_learns_once_of_each_connection_that_is_gone(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            clients = [await server.connect() for _ in range(5)]
            for client in clients:
                client.write(Command(SILENT))
            await until(lambda: len(server.core.peers) == 5)
            numbers = set(server.core.peers)
            for client in clients:
                await client.close()
            await until(lambda: len(server.core.gone) == 5)
            assert set(server.core.gone) == numbers
            assert len(server.remoting) == 0

    run(make_loop, scenario())
