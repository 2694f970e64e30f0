"""A line that one thread has for itself: it sends a request and waits for the answer, without an event loop.

A hop from thread to thread costs more than the whole send, so a thread that waits anyway owns its socket. One request
is under way at a time. The system itself watches the time (SO_RCVTIMEO), which saves asking it before each read; only
with TLS Python does. What a server asks of its own accord is passed over: it says such things on the line that has the
heartbeats.

A line whose answer did not come in time is of no more use: the answer may come while another is awaited. Close it.
"""

import os
import select
import socket
from contextlib import suppress
from struct import Struct as Layout
from typing import TYPE_CHECKING

from msgspec import structs

from steelyard.errors import LineClosed, ProtocolError, TimedOut
from steelyard.net.addresses import parse_address
from steelyard.net.clock import steady_ms
from steelyard.net.forks import keep, let_go
from steelyard.net.reaching import reason, unreachable
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.frames import Splitter, encode_frame, only_command

if TYPE_CHECKING:
    import ssl

__all__ = ["BlockingLine"]

_READ_BYTES = 65_536
_OPAQUES = 1 << 31
_TIMEVAL = Layout("@ll")


class BlockingLine:
    """A connection to one server, for one thread at a time. Making it opens it; CannotConnect where that fails."""

    __slots__ = ("_limit_ms", "_opaque", "_pid", "_socket", "_splitter", "address", "used_ms")

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        self.address = address
        self.used_ms = steady_ms()
        """When it was used last."""
        self._pid = os.getpid()
        self._opaque = 0
        self._splitter = Splitter()
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

    def ask(self, command: Command, timeout_ms: int) -> Command:
        """Send a request, whose number is set here, and return its answer, whatever it says.

        Raises TimedOut and LineClosed; the line is of no more use then.
        """
        began_ms = steady_ms()
        self._opaque = opaque = (self._opaque + 1) % _OPAQUES
        frame = encode_frame(structs.replace(command, opaque=opaque))
        left_ms = timeout_ms
        try:
            while left_ms > 0:
                if left_ms != self._limit_ms:
                    self._limit(left_ms)
                if frame:
                    self._socket.sendall(frame)
                    frame = b""
                arrived = self._socket.recv(_READ_BYTES)
                if not arrived:
                    raise LineClosed(f"{self.address} closed the line")
                whole = None if self._splitter.held_bytes else only_command(arrived)
                for answer in self._splitter.feed(arrived) if whole is None else (whole,):
                    if answer.opaque == opaque and answer.flag & RESPONSE:
                        self.used_ms = began_ms
                        return answer
                left_ms = began_ms + timeout_ms - steady_ms()
        except (OSError, ProtocolError) as error:
            self._check_broken(error)
        raise TimedOut(f"{self.address} did not answer request {command.code} in {timeout_ms} ms")

    def tell(self, command: Command, timeout_ms: int) -> None:
        """Send a command that wants no answer."""
        frame = encode_frame(command)
        try:
            self._limit(timeout_ms)
            self._socket.sendall(frame)
        except OSError as error:
            self._check_broken(error)
            raise TimedOut(f"{self.address} did not take {len(frame)} bytes in {timeout_ms} ms") from None
        self.used_ms = steady_ms()

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
