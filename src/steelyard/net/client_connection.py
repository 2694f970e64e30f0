"""Our connections to servers, on the event loop.

`ClientConnection` sends commands and passes on those that arrive; its owner matches responses to requests. All commands
of one turn of the loop leave in one write. `ReconnectingConnection` sends requests and waits for the responses. It
opens with the first request, and again with the first after it was lost, and stays open in between: a name server drops
a broker whose connection closes. Requests from the server are ignored.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec import structs

from steelyard.errors import ConnectionClosed, ProtocolError, TimedOut
from steelyard.net.addresses import parse_address
from steelyard.net.connect_errors import connect_error, describe_error
from steelyard.net.fork_safety import detach_in_child, forget_socket
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, decode_single_frame, encode_frame

if TYPE_CHECKING:
    import ssl

_OnCommand = Callable[["ClientConnection", Command], None]
_OnClosed = Callable[["ClientConnection", str], None]

_WRITE_PAUSE_BYTES = 1 << 20
"""What may wait in the transport before `is_write_paused` is set."""


class ClientConnection(asyncio.Protocol):
    """One connection. ``on_command`` gets each command; ``on_closed`` is called once, whichever side closes it."""

    def __init__(self, on_command: _OnCommand, on_closed: _OnClosed) -> None:
        self._on_command, self._on_closed = on_command, on_closed
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._pending_writes: list[bytes] = []
        self._is_write_scheduled = False
        self._fileno = -1
        self._close_reason = "the server closed the connection"
        self.is_write_paused = False
        """Whether the server does not read what it is sent: wait before sending more."""

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def local_host(self) -> str:
        """The address at which the server sees us, as far as we know."""
        name = None if self._transport is None else self._transport.get_extra_info("sockname")
        return str(name[0]) if name else "127.0.0.1"

    def send(self, command: Command) -> None:
        """Send a command with all others of this turn of the loop; one that cannot be encoded raises."""
        self._pending_writes.append(encode_frame(command))
        if not self._is_write_scheduled:
            self._is_write_scheduled = True
            self._loop.call_soon(self._write)

    def close(self, why: str = "we closed the connection") -> None:
        """Write what is pending, then close the connection."""
        if self._transport is not None and not self._transport.is_closing():
            self._write()
            self._close_reason = why
            self._transport.close()

    def abort(self, why: str = "we aborted the connection") -> None:
        """Close the connection at once; pending commands may be lost."""
        if self._transport is not None:
            self._close_reason = why
            self._pending_writes.clear()
            self._transport.abort()

    def _write(self) -> None:
        self._is_write_scheduled = False
        out, self._pending_writes = self._pending_writes, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it
        self._transport.set_write_buffer_limits(high=_WRITE_PAUSE_BYTES)
        found = self._transport.get_extra_info("socket")
        if found is not None:
            self._fileno = found.fileno()
            detach_in_child(self._fileno)

    def data_received(self, data: bytes) -> None:
        """Pass on each command that arrived."""
        on_command, decoder = self._on_command, self._decoder
        try:
            whole = None if decoder.buffered_bytes else decode_single_frame(data)
            for command in decoder.feed(data) if whole is None else (whole,):
                on_command(self, command)
        except ProtocolError as error:
            self.abort(f"it does not speak the protocol: {error}")

    def pause_writing(self) -> None:
        """Remember that the server does not read."""
        self.is_write_paused = True

    def resume_writing(self) -> None:
        """Remember that it reads again."""
        self.is_write_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, and notify the owner."""
        if exc is not None:
            self._close_reason = f"the connection broke ({describe_error(exc)})"
        self._transport = None
        forget_socket(self._fileno)
        self._pending_writes.clear()
        self._on_closed(self, self._close_reason)


async def open_connection(
    address: str,
    on_command: _OnCommand,
    on_closed: _OnClosed,
    *,
    tls: "ssl.SSLContext | None" = None,
    timeout_ms: int = 3_000,
) -> ClientConnection:
    """Open a connection; raises CannotConnect."""
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            # Awaited right here: cancelled at any moment, it closes what it has opened.
            _, connection = await loop.create_connection(
                lambda: ClientConnection(on_command, on_closed),
                host,
                port,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
    except Exception as error:  # also what resolvers and TLS raise
        raise connect_error(address, timeout_ms, error) from None
    return connection


_OPAQUE_COUNT = 1 << 31


class ReconnectingConnection:
    """A connection to one server. ``on_closed`` is called when it closes and we did not close it."""

    def __init__(self, address: str, *, on_closed: Callable[[], None] | None = None) -> None:
        parse_address(address)  # a wrong one is reported now, and not with every request
        self.address = address
        self._on_closed = on_closed
        self._connection: ClientConnection | None = None
        self._open_lock = asyncio.Lock()
        self._opaque = 0
        self._pending_requests: dict[int, tuple[ClientConnection, asyncio.Future[Command]]] = {}
        """By opaque, each with its connection: an old one may close after a new one was opened."""

    async def request(self, command: Command, *, timeout_ms: int) -> Command:
        """Send a request and return its response, of any code; raise a TransportError if none arrives."""
        connection = await self._open()
        self._opaque = opaque = (self._opaque + 1) % _OPAQUE_COUNT
        connection.send(structs.replace(command, opaque=opaque))
        response: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._pending_requests[opaque] = connection, response
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await response
        except TimeoutError:
            raise TimedOut(f"{self.address} did not answer request {command.code} in {timeout_ms} ms") from None
        finally:
            self._pending_requests.pop(opaque, None)

    def close(self) -> None:
        """Close it; the next request opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _open(self) -> ClientConnection:
        async with self._open_lock:
            if self._connection is None:
                connection = await open_connection(self.address, self._command_received, self._connection_closed)
                if not connection.is_open:
                    raise ConnectionClosed(f"{self.address} closed the connection at once")
                self._connection = connection
            return self._connection

    def _command_received(self, connection: ClientConnection, command: Command) -> None:
        del connection
        pending = self._pending_requests.get(command.opaque) if command.is_response else None
        if pending is not None and not pending[1].done():
            pending[1].set_result(command)

    def _connection_closed(self, connection: ClientConnection, why: str) -> None:
        for sent_on, response in self._pending_requests.values():
            if sent_on is connection and not response.done():
                response.set_exception(ConnectionClosed(f"{self.address}: {why}"))
        if self._connection is connection:
            self._connection = None
            if self._on_closed is not None:
                self._on_closed()
