"""Session: one client's connections to a cluster, its routes, its heartbeats, and who handles requests of brokers.

Every client has a session of its own, and so an id of its own. Brokers become known by routes. The connection to a
broker stays open while a route names it, and goes to a replica while there is no master. A broker that no route names
may be restarting, so its connection is retained for some minutes; one to any other address, such as a replica, while it
is used. The next request, or the next route, opens a closed connection again.

A request of a broker goes to the handler of its code, everything else to the listener: the member of a group.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import structs

from steelyard.client.broker_connection import BrokerConnection, ConnectionSettings
from steelyard.client.config import ClientConfig
from steelyard.client.ids import client_id as new_client_id
from steelyard.client.ids import local_address
from steelyard.client.namespace import ClientNamespace
from steelyard.client.topic_routes import TopicRoutes
from steelyard.errors import BrokerNotInRoute, ConfigurationError, NoNameServer, SteelyardError, error_for
from steelyard.model import BrokerAddresses, TopicRoute
from steelyard.net.clock import steady_ms
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import BrokerLatencyReport, HeartbeatBody, HeartbeatExtension, ProducerHeartbeat
from steelyard.wire.codes import CLIENT_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command, response_to
from steelyard.wire.headers.group import UnregisterClient
from steelyard.wire.signing import sign_command

UNROUTED_GRACE_MS = 300_000
"""How long to keep connecting to a broker that no route names."""
IDLE_CONNECTION_MS = 120_000
"""How long to keep a connection without requests: Apache's servers close it then."""


class ConnectionRetention:
    """Decides which connections to keep, by the routes and by the requests since the last check."""

    def __init__(self) -> None:
        self._routed: dict[str, frozenset[str]] = {}
        """The brokers of each topic, by its last route."""
        self._unrouted_since_ms: dict[str, int] = {}
        """Since when no route names a broker."""
        self._request_counts: dict[str, tuple[int, int]] = {}
        """How many requests an address got, and since when that number has not changed."""

    def record_route(self, route: TopicRoute) -> None:
        """Record the brokers of a topic; an unknown topic has none."""
        self._routed[route.topic] = frozenset(place.name for place in route.brokers)

    def unrouted_brokers(self, brokers: Iterable[str], now_ms: int) -> list[str]:
        """Return the brokers that no route has named for long; called periodically.

        >>> kept = ConnectionRetention()
        >>> [kept.unrouted_brokers(["broker-a"], now_ms) for now_ms in (0, UNROUTED_GRACE_MS)]
        [[], ['broker-a']]
        """
        routed = frozenset[str]().union(*self._routed.values())
        self._unrouted_since_ms = {
            name: self._unrouted_since_ms.get(name, now_ms) for name in brokers if name not in routed
        }
        return [name for name, since_ms in self._unrouted_since_ms.items() if now_ms - since_ms >= UNROUTED_GRACE_MS]

    def idle_addresses(self, request_counts: Mapping[str, int], now_ms: int) -> list[str]:
        """Return the addresses that have had no request for long; called periodically.

        >>> kept = ConnectionRetention()
        >>> samples = ((7, 0), (8, 9), (8, IDLE_CONNECTION_MS))
        >>> [kept.idle_addresses({"mq-2:10911": count}, now_ms) for count, now_ms in samples]
        [[], [], []]
        >>> kept.idle_addresses({"mq-2:10911": 8}, now_ms=IDLE_CONNECTION_MS + 9)
        ['mq-2:10911']
        """
        before = self._request_counts
        self._request_counts = {
            address: before[address] if before.get(address, (-1, 0))[0] == count else (count, now_ms)
            for address, count in request_counts.items()
        }
        return [
            address
            for address, (_, since_ms) in self._request_counts.items()
            if now_ms - since_ms >= IDLE_CONNECTION_MS
        ]


_HEARTBEAT_S = 30.0
_UNREGISTER_TIMEOUT_MS = 1_000
_CLOSE_TIMEOUT_S = 1.0
_FIRST_POLL_S = 0.0005
_POLL_S = 0.01

_log = logging.getLogger("steelyard.client")


class _SessionListener(Protocol):
    """What a session notifies: the member of a group."""

    def connection_opened(self, server: str | None) -> None:
        """Handle that a connection is open."""

    def connection_lost(self, server: str | None) -> None:
        """Handle that a connection is gone; of the name servers also that an attempt to connect failed."""

    def command_received(self, server: str | None, command: Command) -> None:
        """Handle an answer to a request of the member, or a request that has no handler."""


RequestHandler = Callable[[str, Command], Command | None]
"""Takes a request of a broker and returns the answer; None for no answer, or a later one."""


class Session:
    """The connections of one client. Everything but the constructor is called on one loop."""

    loop: asyncio.AbstractEventLoop
    name_server_connection: BrokerConnection
    """One connection, to one of the name servers."""

    def __init__(self, config: ClientConfig, *, client_id: str | None = None) -> None:
        self.config = config
        self.namespace = ClientNamespace(config.namespace)
        """Translates topics and groups between users and servers."""
        self.local_address = local_address(config.name_servers[0])
        """The address of this machine towards the servers."""
        self.client_id = client_id or new_client_id(self.local_address, config.name)
        self.instance = secrets.token_hex(16)
        """Tells two processes with one client id apart."""
        self.listener: _SessionListener | None = None
        self.request_handlers: dict[int, RequestHandler] = {}
        """Handlers of brokers' requests, by request code."""
        self.producer_groups: set[str] = set()
        """Registered at every broker, so that it can check transactions and push replies here."""
        self.latency_report: Callable[[], Sequence[BrokerLatencyReport]] | None = None
        """The latencies that a producer measured; they go along with its heartbeats."""
        self.routes = TopicRoutes(self)
        self._connection_settings: ConnectionSettings | None = None
        self._broker_connections: dict[str, BrokerConnection] = {}
        self.find_broker_connection = self._broker_connections.get
        """Returns the connection to a broker, or None if no route names it."""
        self._broker_places: dict[str, BrokerAddresses] = {}
        self._other_connections: dict[str, BrokerConnection] = {}
        self._retention = ConnectionRetention()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start(self) -> None:
        """Connect to a name server; raises NoNameServer if none can be reached in time."""
        self.loop = asyncio.get_running_loop()
        self._connection_settings = ConnectionSettings(
            self._connection_opened,
            self._connection_lost,
            self._command_received,
            self.config.tls_context(),
            sign_command,
            self.config.credentials,
        )
        self.name_server_connection = BrokerConnection(self._connection_settings, None, self.config.name_servers)
        try:
            await self._connect_name_server()
        except BaseException:
            await self.close()
            raise
        self.routes.start()
        self.spawn(self._run_periodic())

    async def _connect_name_server(self) -> None:
        connection, config = self.name_server_connection, self.config
        connection.connect()
        end_s = self.loop.time() + config.timeout_s
        pause_s = _FIRST_POLL_S
        while not connection.is_open:
            is_refused = not config.retry_refused and connection.refusals >= len(config.name_servers)
            if is_refused or self.loop.time() >= end_s:
                raise NoNameServer(
                    f"no name server of {config} was reached{'' if is_refused else f' in {config.timeout_s:g} s'} "
                    f"({connection.last_error or 'no answer'})",
                    next_step=connection.last_advice
                    or "check the address, and that a name server runs there, such as: steelyard up",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)

    def check_loop(self) -> None:
        """Raise ConfigurationError on another loop than the one it was started on, where no answer would arrive."""
        if self._connection_settings is not None and asyncio.get_running_loop() is not self.loop:
            ended = "has ended" if self.is_loop_closed else "is another one"
            raise ConfigurationError(
                f"a client was used on a loop, and the loop that it was opened on {ended}",
                next_step="make one for each loop, and close it there: async with",
            )

    @property
    def is_loop_closed(self) -> bool:
        """Whether its loop has ended, so that nothing can be sent any more."""
        return self._connection_settings is not None and self.loop.is_closed()

    async def close(self) -> None:
        """Unregister and disconnect; pending requests fail."""
        if self._is_closed or self._connection_settings is None or self.is_loop_closed:
            return
        self.check_loop()
        self._is_closed = True
        if self.producer_groups:
            await self._unregister()
        await self.routes.close()
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            # Some are users' callbacks, and may not want to end.
            await asyncio.wait(others, timeout=_CLOSE_TIMEOUT_S)
        for connection in self._all_connections():
            connection.close()
        await asyncio.gather(*(connection.wait_closed(_CLOSE_TIMEOUT_S) for connection in self._all_connections()))

    def abort(self) -> None:
        """Drop every connection at once, without unregistering, as a crash does."""
        self._is_closed = True
        self.routes.stop()
        for task in self._tasks:
            task.cancel()
        for connection in self._all_connections():
            connection.close()
            connection.drop()

    def _all_connections(self) -> list[BrokerConnection]:
        others = (*self._broker_connections.values(), *self._other_connections.values())
        return [self.name_server_connection, *others]

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task that is cancelled when the session is closed."""
        if self._is_closed:
            work.close()
            return
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background task failed: %s", error, exc_info=error)

    def broker_connection(self, name: str) -> BrokerConnection:
        """Return the connection to a broker; raises BrokerNotInRoute if no route names it."""
        connection = self._broker_connections.get(name)
        if connection is None:
            known = ", ".join(sorted(self._broker_connections)) or "none"
            raise BrokerNotInRoute(f"no route names a broker {name!r}", next_step=f"known are: {known}")
        return connection

    def broker_connections(self) -> dict[str, BrokerConnection]:
        """Return the connections to all brokers that routes name, by broker name."""
        return dict(self._broker_connections)

    def broker_place(self, name: str) -> BrokerAddresses:
        """Return the addresses of a broker by id: 0 is the master."""
        self.broker_connection(name)
        return self._broker_places[name]

    def broker_address(self, broker: str) -> str:
        """Return a broker's address: its master's, or a replica's if it has none. From any thread."""
        place = self._broker_places.get(broker)
        if place is None:
            self.broker_connection(broker)
            raise BrokerNotInRoute(f"no route names a broker {broker!r}")
        return place.master or next(iter(place.addresses.values()))

    def connection_at(self, address: str) -> BrokerConnection:
        """Return the connection to any address, such as a replica's; the first request opens it."""
        connection = self._other_connections.get(address)
        if connection is None:
            connection = self._other_connections[address] = BrokerConnection(
                self._started_settings(), address, (address,), keeps_open=False
            )
        return connection

    def update_brokers(self, route: TopicRoute) -> None:
        """Record the addresses of a route's brokers, and connect to the new ones."""
        if self._is_closed:
            return
        self._retention.record_route(route)
        for place in route.brokers:
            address = place.master or next(iter(place.addresses.values()), None)
            if address is None:
                continue
            self._broker_places[place.name] = place
            known = self._broker_connections.get(place.name)
            if known is not None:
                known.set_addresses((address,))
                known.keep_open()
            else:
                connection = self._broker_connections[place.name] = BrokerConnection(
                    self._started_settings(), place.name, (address,)
                )
                connection.connect()

    def close_unused_connections(self, now_ms: int) -> None:
        """Close the connections that are not needed any more; called periodically."""
        for name in self._retention.unrouted_brokers(self._broker_connections, now_ms):
            self._broker_connections[name].release()
        request_counts = {
            address: connection.last_opaque
            for address, connection in self._other_connections.items()
            if not connection.has_pending_requests
        }
        for address in self._retention.idle_addresses(request_counts, now_ms):
            self._other_connections.pop(address).release()

    async def request(
        self, server: "str | BrokerConnection | None", command: Command, *, timeout_ms: int = 3_000
    ) -> Command:
        """Send a request and return the answer, whatever its code; raises a TransportError if none arrives."""
        if server is None:
            return await self.routes.request_name_server(command)
        connection = server if isinstance(server, BrokerConnection) else self.broker_connection(server)
        return await connection.request(command, timeout_ms)

    async def request_ok(
        self, server: "str | BrokerConnection | None", command: Command, *, timeout_ms: int = 3_000
    ) -> Command:
        """Send a request and return the answer; one that is no success is raised as its error."""
        answer = await self.request(server, command, timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            connection = self.name_server_connection if server is None else server
            name = connection if isinstance(connection, str) else connection.server or connection.address
            raise error_for(answer.code, answer.remark or "", server=name)
        return answer

    def _started_settings(self) -> ConnectionSettings:
        if self._connection_settings is None:
            raise ConfigurationError("the session is not started", next_step="start it first")
        return self._connection_settings

    def _connection_opened(self, connection: BrokerConnection) -> None:
        if connection.server is not None and self._broker_connections.get(connection.server) is connection:
            self.routes.broker_connected(connection.server)
            if self.producer_groups:
                self.spawn(self._send_heartbeat(connection))
        elif connection is not self.name_server_connection:
            return
        if self.listener is not None:
            self.listener.connection_opened(connection.server)

    def _connection_lost(self, connection: BrokerConnection, was_open: bool) -> None:
        is_ours = connection is self.name_server_connection or (
            was_open and self._broker_connections.get(connection.server or "") is connection
        )
        if is_ours and self.listener is not None and not self._is_closed:
            self.listener.connection_lost(connection.server)

    def _command_received(self, connection: BrokerConnection, command: Command) -> None:
        if not command.flag & RESPONSE_FLAG:
            handler = self.request_handlers.get(command.code)
            if handler is not None and connection.server is not None:
                self._handle_request(handler, connection, command)
                return
            if self.listener is None:
                if not command.is_oneway:
                    connection.send(_unsupported_response(command))
                return
        if self.listener is not None:
            self.listener.command_received(connection.server, command)

    def _handle_request(self, handler: RequestHandler, connection: BrokerConnection, request: Command) -> None:
        assert connection.server is not None
        try:
            answer = handler(connection.server, request)
        except SteelyardError as error:
            answer = response_to(request, ResponseCode.SYSTEM_ERROR, remark=str(error)[:500])
        if answer is not None and not request.is_oneway:
            connection.send(structs.replace(answer, version=CLIENT_VERSION))

    async def _run_periodic(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            self.close_unused_connections(steady_ms())
            if self.producer_groups:
                await self.send_heartbeats()

    async def send_heartbeats(self) -> None:
        """Send a producer's heartbeat, with the latencies it measured, to every connected broker."""
        connected = [each for each in self._broker_connections.values() if each.is_open]
        await asyncio.gather(*map(self._send_heartbeat, connected))

    async def _send_heartbeat(self, connection: BrokerConnection) -> None:
        producers = tuple(ProducerHeartbeat(group=group) for group in sorted(self.producer_groups))
        extension = (
            None if self.latency_report is None else HeartbeatExtension(broker_latency=tuple(self.latency_report()))
        )
        body = encode_body(HeartbeatBody(client_id=self.client_id, producers=producers, steelyard=extension))
        try:
            await self.request_ok(connection, Command(RequestCode.HEART_BEAT, body=body))
        except SteelyardError as error:
            _log.debug("%s refused a heartbeat: %s", connection.server, error)

    async def _unregister(self) -> None:
        requests = [
            connection.request(
                Command(
                    RequestCode.UNREGISTER_CLIENT, UnregisterClient(client_id=self.client_id, producer_group=group)
                ),
                _UNREGISTER_TIMEOUT_MS,
            )
            for connection in self._broker_connections.values()
            if connection.is_open
            for group in self.producer_groups
        ]
        await asyncio.gather(*requests, return_exceptions=True)


def _unsupported_response(request: Command) -> Command:
    response = response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"{request.code} is not known here")
    return structs.replace(response, version=CLIENT_VERSION)
