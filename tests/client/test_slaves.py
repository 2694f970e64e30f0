"""A pull at a slave is preceded by a heartbeat, and whatever a slave cannot do goes back to the master."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.client.consumer_scene import make_topic

from steelyard.balance.member_options import MemberOptions
from steelyard.client.connect import Connect
from steelyard.client.consuming.slaves import Slaves
from steelyard.client.session import Session
from steelyard.dialect.voice import Said, Voice
from steelyard.model import BrokerPlace, Route, Subscription
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.frames import Splitter, encode_frame
from steelyard.wire.headers.pull import PullAnswer

_BEAT, _PULL = int(RequestCode.HEART_BEAT), int(RequestCode.PULL_MESSAGE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        make_topic(running, "orders")
        yield running


class _Slave:
    """Answers pulls with a code, and takes note of what it hears."""

    def __init__(self) -> None:
        self.code = int(ResponseCode.PULL_NOT_FOUND)
        self.heard: list[int] = []
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one line."""
        splitter = Splitter()
        while data := await reader.read(65_536):
            for request in splitter.feed(data):
                self.heard.append(request.code)
                code = self.code if request.code == _PULL else 0
                writer.write(encode_frame(answer_to(request, code, PullAnswer(1, 7, 0, 7))))
        writer.close()


class _Stage:
    """A session that knows a slave, and what came of pulls there."""

    def __init__(self, session: Session, slave: _Slave) -> None:
        options = MemberOptions("billing", "c1@sy1", {"orders": Subscription("orders")})
        self.answers: list[tuple[int, Command | None]] = []
        self.slaves = Slaves(session, Voice(options, "i"), self._answered)
        self.slave = slave

    def _answered(self, said: Said, answer: Command | None) -> None:
        self.answers.append((said.command.opaque, answer))

    async def pull(self, opaque: int) -> bool:
        """Pull, and wait for the outcome; False: the master is to be asked."""
        said = Said("broker-0", Command(_PULL, {"topic": "orders"}, opaque=opaque), 1)
        before = len(self.answers)
        if not self.slaves.takes(said):
            return False
        while len(self.answers) == before:
            await asyncio.sleep(0.002)
        return True


def _on_stage(cluster: Cluster, work: Callable[[_Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        slave = _Slave()
        server = await asyncio.start_server(slave.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        slave.address = f"{host}:{port}"
        session = Session(Connect(cluster.namesrv))
        await session.start()
        place = BrokerPlace("broker-0", "c", {0: cluster.brokers["broker-0"], 1: slave.address})
        session.learn(Route("orders", brokers=(place,), counts=()))
        stage = _Stage(session, slave)
        try:
            await work(stage)
        finally:
            stage.slaves.end()
            await session.close()
            server.close()
            await server.wait_closed()

    asyncio.run(run())


def test_a_slave_hears_of_us_before_the_first_pull_only(cluster: Cluster) -> None:
    async def work(stage: _Stage) -> None:
        assert await stage.pull(5)
        assert await stage.pull(6)
        assert stage.slave.heard == [_BEAT, _PULL, _PULL]
        assert [(opaque, None if answer is None else answer.opaque) for opaque, answer in stage.answers] == [
            (5, 5),
            (6, 6),
        ]

    _on_stage(cluster, work)


def test_a_slave_that_refuses_is_left_alone_for_a_while(cluster: Cluster) -> None:
    async def work(stage: _Stage) -> None:
        stage.slave.code = int(ResponseCode.SUBSCRIPTION_NOT_EXIST)
        assert await stage.pull(5)
        assert not await stage.pull(6)

    _on_stage(cluster, work)


def test_a_broker_without_that_slave_is_asked_itself(cluster: Cluster) -> None:
    async def work(stage: _Stage) -> None:
        assert not stage.slaves.takes(Said("broker-0", Command(_PULL), 3))

    _on_stage(cluster, work)
