"""A broker's lines to its name servers: it tells them of itself, and asks them for routes it wants to know.

What to tell and when is decided by broker/registration.py; here it is sent, over one line to each name server that
stays open as long as the broker lives. A name server that cannot be reached is tried again, and said once.

The table of topics is made when it is told and not before: a client that makes ten thousand topics in a second would
else have all of them sorted ten thousand times.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from steelyard.broker.core import Broker
from steelyard.broker.registration import Announcement, Identity, Registrar
from steelyard.errors import SteelyardError
from steelyard.net.link import Link
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import GetRoute

__all__ = ["Announcer"]

_log = logging.getLogger("steelyard.broker")

_ANSWER_MS = 3_000
_LEAVING_MS = 500
_ROUTES_MS = 30_000
_HELD_MS = 1_000
"""How long the answer to who made a topic waits for the name servers to know it."""


class Announcer:
    """One broker's hands towards its name servers. All methods are called on the loop's thread."""

    def __init__(self, broker: Broker, name_servers: Iterable[str], clock: Callable[[], int]) -> None:
        self._broker, self._clock = broker, clock
        options = broker.state.options
        self._name = options.name
        identity = Identity(
            options.cluster,
            options.name,
            options.broker_id,
            options.address,
            options.address.removesuffix(str(options.port)) + str(options.port + 1),
        )
        self._links = {address: self._link(address) for address in name_servers}
        topics = broker.state.topics
        self._registrar = Registrar(
            identity, self._links, topics.announced(), now_ms=clock(), gap_ms=options.announce_gap_ms
        )
        self._changes = topics.changes
        """How often the topics had changed when the registrar was told last."""
        self._known = dict.fromkeys(self._links, -1)
        """How often they had changed when each name server was told last."""
        self._held = deque[tuple[int, int, Callable[[], None]]]()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._troubled: set[str] = set()
        self._routes_ms = 0
        self._asked: set[str] = set()

    def _link(self, address: str) -> Link:
        return Link(address, lost=lambda: self._registrar.lost(address, self._clock()))

    async def start(self) -> None:
        """Register with every name server that can be reached now; with others it is tried again."""
        await asyncio.gather(*(self._tell(each) for each in self._registrar.tick(self._clock())))

    def tick(self, now_ms: int) -> None:
        """Tell what there is to tell, and ask for the routes that are wanted."""
        state = self._broker.state
        next_ms = self._next_ms
        if next_ms is not None and next_ms <= now_ms:
            if state.topics.changes != self._changes:
                self._changes = state.topics.changes
                self._registrar.change(state.topics.announced())
            for announcement in self._registrar.tick(now_ms):
                self._start(self._tell(announcement))
        if state.wanted_routes and (now_ms >= self._routes_ms or not state.wanted_routes <= self._asked):
            self._routes_ms, self._asked = now_ms + _ROUTES_MS, set(state.wanted_routes)
            self._start(self._ask_routes(sorted(self._asked)))
        self._let_go(now_ms)
        self._come_back(now_ms)

    @property
    def _next_ms(self) -> int | None:
        """When there is something to tell."""
        return self._registrar.next_change_ms(self._broker.state.topics.changes - self._changes)

    def hold(self, action: Callable[[], None]) -> None:
        """Do something once all name servers know the topics as they are now, at the latest after a second."""
        now_ms = self._clock()
        self._held.append((self._broker.state.topics.changes, now_ms + _HELD_MS, action))
        self.tick(now_ms)

    def _come_back(self, now_ms: int) -> None:
        """Tick as soon as there is something to tell for which somebody waits."""
        next_ms = self._next_ms
        if self._timer is None and self._held and next_ms is not None and next_ms - now_ms < _HELD_MS:
            wait_s = max(1, next_ms - now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._time_came)

    def _time_came(self) -> None:
        self._timer = None
        self.tick(self._clock())

    def _let_go(self, now_ms: int) -> None:
        known = min(self._known.values(), default=self._broker.state.topics.changes)
        while self._held and (self._held[0][0] <= known or self._held[0][1] <= now_ms):
            self._held.popleft()[2]()

    async def _tell(self, announcement: Announcement) -> None:
        address, changes, registrar = announcement.name_server, self._changes, self._registrar
        try:
            answer = await self._links[address].ask(announcement.command, timeout_ms=_ANSWER_MS)
        except SteelyardError as error:
            registrar.failed(announcement, self._clock())
            self._say(address, str(error))
        else:
            registrar.answered(announcement, answer, self._clock())
            self._say(address, f"{address} refuses: {answer.remark}" if answer.code else None)
        # Of one that cannot be reached nobody waits to know it.
        self._known[address] = changes
        self.tick(self._clock())

    def _say(self, address: str, trouble: str | None) -> None:
        """Log the first of many failures, and their end."""
        if trouble is not None and address not in self._troubled:
            self._troubled.add(address)
            _log.warning("%s is not registered, it tries again: %s", self._name, trouble)
        elif trouble is None and address in self._troubled:
            self._troubled.remove(address)
            _log.warning("%s is registered again with %s", self._name, address)

    async def _ask_routes(self, topics: list[str]) -> None:
        """Ask for routes; of one that nobody knows the old one stays, since a name server may just have started."""
        for topic in topics:
            for link in self._links.values():
                try:
                    request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic))
                    answer = await link.ask(request, timeout_ms=_ANSWER_MS)
                    if answer.code == 0:
                        self._broker.state.routes[topic] = decode_body(RouteBody, answer.body).route(topic)
                        break
                except SteelyardError as error:
                    _log.info("%s cannot ask %s for the route of %s: %s", self._name, link.address, topic, error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def leave(self) -> None:
        """Tell all name servers that this broker goes; who does not answer soon learns it from the line."""
        await asyncio.gather(*(self._take_leave(each) for each in self._registrar.leave()))
        self.drop()

    async def _take_leave(self, announcement: Announcement) -> None:
        link = self._links[announcement.name_server]
        if announcement.name_server not in self._troubled:
            with suppress(SteelyardError):
                await link.ask(announcement.command, timeout_ms=_LEAVING_MS)

    def drop(self) -> None:
        """Cut the lines."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for link in self._links.values():
            link.close()
