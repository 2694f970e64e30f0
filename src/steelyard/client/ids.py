"""Client ids, and unique keys of messages.

A client id has 64 random bits: containers share addresses and process ids, and two clients with one id would take the
same queues. Its suffix marks members of ours. A unique key is as Java makes it, and one process never makes one twice.
"""

import os
import secrets
import socket
import time
from itertools import count

from steelyard.model.reserved_names import CLIENT_ID_SUFFIX
from steelyard.net.addresses import parse_address
from steelyard.net.clock import now_ms
from steelyard.wire.message_ids import make_unique_key, month_bounds, unique_key_prefix

_STARTED_NS = time.time_ns()
_LOOPBACK = "127.0.0.1"


def client_id(address: str, name: str | None = None) -> str:
    """Return a new client id for a local address.

    >>> client_id("10.0.0.7", "till-1").endswith("@sy1")
    True
    """
    instance = f"{os.getpid()}#{_STARTED_NS}#{secrets.token_hex(8)}"
    return f"{address}@{name}#{instance}{CLIENT_ID_SUFFIX}" if name else f"{address}@{instance}{CLIENT_ID_SUFFIX}"


def local_address(server: str) -> str:
    """Return the address of this machine towards a server; nothing is sent."""
    host, port = parse_address(server)
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0]).partition("%")[0]
    except (OSError, UnicodeError):  # the latter: a host name that is too long
        return _LOOPBACK


class UniqueKeys:
    """Makes unique keys. From any thread."""

    __slots__ = ("_front", "_month_end_ms", "_month_start_ms", "_numbers", "_prefix")

    def __init__(self, address: str) -> None:
        self._prefix = unique_key_prefix(address, os.getpid(), secrets.randbits(32))
        # `next` of a count is atomic, so threads need no lock.
        self._numbers = count(secrets.randbits(16))
        self._month_start_ms = self._month_end_ms = 0
        self._front = 0, ""
        """A millisecond, and what all keys that are made in it begin with: everything but the counter's four digits."""

    def next(self) -> str:
        """Return the next key."""
        at_ms = now_ms()
        front = self._front
        if front[0] != at_ms:
            if at_ms >= self._month_end_ms:
                self._month_start_ms, self._month_end_ms = month_bounds(at_ms)
            first = make_unique_key(self._prefix, now_ms=at_ms, month_start_ms=self._month_start_ms, counter=0)
            front = self._front = at_ms, first[:-4]
        return f"{front[1]}{next(self._numbers) & 0xFFFF:04X}"
