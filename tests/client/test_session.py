"""A session keeps connections to all servers it needs, finds routes, and every question ends."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.client.config import ClientConfig
from steelyard.client.session import Session
from steelyard.errors import (
    BrokerNotInRoute,
    CannotConnect,
    ConnectionClosed,
    NoNameServer,
    TimedOut,
    TopicNotFound,
    TransportError,
)
from steelyard.model import BrokerAddresses, QueueCounts, TopicRoute
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.threads import started_threads
from tests.waiting import LONGEST_S

T = TypeVar("T")
_CONFIG = Command(RequestCode.GET_BROKER_CONFIG)


def _with(
    namesrv: str, work: Callable[[Session], Awaitable[T]], timeout_s: float = 5.0, *, retry_refused: bool = True
) -> T:
    async def run() -> T:
        session = Session(ClientConfig(namesrv, timeout_s=timeout_s, retry_refused=retry_refused))
        await session.start()
        try:
            return await work(session)
        finally:
            await session.close()

    return asyncio.run(run())


async def _until(condition: Callable[[], bool], timeout_s: float = LONGEST_S) -> None:
    end_s = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < end_s, "it did not happen in time"
        await asyncio.sleep(0.005)


async def _nothing(session: Session) -> None:
    del session


def _silent_server() -> socket.socket:
    """Listen, and never say anything."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(16)
    return server


def test_a_question_is_answered_by_the_broker_it_is_for() -> None:
    async def send_request(session: Session) -> set[bytes]:
        await session.routes.find("TBW102")
        answers = [await session.request_ok(name, _CONFIG) for name in session.broker_connections()]
        return {
            accepted
            for answer in answers
            for accepted in answer.body.split(b"\n")
            if accepted.startswith(b"brokerName=")
        }

    with Cluster(brokers=2) as cluster:
        assert _with(cluster.namesrv, send_request) == {b"brokerName=broker-0", b"brokerName=broker-1"}


def test_a_name_server_that_is_not_there_is_reported_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(NoNameServer, match=rf"no name server of {address} was reached in 0.2 s"):
            _with(address, _nothing, timeout_s=0.2)


def test_a_name_server_that_refuses_is_reported_at_once_where_that_is_wanted() -> None:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        addresses = ";".join(f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second))
        with pytest.raises(NoNameServer, match=rf"no name server of {addresses} was reached \("):
            _with(addresses, _nothing, timeout_s=LONGEST_S, retry_refused=False)


@pytest.mark.parametrize("retry_refused", [True, False])
def test_a_dead_name_server_is_passed_over(retry_refused: bool) -> None:
    async def find(session: Session) -> int:
        return len((await session.routes.find("TBW102")).brokers)

    with Cluster() as cluster, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{free.getsockname()[1]}"
        assert _with(f"{dead};{cluster.namesrv}", find, retry_refused=retry_refused) == 1


def test_a_silent_name_server_is_left_for_one_that_speaks() -> None:
    async def find(session: Session) -> int:
        return len((await session.routes.find("TBW102")).brokers)

    with Cluster() as cluster, _silent_server() as server:
        assert _with(f"127.0.0.1:{server.getsockname()[1]};{cluster.namesrv}", find) == 1


def test_name_servers_are_asked_in_turn_when_one_is_lost() -> None:
    async def find(session: Session) -> None:
        await session.routes.find("TBW102")
        first = 0 if session.name_server_connection.address == session.config.name_servers[0] else 1
        await asyncio.to_thread(cluster.stop_name_server, first)
        await session.routes.look_up("TBW102")
        assert session.name_server_connection.address == session.config.name_servers[1 - first]

    with Cluster(name_servers=2) as cluster:
        _with(cluster.namesrv, find)


def test_look_ups_of_one_topic_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def find(session: Session) -> None:
        names, send_request = session.name_server_connection, session.name_server_connection.request

        def count(command: Command, timeout_ms: int) -> "asyncio.Future[Command]":
            asked.append(command.code)
            return send_request(command, timeout_ms)

        monkeypatch.setattr(names, "request", count)
        await asyncio.gather(*(session.routes.find("TBW102") for _ in range(50)))

    with Cluster() as cluster:
        _with(cluster.namesrv, find)
    assert asked == [RequestCode.GET_ROUTEINFO_BY_TOPIC]


def test_a_topic_that_is_not_there_is_reported_with_what_may_be_meant() -> None:
    async def find(session: Session) -> None:
        await session.routes.publish_list("TBW10")

    with (
        Cluster(broker_options=BrokerOptions(auto_create_topics=False)) as cluster,
        pytest.raises(TopicNotFound, match=r"topic 'TBW10' does not exist on .*Create it with: steelyard topic create"),
    ):
        _with(cluster.namesrv, find)


def test_where_there_is_no_broker_the_topic_is_not_blamed() -> None:
    async def find(session: Session) -> None:
        await session.routes.publish_list("orders")

    with Cluster(brokers=0) as cluster, pytest.raises(TopicNotFound, match="no broker is registered with"):
        _with(cluster.namesrv, find)


def test_a_topic_to_be_is_sent_to_through_the_default_topic() -> None:
    async def find(session: Session) -> tuple[bool, int]:
        listed = await session.routes.publish_list("new")
        return listed.topic_exists, len(listed.queues)

    with Cluster() as cluster:
        assert _with(cluster.namesrv, find) == (False, 4)


def test_a_broker_that_no_route_told_of_is_not_guessed() -> None:
    async def send_request(session: Session) -> None:
        await session.request("broker-9", _CONFIG)

    with Cluster() as cluster, pytest.raises(BrokerNotInRoute, match="broker-9"):
        _with(cluster.namesrv, send_request)


def test_a_connection_comes_back_after_its_broker() -> None:
    async def send_request(session: Session) -> None:
        await session.routes.find("TBW102")
        broker = session.broker_connection("broker-0")
        await session.request_ok(broker, _CONFIG)
        await asyncio.to_thread(cluster.kill_broker, "broker-0")
        await _until(lambda: not broker.is_open)
        with pytest.raises(TransportError):
            await broker.request(_CONFIG, 1_000)
        await asyncio.to_thread(cluster.start_broker, "broker-0")
        await _until(lambda: broker.is_open)
        await session.request_ok(broker, _CONFIG)

    with Cluster() as cluster:
        _with(cluster.namesrv, send_request)


def test_what_is_unanswered_when_a_connection_ends_fails_then() -> None:
    async def send_request(session: Session) -> None:
        connection = session.connection_at(f"127.0.0.1:{server.getsockname()[1]}")
        answer = connection.request(_CONFIG, 30_000)
        accepted, _ = await asyncio.to_thread(server.accept)
        await asyncio.to_thread(accepted.recv, 1)
        accepted.close()
        with pytest.raises(ConnectionClosed):
            await answer

    with Cluster() as cluster, _silent_server() as server:
        _with(cluster.namesrv, send_request)


def test_a_question_has_its_time_and_no_more() -> None:
    async def send_request(session: Session) -> None:
        with pytest.raises(TimedOut, match="did not answer request 26 in 50 ms"):
            await session.connection_at(f"127.0.0.1:{server.getsockname()[1]}").request(_CONFIG, 50)

    with Cluster() as cluster, _silent_server() as server:
        _with(cluster.namesrv, send_request)


def test_a_question_to_nobody_fails_at_once() -> None:
    async def send_request(session: Session) -> None:
        with pytest.raises(CannotConnect, match="cannot be reached"):
            await session.connection_at("127.0.0.1:1").request(_CONFIG, 30_000)

    with Cluster() as cluster:
        _with(cluster.namesrv, send_request)


def test_closing_fails_what_is_under_way_and_leaves_nothing() -> None:
    async def run() -> None:
        session = Session(ClientConfig(cluster.namesrv))
        await session.start()
        await session.routes.find("TBW102")
        answer = session.connection_at(f"127.0.0.1:{server.getsockname()[1]}").request(_CONFIG, 30_000)
        await session.close()
        with pytest.raises(TransportError):
            await answer
        await session.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with Cluster() as cluster, _silent_server() as server:
        with started_threads() as started:
            asyncio.run(run())
        assert not any(thread.is_alive() for thread in started)


def test_requests_of_a_broker_go_to_whoever_serves_their_code() -> None:
    """An administrator's question that nobody serves is refused, so that who asked need not wait."""
    served: list[tuple[str, int]] = []

    def serve(broker: str, request: Command) -> Command:
        served.append((broker, request.code))
        return response_to(request, remark="fine")

    async def send_request(session: Session) -> None:
        session.producer_groups.add("shop")
        session.request_handlers[RequestCode.CHECK_TRANSACTION_STATE] = serve
        connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        server = await asyncio.start_server(lambda *accepted: connections.put_nowait(accepted), "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        place = BrokerAddresses("broker-x", "there", {0: address})
        session.update_brokers(TopicRoute("orders", (place,), (QueueCounts("broker-x", 1, 1),)))
        reader, writer = await connections.get()
        splitter = FrameDecoder()
        (beat,) = splitter.feed(await reader.read(1 << 16))
        for code in (RequestCode.CHECK_TRANSACTION_STATE, 4711):
            writer.write(encode_frame(Command(code, opaque=code)))
        answers: list[Command] = []
        while len(answers) < 2:
            answers += [each for each in splitter.feed(await reader.read(1 << 16)) if each.is_response]
        writer.close()
        server.close()
        assert beat.code == RequestCode.HEART_BEAT
        assert [(each.opaque, each.code) for each in answers] == [(39, 0), (4711, 3)]

    with Cluster() as cluster:
        _with(cluster.namesrv, send_request)
    assert served == [("broker-x", 39)]
