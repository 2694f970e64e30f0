"""After the trouble: the same producer goes on, in every way of sending, as soon as there is somebody to send to."""

import asyncio
import socket

import pytest

from steelyard.balance.producer.broker_latency import LatencyTable
from steelyard.client.broker_connection import BrokerConnection, ConnectionSettings
from steelyard.client.config import ClientConfig
from steelyard.client.sync.producer import Producer
from steelyard.errors import CannotConnect, NoNameServer, SendFailed, SteelyardError
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from tests.client.proxy import Detour
from tests.client.send_paths import Way, both_ways
from tests.latency_clock import Advance
from tests.waiting import until

ORDER = Message("orders", b"x")
SHORT = LatencyTable("short", steps_ms=(0, 60_000), avoid_for_ms=(0, 1_000), failure_ms=60_000)


@both_ways
def test_the_first_send_after_all_brokers_were_gone_finds_them(around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        way(producer)(ORDER)
        for proxy in around.brokers.values():
            proxy.refuse()
        for _ in range(8):  # long enough for the pauses between connections to grow
            with pytest.raises(SendFailed):
                way(producer)(ORDER)
        for proxy in around.brokers.values():
            proxy.accept()
        way(producer)(ORDER)


@both_ways
@pytest.mark.parametrize("avoids", [False, True])
def test_a_broker_that_a_route_has_lost_is_used_again_soon_after_it_is_back(
    cluster: Cluster, way: Way, advance: Advance, *, avoids: bool
) -> None:
    with Producer(cluster.namesrv, avoid_slow_brokers=avoids, latency_table=SHORT) as producer:
        for _ in range(8):
            way(producer)(ORDER)
        cluster.kill_broker("broker-1")
        until(lambda: way(producer)(ORDER).attempts != ())
        until(lambda: not any(way(producer)(ORDER).attempts for _ in range(8)))
        if avoids:
            shown = {each.broker: each for each in producer.brokers()}
            assert (shown["broker-1"].share, shown["broker-1"].why) == (0, "it failed"), "what is lost is still shown"
        cluster.start_broker("broker-1")
        # Routes are looked up every 30 s at the latest: this is sooner.
        until(lambda: way(producer)(ORDER).queue.broker == "broker-1", meanwhile=lambda: advance(100))


@both_ways
def test_a_key_of_a_dead_broker_is_tried_there_alone_and_the_error_reports_it(cluster: Cluster, way: Way) -> None:
    with Producer(cluster.namesrv) as producer:
        broker = way(producer)(ORDER, key="customer-7").queue.broker
        cluster.kill_broker(broker)
        with pytest.raises(SendFailed) as caught:
            way(producer)(ORDER, key="customer-7")
        assert {tried for tried, _, _ in caught.value.attempts} == {broker}
        assert len(caught.value.attempts) >= 3
        assert cluster.brokers[broker] in str(caught.value)
        cluster.start_broker(broker)
        until(lambda: way(producer)(ORDER, key="customer-7").queue.broker == broker)


@both_ways
def test_looking_a_new_topic_up_is_a_part_of_the_time_of_a_send(around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        way(producer)(ORDER)
        around.name_server.swallows = True
        with pytest.raises(NoNameServer, match="the route of topic 'invoices' was not found within 300 ms"):
            way(producer)(Message("invoices", b"x"), timeout_s=0.3)
        way(producer)(ORDER)


@both_ways
def test_a_producer_that_found_no_name_server_may_be_used_once_there_is_one(cluster: Cluster, way: Way) -> None:
    cluster.stop_name_server()
    with pytest.raises(NoNameServer) as caught:
        Producer(ClientConfig(cluster.namesrv, timeout_s=0.2)).open()
    assert cluster.namesrv in str(caught.value)
    producer = Producer(ClientConfig(cluster.namesrv, timeout_s=0.2))
    try:
        with pytest.raises(NoNameServer):
            way(producer)(ORDER)
        cluster.start_name_server()

        def is_sent() -> bool:
            try:
                return way(producer)(ORDER).offset >= 0
            except SteelyardError:
                return False  # the brokers have not registered there yet

        until(is_sent)
    finally:
        producer.close()


def test_nobody_waits_long_for_a_host_that_is_gone_without_a_word() -> None:
    async def send_request(address: str) -> None:
        connection = BrokerConnection(
            ConnectionSettings(lambda _: None, lambda _, __: None, lambda _, __: None), "broker-0", (address,)
        )
        connection.failures = 1  # as after a connection that broke
        try:
            with pytest.raises(CannotConnect, match="no answer in 250 ms"):
                await connection.request(Command(RequestCode.GET_BROKER_CONFIG), 60_000)
        finally:
            connection.close()
            await connection.wait_closed(1)

    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # The system takes a few connections for who does not; then it says nothing any more.
        connections = [socket.socket() for _ in range(4)]
        for line in connections:
            line.setblocking(False)
            line.connect_ex(full.getsockname())
        try:
            asyncio.run(send_request(f"127.0.0.1:{full.getsockname()[1]}"))
        finally:
            for line in connections:
                line.close()
