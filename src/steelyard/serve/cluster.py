"""Several servers on one event loop: started together, stopped together, and one by one if asked.

All ports are taken before anything else is done, so that a port in use changes nothing on the disk.

A broker listens at a second port, two below its own, which Java's clients up to 4.4, and later ones that are told to
(``setVipChannelEnabled``), use for all but pulls and heartbeats. It is the same broker. If that port cannot be had,
nobody else misses it, so that is only said.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from socket import socket

from steelyard.broker.options import BrokerOptions
from steelyard.errors import CannotListen, ConfigurationError
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.limits import LineLimits
from steelyard.net.listener import Listener, reserve_port
from steelyard.serve.broker import RunningBroker
from steelyard.serve.files import RealDisk
from steelyard.serve.memory import MemoryDisk
from steelyard.serve.nameserver import RunningNameServer
from steelyard.serve.plan import ClusterPlan
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions

__all__ = ["RunningCluster"]

_log = logging.getLogger("steelyard.broker")

_VIP_STEP = 2
_TRIES = 8
"""How often another free port is taken because the one for its VIP channel is in use."""

# In memory: log files that are small, and not more of them than a laptop can spare.
_IN_MEMORY = StoreOptions(segment_bytes=64 << 20, keep_bytes=1 << 30)
_ON_DISK = StoreOptions(keeps_apache_keys=True)


@dataclass(slots=True)
class _Place:
    """Where a server is, whether it runs or not: its port and its directory outlive it."""

    port: int
    disk: Disk | None
    listener: Listener | None = None
    reserved: socket | None = None
    """Keeps the port while no server listens there: other programs take free ports, too."""
    vip: Listener | None = None
    """The VIP channel's port, of a broker."""
    broker: RunningBroker | None = None
    name_server: RunningNameServer | None = None

    def let_go(self) -> None:
        """Give back a port that was taken and not used yet."""
        for listener in (self.listener, self.vip):
            if listener is not None:
                listener.close()
        self.listener = self.vip = None

    def give_up(self) -> None:
        """Leave the port to others: the server does not come back."""
        self.let_go()
        if self.reserved is not None:
            self.reserved.close()


@dataclass(slots=True)
class RunningCluster:
    """The servers of a plan. All methods are called on one running loop."""

    plan: ClusterPlan
    broker_options: BrokerOptions = field(default_factory=BrokerOptions)
    """What brokers have in common; names, addresses and flush are the plan's."""
    store_options: StoreOptions | None = None
    limits: LineLimits | None = None
    clock: Callable[[], int] = read_clock
    """The brokers' own; name servers only compare times of theirs."""
    attend: Callable[[RunningBroker], None] | None = None
    """Called with each broker that was started, before anybody else can have said anything to it."""
    _brokers: dict[str, _Place] = field(default_factory=dict, init=False)
    _name_servers: list[_Place] = field(default_factory=list, init=False)

    @property
    def name_server_addresses(self) -> tuple[str, ...]:
        """Where the name servers are: our own, then those that were joined."""
        return (*(self._address(place) for place in self._name_servers), *self.plan.join)

    @property
    def broker_addresses(self) -> dict[str, str]:
        """Where the brokers are, by name."""
        return {name: self._address(place) for name, place in self._brokers.items()}

    def _address(self, place: _Place) -> str:
        host = self.plan.advertise or self.plan.host
        return f"[{host}]:{place.port}" if ":" in host else f"{host}:{place.port}"

    async def start(self) -> None:
        """Start all servers; if one cannot be started, none is."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            plan = self.plan
            for number in range(plan.name_servers):
                self._name_servers.append(self._bind(plan.name_server_port(number)))
            for number, name in enumerate(plan.broker_names):
                self._brokers[name] = self._bind_broker(plan.broker_port(number))
            for number, place in enumerate(self._name_servers):
                place.disk = self._disk(f"namesrv-{number}" if number else "namesrv")
                await self.start_name_server(number)
            for name, place in self._brokers.items():
                place.disk = self._disk(name)
                await self.start_broker(name)
            undo.pop_all()

    def _bind(self, port: int) -> _Place:
        with ExitStack() as undo:
            reserved = reserve_port(self.plan.host, port)
            if reserved is not None:
                undo.callback(reserved.close)
                port = reserved.getsockname()[1]
            listener = Listener.bind(self.plan.host, port)
            undo.pop_all()
        return _Place(listener.port, None, listener, reserved)

    def _bind_broker(self, port: int) -> _Place:
        """Take a port for a broker, and the one of its VIP channel; of free ones a pair, if there is any."""
        place = self._bind(port)
        place.vip = self._bind_vip(place.port)
        with ExitStack() as unfit:
            for _ in range(0 if port else _TRIES):
                if place.vip is not None:
                    break
                unfit.callback(place.give_up)  # only now: a port that is given back may be found again
                place = self._bind(0)
                place.vip = self._bind_vip(place.port)
        return place

    def _bind_vip(self, port: int) -> Listener | None:
        try:
            return Listener.bind(self.plan.host, port - _VIP_STEP) if port > _VIP_STEP else None
        except CannotListen:
            return None

    def _disk(self, folder: str) -> Disk:
        return MemoryDisk() if self.plan.data is None else RealDisk(self.plan.data / folder)

    async def stop(self) -> None:
        """Stop all servers: brokers first, so that they can say goodbye."""
        await asyncio.gather(*(self.stop_broker(name) for name in self._brokers))
        await asyncio.gather(*(self.stop_name_server(number) for number in range(len(self._name_servers))))
        for place in (*self._brokers.values(), *self._name_servers):
            place.give_up()

    # -- one by one ---------------------------------------------------------------------------------------------------

    async def start_broker(self, name: str) -> None:
        """Start a broker at the address and with the directory that it had."""
        place = self._place(name)
        if place.broker is None and place.disk is not None:
            listener, vip = self._listener(place), place.vip or self._bind_vip(place.port)
            place.vip = None
            if vip is None:
                _log.warning(
                    "%s has no VIP channel, since port %d is in use: Java clients that want one cannot send to it",
                    *(name, place.port - _VIP_STEP),
                )
            place.broker = await RunningBroker.start(
                self._options(name),
                place.disk,
                listener,
                vip=vip,
                name_servers=self.name_server_addresses,
                store_options=self.store_options or (_IN_MEMORY if self.plan.data is None else _ON_DISK),
                limits=self.limits,
                clock=self.clock,
                attend=self.attend,
            )

    async def stop_broker(self, name: str) -> None:
        """Stop a broker; it is in no route afterwards, and its directory is closed."""
        place = self._place(name)
        broker, place.broker = place.broker, None
        if broker is not None:
            await broker.stop()
        place.let_go()

    async def kill_broker(self, name: str) -> None:
        """Stop a broker as a crash does."""
        place = self._place(name)
        broker, place.broker = place.broker, None
        if broker is not None:
            await broker.kill()

    async def slow_broker(self, name: str, delay_ms: int) -> None:
        """Let a broker handle each command only so long after it arrived; 0: at once, as ever."""
        self.running(name).board.slow_down(delay_ms)

    async def start_name_server(self, number: int = 0) -> None:
        """Start a name server at the address that it had."""
        place = self._name_server(number)
        if place.name_server is None:
            place.name_server = await RunningNameServer.start(
                self._listener(place), disk=place.disk, limits=self.limits
            )

    async def stop_name_server(self, number: int = 0) -> None:
        """Stop a name server; brokers try to reach it until it is back."""
        place = self._name_server(number)
        server, place.name_server = place.name_server, None
        if server is not None:
            await server.stop()
        place.let_go()

    @property
    def running_brokers(self) -> list[RunningBroker]:
        """The brokers that run."""
        return [place.broker for place in self._brokers.values() if place.broker is not None]

    @property
    def running_name_servers(self) -> list[RunningNameServer]:
        """The name servers of this cluster that run."""
        return [place.name_server for place in self._name_servers if place.name_server is not None]

    def running(self, name: str) -> RunningBroker:
        """Return a broker that runs."""
        broker = self._place(name).broker
        if broker is None:
            raise ConfigurationError(f"the broker {name} does not run", next_step="start it first")
        return broker

    def _place(self, name: str) -> _Place:
        if name not in self._brokers:
            known = ", ".join(self._brokers) or "none"
            raise ConfigurationError(f"there is no broker {name!r}", next_step=f"there are: {known}")
        return self._brokers[name]

    def _name_server(self, number: int) -> _Place:
        if not 0 <= number < len(self._name_servers):
            raise ConfigurationError(
                f"there is no name server {number}", next_step=f"there are {len(self._name_servers)}, counted from 0"
            )
        return self._name_servers[number]

    def _listener(self, place: _Place) -> Listener:
        """Return the port that was taken for a server before, or take it again."""
        listener, place.listener = place.listener, None
        return listener or Listener.bind(self.plan.host, place.port)

    def _options(self, name: str) -> BrokerOptions:
        plan = self.plan
        return replace(
            self.broker_options, name=name, cluster=plan.cluster, host=plan.advertise or plan.host, flush=plan.flush
        )
