"""A client connection: commands leave joined, commands arrive complete, and its end is reported once."""

import asyncio
import os
import socket
from collections.abc import Callable

import pytest

from steelyard.errors import CannotConnect, ConfigurationError
from steelyard.net.client_connection import ClientConnection, open_connection
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.net.toy_server import ECHO, run, toy_server, until

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


class _Ears:
    """Remembers what a connection tells."""

    def __init__(self) -> None:
        self.received_commands: list[Command] = []
        self.lost: list[str] = []
        self.changed = asyncio.Event()

    def receive(self, connection: ClientConnection, command: Command) -> None:
        del connection
        self.received_commands.append(command)
        self.changed.set()

    def lose(self, connection: ClientConnection, why: str) -> None:
        del connection
        self.lost.append(why)
        self.changed.set()

    async def change(self) -> None:
        async with asyncio.timeout(10):
            await self.changed.wait()
        self.changed.clear()


async def _pair(ears: _Ears) -> tuple[ClientConnection, socket.socket]:
    """Return a connection and the other end of it."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        connection = await open_connection(f"127.0.0.1:{server.getsockname()[1]}", ears.receive, ears.lose)
        other, _ = server.accept()
    other.settimeout(10)
    return connection, other


def test_what_is_said_in_one_turn_of_the_loop_is_written_together() -> None:
    async def run() -> None:
        ears = _Ears()
        connection, other = await _pair(ears)
        for number in range(50):
            connection.send(Command(34, opaque=number))
        await asyncio.sleep(0)
        with other:
            decoder = FrameDecoder()
            arrived = [command.opaque for command in decoder.feed(await asyncio.to_thread(other.recv, 1 << 20))]
            assert arrived == list(range(50))
            connection.close("enough")
            await ears.change()
        assert ears.lost == ["enough"]

    asyncio.run(run())


def test_commands_arrive_whole_however_they_are_cut() -> None:
    async def run() -> None:
        ears = _Ears()
        connection, other = await _pair(ears)
        with other:
            for byte in encode_frame(Command(0, opaque=1, flag=1, body=b"x" * 40)):
                other.send(bytes([byte]))
            await ears.change()
            assert [command.body for command in ears.received_commands] == [b"x" * 40]
            connection.abort()
            await ears.change()

    asyncio.run(run())


def test_a_server_that_speaks_something_else_is_dropped_with_a_reason() -> None:
    async def run() -> None:
        ears = _Ears()
        _, other = await _pair(ears)
        with other:
            other.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await ears.change()
        assert len(ears.lost) == 1
        assert "it does not speak the protocol" in ears.lost[0]

    asyncio.run(run())


def test_what_was_said_before_hanging_up_still_leaves() -> None:
    async def run() -> None:
        ears = _Ears()
        connection, other = await _pair(ears)
        connection.send(Command(35, opaque=7))
        connection.close()
        assert not connection.is_open
        with other:
            received = b""
            while piece := await asyncio.to_thread(other.recv, 1 << 16):
                received += piece
            assert [command.opaque for command in FrameDecoder().feed(received)] == [7]
        await ears.change()

    asyncio.run(run())


def test_a_command_that_cannot_be_written_is_the_callers_fault_and_the_connection_goes_on() -> None:
    async def run() -> None:
        ears = _Ears()
        connection, other = await _pair(ears)
        with other, pytest.raises(ConfigurationError):
            connection.send(Command(1, {"topic": "\ud800"}))
        assert connection.is_open
        connection.abort()
        await ears.change()

    asyncio.run(run())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9876"])
def test_an_address_without_a_listener_is_a_sentence(address: str) -> None:
    async def run() -> None:
        ears = _Ears()
        await open_connection(address, ears.receive, ears.lose)

    with pytest.raises(CannotConnect, match=f"{address} cannot be reached"):
        asyncio.run(run())


def test_a_connection_that_is_given_up_at_any_moment_is_closed(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            address, made = f"127.0.0.1:{server.listener.port}", 0
            # One turn of the loop more each time: the last ones are given up as they are ready, or were made before.
            for turns in range(30):
                ears = _Ears()
                opening = asyncio.ensure_future(open_connection(address, ears.receive, ears.lose))
                for _ in range(turns):
                    await asyncio.sleep(0)
                if not opening.cancel():
                    (await opening).abort()
                    made += 1
                await asyncio.wait([opening])
            assert 0 < made < 30
            last = await server.connect()  # the server takes connections in their order
            assert (await last.request(ECHO)).code == 0
            await until(lambda: len(server.remoting) == 1)

    run(make_loop, scenario())


def test_no_time_at_all_is_a_time_that_is_over(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with toy_server() as server:
            ears = _Ears()
            for timeout_ms in (0, -1_000):
                with pytest.raises(CannotConnect, match=f"did not answer in {timeout_ms} ms"):
                    await open_connection(
                        f"127.0.0.1:{server.listener.port}", ears.receive, ears.lose, timeout_ms=timeout_ms
                    )
            last = await server.connect()
            assert (await last.request(ECHO)).code == 0
            await until(lambda: len(server.remoting) == 1)

    run(make_loop, scenario())


@pytest.mark.process
def test_a_child_lets_go_of_its_parents_connections() -> None:
    """The server sees the end of a connection when the parent closes it, whatever a child still runs."""

    async def run() -> None:
        ears = _Ears()
        connection, other = await _pair(ears)
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            os.read(reads, 1)
            os._exit(0)
        with other:
            connection.abort()
            await ears.change()
            try:
                assert await asyncio.to_thread(other.recv, 1) == b""
            except ConnectionResetError:
                pass
            finally:
                os.write(writes, b".")
                os.waitpid(child, 0)
                os.close(reads)
                os.close(writes)

    asyncio.run(run())
