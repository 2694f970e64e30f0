"""A server with delayed commands handles them later and in order; everything else is on time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from steelyard.errors import ConfigurationError
from steelyard.net.server import Replies
from steelyard.testing.fault_host import DelayQueue, FaultyCore
from steelyard.wire.command import Command, Peer, Reply, response_to
from tests.net.toy_server import ECHO, RAISE, SHOUT, SILENT, ToyServer, run, toy_server, until

MakeLoop = Callable[[], asyncio.AbstractEventLoop]

_LONG_MS = 3_600_000


class _FaultyServer:
    """A toy server with faults in front of its core."""

    def __init__(self, toy: ToyServer) -> None:
        self.core, self.remoting, self.connect = toy.core, toy.remoting, toy.connect
        self.faulty = FaultyCore(toy.core, toy.remoting)


@asynccontextmanager
async def faulty_server() -> AsyncIterator[_FaultyServer]:
    async with toy_server() as toy:
        yield _FaultyServer(toy)


def test_a_command_is_answered_after_the_delay(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client = await server.connect()
            server.faulty.set_delay(60)
            start_s = asyncio.get_running_loop().time()
            assert (await client.request(ECHO, b"late")).body == b"late"
            assert asyncio.get_running_loop().time() - start_s >= 0.055

    run(make_loop, scenario())


def test_commands_of_all_connections_are_handled_in_the_order_in_which_they_came(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            clients = [await server.connect() for _ in range(3)]

            async def arrived(count: int) -> None:
                await until(lambda: server.faulty.delayed_commands + len(server.core.seen) == count)

            server.faulty.set_delay(30)
            for opaque in range(60):
                if opaque == 30:
                    server.faulty.set_delay(1)  # a shorter delay overtakes nothing
                clients[opaque % 3].write(Command(SILENT, opaque=opaque))
                await arrived(opaque + 1)
            await until(lambda: len(server.core.seen) == 60)
            assert server.core.seen == list(range(60))

    run(make_loop, scenario())


def test_delayed_commands_hold_up_neither_the_loop_nor_what_the_server_sends_by_itself(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client, other = await server.connect(), await server.connect()
            await other.request(ECHO)
            client.write(Command(SHOUT, body=b"to all"))
            assert (await other.read()).body == b"to all"
            server.faulty.set_delay(_LONG_MS)
            client.write(Command(ECHO, opaque=9))
            await until(lambda: server.faulty.delayed_commands == 1)
            server.remoting.tick()
            assert server.core.seen[-1] != 9
            server.faulty.set_delay(0)
            assert [(await client.read()).body, (await client.read()).opaque] == [b"to all", 9]

    run(make_loop, scenario())


def test_the_end_of_a_connection_comes_after_its_last_command(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client = await server.connect()
            server.faulty.set_delay(_LONG_MS)
            client.write(Command(SILENT, opaque=5))
            await until(lambda: server.faulty.delayed_commands == 1)
            await client.close()
            await until(lambda: server.faulty.delayed_commands == 2)
            assert (len(server.remoting), server.core.gone) == (0, [])
            server.faulty.set_delay(0)
            assert server.core.seen == [5]
            assert len(server.core.gone) == 1
            assert server.core.peers == {}

    run(make_loop, scenario())


def test_a_bug_of_the_core_is_answered_late_too(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client = await server.connect()
            server.faulty.set_delay(5)
            assert (await client.request(RAISE)).code == 1
            assert (await client.request(ECHO, b"fine")).body == b"fine"

    run(make_loop, scenario())


def test_each_run_of_delayed_commands_is_flushed(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client = await server.connect()
            server.faulty.set_delay(20)
            client.write(*(Command(SILENT, opaque=number) for number in range(10)))
            await until(lambda: len(server.core.seen) == 10)
            # Once for the read, which handled nothing, and at least once for what was handled afterwards.
            await until(lambda: server.core.flushed >= 2)

    run(make_loop, scenario())


def test_a_killed_server_drops_delayed_commands(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client = await server.connect()
            server.faulty.set_delay(_LONG_MS)
            client.write(Command(SILENT, opaque=5))
            await until(lambda: server.faulty.delayed_commands == 1)
            server.faulty.drop_commands()
            server.remoting.abort()
            assert await client.is_closed()
            await until(lambda: len(server.core.gone) == 1)
            assert (server.faulty.delayed_commands, server.core.seen) == (0, [])

    run(make_loop, scenario())


@pytest.mark.parametrize("delay_ms", [-1, 3_600_001])
def test_an_impossible_delay_is_refused(make_loop: MakeLoop, delay_ms: int) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            with pytest.raises(ConfigurationError, match=f"a delay of {delay_ms} ms is not possible; give 0 to"):
                server.faulty.set_delay(delay_ms)

    run(make_loop, scenario())


def test_what_is_put_while_the_queue_runs_comes_last(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        done: list[str] = []
        delays = DelayQueue(asyncio.get_running_loop(), lambda: done.append("after"))
        delays.delay_ms = 1

        def first() -> None:
            done.append("first")
            delays.put(lambda: done.append("third"))

        delays.put(first)
        delays.put(lambda: done.append("second"))
        await until(lambda: "third" in done)
        assert [each for each in done if each != "after"] == ["first", "second", "third"]

    run(make_loop, scenario())


def _intercept(command: Command, peer: Peer, now_ms: int) -> Replies:
    del now_ms
    return (Reply(peer, response_to(command, body=b"not the core")),)


def test_a_handler_before_the_core_gets_each_command_until_it_is_removed(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            client = await server.connect()
            server.faulty.handler = _intercept
            assert (await client.request(ECHO, b"1")).body == b"not the core"
            server.faulty.set_delay(20)
            assert (await client.request(ECHO, b"2")).body == b"not the core"
            server.faulty.handler = server.core.handle
            assert (await client.request(ECHO, b"3")).body == b"3"
            server.faulty.handler = _intercept
            server.faulty.set_delay(0)
            assert (await client.request(ECHO, b"4")).body == b"not the core"

    run(make_loop, scenario())


def test_connections_are_cut_by_their_peer(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            one, other = await server.connect(), await server.connect()
            await one.request(ECHO)
            await other.request(ECHO)
            first, second = server.remoting.peers()
            assert server.faulty.cut_connections(lambda peer: peer.connection_id == first.connection_id) == 1
            await until(lambda: server.remoting.peers() == [second])
            assert (await other.request(ECHO, b"here")).body == b"here"

    run(make_loop, scenario())


def test_a_server_that_refuses_connections_keeps_those_it_has(make_loop: MakeLoop) -> None:
    async def scenario() -> None:
        async with faulty_server() as server:
            one = await server.connect()
            await one.request(ECHO)
            server.faulty.refuse_connections(is_refusing=True)
            late = await server.connect()
            assert await late.is_closed()
            assert (await one.request(ECHO, b"here")).body == b"here"
            server.faulty.refuse_connections(is_refusing=False)
            assert (await (await server.connect()).request(ECHO, b"new")).body == b"new"

    run(make_loop, scenario())
