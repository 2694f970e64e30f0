"""A pull at a slave is preceded by a heartbeat, and whatever a slave cannot do goes back to the master."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from steelyard.balance.group.options import MemberOptions
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.member_runner import ReplicaReads
from steelyard.client.session import Session
from steelyard.model import BrokerAddresses, Subscription, TopicRoute
from steelyard.protocol.member_protocol import MemberProtocol, OutgoingCommand
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.pull import PullMessageResponse
from tests.client.consumer_scene import make_topic

_BEAT, _PULL = int(RequestCode.HEART_BEAT), int(RequestCode.PULL_MESSAGE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        make_topic(running, "orders")
        yield running


class _Slave:
    """Answers pulls with a code, and records what it receives."""

    def __init__(self) -> None:
        self.code = int(ResponseCode.PULL_NOT_FOUND)
        self.received: list[int] = []
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one line."""
        splitter = FrameDecoder()
        while data := await reader.read(65_536):
            for request in splitter.feed(data):
                self.received.append(request.code)
                code = self.code if request.code == _PULL else 0
                writer.write(encode_frame(response_to(request, code, PullMessageResponse(1, 7, 0, 7))))
        writer.close()


class _Stage:
    """A session that knows a slave, and what came of pulls there."""

    def __init__(self, session: Session, slave: _Slave) -> None:
        options = MemberOptions("billing", "c1@sy1", {"orders": Subscription("orders")})
        self.answers: list[tuple[int, Command | None]] = []
        self.slaves = ReplicaReads(session, MemberProtocol(options, "i"), self._answered)
        self.slave = slave

    def _answered(self, response: OutgoingCommand, answer: Command | None) -> None:
        self.answers.append((response.command.opaque, answer))

    async def pull(self, opaque: int) -> bool:
        """Pull, and wait for the outcome; False: the master is to be asked."""
        response = OutgoingCommand("broker-0", Command(_PULL, {"topic": "orders"}, opaque=opaque), 1)
        before = len(self.answers)
        if not self.slaves.try_pull(response):
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
        session = Session(ClientConfig(cluster.namesrv))
        await session.start()
        place = BrokerAddresses("broker-0", "c", {0: cluster.brokers["broker-0"], 1: slave.address})
        session.update_brokers(TopicRoute("orders", brokers=(place,), counts=()))
        stage = _Stage(session, slave)
        try:
            await work(stage)
        finally:
            stage.slaves.close()
            await session.close()
            server.close()
            await server.wait_closed()

    asyncio.run(run())


def test_a_slave_hears_of_us_before_the_first_pull_only(cluster: Cluster) -> None:
    async def work(stage: _Stage) -> None:
        assert await stage.pull(5)
        assert await stage.pull(6)
        assert stage.slave.received == [_BEAT, _PULL, _PULL]
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
        assert not stage.slaves.try_pull(OutgoingCommand("broker-0", Command(_PULL), 3))

    _on_stage(cluster, work)
