"""A port is taken at once, or a sentence says why it cannot be had."""

from itertools import pairwise

import pytest

from steelyard.errors import CannotListen
from steelyard.net.clock import now_ms
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


def test_free_ports_are_different_ones() -> None:
    listeners = [Listener.bind("127.0.0.1", 0) for _ in range(50)]
    assert len({listener.port for listener in listeners}) == 50
    for listener in listeners:
        listener.close()


def test_time_does_not_go_backwards() -> None:
    assert all(one <= other for one, other in pairwise(now_ms() for _ in range(10_000)))
