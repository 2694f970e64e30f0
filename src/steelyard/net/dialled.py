"""A socket that one thread dialled and has for itself: how it is opened, how long its calls may take, how it ends.

The system itself watches the time (SO_RCVTIMEO), which saves asking it before each read; only with TLS Python does.
What is said on it is for those that build on this: one request at a time (blocking.py), or many (pipelined.py).
"""

import os
import select
import socket
from contextlib import suppress
from struct import Struct as Layout
from typing import TYPE_CHECKING

from steelyard.errors import LineClosed, ProtocolError
from steelyard.net.addresses import parse_address
from steelyard.net.clock import steady_ms
from steelyard.net.forks import keep, let_go
from steelyard.net.reaching import reason, unreachable

if TYPE_CHECKING:
    import ssl

__all__ = ["Dialled"]

_TIMEVAL = Layout("@ll")


class Dialled:
    """A connection to one server, for one thread at a time. Making it opens it; CannotConnect where that fails."""

    __slots__ = ("_limit_ms", "_pid", "_socket", "address", "used_ms")

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        self.address = address
        self.used_ms = steady_ms()
        """When it was used last."""
        self._pid = os.getpid()
        self._limit_ms = 0
        try:
            opened = socket.create_connection(parse_address(address), timeout_ms / 1000)
        except (OSError, UnicodeError, OverflowError) as error:
            raise unreachable(address, timeout_ms, error) from None
        self._socket = opened
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(opened, server_hostname=parse_address(address)[0])
            else:
                opened.settimeout(None)
        except (OSError, UnicodeError) as error:
            opened.close()
            raise unreachable(address, timeout_ms, error) from None
        keep(self._socket.fileno())

    def is_quiet(self) -> bool:
        """Say whether nothing has come on it since the last answer; if something has, mostly it is the end."""
        try:
            watch = select.poll()
            watch.register(self._socket, select.POLLIN)
            return not watch.poll(0)
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Close the line; a thread that waits on it hears of it at once. Calling it again does nothing."""
        if os.getpid() == self._pid:  # in a forked child the line goes on: it is the parent's
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        let_go(self._socket.fileno())
        self._socket.close()

    def _limit(self, timeout_ms: int) -> None:
        """Say how long one call of the system may take."""
        self._limit_ms = timeout_ms
        if self._socket.gettimeout() is not None:
            self._socket.settimeout(timeout_ms / 1000)
            return
        seconds, rest_ms = divmod(timeout_ms, 1000)
        limit = _TIMEVAL.pack(seconds, rest_ms * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def _check_broken(self, error: OSError | ProtocolError) -> None:
        """Raise LineClosed, unless the error says that the time is over."""
        if isinstance(error, ProtocolError):
            raise LineClosed(f"{self.address} does not speak the protocol: {error}") from None
        # A limit that is reached has no number with TLS, and EAGAIN without; ETIMEDOUT is a line that broke.
        if not isinstance(error, BlockingIOError) and (error.errno is not None or not isinstance(error, TimeoutError)):
            raise LineClosed(f"the line to {self.address} broke ({reason(error)})") from None
