"""Probes: every step ends in time with a value, whatever is at the other end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from steelyard.diagnostics.servers import ConnectOutcome
from steelyard.net.connection_probe import RequestProbe, probe_connect, probe_request, resolve_host
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import encode_frame
from tests.waiting import LONGEST_S

ASK = encode_frame(Command(106, opaque=7))
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[int]:
    """Run a server, and return its port."""
    connections: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(OSError):
            await answer(reader, writer)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


def answer_of(answer: Answer, timeout_s: float = LONGEST_S) -> RequestProbe:
    """Ask a server, and return what came."""

    async def ask() -> RequestProbe:
        async with served(answer) as port:
            return await probe_request("127.0.0.1", port, ASK, timeout_s)

    return asyncio.run(ask())


def answering(words: bytes) -> Answer:
    """Make a server that says something and hangs up, whatever is asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(words)
        writer.close()

    return answer


def test_a_name_has_addresses_or_a_reason() -> None:
    found, why = asyncio.run(resolve_host("localhost", 9876, LONGEST_S))
    assert (bool(found), why) == (True, "")
    for host in ("nowhere.invalid", "\x00", "a" * 300):
        found, why = asyncio.run(resolve_host(host, 9876, LONGEST_S))
        assert (found, bool(why)) == ((), True)


def test_a_port_is_open_or_refused() -> None:
    async def both() -> list[ConnectOutcome]:
        async with served(answering(b"")) as port:
            opened = await probe_connect(("127.0.0.1",), port, LONGEST_S)
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            refused = await probe_connect(("127.0.0.1",), bound.getsockname()[1], LONGEST_S)
        return [opened[1].outcome, refused[1].outcome, (await probe_connect((), 1, LONGEST_S))[1].outcome]

    assert asyncio.run(both()) == [ConnectOutcome.OPEN, ConnectOutcome.REFUSED, ConnectOutcome.FAILED]


def test_an_answer_is_read() -> None:
    probed = answer_of(answering(encode_frame(response_to(Command(106, opaque=7), remark="here"))))
    assert probed.response is not None
    assert probed.response.remark == "here"


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n", b"\xff" * 5_000, b"\x00\x00\x00\x01", b"\x00" * 64])
def test_what_is_no_answer_is_kept_in_part(words: bytes) -> None:
    probed = answer_of(answering(words))
    assert probed.response is None
    assert probed.first_bytes == words[:256]


def test_a_closing_and_a_silent_server_differ() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    assert answer_of(answering(b"")).closed_by_peer
    silent = answer_of(mute, 0.1)
    assert (silent.response, silent.first_bytes, silent.closed_by_peer) == (None, b"", False)


def test_a_request_is_no_answer() -> None:
    assert answer_of(answering(ASK)).response is None
