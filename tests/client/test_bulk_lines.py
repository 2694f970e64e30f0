"""Lines rest between tasks, are never shared, and are closed in the end; routes are asked for without a loop."""

import os
import socket
from collections.abc import Iterator

import pytest
from tests.client.scripted_broker import Broker, broker
from tests.waiting import until

from steelyard.client.bulk.finding import find_route
from steelyard.client.bulk.lines import LineShelf, shared_lines
from steelyard.client.connect import Connect
from steelyard.errors import CannotConnect, NoNameServer, TopicNotFound
from steelyard.net.clock import steady_ms
from steelyard.serve.embedded import Cluster


@pytest.fixture
def server() -> Iterator[Broker]:
    """Run a server."""
    with broker() as running:
        yield running


@pytest.fixture
def lines() -> Iterator[LineShelf]:
    """Have a shelf of one's own."""
    shelf = LineShelf()
    yield shelf
    shelf.close()


def here(server: Broker, key: str | None = None) -> Connect:
    """Say how to get to a server."""
    return Connect(server.address, access_key=key, secret_key=key)


def test_a_line_is_taken_by_one_at_a_time(server: Broker, lines: LineShelf) -> None:
    connect = here(server)
    first, second = lines.take(server.address, connect), lines.take(server.address, connect)
    assert first is not second
    lines.put_back(first, connect)
    lines.put_back(second, connect)
    assert len(lines) == 2
    assert {lines.take(server.address, connect), lines.take(server.address, connect)} == {first, second}
    first.close()
    second.close()


def test_lines_of_another_key_are_others(server: Broker, lines: LineShelf) -> None:
    lines.put_back(lines.take(server.address, here(server)), here(server))
    other = lines.take(server.address, here(server, "shop"))
    lines.put_back(other, here(server, "shop"))
    assert len(lines) == 2
    assert lines.take(server.address, here(server, "shop")) is other
    other.close()


def test_only_so_many_lines_rest(server: Broker, lines: LineShelf) -> None:
    taken = [lines.take(server.address, here(server)) for _ in range(8)]
    for line in taken:
        lines.put_back(line, here(server))
    assert len(lines) == 4


def test_a_line_that_rested_for_long_is_closed(server: Broker, lines: LineShelf) -> None:
    connect = here(server)
    line = lines.take(server.address, connect)
    lines.put_back(line, connect)
    line.used_ms = steady_ms() - 61_000
    fresh = lines.take(server.address, connect)
    assert fresh is not line
    assert len(lines) == 0
    fresh.close()


def test_a_line_whose_server_hung_up_is_not_given_out(server: Broker, lines: LineShelf) -> None:
    connect = here(server)
    line = lines.take(server.address, connect)
    lines.put_back(line, connect)
    until(lambda: server.lines == 1)
    server.cut()
    until(lambda: not line.is_quiet())
    line.used_ms = steady_ms() - 2_000
    fresh = lines.take(server.address, connect)
    assert fresh is not line
    fresh.close()


def test_lines_to_one_server_are_dropped_alone(server: Broker, lines: LineShelf) -> None:
    with broker() as other:
        for each in (server, other):
            lines.put_back(lines.take(each.address, here(each)), here(each))
        lines.drop(server.address, here(server))
        lines.drop(server.address, here(server))
        assert len(lines) == 1
        lines.close()
        assert len(lines) == 0


def test_a_server_that_is_not_there_is_said_so(lines: LineShelf) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(CannotConnect):
        lines.take(address, Connect(address))


@pytest.mark.process
def test_a_forked_child_has_no_lines_of_its_parents(server: Broker) -> None:
    lines, connect = shared_lines(), here(server)
    line = lines.take(server.address, connect)
    lines.put_back(line, connect)
    child = os.fork()
    if child == 0:
        os._exit(len(lines))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lines.take(server.address, connect) is line
    line.close()


def test_a_route_is_told_by_the_first_name_server_that_answers() -> None:
    with Cluster(name_servers=2) as cluster:
        both = Connect(cluster.namesrv)
        cluster.stop_name_server(0)
        assert [place.name for place in find_route("TBW102", both).brokers] == ["broker-0"]
        with pytest.raises(TopicNotFound):
            find_route("nowhere", both)
        cluster.stop_name_server(1)
        with pytest.raises(NoNameServer, match="no name server of"):
            find_route("TBW102", both)
