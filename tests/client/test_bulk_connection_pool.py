"""Lines rest between tasks, are never shared, and are closed in the end; routes are asked for without a loop."""

import os
import socket
from collections.abc import Iterator

import pytest

from steelyard.client.bulk.connection_pool import ConnectionPool, shared_pool
from steelyard.client.config import ClientConfig
from steelyard.client.topic_routes import find_route
from steelyard.errors import CannotConnect, NoNameServer, TopicNotFound
from steelyard.net.clock import steady_ms
from steelyard.serve.embedded import Cluster
from tests.client.scripted_broker import Broker, broker
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[Broker]:
    """Run a server."""
    with broker() as running:
        yield running


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    """Have a buffer of one's own."""
    buffer = ConnectionPool()
    yield buffer
    buffer.close()


def here(server: Broker, key: str | None = None) -> ClientConfig:
    """Say how to get to a server."""
    return ClientConfig(server.address, access_key=key, secret_key=key)


def test_a_connection_is_taken_by_one_at_a_time(server: Broker, pool: ConnectionPool) -> None:
    connect = here(server)
    first, second = pool.acquire(server.address, connect), pool.acquire(server.address, connect)
    assert first is not second
    pool.release(first, connect)
    pool.release(second, connect)
    assert len(pool) == 2
    assert {pool.acquire(server.address, connect), pool.acquire(server.address, connect)} == {first, second}
    first.close()
    second.close()


def test_connections_of_another_key_are_others(server: Broker, pool: ConnectionPool) -> None:
    pool.release(pool.acquire(server.address, here(server)), here(server))
    other = pool.acquire(server.address, here(server, "shop"))
    pool.release(other, here(server, "shop"))
    assert len(pool) == 2
    assert pool.acquire(server.address, here(server, "shop")) is other
    other.close()


def test_only_so_many_connections_rest(server: Broker, pool: ConnectionPool) -> None:
    taken = [pool.acquire(server.address, here(server)) for _ in range(8)]
    for line in taken:
        pool.release(line, here(server))
    assert len(pool) == 4


def test_a_connection_that_rested_for_long_is_closed(server: Broker, pool: ConnectionPool) -> None:
    connect = here(server)
    line = pool.acquire(server.address, connect)
    pool.release(line, connect)
    line.last_used_ms = steady_ms() - 61_000
    fresh = pool.acquire(server.address, connect)
    assert fresh is not line
    assert len(pool) == 0
    fresh.close()


def test_a_connection_whose_server_hung_up_is_not_given_out(server: Broker, pool: ConnectionPool) -> None:
    connect = here(server)
    line = pool.acquire(server.address, connect)
    pool.release(line, connect)
    until(lambda: server.connections == 1)
    server.cut()
    until(lambda: not line.is_idle())
    line.last_used_ms = steady_ms() - 2_000
    fresh = pool.acquire(server.address, connect)
    assert fresh is not line
    fresh.close()


def test_connections_to_one_server_are_dropped_alone(server: Broker, pool: ConnectionPool) -> None:
    with broker() as other:
        for each in (server, other):
            pool.release(pool.acquire(each.address, here(each)), here(each))
        pool.discard(server.address, here(server))
        pool.discard(server.address, here(server))
        assert len(pool) == 1
        pool.close()
        assert len(pool) == 0


def test_a_server_that_is_not_there_is_reported(pool: ConnectionPool) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(CannotConnect):
            pool.acquire(address, ClientConfig(address))


@pytest.mark.process
def test_a_forked_child_has_no_connections_of_its_parents(server: Broker) -> None:
    pool, connect = shared_pool(), here(server)
    line = pool.acquire(server.address, connect)
    pool.release(line, connect)
    child = os.fork()
    if child == 0:
        os._exit(len(pool))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.acquire(server.address, connect) is line
    line.close()


def test_a_route_is_reported_by_the_first_name_server_that_answers() -> None:
    with Cluster(name_servers=2) as cluster:
        both = ClientConfig(cluster.namesrv)
        cluster.stop_name_server(0)
        assert [place.name for place in find_route("TBW102", both).brokers] == ["broker-0"]
        with pytest.raises(TopicNotFound):
            find_route("nowhere", both)
        cluster.stop_name_server(1)
        with pytest.raises(NoNameServer, match="no name server of"):
            find_route("TBW102", both)
