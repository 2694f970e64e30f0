"""Connections that one thread owns: requests without an event loop.

Passing a request from thread to thread costs more than the whole send, so a thread that waits anyway owns its socket.
`BlockingConnection` has one request at a time in flight, `PipelinedConnection` many: enqueue, flush, receive.

The system watches the time (SO_RCVTIMEO), which saves a poll before each read; with TLS, Python does. Requests from the
server are ignored: it sends them on the connection that has the heartbeats. A connection that raised must be closed: a
late response would be taken for that of another request.
"""

import os
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct as Layout
from typing import TYPE_CHECKING

from msgspec import structs

from steelyard.errors import ConnectionClosed, ProtocolError, TimedOut
from steelyard.net.addresses import parse_address
from steelyard.net.clock import steady_ms
from steelyard.net.connect_errors import connect_error, describe_error
from steelyard.net.fork_safety import detach_in_child, forget_socket
from steelyard.wire.command import RESPONSE_FLAG, Command
from steelyard.wire.frames import FrameDecoder, decode_frame_at, decode_single_frame, encode_frame

if TYPE_CHECKING:
    import ssl

_TIMEVAL = Layout("@ll")


class _SocketConnection:
    """A socket of one thread. Making it opens it, or raises CannotConnect."""

    __slots__ = ("_opaque", "_pid", "_socket", "_timeout_ms", "address", "last_used_ms")

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        self.address = address
        self.last_used_ms = steady_ms()
        self._pid = os.getpid()
        self._timeout_ms = self._opaque = 0
        try:
            opened = socket.create_connection(parse_address(address), timeout_ms / 1000)
        except (OSError, UnicodeError, OverflowError) as error:
            raise connect_error(address, timeout_ms, error) from None
        self._socket = opened
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(opened, server_hostname=parse_address(address)[0])
            else:
                opened.settimeout(None)
        except (OSError, UnicodeError) as error:
            opened.close()
            raise connect_error(address, timeout_ms, error) from None
        detach_in_child(self._socket.fileno())

    def is_idle(self) -> bool:
        """Whether nothing has arrived since the last response; if something has, mostly the server closed it."""
        try:
            watch = select.poll()
            watch.register(self._socket, select.POLLIN)
            return not watch.poll(0)
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Close it; a thread that waits on it wakes up at once. Calling it again does nothing."""
        if os.getpid() == self._pid:  # in a forked child the connection is still the parent's
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        forget_socket(self._socket.fileno())
        self._socket.close()

    def _set_timeout(self, timeout_ms: int) -> None:
        """Set how long one system call may take."""
        self._timeout_ms = timeout_ms
        if self._socket.gettimeout() is not None:
            self._socket.settimeout(timeout_ms / 1000)
            return
        seconds, rest_ms = divmod(timeout_ms, 1000)
        limit = _TIMEVAL.pack(seconds, rest_ms * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def _raise_if_broken(self, error: OSError | ProtocolError) -> None:
        """Raise ConnectionClosed, unless the error is our own timeout."""
        if isinstance(error, ConnectionClosed):
            raise error
        if isinstance(error, ProtocolError):
            raise ConnectionClosed(f"{self.address} does not speak the protocol: {error}") from None
        # Our timeout is EAGAIN, or with TLS an error without errno; ETIMEDOUT is a connection that broke.
        if not isinstance(error, BlockingIOError) and (error.errno is not None or not isinstance(error, TimeoutError)):
            raise ConnectionClosed(f"the connection to {self.address} broke ({describe_error(error)})") from None


_READ_BYTES = 65_536
_OPAQUE_COUNT = 1 << 31


class BlockingConnection(_SocketConnection):
    """A connection with one request at a time in flight."""

    __slots__ = ("_decoder",)

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        super().__init__(address, tls=tls, timeout_ms=timeout_ms)
        self._decoder = FrameDecoder()

    def request(self, command: Command, timeout_ms: int, began_ms: int | None = None) -> Command:
        """Send a request, whose opaque is set here, and return its response, of any code.

        The timeout counts from ``began_ms``, or from now. Raises TimedOut and ConnectionClosed; close the connection
        then.
        """
        if began_ms is None:
            began_ms = steady_ms()
        self._opaque = opaque = (self._opaque + 1) % _OPAQUE_COUNT
        frame = encode_frame(structs.replace(command, opaque=opaque))
        left_ms = timeout_ms
        try:
            while left_ms > 0:
                if left_ms != self._timeout_ms:
                    self._set_timeout(left_ms)
                if frame:
                    self._socket.sendall(frame)
                    frame = b""
                arrived = self._socket.recv(_READ_BYTES)
                if not arrived:
                    raise ConnectionClosed(f"{self.address} closed the connection")
                whole = None if self._decoder.buffered_bytes else decode_single_frame(arrived)
                for response in self._decoder.feed(arrived) if whole is None else (whole,):
                    if response.opaque == opaque and response.flag & RESPONSE_FLAG:
                        self.last_used_ms = began_ms
                        return response
                left_ms = began_ms + timeout_ms - steady_ms()
        except (OSError, ProtocolError) as error:
            self._raise_if_broken(error)
        raise TimedOut(f"{self.address} did not answer request {command.code} in {timeout_ms} ms")

    def send_oneway(self, command: Command, timeout_ms: int) -> None:
        """Send a command without a response."""
        frame = encode_frame(command)
        try:
            self._set_timeout(timeout_ms)
            self._socket.sendall(frame)
        except OSError as error:
            self._raise_if_broken(error)
            raise TimedOut(f"{self.address} did not take {len(frame)} bytes in {timeout_ms} ms") from None
        self.last_used_ms = steady_ms()


_BUFFER_BYTES = 1 << 21


class PipelinedConnection(_SocketConnection):
    """A connection with many requests in flight: written together, and answered in any order."""

    __slots__ = ("_end", "_start", "_unsent", "_view")

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        super().__init__(address, tls=tls, timeout_ms=timeout_ms)
        self._unsent: list[bytes] = []
        self._view = memoryview(bytearray(_BUFFER_BYTES))
        self._start = self._end = 0
        """The part of the buffer that is not decoded: less than a frame, after each `receive`."""

    def enqueue(self, command: Command) -> int:
        """Queue a request for the next `flush`; return its opaque, which the response will have."""
        self._opaque = opaque = (self._opaque + 1) % _OPAQUE_COUNT
        self._unsent.append(encode_frame(structs.replace(command, opaque=opaque)))
        return opaque

    def flush(self, timeout_ms: int) -> None:
        """Send the queued requests in one write. Raises TimedOut and ConnectionClosed."""
        if not self._unsent:
            return
        frames = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        self._unsent.clear()
        try:
            if timeout_ms != self._timeout_ms:
                self._set_timeout(timeout_ms)
            self._socket.sendall(frames)
        except OSError as error:
            self._raise_if_broken(error)
            raise TimedOut(f"{self.address} did not take {len(frames)} bytes in {timeout_ms} ms") from None

    def receive(self, timeout_ms: int) -> list[Command]:
        """Wait for data, read once, and return the complete responses: none, if it was a part of one.

        Raises TimedOut if nothing arrived at all, and ConnectionClosed.
        """
        try:
            if timeout_ms != self._timeout_ms:
                self._set_timeout(timeout_ms)
            count = self._socket.recv_into(self._view[self._end :])
            if not count:
                raise ConnectionClosed(f"{self.address} closed the connection")
            self._end += count
            return self._decode_responses()
        except (OSError, ProtocolError) as error:
            self._raise_if_broken(error)
            raise TimedOut(f"{self.address} sent nothing for {timeout_ms} ms") from None

    def _decode_responses(self) -> list[Command]:
        """Take the complete responses out of the buffer, and make room for the rest of a partial one."""
        self.last_used_ms = steady_ms()
        view, start, end = self._view, self._start, self._end
        responses: list[Command] = []
        while True:
            command, stop = decode_frame_at(view, start, end)
            if command is None:
                break
            start = stop
            if command.flag & RESPONSE_FLAG:
                responses.append(command)
        if start == end:
            self._start = self._end = 0
            if len(view) > _BUFFER_BYTES:
                self._view = memoryview(bytearray(_BUFFER_BYTES))  # after one large response
        elif stop > len(view):
            rest = bytes(view[start:end])
            if stop - start > len(view):
                self._view = memoryview(bytearray(stop - start))
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        else:
            self._start = start
        return responses

    def fileno(self) -> int:
        """Return the descriptor of its socket."""
        return self._socket.fileno()

    def has_buffered(self) -> bool:
        """Whether data has arrived that poll does not report: TLS buffers some."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0


def wait_readable(connections: Sequence[PipelinedConnection], timeout_ms: int) -> list[PipelinedConnection]:
    """Wait until one of several connections has data, and return those that do; none after the timeout."""
    ready = [each for each in connections if each.has_buffered()]
    if ready:
        return ready
    watch = select.poll()
    by_fileno: dict[int, PipelinedConnection] = {}
    for connection in connections:
        by_fileno[fileno := connection.fileno()] = connection
        watch.register(fileno, select.POLLIN)
    return [by_fileno[fileno] for fileno, _ in watch.poll(max(0, timeout_ms))]
