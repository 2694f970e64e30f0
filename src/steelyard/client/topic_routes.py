"""Topic routes: looked up once for all who need them, cached, and refreshed.

A topic that no name server knows any more keeps its last route: a broker may be restarting. When a broker that is
missing in a route accepts connections again, the route is looked up every second until it names the broker.
`find_route` and `list_topics` do the same without an event loop and without a cache.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from steelyard.client.config import ClientConfig
from steelyard.client.namespace import ClientNamespace
from steelyard.client.suggestions import topic_unknown
from steelyard.errors import NoNameServer, NoRoute, SteelyardError, TopicNotFound, TransportError, error_for
from steelyard.model import PublishList, TopicRoute
from steelyard.model.reserved_names import DEFAULT_TOPIC
from steelyard.net.blocking_connection import BlockingConnection
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TopicNames
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.signing import sign_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.client.session import Session

_REFRESH_S = 30.0
_FORCED_REFRESH_GAP_S = 1.0
"""The least time between look-ups that failed sends trigger."""
_LAST_TRY_TIMEOUT_MS = 3_000
_TRY_TIMEOUT_MS = 1_000
"""The timeout of a name server while there is another one to ask."""
_RETURN_POLLS = 15
"""How often, a second apart, to look for a broker that accepts connections again in its routes."""


class TopicRoutes:
    """The routes of one session. What is not ``async`` may be called from any thread."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._table: dict[str, TopicRoute] = {}
        self._lists: dict[str, PublishList] = {}
        self._looking_up: dict[str, asyncio.Task[TopicRoute]] = {}
        self._missing: dict[str, set[str]] = {}
        """The brokers, by topic, that its route named once and does not name now."""
        self._next_refresh_s: dict[str, float] = {}
        """When a topic may be looked up again before its time."""
        self._refreshing: asyncio.Task[None] | None = None
        self.on_change: list[Callable[[str, TopicRoute], None]] = []
        """Called on the loop with the topic and its new route."""

    def cached_route(self, topic: str) -> TopicRoute | None:
        """Return the cached route, if any."""
        return self._table.get(topic)

    async def find(self, topic: str) -> TopicRoute:
        """Return the route of a topic; raises TopicNotFound, or NoNameServer."""
        known = self._table.get(topic)
        return known if known is not None else await self.look_up(topic)

    async def publish_list(self, topic: str) -> PublishList:
        """Return the queues that a producer may send to; a topic that does not exist has those of the default topic."""
        known = self._lists.get(topic)
        if known:
            return known
        try:
            route = await self._look_up_shared(topic)
        except TopicNotFound:
            return await self._default_topic_list(topic)
        found = self._lists.get(topic)
        if not found:
            raise NoRoute(
                f"topic {topic!r} has no queue that takes messages ({len(route.brokers)} brokers have it)",
                next_step="check its permission, and that a master of it is up",
            )
        return found

    async def look_up(self, topic: str) -> TopicRoute:
        """Ask a name server; raises TopicNotFound, which suggests the closest topic, or NoNameServer."""
        try:
            return await self._look_up_shared(topic)
        except TopicNotFound:
            raise await self._not_found(topic) from None

    async def _look_up_shared(self, topic: str) -> TopicRoute:
        """Ask a name server; concurrent look-ups of one topic share one request."""
        lookup = self._looking_up.get(topic)
        if lookup is None:
            lookup = self._looking_up[topic] = asyncio.get_running_loop().create_task(self._request_route(topic))
            lookup.add_done_callback(partial(self._look_up_done, topic))
        return await asyncio.shield(lookup)

    def _look_up_done(self, topic: str, task: "asyncio.Task[TopicRoute]") -> None:
        self._looking_up.pop(topic, None)
        if not task.cancelled():
            task.exception()  # retrieved, since its waiters may have gone

    def refresh_soon(self, topic: str) -> None:
        """Look a topic up again soon: a send failed, or its list is the default topic's. At most once a second."""
        with suppress(RuntimeError):  # the loop has ended, and with it all that a route is good for
            self._session.loop.call_soon_threadsafe(self._refresh_one, topic)

    def start(self) -> None:
        """Start to refresh all known topics periodically."""
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh_periodically())

    async def close(self) -> None:
        """Stop all look-ups, and wait until they ended."""
        await asyncio.gather(*self.stop(), return_exceptions=True)

    def stop(self) -> "list[asyncio.Task[TopicRoute] | asyncio.Task[None]]":
        """Cancel all look-ups, and return their tasks."""
        tasks: list[asyncio.Task[TopicRoute] | asyncio.Task[None]] = [*self._looking_up.values()]
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        return tasks

    async def _request_route(self, topic: str) -> TopicRoute:
        answer = await self.request_name_server(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            self._session.update_brokers(TopicRoute(topic, (), ()))
            raise TopicNotFound(
                f"topic {self._session.namespace.unwrap(topic)!r} is not known to {self._session.config}",
                code=answer.code,
                server=self._session.name_server_connection.address,
            )
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=self._session.name_server_connection.address)
        route = decode_body(RouteBody, answer.body).route(topic)
        self._store(topic, route)
        return route

    async def request_name_server(self, command: Command) -> Command:
        """Ask one name server after the other until one answers."""
        names = self._session.name_server_connection
        why = ""
        turns = max(2, len(names.addresses))
        for turn in range(turns):
            is_last = turn == turns - 1 or len(names.addresses) == 1
            try:
                return await names.request(command, _LAST_TRY_TIMEOUT_MS if is_last else _TRY_TIMEOUT_MS)
            except TransportError as error:
                why = error.what
        raise _no_answer(self._session.config, why)

    def _store(self, topic: str, route: TopicRoute) -> None:
        self._session.update_brokers(route)
        before = self._table.get(topic)
        if before == route:
            return
        self._table[topic] = route
        if before is not None:
            missing = self._missing.get(topic, set()) | {place.name for place in before.brokers}
            self._missing[topic] = missing - {place.name for place in route.brokers}
        listed = route.publish_list()
        if listed or topic not in self._lists:
            # An empty list is of no use to a sender: its brokers restart, and trying them is better than giving up.
            self._lists[topic] = listed
        for callback in tuple(self.on_change):
            callback(topic, route)

    async def _default_topic_list(self, topic: str) -> PublishList:
        try:
            default = self._table.get(DEFAULT_TOPIC) or await self._look_up_shared(DEFAULT_TOPIC)
            listed = default.publish_list_for_new_topic(topic)
        except TopicNotFound:
            listed = None
        if not listed:
            raise await self._not_found(topic)
        # Kept until the topic has a route of its own; the first message creates it.
        return self._lists.setdefault(topic, listed)

    async def _not_found(self, topic: str) -> TopicNotFound:
        unwrap = self._session.namespace.unwrap
        try:
            answer = await self.request_name_server(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
            known = list(map(unwrap, decode_body(TopicNames, answer.body).topics))
        except SteelyardError:
            known = None
        brokers = sorted(self._session.broker_connections())
        return topic_unknown(unwrap(topic), known, namesrv=str(self._session.config), asked=brokers)

    async def _refresh_periodically(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_S)
            for topic in {*self._table, *self._lists}:
                await self._try_look_up(topic)

    def _refresh_one(self, topic: str) -> None:
        loop = self._session.loop
        wait_s = self._next_refresh_s.get(topic, 0.0) - loop.time()
        if wait_s > _FORCED_REFRESH_GAP_S:
            return
        self._next_refresh_s[topic] = loop.time() + max(0.0, wait_s) + _FORCED_REFRESH_GAP_S
        if wait_s <= 0:
            self._session.spawn(self._try_look_up(topic))
        else:
            loop.call_later(wait_s, lambda: self._session.spawn(self._try_look_up(topic)))

    def broker_connected(self, broker: str) -> None:
        """Look for a broker that accepts connections in the routes that miss it. On the loop."""
        if any(broker in missing for missing in self._missing.values()):
            self._session.spawn(self._poll_for_broker(broker))

    async def _poll_for_broker(self, broker: str) -> None:
        for _ in range(_RETURN_POLLS):
            for topic in [topic for topic, missing in self._missing.items() if broker in missing]:
                await self._try_look_up(topic)
            if not any(broker in missing for missing in self._missing.values()):
                return
            await asyncio.sleep(_FORCED_REFRESH_GAP_S)

    async def _try_look_up(self, topic: str) -> None:
        with suppress(SteelyardError):  # the cached route stays
            await self._look_up_shared(topic)


def find_route(topic: str, config: ClientConfig, *, timeout_ms: int = 3_000) -> TopicRoute:
    """Return the route of a topic; raises TopicNotFound, NoNameServer, or another error of a name server.

    ``timeout_ms`` applies to each name server.
    """
    full = ClientNamespace(config.namespace).wrap(topic)
    answer = _request_blocking(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(full)), config, timeout_ms)
    return decode_body(RouteBody, answer.body).route(full)


def list_topics(config: ClientConfig, *, timeout_ms: int = 3_000) -> list[str]:
    """Return all topics that the name servers know, as users call them."""
    answer = _request_blocking(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), config, timeout_ms)
    return list(map(ClientNamespace(config.namespace).unwrap, decode_body(TopicNames, answer.body).topics))


def _request_blocking(command: Command, config: ClientConfig, timeout_ms: int) -> Command:
    if config.credentials is not None:
        command = sign_command(command, config.credentials)
    tls, why = config.tls_context(), ""
    for address in config.name_servers:
        try:
            connection = BlockingConnection(address, tls=tls, timeout_ms=timeout_ms)
            try:
                answer = connection.request(command, timeout_ms)
            finally:
                connection.close()
        except TransportError as error:
            why = error.what
            continue
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=address)
        return answer
    raise _no_answer(config, why)


def _no_answer(config: ClientConfig, why: str) -> NoNameServer:
    next_step = "check the address, and that a name server runs there"
    return NoNameServer(f"no name server of {config} answers ({why})", next_step=next_step)
