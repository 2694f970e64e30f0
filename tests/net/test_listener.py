"""A port is bound at once, or a sentence says why not."""

import asyncio
import errno
import socket
import sys
from itertools import pairwise

import pytest

from steelyard.errors import CannotListen
from steelyard.net.clock import now_ms
from steelyard.net.limits import ConnectionLimits
from steelyard.net.server import TcpListener, is_loopback, is_wildcard, reserve_port
from tests.net.toy_server import ToyServer, until


def test_a_port_that_is_in_use_is_named() -> None:
    listener = TcpListener.bind("127.0.0.1", 0)
    with pytest.raises(CannotListen, match=f"port {listener.port} of 127.0.0.1 is in use; stop what listens there"):
        TcpListener.bind("127.0.0.1", listener.port)
    listener.close()
    TcpListener.bind("127.0.0.1", listener.port).close()


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 9876), ("no.such.host.invalid", 1), ("127.0.0.1", 70_000)])
def test_an_address_that_is_not_ours_is_refused(host: str, port: int) -> None:
    with pytest.raises(CannotListen, match=f"cannot listen on {host}:{port}"):
        TcpListener.bind(host, port)


class _Exhausted(socket.socket):
    """A port whose first connection finds no file descriptor left."""

    attempts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.attempts += 1
        if self.attempts == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_without_file_descriptors_accepting_is_logged_and_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steelyard.net.server._ACCEPT_RETRY_S", 0.01)

    async def scenario() -> None:
        with _Exhausted() as bound:
            bound.bind(("127.0.0.1", 0))
            bound.listen()
            bound.setblocking(False)
            server, listener = ToyServer(ConnectionLimits()), TcpListener(bound)
            server.listener.close()
            listener.start_accepting(server.remoting)
            with socket.create_connection(("127.0.0.1", listener.port)):
                await until(lambda: len(server.remoting) == 1)
            listener.close()
            await server.stop()

    asyncio.run(scenario())
    assert [record.getMessage().partition(" (")[0].partition(" ")[2] for record in caplog.records] == [
        "cannot accept connections"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no listener may have a port that a socket keeps")
def test_a_reserved_port_is_for_who_comes_back_to_it_and_not_for_a_port_beside() -> None:
    reserved = reserve_port("127.0.0.1", 0)
    assert reserved is not None
    with reserved:
        port: int = reserved.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} of 127.0.0.1 is in use"):
            TcpListener.bind("127.0.0.1", port, unless_reserved=True)
        TcpListener.bind("127.0.0.1", port).close()
    TcpListener.bind("127.0.0.1", port, unless_reserved=True).close()


def test_free_ports_are_different_ones() -> None:
    listeners = [TcpListener.bind("127.0.0.1", 0) for _ in range(50)]
    assert len({listener.port for listener in listeners}) == 50
    for listener in listeners:
        listener.close()


def test_time_does_not_go_backwards() -> None:
    assert all(one <= other for one, other in pairwise(now_ms() for _ in range(10_000)))


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard"),
    [("127.0.0.1", True, False), ("localhost", True, False), ("::1", True, False), ("0.0.0.0", False, True)],
)
def test_hosts_of_this_machine_alone_and_of_all_addresses_are_known(host: str, loopback: bool, wildcard: bool) -> None:
    assert is_loopback(host) is loopback
    assert is_wildcard(host) is wildcard
