"""A broker on the open net: noise, partial frames, crawling connections, peers that never read, thousands of pulls.

Each time it lives, keeps its limits, and serves well-behaved clients.
"""

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice

import pytest
from msgspec import structs

from steelyard.net.limits import ConnectionLimits
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from steelyard.wire.headers.send import SendMessageV2
from tests.fuzzing import Dice, mutations, rounds
from tests.golden_frames import golden_frames
from tests.serve.raw_connection import RawConnection, pull_all, pull_command, send, send_command
from tests.waiting import until

_PARKED = 10_000


class Connections(ExitStack):
    """Opens connections, and closes all of them at the end."""

    def to(self, address: str, count: int) -> list[RawConnection]:
        """Open so many connections."""
        return [self.enter_context(RawConnection(address)) for _ in range(count)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run a cluster that loses its patience quickly."""
    limits = ConnectionLimits(frame_timeout_ms=500, stall_timeout_ms=500, idle_ms=30_000)
    with Cluster(limits=limits) as cluster:
        yield cluster


def assert_well(cluster: Cluster) -> None:
    """Send and pull as if nothing were the matter; ask the name server too."""
    with RawConnection(cluster.brokers["broker-0"]) as connection:
        sent = send(connection, "health", b"fine")
        assert len(list(pull_all(connection, "health"))) == sent.queue_offset + 1
    with RawConnection(cluster.namesrv) as connection:
        assert connection.request(RequestCode.GET_BROKER_CLUSTER_INFO, {}).code == 0


def addresses(cluster: Cluster) -> list[str]:
    return [cluster.namesrv, cluster.brokers["broker-0"]]


def test_noise_closes_a_connection_and_nothing_else(cluster: Cluster) -> None:
    chance = Dice(7)
    for address in addresses(cluster):
        for _ in range(200):
            with RawConnection(address) as connection:
                connection.socket.sendall(chance.randbytes(chance.randrange(1, 300)))
                connection.socket.shutdown(socket.SHUT_WR)
                assert connection.is_closed_by_server()
    assert_well(cluster)


@pytest.mark.fuzz
def test_broken_frames_of_real_peers_meet_no_bug(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    corpus = [golden.frame for golden in golden_frames()]
    for address in addresses(cluster):
        for frame in (*corpus, *islice(mutations(corpus, seed=8), rounds())):
            with RawConnection(address) as connection, suppress(ConnectionError):
                connection.socket.sendall(frame)
                connection.socket.shutdown(socket.SHUT_WR)
                while connection.socket.recv(1 << 16):
                    continue
    assert_well(cluster)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_every_code_with_nothing_in_it_is_answered(cluster: Cluster) -> None:
    for address in addresses(cluster):
        with RawConnection(address) as connection:
            for code in [*RequestCode, -1, 0, 99_999]:
                answer = connection.request(code, {})
                assert "bug" not in (answer.remark or ""), f"request {code}: {answer.remark}"
    assert_well(cluster)


def test_half_frames_are_given_up(cluster: Cluster) -> None:
    frame = encode_frame(send_command("orders", b"x" * 100))
    for cut in range(1, len(frame), 7):
        with RawConnection(cluster.brokers["broker-0"]) as connection:
            connection.socket.sendall(frame[:cut])
    with RawConnection(cluster.brokers["broker-0"]) as connection:
        connection.socket.sendall(frame[:-1])
        assert connection.is_closed_by_server()
        assert_well(cluster)


def test_a_thousand_connections_that_crawl_are_closed_and_disturb_nobody(cluster: Cluster) -> None:
    _allow_handles(2_500)
    frame = encode_frame(send_command("orders", b"x" * 100))
    with Connections() as connections:
        crawling = set(connections.to(cluster.brokers["broker-0"], 1_000))
        for byte in frame:
            for connection in list(crawling):
                try:
                    connection.socket.sendall(bytes((byte,)))
                except OSError:
                    crawling.remove(connection)
            assert_well(cluster)
            if not crawling:
                break
        assert not crawling, "a connection of a byte now and then was never closed"


def test_ten_thousand_waiting_pulls_are_all_answered() -> None:
    # With patience: connections are read one after the other here, and the last one has to wait for its turn.
    with Cluster() as cluster, RawConnection(cluster.brokers["broker-0"]) as sender, Connections() as opened:
        address = cluster.brokers["broker-0"]
        send(sender, "orders", b"first")
        connections = opened.to(address, 20)
        asked = [[pull_command("orders", 1, wait_ms=45_000) for _ in range(_PARKED // 20)] for _ in connections]
        for connection, pulls in zip(connections, asked, strict=True):
            connection.send(*pulls)
        assert_well(cluster)
        send(sender, "orders", b"second")
        for connection, pulls in zip(connections, asked, strict=True):
            assert {connection.response_to(pull).code for pull in pulls} == {0}
        assert_well(cluster)


def test_a_peer_that_never_reads_is_closed_and_the_others_are_served(cluster: Cluster) -> None:
    address = cluster.brokers["broker-0"]
    with RawConnection(address) as connection:
        for _ in range(32):
            send(connection, "orders", b"x" * 60_000)
    with Connections() as connections:
        deaf = connections.to(address, 5)
        for connection in deaf:
            connection.socket.settimeout(0.05)
            with suppress(OSError):  # once nobody takes more from it
                for _ in range(100):
                    connection.send(*(pull_command("orders", 0) for _ in range(100)))
        assert_well(cluster)
        until(lambda: all(map(_is_cut, deaf)))
    assert_well(cluster)


def _is_cut(connection: RawConnection) -> bool:
    try:
        connection.socket.send(b"\0")
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def _allow_handles(count: int) -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, most), most))


@pytest.mark.parametrize("header_type", HeaderType)
def test_properties_that_are_far_too_long_are_refused_and_the_connection_goes_on(
    header_type: HeaderType,
) -> None:
    fields = SendMessageV2("senders", "orders", "TBW102", 4, 0, 0, 0, 0, properties="p\x01" + "山" * 30_000)
    sends = [send_command("orders", b"before"), Command(310, fields, b"x", opaque=0), send_command("orders", b"after")]
    asked = [structs.replace(each, header_type=header_type) for each in sends]
    with Cluster() as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        connection.send(*asked)
        assert [connection.response_to(each).code for each in asked] == [0, 13, 0]
