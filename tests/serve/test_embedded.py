"""A cluster inside a program: it is ready when it is started, and its servers come and go one by one."""

import asyncio
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steelyard.errors import CannotListen, ConfigurationError, StoreLocked
from steelyard.net.server import TcpListener
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import ConsumerHeartbeat, HeartbeatBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import CreateTopic
from tests.serve.raw_connection import RawConnection, brokers_of, pull_all, pull_command, send
from tests.threads import started_threads
from tests.waiting import until


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers ask a name server that was not there again soon."""
    monkeypatch.setattr("steelyard.broker.nameserver_registration.RETRY_PAUSE_MS", 50)


def create_topic(address: str, topic: str) -> None:
    with RawConnection(address) as connection:
        header = CreateTopic(topic, "TBW102", 4, 4, 6, "SINGLE_TAG", False)
        assert connection.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == 0


def test_brokers_are_in_the_routes_when_the_cluster_is_started() -> None:
    with Cluster(brokers=3) as cluster:
        assert list(cluster.brokers) == ["broker-0", "broker-1", "broker-2"]
        assert brokers_of(cluster.namesrv, "TBW102") == set(cluster.brokers)


def test_a_message_is_sent_and_pulled() -> None:
    with Cluster() as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        offsets = [send(connection, "orders", b"%d" % number).queue_offset for number in range(100)]
        assert offsets == list(range(100))
        assert [record.body for record in pull_all(connection, "orders")] == [b"%d" % number for number in range(100)]


def test_brokers_are_found_two_ports_below_their_own_as_well() -> None:
    # Java's clients up to 4.4 send there, and so do later ones that are told to use the VIP channel.
    with Cluster(brokers=2) as cluster:
        cluster.kill_broker("broker-1")
        cluster.start_broker("broker-1")
        for address in cluster.brokers.values():
            with RawConnection(_vip_of(address)) as vip, RawConnection(address) as connection:
                assert send(vip, "orders", b"by the VIP channel").queue_offset == 0
                assert [record.body for record in pull_all(connection, "orders")] == [b"by the VIP channel"]


def test_a_broker_starts_without_a_port_for_its_vip_channel(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _refuse_vip(monkeypatch, times=1000)
    with Cluster() as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        assert send(connection, "orders", b"x").queue_offset == 0
        port = int(_vip_of(cluster.brokers["broker-0"]).rpartition(":")[2])
    assert [each.getMessage() for each in caplog.records] == [
        f"broker-0 has no VIP channel, since port {port} is in use: Java clients that use one cannot send to it"
    ]


def test_of_free_ports_a_broker_takes_one_that_has_room_for_a_vip_channel(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _refuse_vip(monkeypatch, times=3)
    with Cluster() as cluster, RawConnection(_vip_of(cluster.brokers["broker-0"])) as vip:
        assert send(vip, "orders", b"x").queue_offset == 0
    assert caplog.records == []


def test_a_foreign_member_with_a_held_pull_is_notified_that_the_broker_stops() -> None:
    # Java's members up to 4.9 do not notice that the connection closed, and would wait for an answer for half a minute.
    beat = HeartbeatBody(client_id="java", consumers=(ConsumerHeartbeat(group="pullers"),))
    with Cluster() as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        send(connection, "orders", b"x")
        assert connection.request(RequestCode.HEART_BEAT, {}, encode_body(beat)).code == 0
        waits = pull_command("orders", 1, wait_ms=60_000)
        connection.send(waits)
        until(
            lambda: cluster.call(lambda running: len(running.running_broker("broker-0").broker.state.held_pulls)) == 1
        )
        cluster.stop_broker("broker-0")
        answer = connection.response_to(waits)
        assert (answer.code, answer.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")


def _vip_of(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


def _refuse_vip(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the ports of VIP channels be in use, so many times."""
    bind, left = RunningCluster._bind_vip, iter(range(times))

    def refusing(cluster: RunningCluster, port: int, *, unless_reserved: bool = False) -> TcpListener | None:
        return bind(cluster, port, unless_reserved=unless_reserved) if next(left, None) is None else None

    monkeypatch.setattr(RunningCluster, "_bind_vip", refusing)


@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_on_disk", [False, True])
def test_a_broker_comes_back_with_its_address_and_its_messages(
    tmp_path: Path, flush: str, is_killed: bool, is_on_disk: bool
) -> None:
    with Cluster(data=tmp_path if is_on_disk else None, flush=flush) as cluster:
        address = cluster.brokers["broker-0"]
        with RawConnection(address) as connection:
            for number in range(50):
                send(connection, "orders", b"%d" % number)
            (cluster.kill_broker if is_killed else cluster.stop_broker)("broker-0")
            assert connection.is_closed_by_server()
        until(lambda: not brokers_of(cluster.namesrv, "TBW102"))
        cluster.start_broker("broker-0")
        assert cluster.brokers["broker-0"] == address
        assert brokers_of(cluster.namesrv, "orders") == {"broker-0"}
        with RawConnection(address) as connection:
            assert [record.body for record in pull_all(connection, "orders")] == [
                b"%d" % number for number in range(50)
            ]
            assert send(connection, "orders", b"more").queue_offset == 50


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no listener may have a port that a socket keeps")
def test_nobody_else_gets_the_port_of_a_broker_that_is_away() -> None:
    with Cluster() as cluster, socket.socket() as other:
        host, _, port = cluster.brokers["broker-0"].rpartition(":")
        cluster.kill_broker("broker-0")
        with pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        cluster.start_broker("broker-0")
        socket.create_connection((host, int(port))).close()


def test_a_directory_outlives_its_cluster(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        send(connection, "orders", b"kept")
    with Cluster(data=tmp_path) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        assert [record.body for record in pull_all(connection, "orders")] == [b"kept"]


def test_brokers_register_with_every_name_server() -> None:
    with Cluster(brokers=2, name_servers=3) as cluster:
        addresses = cluster.namesrv.split(";")
        assert len(set(addresses)) == 3
        for address in addresses:
            assert brokers_of(address, "TBW102") == set(cluster.brokers)


def test_brokers_join_name_servers_that_run_already() -> None:
    with (
        Cluster(brokers=0) as names,
        Cluster(name_servers=0, join=(names.namesrv,), broker_name="a") as one,
        Cluster(name_servers=0, join=(names.namesrv,), broker_name="b") as other,
    ):
        assert brokers_of(names.namesrv, "TBW102") == {*one.brokers, *other.brokers} == {"a", "b"}


@pytest.mark.usefixtures("no_pause")
def test_brokers_register_again_with_a_name_server_that_was_away() -> None:
    with Cluster(brokers=2, name_servers=2) as cluster:
        first, second = cluster.namesrv.split(";")
        cluster.stop_name_server(0)
        create_topic(cluster.brokers["broker-0"], "while-away")
        assert brokers_of(second, "while-away") == {"broker-0"}
        cluster.start_name_server(0)
        until(lambda: brokers_of(first, "TBW102") == set(cluster.brokers))
        assert brokers_of(first, "while-away") == {"broker-0"}


def test_who_made_a_topic_finds_its_route() -> None:
    with Cluster(name_servers=2) as cluster:
        for number in range(20):
            create_topic(cluster.brokers["broker-0"], f"topic-{number}")
            for address in cluster.namesrv.split(";"):
                assert brokers_of(address, f"topic-{number}") == {"broker-0"}


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_who_made_a_topic_by_sending_to_it_finds_its_route(flush: str) -> None:
    with Cluster(flush=flush) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        for number in range(20):
            send(connection, f"topic-{number}", b"first")
            assert brokers_of(cluster.namesrv, f"topic-{number}") == {"broker-0"}


def test_a_broker_without_any_name_server_works() -> None:
    with Cluster(name_servers=0) as cluster:
        create_topic(cluster.brokers["broker-0"], "alone")
        with RawConnection(cluster.brokers["broker-0"]) as connection:
            assert send(connection, "alone", b"hello").queue_offset == 0


@pytest.mark.usefixtures("no_pause")
def test_a_broker_starts_without_its_name_server_and_finds_it_later() -> None:
    with Cluster(brokers=0) as names:
        names.stop_name_server()
        with Cluster(name_servers=0, join=(names.namesrv,)) as cluster:
            names.start_name_server()
            until(lambda: brokers_of(names.namesrv, "TBW102") == set(cluster.brokers))


def test_settings_of_a_name_server_outlive_it(tmp_path: Path) -> None:
    key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders"}
    with Cluster(data=tmp_path) as cluster, RawConnection(cluster.namesrv) as connection:
        assert connection.request(RequestCode.PUT_KV_CONFIG, key | {"value": "broker-0:4"}).code == 0
    with Cluster(data=tmp_path) as cluster, RawConnection(cluster.namesrv) as connection:
        assert connection.request(RequestCode.GET_KV_CONFIG, key).texts()["value"] == "broker-0:4"


def test_many_clusters_start_at_the_same_time() -> None:
    def scenario(number: int) -> int:
        with Cluster(brokers=2) as cluster, RawConnection(cluster.brokers["broker-1"]) as connection:
            send(connection, f"topic-{number}", b"mine")
            assert brokers_of(cluster.namesrv, "TBW102") == set(cluster.brokers)
            return len(list(pull_all(connection, f"topic-{number}")))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(scenario, range(24))) == [1] * 24


def test_a_cluster_leaves_no_thread_behind() -> None:
    with started_threads() as started, Cluster(brokers=2, flush="sync") as cluster:
        with RawConnection(cluster.brokers["broker-0"]) as connection:
            send(connection, "orders", b"x")
        assert any(thread.is_alive() for thread in started)
    assert not any(thread.is_alive() for thread in started)


def test_a_cluster_is_used_from_another_loop() -> None:
    async def scenario() -> set[str]:
        async with Cluster() as cluster:
            return await asyncio.to_thread(brokers_of, cluster.namesrv, "TBW102")

    assert asyncio.run(scenario()) == {"broker-0"}


def test_a_port_in_use_starts_nothing(tmp_path: Path) -> None:
    with Cluster() as cluster:
        port = int(cluster.namesrv.rpartition(":")[2])
        with pytest.raises(CannotListen, match=f"port {port} of 127.0.0.1 is in use"):
            Cluster(port=port, data=tmp_path / "new").start()
        assert not (tmp_path / "new").exists()


def test_a_directory_in_use_starts_nothing_and_gives_back_the_ports(tmp_path: Path) -> None:
    with Cluster(data=tmp_path, name_servers=0) as cluster:
        with Cluster(brokers=0) as other:
            port = int(other.namesrv.rpartition(":")[2])
        with pytest.raises(StoreLocked):
            Cluster(data=tmp_path, port=port, name_servers=0).start()
        with Cluster(brokers=0, port=port) as other:
            assert other.namesrv.endswith(f":{port}")
        assert cluster.brokers


def test_an_unknown_broker_and_a_cluster_that_does_not_run_are_named() -> None:
    with Cluster() as cluster, pytest.raises(ConfigurationError, match="no broker 'broker-7'; there are: broker-0"):
        cluster.stop_broker("broker-7")
    with pytest.raises(ConfigurationError, match="does not run"):
        cluster.stop_broker("broker-0")
    with pytest.raises(ConfigurationError, match="nothing to run"):
        Cluster(brokers=0, name_servers=0)
