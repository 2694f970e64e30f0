"""A broker's lines to its name servers in a simulated world: it registers, and registers again when a line was lost.

What to tell and when is decided by the real broker/registration.py; here it is said, over one line to each name server.
Who made a topic hears of it once the name servers know the topic, as with a broker that really runs.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.broker.registration import Announcement, Identity, Registrar
from steelyard.errors import SteelyardError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import GetRoute

if TYPE_CHECKING:
    from steelyard.broker.state import State
    from steelyard.sim.line import Line
    from steelyard.sim.process import Process
    from steelyard.sim.timer import Timer

__all__ = ["Announcing"]

_ANSWER_MS = 3_000
_HELD_MS = 1_000
_ROUTES_MS = 30_000
_ROUTE_OPAQUES = 1 << 30
"""Requests for routes count from here, so that they are told from announcements by their number."""


@dataclass(slots=True)
class _NameServer:
    """What is known of one name server."""

    address: str
    known: int = -1
    """How often the topics had changed when it was told last."""
    line: "Line | None" = None
    unanswered: "dict[int, tuple[Announcement, int, Timer]]" = field(default_factory=dict)


class Announcing:
    """One broker's hands towards its name servers."""

    def __init__(self, process: "Process", state: "State", name_servers: Iterable[str]) -> None:
        self._process, self._state = process, state
        options = state.options
        identity = Identity(
            options.cluster,
            options.name,
            options.broker_id,
            options.address,
            f"{options.host}:{options.port + 1}",
        )
        self._servers = {address: _NameServer(address) for address in name_servers}
        self._registrar = Registrar(identity, self._servers, state.topics.announced(), now_ms=process.clock.wall_ms())
        self._changes = state.topics.changes
        self._held = deque[tuple[int, int, Callable[[], None]]]()
        self._asked: dict[int, str] = {}
        self._wanted: set[str] = set()
        self._routes_ms = 0
        self._opaque = _ROUTE_OPAQUES

    def tick(self) -> None:
        """Tell what there is to tell, and ask for the routes that are wanted."""
        now_ms, state = self._process.clock.wall_ms(), self._state
        next_ms = self._next_ms
        if next_ms is not None and next_ms <= now_ms:
            if state.topics.changes != self._changes:
                self._changes = state.topics.changes
                self._registrar.change(state.topics.announced())
            for announcement in self._registrar.tick(now_ms):
                self._tell(announcement)
        if state.wanted_routes and (now_ms >= self._routes_ms or not state.wanted_routes <= self._wanted):
            self._routes_ms, self._wanted = now_ms + _ROUTES_MS, set(state.wanted_routes)
            self._ask_routes()
        self._let_go(now_ms)

    @property
    def _next_ms(self) -> int | None:
        return self._registrar.next_change_ms(self._state.topics.changes - self._changes)

    def hold(self, action: Callable[[], None]) -> None:
        """Do something once all name servers know the topics as they are now, at the latest after a second."""
        now_ms = self._process.clock.wall_ms()
        self._held.append((self._state.topics.changes, now_ms + _HELD_MS, action))
        self.tick()
        next_ms = self._next_ms
        if self._held and next_ms is not None and next_ms - now_ms < _HELD_MS:
            self._process.after(max(0, next_ms - now_ms), self.tick)

    def _let_go(self, now_ms: int) -> None:
        known = min((server.known for server in self._servers.values()), default=self._state.topics.changes)
        while self._held and (self._held[0][0] <= known or self._held[0][1] <= now_ms):
            self._held.popleft()[2]()

    def _tell(self, announcement: Announcement) -> None:
        server = self._servers[announcement.name_server]
        opaque, process = announcement.command.opaque, self._process
        late = process.after(_ANSWER_MS, lambda: self._failed(server, opaque))
        server.unanswered[opaque] = announcement, self._changes, late
        self._line(server).say(announcement.command)

    def _line(self, server: _NameServer) -> "Line":
        if server.line is None or server.line.is_over:
            server.line = self._process.world.network.connect(self._process, server.address)
        return server.line

    def _failed(self, server: _NameServer, opaque: int) -> None:
        found = server.unanswered.pop(opaque, None)
        if found is not None:
            found[2].cancel()
            now_ms = self._process.clock.wall_ms()
            self._registrar.failed(found[0], now_ms)
            server.known = found[1]  # of one that cannot be reached nobody waits to know it
            self._let_go(now_ms)

    def heard(self, line: "Line", answer: Command) -> None:
        """Take an answer of a name server."""
        topic = self._asked.pop(answer.opaque, None)
        if topic is not None:
            self._learn(topic, answer)
            return
        server = self._of(line)
        found = server.unanswered.pop(answer.opaque, None) if server is not None else None
        if server is not None and found is not None:
            announcement, server.known, late = found
            late.cancel()
            now_ms = self._process.clock.wall_ms()
            self._registrar.answered(announcement, answer, now_ms)
            self._let_go(now_ms)

    def closed(self, line: "Line") -> None:
        """Take note that a line to a name server is gone, or could not be opened."""
        server = self._of(line)
        if server is not None:
            server.line = None
            for opaque in list(server.unanswered):
                self._failed(server, opaque)
            self._registrar.lost(server.address, self._process.clock.wall_ms())

    def _of(self, line: "Line") -> _NameServer | None:
        server = self._servers.get(line.remote)
        return server if server is not None and server.line is line else None

    def _ask_routes(self) -> None:
        open_lines = [server.line for server in self._servers.values() if server.line and server.line.is_open]
        for topic in sorted(self._wanted) if open_lines else ():
            self._opaque += 1
            self._asked[self._opaque] = topic
            open_lines[0].say(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic), opaque=self._opaque))

    def _learn(self, topic: str, answer: Command) -> None:
        """Keep a route; of one that nobody knows the old one stays, since a name server may just have started."""
        if answer.code == 0:
            try:
                self._state.routes[topic] = decode_body(RouteBody, answer.body).route(topic)
            except SteelyardError as error:
                self._process.world.journal.remark(f"{self._process.name} cannot read the route of {topic}: {error}")

    def leave(self) -> None:
        """Tell all name servers that this broker goes."""
        for announcement in self._registrar.leave():
            line = self._servers[announcement.name_server].line
            if line is not None and line.is_open:
                line.say(announcement.command)
