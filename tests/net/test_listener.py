"""A port is taken at once, or a sentence says why it cannot be had."""

import asyncio
import errno
import socket
from itertools import pairwise

import pytest
from tests.net.served import Served, until

from steelyard.errors import CannotListen
from steelyard.net.clock import now_ms
from steelyard.net.limits import LineLimits
from steelyard.net.listener import Listener


def test_a_port_that_is_in_use_is_named() -> None:
    listener = Listener.bind("127.0.0.1", 0)
    with pytest.raises(CannotListen, match=f"port {listener.port} of 127.0.0.1 is in use; stop what listens there"):
        Listener.bind("127.0.0.1", listener.port)
    listener.close()
    Listener.bind("127.0.0.1", listener.port).close()


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 9876), ("no.such.host.invalid", 1), ("127.0.0.1", 70_000)])
def test_an_address_that_is_not_ours_is_refused(host: str, port: int) -> None:
    with pytest.raises(CannotListen, match=f"nobody can listen at {host}:{port}"):
        Listener.bind(host, port)


class _Exhausted(socket.socket):
    """A port whose first line finds no file descriptor left."""

    attempts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.attempts += 1
        if self.attempts == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_who_has_no_file_descriptor_for_a_line_says_so_and_takes_it_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steelyard.net.listener._PAUSE_S", 0.01)

    async def story() -> None:
        with _Exhausted() as bound:
            bound.bind(("127.0.0.1", 0))
            bound.listen()
            bound.setblocking(False)
            server, listener = Served(LineLimits()), Listener(bound)
            server.listener.close()
            listener.start(server.board)
            with socket.create_connection(("127.0.0.1", listener.port)):
                await until(lambda: len(server.board) == 1)
            listener.close()
            await server.stop()

    asyncio.run(story())
    assert [record.getMessage().partition(" (")[0].partition(" ")[2] for record in caplog.records] == [
        "cannot take a line"
    ]


def test_free_ports_are_different_ones() -> None:
    listeners = [Listener.bind("127.0.0.1", 0) for _ in range(50)]
    assert len({listener.port for listener in listeners}) == 50
    for listener in listeners:
        listener.close()


def test_time_does_not_go_backwards() -> None:
    assert all(one <= other for one, other in pairwise(now_ms() for _ in range(10_000)))
