"""BrokerConnection: the connection to one server, reopened whenever it is lost, at once at first and then less often.

A request waits while the connection is being opened, and fails at once while the server is unreachable: its sender may
have another server to try. Every request ends, by an answer, by the end of the connection or by its timeout. A server
that lets requests time out for long and sends nothing is disconnected: the connection may be dead without a sign.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from copy import copy
from errno import ECONNREFUSED
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from steelyard.client.pending_requests import FutureResponse, PendingRequest, PendingRequests, ResponseHandler
from steelyard.errors import CannotConnect, ConnectionClosed, SteelyardError, TimedOut
from steelyard.net.client_connection import ClientConnection, open_connection
from steelyard.net.clock import steady_ms
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command

if TYPE_CHECKING:
    import ssl

    from steelyard.wire.signing import Credentials

FIRST_SESSION_OPAQUE = 1 << 30
"""Request numbers (opaques) from here on are this class's own; below they are a member's."""

_LAST_OPAQUE = (1 << 31) - 1
_RECONNECT_DELAYS_MS = (0, 50, 100, 200, 400, 800, *([1_000] * 60), 5_000)
"""The delay before each attempt since the server last answered; the last one repeats."""
_CONNECT_GRACE_MS = 250
"""How long requests wait for an attempt after one that failed: a host that is gone does not refuse."""
_RETRY_CONNECT_MS = 100
"""A request does not wait for the reconnect delay: this long after the last attempt it starts another."""
_SILENCE_LIMIT_MS = 3_000
"""How long a server may be silent, while requests time out, before its connection counts as dead."""
_GO_AWAY = int(ResponseCode.GO_AWAY)

_log = logging.getLogger("steelyard.client")


class ConnectionSettings(NamedTuple):
    """What all connections of a session have in common."""

    on_open: "Callable[[BrokerConnection], None]"
    on_lost: "Callable[[BrokerConnection, bool], None]"
    """Called with whether the connection had been open."""
    on_command: "Callable[[BrokerConnection, Command], None]"
    """Called with what is no answer to a request of this connection."""
    tls: "ssl.SSLContext | None" = None
    sign: "Callable[[Command, Credentials], Command] | None" = None
    credentials: "Credentials | None" = None
    connect_timeout_ms: int = 3_000


class BrokerConnection:
    """One server. ``addresses`` are tried in turn; ``keeps_open`` reconnects even while no request waits."""

    def __init__(
        self, settings: ConnectionSettings, server: str | None, addresses: Sequence[str], *, keeps_open: bool = True
    ) -> None:
        self.server = server
        """A broker's name, None for the name servers."""
        self.addresses = tuple(addresses)
        self.failures = 0
        """Connections that were lost, or failed to open, since the server last answered."""
        self.refusals = 0
        """Attempts in a row that were refused: nothing listens there."""
        self.version = 0
        """The version in its last command; 0 before the first."""
        self.last_error = ""
        """Why the last connection ended, or failed to open."""
        self.last_advice = ""
        """What to do about it, if that is more than to check the address."""
        self._settings = settings
        self._keeps_open = keeps_open
        self._loop = asyncio.get_running_loop()
        self._connection: ClientConnection | None = None
        self._connection_address = ""
        self._next_address = 0
        self._connecting: asyncio.Task[None] | None = None
        self._connecting_since_ms = 0
        self._reconnect_timer: asyncio.TimerHandle | None = None
        self._opaque = FIRST_SESSION_OPAQUE
        self._pending = PendingRequests(self._loop, self._request_timed_out)
        self._queued: dict[int, Command] = {}
        """Requests that wait for the connection."""
        self._first_timeout_ms: int | None = None
        self._is_closed = False
        self._closed_future: asyncio.Future[None] = self._loop.create_future()
        """Done when the last connection is gone."""

    @property
    def is_open(self) -> bool:
        """Whether a command can be sent now."""
        return self._connection is not None and self._connection.is_open

    @property
    def is_write_blocked(self) -> bool:
        """Whether the server does not read what it is sent."""
        return self._connection is not None and self._connection.is_write_paused

    @property
    def address(self) -> str:
        """The address that it is connected to, or will try next."""
        return self._connection_address if self.is_open else self.addresses[self._next_address % len(self.addresses)]

    @property
    def has_pending_requests(self) -> bool:
        """Whether a request waits for its answer."""
        return bool(self._pending)

    @property
    def last_opaque(self) -> int:
        """The number of the last request: it changes with each."""
        return self._opaque

    @property
    def local_host(self) -> str | None:
        """Our address towards the server, while connected."""
        return None if self._connection is None else self._connection.local_host

    def request(self, command: Command, timeout_ms: int) -> "asyncio.Future[Command]":
        """Send a request and return the future of its answer, whatever its code.

        It fails with CannotConnect, ConnectionClosed or TimedOut.
        """
        answer: asyncio.Future[Command] = self._loop.create_future()
        self.submit(FutureResponse(answer), command, timeout_ms)
        return answer

    def submit(self, handler: ResponseHandler, command: Command, timeout_ms: int) -> None:
        """Send a request whose answer goes to a handler: a future for each send costs too much."""
        self._opaque = opaque = self._opaque + 1 if self._opaque < _LAST_OPAQUE else FIRST_SESSION_OPAQUE
        command = structs.replace(command, opaque=opaque)
        connection = self._connection
        if connection is not None and connection.is_open:
            try:
                connection.send(command if self._settings.credentials is None else self._signed(command))
            except SteelyardError as error:
                handler.on_error(error)
                return
        elif self._is_closed or self._is_unreachable:
            handler.on_error(CannotConnect(self.last_error or f"there is no connection to {self.address}"))
            return
        else:
            self._queued[opaque] = command
            self.connect()
        self._pending.add(opaque, handler, command.code, timeout_ms)

    @property
    def _is_unreachable(self) -> bool:
        """Whether the last attempts failed, and none that may succeed is under way or due."""
        if self.failures < len(self.addresses) or not self._keeps_open:
            return False
        since_ms = steady_ms() - self._connecting_since_ms
        return since_ms < _RETRY_CONNECT_MS if self._connecting is None else since_ms > _CONNECT_GRACE_MS

    def send(self, command: Command) -> bool:
        """Send a command as it is; return False if there is no connection."""
        connection = self._connection
        if connection is None or not connection.is_open:
            return False
        connection.send(command if self._settings.credentials is None else self._signed(command))
        return True

    def _signed(self, command: Command) -> Command:
        settings = self._settings
        if settings.sign is None or settings.credentials is None or command.flag & RESPONSE_FLAG:
            return command
        return settings.sign(command, settings.credentials)

    def connect(self) -> None:
        """Connect, unless connected or connecting."""
        if self._connection is None and self._connecting is None and not self._is_closed:
            if self._reconnect_timer is not None:
                self._reconnect_timer.cancel()
                self._reconnect_timer = None
            self._connecting = connecting = self._loop.create_task(self._connect())
            self._connecting_since_ms = steady_ms()
            if self.failures >= len(self.addresses):
                self._loop.call_later(_CONNECT_GRACE_MS / 1000, self._connect_overdue, connecting)

    def set_addresses(self, addresses: Sequence[str]) -> None:
        """Set where the server is now; a connection to an address that is not listed is closed."""
        if tuple(addresses) == self.addresses:
            return
        self.addresses, self._next_address = tuple(addresses), 0
        if self._connection is not None and self._connection_address not in self.addresses:
            self._retire(self._connection, "the server is elsewhere now")
        # The failures were those of another address.
        self.failures = 0
        self.connect()

    def keep_open(self) -> None:
        """Keep the connection open from now on, even without requests."""
        if not self._keeps_open:
            self._keeps_open, self.failures = True, 0
            self.connect()

    def release(self) -> None:
        """Disconnect unless a request waits, and reconnect only for a request; until `keep_open`."""
        self._keeps_open = False
        if self._pending:
            return
        if self._reconnect_timer is not None:
            self._reconnect_timer.cancel()
            self._reconnect_timer = None
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._retire(self._connection, "the connection is not needed")

    def drop(self, why: str = "the connection was given up") -> None:
        """Drop the connection; another one is opened, to the next address if there are several."""
        connection = self._connection
        if connection is not None:
            # Before the loop reports it: a new request must not wait on a connection that is closing.
            self._connection_lost(connection, why)
            connection.abort(why)

    def _retire(self, connection: ClientConnection, why: str) -> None:
        """Close a connection once its output is written, and forget it now: that may take long."""
        connection.close(why)
        if connection is self._connection:
            self._connection_lost(connection, why)

    def close(self) -> None:
        """Close for good: it does not reconnect, and every request fails."""
        self._is_closed = True
        if self._reconnect_timer is not None:
            self._reconnect_timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()
        self._fail_all_requests(ConnectionClosed(f"the connection to {self.address} was closed by us"))

    async def wait_closed(self, timeout_s: float) -> None:
        """Wait until the connection is gone; one that does not close in time is dropped."""
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            await asyncio.wait([connecting], timeout=timeout_s)
        if self._connection is not None:
            await asyncio.wait([self._closed_future], timeout=timeout_s)
        if self._connection is not None:
            self._connection.abort()
            await asyncio.wait([self._closed_future], timeout=timeout_s)

    async def _connect(self) -> None:
        address = self.addresses[self._next_address % len(self.addresses)]
        self._next_address += 1
        settings = self._settings
        try:
            connection = await open_connection(
                address,
                self._command_received,
                self._connection_lost,
                tls=settings.tls,
                timeout_ms=settings.connect_timeout_ms,
            )
        except SteelyardError as error:
            self._connecting = None
            self.refusals = self.refusals + 1 if getattr(error, "errno", None) == ECONNREFUSED else 0
            self.last_error = error.what
            self.last_advice = "" if error.next_step == CannotConnect.next_step else error.next_step
            self._connect_failed(error)
            return
        self._connecting = None
        if self._is_closed:
            connection.close()
            return
        if not connection.is_open:
            self._connect_failed(ConnectionClosed(f"{address} closed the connection at once"))
            return
        self._connection, self._connection_address = connection, address
        self._first_timeout_ms = None
        settings.on_open(self)
        queued, self._queued = self._queued, {}
        for opaque, command in queued.items():
            if opaque in self._pending:
                self._send_queued(opaque, command)

    def _connect_overdue(self, connecting: "asyncio.Task[None]") -> None:
        """Fail what waits for an attempt that will hardly do better than the last one."""
        if self._connecting is connecting and self._queued:
            self._fail_all_requests(
                CannotConnect(f"{self.address} cannot be reached (no answer in {_CONNECT_GRACE_MS} ms)")
            )

    def _send_queued(self, opaque: int, command: Command) -> None:
        try:
            if not self.send(command):
                self._fail_request(opaque, ConnectionClosed(f"{self.address} closed the connection"))
        except SteelyardError as error:
            self._fail_request(opaque, error)

    def _connect_failed(self, error: SteelyardError) -> None:
        """Handle a failed attempt; requests go on waiting while there is another address to try."""
        self.failures += 1
        if self.failures >= len(self.addresses):
            self._fail_all_requests(error)
        self._settings.on_lost(self, False)
        self._schedule_reconnect()

    def _connection_lost(self, connection: ClientConnection, why: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self.last_error = f"{self._connection_address}: {why}"
        self.failures += 1
        _log.debug("the connection to %s was lost: %s", self._connection_address, why)
        self._fail_all_requests(ConnectionClosed(self.last_error))
        self._settings.on_lost(self, True)
        if self._is_closed:
            self._closed_future.set_result(None)
        self._schedule_reconnect()

    def _schedule_reconnect(self) -> None:
        if self._is_closed or not (self._keeps_open or self._pending) or self._reconnect_timer is not None:
            return
        pause_ms = _RECONNECT_DELAYS_MS[min(max(self.failures - 1, 0), len(_RECONNECT_DELAYS_MS) - 1)]
        self._reconnect_timer = self._loop.call_later(pause_ms / 1000, self._reconnect)

    def _reconnect(self) -> None:
        self._reconnect_timer = None
        self.connect()

    def _command_received(self, connection: ClientConnection, command: Command) -> None:
        if connection is not self._connection:
            return
        self.failures = 0
        self.version = command.version
        self._first_timeout_ms = None
        if command.flag & RESPONSE_FLAG and command.opaque >= FIRST_SESSION_OPAQUE:
            pending = self._pending.pop(command.opaque)
            if pending is None:
                return
            if command.code == _GO_AWAY:
                pending.handler.on_error(ConnectionClosed(f"{self._connection_address} is shutting down"))
                self._retire(connection, "the server is shutting down")
                return
            pending.handler.on_response(command)
        else:
            self._settings.on_command(self, command)

    def _request_timed_out(self, opaque: int, pending: PendingRequest) -> None:
        if self._queued.pop(opaque, None) is not None:
            pending.handler.on_error(
                CannotConnect(f"no connection to {self.address} was opened in {pending.timeout_ms} ms")
            )
            return
        pending.handler.on_error(
            TimedOut(f"{self.address} did not answer request {pending.code} in {pending.timeout_ms} ms")
        )
        now_ms = steady_ms()
        if self._first_timeout_ms is None:
            self._first_timeout_ms = pending.sent_ms
        # A name server has no grace: another one may know.
        if self._connection is not None and (
            self.server is None or now_ms - self._first_timeout_ms >= 2 * _SILENCE_LIMIT_MS
        ):
            self.drop(f"nothing was received for {now_ms - self._first_timeout_ms} ms")

    def _fail_request(self, opaque: int, error: SteelyardError) -> None:
        pending = self._pending.pop(opaque)
        if pending is not None:
            pending.handler.on_error(error)

    def _fail_all_requests(self, error: SteelyardError) -> None:
        self._queued.clear()
        for pending in self._pending.pop_all():
            # A copy each: an error that is raised in many places collects all of their traces.
            pending.handler.on_error(copy(error))
