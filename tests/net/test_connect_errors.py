"""Why a server cannot be reached decides what to do next."""

import errno
import os
import socket

import pytest

from steelyard.net.connect_errors import connect_error

_ADDRESS = "mq-1:9876"


@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection refused", "runs and listens"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no route to host", "the network to it"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "network is unreachable", "the network to it"),
        (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "connection timed out", "no firewall"),
        (TimeoutError(), "did not answer in 3000 ms", "no firewall"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "not known", "the name of the host"),
    ],
)
def test_the_advice_is_that_for_the_reason(error: OSError, said: str, advice: str) -> None:
    made = connect_error(_ADDRESS, 3_000, error)
    assert said in made.what
    assert advice in made.next_step
    assert made.errno == error.errno


def test_several_addresses_that_fail_alike_are_one_reason() -> None:
    # What asyncio raises where localhost has an address of IPv6 and one of IPv4.
    each = [f"[Errno {errno.ECONNREFUSED}] Connect call failed ({host!r}, 9876)" for host in ("::1", "127.0.0.1")]
    made = connect_error(_ADDRESS, 3_000, OSError(f"Multiple exceptions: {', '.join(each)}"))
    assert made.errno == errno.ECONNREFUSED
    assert made.what == f"{_ADDRESS} cannot be reached ({os.strerror(errno.ECONNREFUSED).lower()})"
