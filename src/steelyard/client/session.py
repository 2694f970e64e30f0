"""One client's side of a cluster: its lines, its clock, its routes, and who answers what servers ask of it.

Every client has a session of its own, and so an id of its own. Brokers are learnt from routes, and a line to each is
kept open while a route tells of it; a broker without a master is spoken to at a replica. Requests of brokers go to
whoever serves their code, and all else to the listener, which is the member of a group if there is one.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from msgspec import structs

from steelyard.client.caller import Caller, Switch
from steelyard.client.connect import Connect
from steelyard.client.ids import client_id as new_client_id
from steelyard.client.ids import local_address
from steelyard.client.keeping import Keeping
from steelyard.client.names import Names
from steelyard.client.routes import Routes
from steelyard.errors import BrokerNotInRoute, ConfigurationError, NoNameServer, SteelyardError, error_for
from steelyard.model import BrokerPlace, Route
from steelyard.net.clock import steady_ms
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, HeartbeatWord, LedgerLine, ProducerBeat
from steelyard.wire.codes import OUR_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import RESPONSE, Command, answer_to
from steelyard.wire.headers.group import Unregister
from steelyard.wire.signing import signed

__all__ = ["Listener", "Serve", "Session"]

_BEAT_S = 30.0
_GOODBYE_MS = 1_000
_HANG_UP_S = 1.0
_FIRST_LOOK_S = 0.0005
_LOOK_S = 0.01

_log = logging.getLogger("steelyard")


class Listener(Protocol):
    """What a member is to its session."""

    def opened(self, server: str | None) -> None:
        """Take note that a line is open."""

    def lost(self, server: str | None) -> None:
        """Take note that a line is gone; of the name servers also that one could not be opened."""

    def heard(self, server: str | None, command: Command) -> None:
        """Take an answer to a question of the member's own, or a request that nobody serves."""


Serve = Callable[[str, Command], Command | None]
"""Takes a request of a broker and returns the answer; None if there is none, or it comes later."""


class Session:
    """The lines of one client. Everything but the constructor is called on one loop."""

    loop: asyncio.AbstractEventLoop
    name_servers: Caller
    """The name servers: one line, to one of them."""

    def __init__(self, connect: Connect, *, client_id: str | None = None) -> None:
        self.connect = connect
        self.names = Names(connect.namespace)
        """How topics and groups are called here and on the wire."""
        self.address = local_address(connect.name_servers[0])
        """What this machine is called by the servers."""
        self.client_id = client_id or new_client_id(self.address, connect.name)
        self.instance = secrets.token_hex(16)
        """Tells two lives with one id apart."""
        self.listener: Listener | None = None
        self.serves: dict[int, Serve] = {}
        """Who answers a request of a broker, by its code."""
        self.producer_groups: set[str] = set()
        """Told to every broker, so that it can ask us about our transactions and pass on replies."""
        self.ledger: Callable[[], Sequence[LedgerLine]] | None = None
        """What a producer knows of brokers, told to every broker with its groups."""
        self.routes = Routes(self)
        self._switch: Switch | None = None
        self._brokers: dict[str, Caller] = {}
        self._places: dict[str, BrokerPlace] = {}
        self._others: dict[str, Caller] = {}
        self._keeping = Keeping()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # -- its life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the line to a name server; raises NoNameServer if none can be reached in time."""
        self.loop = asyncio.get_running_loop()
        self._switch = Switch(
            self._opened,
            self._lost,
            self._heard,
            self.connect.tls_context(),
            signed,
            self.connect.credentials,
        )
        self.name_servers = Caller(self._switch, None, self.connect.name_servers)
        try:
            await self._reach_a_name_server()
        except BaseException:
            await self.close()
            raise
        self.routes.start()
        self.spawn(self._now_and_then())

    async def _reach_a_name_server(self) -> None:
        self.name_servers.call()
        end_s = self.loop.time() + self.connect.timeout_s
        pause_s = _FIRST_LOOK_S
        while not self.name_servers.is_open:
            if self.loop.time() >= end_s:
                why, advice = self.name_servers.why or "no answer", self.name_servers.advice
                raise NoNameServer(
                    f"no name server of {self.connect} was reached in {self.connect.timeout_s:g} s ({why})",
                    next_step=advice or "check the address, and that a name server runs there, such as: steelyard up",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOK_S)

    def check_loop(self) -> None:
        """Refuse to work on another loop than the one it was started on, where nothing would ever be answered."""
        if self._switch is not None and asyncio.get_running_loop() is not self.loop:
            ended = "has ended" if self.is_stranded else "is another one"
            raise ConfigurationError(
                f"a client was used on a loop, and the loop that it was opened on {ended}",
                next_step="make one for each loop, and close it there: async with",
            )

    @property
    def is_stranded(self) -> bool:
        """Whether its loop has ended under it: there is nobody to say goodbye to any more."""
        return self._switch is not None and self.loop.is_closed()

    async def close(self) -> None:
        """Say goodbye and hang up; questions that are not answered fail."""
        if self._is_closed or self._switch is None or self.is_stranded:
            return
        self.check_loop()
        self._is_closed = True
        if self.producer_groups:
            await self._say_goodbye()
        await self.routes.close()
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            # Some are users' callbacks, and may not want to end.
            await asyncio.wait(others, timeout=_HANG_UP_S)
        callers = [self.name_servers, *self._brokers.values(), *self._others.values()]
        for caller in callers:
            caller.close()
        await asyncio.gather(*(caller.closed(_HANG_UP_S) for caller in callers))

    def abandon(self) -> None:
        """Drop every line at once and without a word, as a crash does: for tests of those who are left."""
        self._is_closed = True
        self.routes.stop()
        for task in self._tasks:
            task.cancel()
        for caller in [self.name_servers, *self._brokers.values(), *self._others.values()]:
            caller.close()
            caller.hang_up()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside everything else until it is done or the session is closed."""
        if self._is_closed:
            work.close()
            return
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("something that ran beside failed: %s", error, exc_info=error)

    # -- servers ------------------------------------------------------------------------------------------------------

    def broker(self, name: str) -> Caller:
        """Return the line to a broker; raises BrokerNotInRoute if no route told of it."""
        caller = self._brokers.get(name)
        if caller is None:
            known = ", ".join(sorted(self._brokers)) or "none"
            raise BrokerNotInRoute(f"no route told of a broker {name!r}", next_step=f"known are: {known}")
        return caller

    def known_brokers(self) -> dict[str, Caller]:
        """Return the lines to all brokers that routes told of, by name."""
        return dict(self._brokers)

    def place(self, name: str) -> BrokerPlace:
        """Return the addresses of a broker by id: 0 is the master."""
        self.broker(name)
        return self._places[name]

    def address_of(self, broker: str) -> str:
        """Return where a broker is: its master, or a replica if it has none. From any thread."""
        place = self._places.get(broker)
        if place is None:
            self.broker(broker)
            raise BrokerNotInRoute(f"no route told of a broker {broker!r}")
        return place.master or next(iter(place.addresses.values()))

    def at(self, address: str) -> Caller:
        """Return the line to any address, such as a replica's; it is opened with the first question."""
        caller = self._others.get(address)
        if caller is None:
            caller = self._others[address] = Caller(self._switch_now(), address, (address,), stays=False)
        return caller

    def learn(self, route: Route) -> None:
        """Take note of where the brokers of a route are, and open lines to those that are new."""
        if self._is_closed:
            return
        self._keeping.learn(route)
        for place in route.brokers:
            address = place.master or next(iter(place.addresses.values()), None)
            if address is None:
                continue
            self._places[place.name] = place
            known = self._brokers.get(place.name)
            if known is not None:
                known.go_to((address,))
                known.stay()
            else:
                caller = self._brokers[place.name] = Caller(self._switch_now(), place.name, (address,))
                caller.call()

    def tidy(self, now_ms: int) -> None:
        """Hang up where nobody needs a line any more; this is done from time to time."""
        for name in self._keeping.untold(self._brokers, now_ms):
            self._brokers[name].rest()
        asked = {address: caller.asked for address, caller in self._others.items() if not caller.is_awaited}
        for address in self._keeping.idle(asked, now_ms):
            self._others.pop(address).rest()

    async def ask(self, server: "str | Caller | None", command: Command, *, timeout_ms: int = 3_000) -> Command:
        """Ask a server and return the answer, whatever it says; raises a TransportError if none comes."""
        if server is None:
            return await self.routes.ask_a_name_server(command)
        caller = server if isinstance(server, Caller) else self.broker(server)
        return await caller.ask(command, timeout_ms)

    async def ask_well(self, server: "str | Caller | None", command: Command, *, timeout_ms: int = 3_000) -> Command:
        """Ask a server; an answer that says no is raised as the error it stands for."""
        answer = await self.ask(server, command, timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            caller = self.name_servers if server is None else server
            name = caller if isinstance(caller, str) else caller.server or caller.address
            raise error_for(answer.code, answer.remark or "", server=name)
        return answer

    def _switch_now(self) -> Switch:
        if self._switch is None:
            raise ConfigurationError("the session is not started", next_step="start it first")
        return self._switch

    # -- lines --------------------------------------------------------------------------------------------------------

    def _opened(self, caller: Caller) -> None:
        if caller.server is not None and self._brokers.get(caller.server) is caller:
            self.routes.came_up(caller.server)
            if self.producer_groups:
                self.spawn(self._beat_one(caller))
        elif caller is not self.name_servers:
            return
        if self.listener is not None:
            self.listener.opened(caller.server)

    def _lost(self, caller: Caller, was_open: bool) -> None:
        is_ours = caller is self.name_servers or (was_open and self._brokers.get(caller.server or "") is caller)
        if is_ours and self.listener is not None and not self._is_closed:
            self.listener.lost(caller.server)

    def _heard(self, caller: Caller, command: Command) -> None:
        if not command.flag & RESPONSE:
            serve = self.serves.get(command.code)
            if serve is not None and caller.server is not None:
                self._serve(serve, caller, command)
                return
            if self.listener is None:
                if not command.is_oneway:
                    caller.say(_refusal(command))
                return
        if self.listener is not None:
            self.listener.heard(caller.server, command)

    def _serve(self, serve: Serve, caller: Caller, request: Command) -> None:
        assert caller.server is not None
        try:
            answer = serve(caller.server, request)
        except SteelyardError as error:
            answer = answer_to(request, ResponseCode.SYSTEM_ERROR, remark=str(error)[:500])
        if answer is not None and not request.is_oneway:
            caller.say(structs.replace(answer, version=OUR_VERSION))

    # -- what is done from time to time -------------------------------------------------------------------------------

    async def _now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            self.tidy(steady_ms())
            if self.producer_groups:
                await self.beat()

    async def beat(self) -> None:
        """Tell every broker that this producer is here, and what it knows of them all."""
        await asyncio.gather(*(self._beat_one(caller) for caller in self._brokers.values() if caller.is_open))

    async def _beat_one(self, caller: Caller) -> None:
        beats = tuple(ProducerBeat(group=group) for group in sorted(self.producer_groups))
        word = None if self.ledger is None else HeartbeatWord(ledger=tuple(self.ledger()))
        body = encode_body(Heartbeat(client_id=self.client_id, producers=beats, steelyard=word))
        try:
            await self.ask_well(caller, Command(RequestCode.HEART_BEAT, body=body))
        except SteelyardError as error:
            _log.debug("%s did not take a heartbeat: %s", caller.server, error)

    async def _say_goodbye(self) -> None:
        farewells = [
            caller.ask(
                Command(RequestCode.UNREGISTER_CLIENT, Unregister(client_id=self.client_id, producer_group=group)),
                _GOODBYE_MS,
            )
            for caller in self._brokers.values()
            if caller.is_open
            for group in self.producer_groups
        ]
        await asyncio.gather(*farewells, return_exceptions=True)


def _refusal(request: Command) -> Command:
    refused = answer_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"{request.code} is not known here")
    return structs.replace(refused, version=OUR_VERSION)
