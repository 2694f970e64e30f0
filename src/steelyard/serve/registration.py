"""A broker's connections to its name servers: it registers its topics, and fetches routes that it needs.

broker/nameserver_registration.py decides what to register and when; this sends it, over one connection to each name
server that stays open as long as the broker runs. A name server that cannot be reached is retried, and logged once.

The topic table is built when it is sent and not before: a client that creates ten thousand topics in a second would
else have all of them sorted ten thousand times.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from steelyard.broker.broker import BrokerCore
from steelyard.broker.nameserver_registration import NameServerCommand, Registrar, RegistrationIdentity
from steelyard.errors import SteelyardError
from steelyard.net.client_connection import ReconnectingConnection
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import GetRoute

_log = logging.getLogger("steelyard.broker")

_RESPONSE_TIMEOUT_MS = 3_000
_UNREGISTER_TIMEOUT_MS = 500
_ROUTE_REFRESH_MS = 30_000
_MAX_HOLD_MS = 1_000
"""How long the response to a request that created a topic waits for the name servers."""


class NameServerRegistration:
    """The registration of one broker. All methods are called on the loop's thread."""

    def __init__(self, broker: BrokerCore, name_servers: Iterable[str], clock: Callable[[], int]) -> None:
        self._broker, self._clock = broker, clock
        options = broker.state.options
        self._name = options.name
        identity = RegistrationIdentity(
            options.cluster,
            options.name,
            options.broker_id,
            options.address,
            options.address.removesuffix(str(options.port)) + str(options.port + 1),
        )
        self._connections = {address: self._make_connection(address) for address in name_servers}
        topics = broker.state.topics
        self._registrar = Registrar(
            identity, self._connections, topics.registration_table(), now_ms=clock(), gap_ms=options.announce_gap_ms
        )
        self._registered_changes = topics.changes
        """The number of topic changes that the registrar has."""
        self._known_changes = dict.fromkeys(self._connections, -1)
        """The number of topic changes that each name server has."""
        self._held = deque[tuple[int, int, Callable[[], None]]]()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failing: set[str] = set()
        self._next_routes_ms = 0
        self._requested_routes: set[str] = set()

    def _make_connection(self, address: str) -> ReconnectingConnection:
        return ReconnectingConnection(
            address, on_closed=lambda: self._registrar.on_connection_lost(address, self._clock())
        )

    async def start(self) -> None:
        """Register with every name server that can be reached now; others are retried."""
        await asyncio.gather(*(self._register(each) for each in self._registrar.tick(self._clock())))

    def tick(self, now_ms: int) -> None:
        """Register what has changed, and fetch the routes that are needed."""
        state = self._broker.state
        next_ms = self._next_ms
        if next_ms is not None and next_ms <= now_ms:
            if state.topics.changes != self._registered_changes:
                self._registered_changes = state.topics.changes
                self._registrar.update_table(state.topics.registration_table())
            for registration in self._registrar.tick(now_ms):
                self._start_task(self._register(registration))
        if state.wanted_routes and (
            now_ms >= self._next_routes_ms or not state.wanted_routes <= self._requested_routes
        ):
            self._next_routes_ms, self._requested_routes = now_ms + _ROUTE_REFRESH_MS, set(state.wanted_routes)
            self._start_task(self._fetch_routes(sorted(self._requested_routes)))
        self._run_held(now_ms)
        self._schedule_tick(now_ms)

    @property
    def _next_ms(self) -> int | None:
        """When the next registration is due."""
        return self._registrar.next_change_ms(self._broker.state.topics.changes - self._registered_changes)

    def run_when_registered(self, action: Callable[[], None]) -> None:
        """Call something once all name servers know the present topics, at the latest after a second."""
        now_ms = self._clock()
        self._held.append((self._broker.state.topics.changes, now_ms + _MAX_HOLD_MS, action))
        self.tick(now_ms)

    def _schedule_tick(self, now_ms: int) -> None:
        """Tick as soon as a registration is due for which a response waits."""
        next_ms = self._next_ms
        if self._timer is None and self._held and next_ms is not None and next_ms - now_ms < _MAX_HOLD_MS:
            wait_s = max(1, next_ms - now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.tick(self._clock())

    def _run_held(self, now_ms: int) -> None:
        known = min(self._known_changes.values(), default=self._broker.state.topics.changes)
        while self._held and (self._held[0][0] <= known or self._held[0][1] <= now_ms):
            self._held.popleft()[2]()

    async def _register(self, registration: NameServerCommand) -> None:
        address, changes, registrar = registration.name_server, self._registered_changes, self._registrar
        try:
            response = await self._connections[address].request(registration.command, timeout_ms=_RESPONSE_TIMEOUT_MS)
        except SteelyardError as error:
            registrar.on_failure(registration, self._clock())
            self._log_failure(address, str(error))
        else:
            registrar.on_response(registration, response, self._clock())
            self._log_failure(address, f"{address} refuses: {response.remark}" if response.code else None)
        # Responses do not wait for a name server that cannot be reached.
        self._known_changes[address] = changes
        self.tick(self._clock())

    def _log_failure(self, address: str, failure: str | None) -> None:
        """Log the first of many failures, and their end."""
        if failure is not None and address not in self._failing:
            self._failing.add(address)
            _log.warning("%s is not registered, and will retry: %s", self._name, failure)
        elif failure is None and address in self._failing:
            self._failing.remove(address)
            _log.warning("%s is registered again with %s", self._name, address)

    async def _fetch_routes(self, topics: list[str]) -> None:
        """Fetch routes; one that is not found stays as it was, since a name server may just have started."""
        for topic in topics:
            for connection in self._connections.values():
                try:
                    request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic))
                    response = await connection.request(request, timeout_ms=_RESPONSE_TIMEOUT_MS)
                    if response.code == 0:
                        self._broker.state.routes[topic] = decode_body(RouteBody, response.body).route(topic)
                        break
                except SteelyardError as error:
                    _log.info("%s cannot get from %s the route of %s: %s", self._name, connection.address, topic, error)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def unregister(self) -> None:
        """Unregister everywhere; a name server that does not respond notices the closed connection."""
        await asyncio.gather(*(self._unregister_from(each) for each in self._registrar.unregister()))
        self.close()

    async def _unregister_from(self, registration: NameServerCommand) -> None:
        connection = self._connections[registration.name_server]
        if registration.name_server not in self._failing:
            with suppress(SteelyardError):
                await connection.request(registration.command, timeout_ms=_UNREGISTER_TIMEOUT_MS)

    def close(self) -> None:
        """Close the connections."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for connection in self._connections.values():
            connection.close()
