"""Where topics are: looked up once, shared by all who wait, and kept fresh.

The order of a look-up: the table, a name server, and for a producer the default topic, whose brokers create topics with
their first message. A name server that fails is passed over for the next. A topic that no name server knows any more
keeps its last route: a broker may be restarting. One that is missing in a new route is looked for there as soon as it
takes lines again.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from steelyard.client.nearest import missing_topic, no_broker
from steelyard.errors import NoNameServer, NoRoute, SteelyardError, TopicNotFound, TransportError, error_for
from steelyard.model import PublishList, Route
from steelyard.model.names import DEFAULT_TOPIC
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import GetRoute

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.client.session import Session

__all__ = ["Routes"]

_REFRESH_S = 30.0
_SOON_S = 1.0
"""Between look-ups that senders ask for because something failed."""
_ASK_MS = 3_000
_HURRY_MS = 1_000
"""How long a name server has to answer while there is another one to ask."""
_RETURN_LOOKS = 15
"""How often, a second apart, a broker that takes lines again is looked for in the routes that it was in."""


class Routes:
    """The routes of one session. What is not ``async`` may be called from any thread."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._table: dict[str, Route] = {}
        self._lists: dict[str, PublishList] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}
        self._missing: dict[str, set[str]] = {}
        """The brokers, by topic, that its route told of once and does not now."""
        self._soon: dict[str, float] = {}
        """When a topic may be looked up again out of turn."""
        self._refreshing: asyncio.Task[None] | None = None
        self.on_change: list[Callable[[str, Route], None]] = []
        """Called on the loop with the topic and its new route."""

    def known(self, topic: str) -> PublishList | None:
        """Return the publish list that the table has, if any."""
        return self._lists.get(topic)

    def known_route(self, topic: str) -> Route | None:
        """Return the route that the table has, if any."""
        return self._table.get(topic)

    async def find(self, topic: str) -> Route:
        """Return where a topic is; raises TopicNotFound, or NoNameServer."""
        known = self._table.get(topic)
        return known if known is not None else await self.look_up(topic)

    async def publish_list(self, topic: str) -> PublishList:
        """Return the queues that a producer may send to; a topic that does not exist has those of the default topic."""
        known = self._lists.get(topic)
        if known:
            return known
        try:
            route = await self._look(topic)
        except TopicNotFound:
            return await self._borrowed(topic)
        found = self._lists.get(topic)
        if not found:
            raise NoRoute(
                f"topic {topic!r} has no queue that takes messages ({len(route.brokers)} brokers have it)",
                next_step="check its permission, and that a master of it is up",
            )
        return found

    async def look_up(self, topic: str) -> Route:
        """Ask a name server; raises TopicNotFound with the topic that was meant, or NoNameServer."""
        try:
            return await self._look(topic)
        except TopicNotFound:
            raise await self._not_found(topic) from None

    async def _look(self, topic: str) -> Route:
        """Ask a name server, together with whoever asks for the same topic now."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.get_running_loop().create_task(self._ask(topic))
            asking.add_done_callback(partial(self._asked, topic))
        return await asyncio.shield(asking)

    def _asked(self, topic: str, asking: "asyncio.Task[Route]") -> None:
        self._asking.pop(topic, None)
        if not asking.cancelled():
            asking.exception()  # whoever wanted to know may have gone

    def refresh_soon(self, topic: str) -> None:
        """Have a topic looked up again: a send failed, or its list was borrowed. At most once a second."""
        with suppress(RuntimeError):  # the loop has ended, and with it all that a route is good for
            self._session.loop.call_soon_threadsafe(self._refresh_one, topic)

    def start(self) -> None:
        """Begin to look all known topics up again from time to time."""
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def close(self) -> None:
        """Stop looking, and wait until that is done."""
        await asyncio.gather(*self.stop(), return_exceptions=True)

    def stop(self) -> "list[asyncio.Task[Route] | asyncio.Task[None]]":
        """Stop looking; what was looking ends soon."""
        tasks: list[asyncio.Task[Route] | asyncio.Task[None]] = [*self._asking.values()]
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        return tasks

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _ask(self, topic: str) -> Route:
        answer = await self.ask_a_name_server(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            self._session.learn(Route(topic, (), ()))
            raise TopicNotFound(
                f"topic {self._session.names.bare(topic)!r} is not known to {self._session.connect}",
                code=answer.code,
                server=self._session.name_servers.address,
            )
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=self._session.name_servers.address)
        route = decode_body(RouteBody, answer.body).route(topic)
        self._keep(topic, route)
        return route

    async def ask_a_name_server(self, command: Command) -> Command:
        """Ask one name server after the other until one answers."""
        names = self._session.name_servers
        why = ""
        turns = max(2, len(names.addresses))
        for turn in range(turns):
            is_last = turn == turns - 1 or len(names.addresses) == 1
            try:
                return await names.ask(command, _ASK_MS if is_last else _HURRY_MS)
            except TransportError as error:
                why = error.what
        raise NoNameServer(
            f"no name server of {self._session.connect} answers ({why})",
            next_step="check the address, and that a name server runs there",
        )

    def _keep(self, topic: str, route: Route) -> None:
        self._session.learn(route)
        before = self._table.get(topic)
        if before == route:
            return
        self._table[topic] = route
        if before is not None:
            missing = self._missing.get(topic, set()) | {place.name for place in before.brokers}
            self._missing[topic] = missing - {place.name for place in route.brokers}
        listed = route.publish_list()
        if listed or topic not in self._lists:
            # An empty list is no news to a sender: its brokers restart, and it is better to try them than to give up.
            self._lists[topic] = listed
        for tell in tuple(self.on_change):
            tell(topic, route)

    async def _borrowed(self, topic: str) -> PublishList:
        try:
            default = self._table.get(DEFAULT_TOPIC) or await self._look(DEFAULT_TOPIC)
            listed = default.borrowed_list(topic)
        except TopicNotFound:
            listed = None
        if not listed:
            raise await self._not_found(topic)
        # Kept until the topic has a route of its own; the first message creates it.
        return self._lists.setdefault(topic, listed)

    async def _not_found(self, topic: str) -> TopicNotFound:
        known = await self._all_topics()
        if known == []:  # brokers always have some of their own
            return no_broker(self._session.names.bare(topic), where=str(self._session.connect))
        asked = sorted(self._session.known_brokers())
        bare, where = self._session.names.bare(topic), str(self._session.connect)
        return missing_topic(bare, known or (), where=where, asked=asked)

    async def _all_topics(self) -> list[str] | None:
        try:
            answer = await self.ask_a_name_server(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
            return list(map(self._session.names.bare, decode_body(TopicNames, answer.body).topics))
        except SteelyardError:
            return None

    # -- keeping fresh ------------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_S)
            for topic in {*self._table, *self._lists}:
                await self._look_quietly(topic)

    def _refresh_one(self, topic: str) -> None:
        loop = self._session.loop
        wait_s = self._soon.get(topic, 0.0) - loop.time()
        if wait_s > _SOON_S:
            return
        self._soon[topic] = loop.time() + max(0.0, wait_s) + _SOON_S
        if wait_s <= 0:
            self._session.spawn(self._look_quietly(topic))
        else:
            loop.call_later(wait_s, lambda: self._session.spawn(self._look_quietly(topic)))

    def came_up(self, broker: str) -> None:
        """Take note that a broker takes lines: name servers may soon tell of it again. On the loop."""
        if any(broker in missing for missing in self._missing.values()):
            self._session.spawn(self._bring_back(broker))

    async def _bring_back(self, broker: str) -> None:
        for _ in range(_RETURN_LOOKS):
            for topic in [topic for topic, missing in self._missing.items() if broker in missing]:
                await self._look_quietly(topic)
            if not any(broker in missing for missing in self._missing.values()):
                return
            await asyncio.sleep(_SOON_S)

    async def _look_quietly(self, topic: str) -> None:
        try:
            await self._look(topic)
        except SteelyardError:
            return  # it keeps the route that it had
