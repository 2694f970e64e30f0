"""A line of our own: questions find their answers, and what goes wrong is one of our errors."""

import asyncio
from collections.abc import Callable

import pytest
from tests.net.served import ECHO, HANG_UP, SHOUT, SILENT, run, served, until

from steelyard.errors import CannotConnect, ConfigurationError, LineClosed, TimedOut
from steelyard.net.link import Link
from steelyard.net.listener import Listener
from steelyard.wire.command import Command

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def test_questions_get_their_own_answers(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            link = Link(f"127.0.0.1:{server.listener.port}")
            asked = [link.ask(Command(ECHO, body=bytes((number,))), timeout_ms=20_000) for number in range(50)]
            answers = await asyncio.gather(*asked)
            assert [answer.body for answer in answers] == [bytes((number,)) for number in range(50)]
            assert len(server.board) == 1
            link.close()

    run(make_loop, story())


def test_what_the_server_asks_of_its_own_accord_is_passed_over(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            link = Link(f"127.0.0.1:{server.listener.port}")
            with pytest.raises(TimedOut):
                await link.ask(Command(SHOUT), timeout_ms=50)
            assert (await link.ask(Command(ECHO, body=b"on"), timeout_ms=20_000)).body == b"on"
            link.close()

    run(make_loop, story())


def test_an_answer_that_does_not_come_is_timed_out_and_the_line_goes_on(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            link = Link(f"127.0.0.1:{server.listener.port}")
            with pytest.raises(TimedOut, match=r"did not answer request 5 in 30 ms"):
                await link.ask(Command(SILENT), timeout_ms=30)
            assert (await link.ask(Command(ECHO), timeout_ms=20_000)).code == 0
            assert len(server.board) == 1
            link.close()

    run(make_loop, story())


def test_a_lost_line_fails_what_waits_is_told_and_opens_again(make_loop: MakeLoop) -> None:
    async def story() -> None:
        lost: list[str] = []
        async with served() as server:
            link = Link(f"127.0.0.1:{server.listener.port}", lost=lambda: lost.append("lost"))
            waiting = asyncio.ensure_future(link.ask(Command(SILENT), timeout_ms=20_000))
            await until(lambda: len(server.core.seen) == 1)
            assert (await link.ask(Command(HANG_UP), timeout_ms=20_000)).body == b"bye"
            with pytest.raises(LineClosed, match="closed the line"):
                await waiting
            assert lost == ["lost"]
            assert (await link.ask(Command(ECHO), timeout_ms=20_000)).code == 0
            link.close()
            await until(lambda: len(server.board) == 0)
            assert lost == ["lost"], "who hangs up himself has not lost anything"

    run(make_loop, story())


def test_a_server_that_is_not_there_cannot_be_connected_to(make_loop: MakeLoop) -> None:
    async def story() -> None:
        listener = Listener.bind("127.0.0.1", 0)
        listener.close()
        with pytest.raises(CannotConnect, match="cannot be reached"):
            await Link(f"127.0.0.1:{listener.port}").ask(Command(ECHO), timeout_ms=1_000)
        with pytest.raises(CannotConnect):
            await Link("no.such.host.invalid:1").ask(Command(ECHO), timeout_ms=1_000)

    run(make_loop, story())


def test_an_address_that_is_none_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigurationError, match="'name-server' is no address"):
        Link("name-server")


def test_a_line_that_was_closed_takes_its_own_questions_along_and_not_those_of_the_next(make_loop: MakeLoop) -> None:
    async def story() -> None:
        async with served() as server:
            link = Link(f"127.0.0.1:{server.listener.port}")
            waiting = asyncio.ensure_future(link.ask(Command(SILENT), timeout_ms=20_000))
            await until(lambda: len(server.core.seen) == 1)
            link.close()
            assert (await link.ask(Command(ECHO, body=b"on"), timeout_ms=20_000)).body == b"on"
            with pytest.raises(LineClosed, match="we closed the line"):
                await waiting
            link.close()

    run(make_loop, story())
