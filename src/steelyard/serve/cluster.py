"""Name servers and brokers on one event loop: started and stopped together or one by one (`steelyard up`).

`ClusterPlan` says which servers to run, and where. `RunningCluster` runs them. `run_cluster` is the process: it runs
until a signal, with a companion such as the dashboard. All ports are bound first, so that a port in use changes nothing
on the disk.

A broker has a second port, two below its own: Java clients up to 4.4, and later ones with ``setVipChannelEnabled``, use
it for all but pulls and heartbeats. If it is in use, a warning is logged, and other clients are not affected.
"""

import asyncio
import logging
import resource
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import socket
from typing import TypeAlias, TypedDict, Unpack

from steelyard.broker.options import BrokerOptions
from steelyard.broker.validation import check_broker, check_cluster
from steelyard.errors import CannotListen, ConfigurationError
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.event_loop import new_event_loop
from steelyard.net.limits import ConnectionLimits
from steelyard.net.server import TcpListener, is_loopback, is_wildcard, reserve_port
from steelyard.serve.broker import RunningBroker
from steelyard.serve.disks import MemoryDisk, RealDisk
from steelyard.serve.nameserver import RunningNameServer
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions

NAME_SERVER_PORT = 9876
"""The usual port of a name server."""

_BROKER_PORT, _BROKER_PORT_STEP = 10_911, 10
_PORT_STEP = 4
"""Between ports of servers. Java clients expect the VIP channel two below a broker's port and replication one above it;
the dashboard is one above the first server if that has its usual port."""
_LAST_PORT = 65_535
_MAX_SERVERS = 64


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Name servers and brokers on one machine.

    >>> plan = ClusterPlan(brokers=2)
    >>> plan.name_server_port(0), plan.broker_port(0), plan.broker_port(1), plan.broker_names
    (9876, 10911, 10921, ('broker-0', 'broker-1'))
    >>> plan = ClusterPlan(brokers=2, port=7000)
    >>> plan.name_server_port(0), plan.broker_port(0), plan.broker_port(1)
    (7000, 7004, 7008)
    """

    brokers: int = 1
    name_servers: int = 1
    join: tuple[str, ...] = ()
    """Name servers that run already, with which the brokers register too."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    advertise: str | None = None
    """The host that clients connect to, if it differs."""
    allow_remote: bool = False
    """Whether other machines may connect: there is no password."""
    port: int | None = None
    """The port of the first server; the others follow, four apart. 0 takes free ones, None the usual ones of Apache."""
    data: Path | None = None
    """The directory, with one folder per server; None keeps everything in memory."""
    flush: str = "async"
    cluster: str = "DefaultCluster"
    broker_name: str | None = None
    """The name of the only broker, or the prefix of several."""

    def __post_init__(self) -> None:
        for name, count in (("brokers", self.brokers), ("name servers", self.name_servers)):
            if not 0 <= count <= _MAX_SERVERS:
                raise ConfigurationError(f"{count} {name} are not possible", next_step=f"give 0 to {_MAX_SERVERS}")
        if not self.brokers + self.name_servers:
            raise ConfigurationError("there is nothing to run", next_step="ask for a broker or a name server")
        self._check_host()
        check_cluster(self.cluster)
        for name in self.broker_names:
            check_broker(name)
        if self.flush not in ("sync", "async"):
            raise ConfigurationError(f"flush is {self.flush!r}", next_step="give sync or async")
        last = _PORT_STEP * (self.name_servers + self.brokers - 1)
        if self.port is not None and not 0 <= self.port <= _LAST_PORT - last:
            raise ConfigurationError(
                f"port {self.port} is not possible",
                next_step=f"give 1 to {_LAST_PORT - last}, or 0 for any that are free",
            )

    def _check_host(self) -> None:
        if not self.allow_remote and not is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached by other machines, and there is no password",
                next_step="add --insecure-allow-remote if that is what you want",
            )
        if is_wildcard(self.host) and self.advertise is None:
            raise ConfigurationError(
                f"clients cannot connect to {self.host}", next_step="tell them where to: --advertise HOST"
            )

    @property
    def broker_names(self) -> tuple[str, ...]:
        """The names of the brokers."""
        if self.broker_name is not None and self.brokers == 1:
            return (self.broker_name,)
        return tuple(f"{self.broker_name or 'broker'}-{number}" for number in range(self.brokers))

    def name_server_port(self, number: int) -> int:
        """Return the port of a name server."""
        return self._port(number, NAME_SERVER_PORT + number)

    def broker_port(self, number: int) -> int:
        """Return the port of a broker."""
        return self._port(self.name_servers + number, _BROKER_PORT + _BROKER_PORT_STEP * number)

    def _port(self, number: int, usual: int) -> int:
        if self.port is None:
            return usual
        return self.port + _PORT_STEP * number if self.port else 0


_log = logging.getLogger("steelyard.broker")

_VIP_PORT_OFFSET = 2
_MAX_PORT_ATTEMPTS = 8
"""How many free ports are tried to find one whose VIP port is free, too."""

# In memory: small log files, and no more than a laptop can spare.
_MEMORY_STORE_OPTIONS = StoreOptions(segment_bytes=64 << 20, keep_bytes=1 << 30)
_DISK_STORE_OPTIONS = StoreOptions(keeps_apache_keys=True)


@dataclass(slots=True)
class _ServerSlot:
    """The port and the directory of a server, whether it runs or not."""

    port: int
    disk: Disk | None
    listener: TcpListener | None = None
    reserved: socket | None = None
    """Keeps the port while the server is away: other programs take free ports, too."""
    vip_listener: TcpListener | None = None
    """The VIP port of a broker."""
    broker: RunningBroker | None = None
    name_server: RunningNameServer | None = None

    def release_ports(self) -> None:
        """Close ports that are bound and not used."""
        for listener in (self.listener, self.vip_listener):
            if listener is not None:
                listener.close()
        self.listener = self.vip_listener = None

    def close(self) -> None:
        """Leave the port to others: the server does not come back."""
        self.release_ports()
        if self.reserved is not None:
            self.reserved.close()


@dataclass(slots=True)
class RunningCluster:
    """The servers of a plan. All methods are called on one running loop."""

    plan: ClusterPlan
    broker_options: BrokerOptions = field(default_factory=BrokerOptions)
    """Shared by all brokers; names, addresses and flush come from the plan."""
    store_options: StoreOptions | None = None
    limits: ConnectionLimits | None = None
    clock: Callable[[], int] = read_clock
    """The clock of the brokers; name servers use their own."""
    on_broker_start: Callable[[RunningBroker], None] | None = None
    """Called with each broker before it accepts connections."""
    _brokers: dict[str, _ServerSlot] = field(default_factory=dict, init=False)
    _name_servers: list[_ServerSlot] = field(default_factory=list, init=False)

    @property
    def name_server_addresses(self) -> tuple[str, ...]:
        """The addresses of the name servers: our own, then those that were joined."""
        return (*(self._address(slot) for slot in self._name_servers), *self.plan.join)

    @property
    def broker_addresses(self) -> dict[str, str]:
        """The addresses of the brokers, by name."""
        return {name: self._address(slot) for name, slot in self._brokers.items()}

    def _address(self, slot: _ServerSlot) -> str:
        host = self.plan.advertise or self.plan.host
        return f"[{host}]:{slot.port}" if ":" in host else f"{host}:{slot.port}"

    async def start(self) -> None:
        """Start all servers; if one cannot be started, none is."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            plan = self.plan
            for number in range(plan.name_servers):
                self._name_servers.append(self._bind(plan.name_server_port(number)))
            for number, name in enumerate(plan.broker_names):
                self._brokers[name] = self._bind_broker(plan.broker_port(number))
            for number, slot in enumerate(self._name_servers):
                slot.disk = self._make_disk(f"namesrv-{number}" if number else "namesrv")
                await self.start_name_server(number)
            for name, slot in self._brokers.items():
                slot.disk = self._make_disk(name)
                await self.start_broker(name)
            undo.pop_all()

    def _bind(self, port: int) -> _ServerSlot:
        with ExitStack() as undo:
            reserved = reserve_port(self.plan.host, port)
            if reserved is not None:
                undo.callback(reserved.close)
                port = reserved.getsockname()[1]
            listener = TcpListener.bind(self.plan.host, port)
            undo.pop_all()
        return _ServerSlot(listener.port, None, listener, reserved)

    def _bind_broker(self, port: int) -> _ServerSlot:
        """Bind a port for a broker, and its VIP port; of free ports a pair, if there is one."""
        slot = self._bind(port)
        slot.vip_listener = self._bind_vip(slot.port, unless_reserved=not port)
        with ExitStack() as unfit:
            for _ in range(0 if port else _MAX_PORT_ATTEMPTS):
                if slot.vip_listener is not None:
                    break
                unfit.callback(slot.close)  # later: a port that is closed now might be found again
                slot = self._bind(0)
                slot.vip_listener = self._bind_vip(slot.port, unless_reserved=True)
        return slot

    def _bind_vip(self, port: int, *, unless_reserved: bool = False) -> TcpListener | None:
        if port <= _VIP_PORT_OFFSET:
            return None
        try:
            # Of free ports we leave alone what another broker comes back to.
            return TcpListener.bind(self.plan.host, port - _VIP_PORT_OFFSET, unless_reserved=unless_reserved)
        except CannotListen:
            return None

    def _make_disk(self, folder: str) -> Disk:
        return MemoryDisk() if self.plan.data is None else RealDisk(self.plan.data / folder)

    async def stop(self) -> None:
        """Stop all servers: brokers first, so that they can unregister."""
        await asyncio.gather(*(self.stop_broker(name) for name in self._brokers))
        await asyncio.gather(*(self.stop_name_server(number) for number in range(len(self._name_servers))))
        for slot in (*self._brokers.values(), *self._name_servers):
            slot.close()

    # -- one by one ---------------------------------------------------------------------------------------------------

    async def start_broker(self, name: str) -> None:
        """Start a broker with its address and its directory."""
        slot = self._broker_slot(name)
        if slot.broker is None and slot.disk is not None:
            listener, vip = self._take_listener(slot), slot.vip_listener or self._bind_vip(slot.port)
            slot.vip_listener = None
            if vip is None:
                _log.warning(
                    "%s has no VIP channel, since port %d is in use: Java clients that use one cannot send to it",
                    *(name, slot.port - _VIP_PORT_OFFSET),
                )
            slot.broker = await RunningBroker.start(
                self._broker_options(name),
                slot.disk,
                listener,
                vip_listener=vip,
                name_servers=self.name_server_addresses,
                store_options=self.store_options
                or (_MEMORY_STORE_OPTIONS if self.plan.data is None else _DISK_STORE_OPTIONS),
                limits=self.limits,
                clock=self.clock,
                on_start=self.on_broker_start,
            )

    async def stop_broker(self, name: str) -> None:
        """Stop a broker; it is in no route afterwards, and its directory is closed."""
        slot = self._broker_slot(name)
        broker, slot.broker = slot.broker, None
        if broker is not None:
            await broker.stop()
        slot.release_ports()

    async def kill_broker(self, name: str) -> None:
        """Stop a broker as a crash does."""
        slot = self._broker_slot(name)
        broker, slot.broker = slot.broker, None
        if broker is not None:
            await broker.kill()

    async def start_name_server(self, number: int = 0) -> None:
        """Start a name server with its address."""
        slot = self._name_server_slot(number)
        if slot.name_server is None:
            slot.name_server = await RunningNameServer.start(
                self._take_listener(slot), disk=slot.disk, limits=self.limits
            )

    async def stop_name_server(self, number: int = 0) -> None:
        """Stop a name server; brokers retry until it is back."""
        slot = self._name_server_slot(number)
        server, slot.name_server = slot.name_server, None
        if server is not None:
            await server.stop()
        slot.release_ports()

    @property
    def running_brokers(self) -> list[RunningBroker]:
        """The brokers that run."""
        return [slot.broker for slot in self._brokers.values() if slot.broker is not None]

    @property
    def running_name_servers(self) -> list[RunningNameServer]:
        """The name servers of this cluster that run."""
        return [slot.name_server for slot in self._name_servers if slot.name_server is not None]

    def running_broker(self, name: str) -> RunningBroker:
        """Return a broker that runs."""
        broker = self._broker_slot(name).broker
        if broker is None:
            raise ConfigurationError(f"the broker {name} does not run", next_step="start it first")
        return broker

    def _broker_slot(self, name: str) -> _ServerSlot:
        if name not in self._brokers:
            known = ", ".join(self._brokers) or "none"
            raise ConfigurationError(f"there is no broker {name!r}", next_step=f"there are: {known}")
        return self._brokers[name]

    def _name_server_slot(self, number: int) -> _ServerSlot:
        if not 0 <= number < len(self._name_servers):
            raise ConfigurationError(
                f"there is no name server {number}", next_step=f"there are {len(self._name_servers)}, counted from 0"
            )
        return self._name_servers[number]

    def _take_listener(self, slot: _ServerSlot) -> TcpListener:
        """Return the listener that was bound for a server, or bind its port again."""
        listener, slot.listener = slot.listener, None
        return listener or TcpListener.bind(self.plan.host, slot.port)

    def _broker_options(self, name: str) -> BrokerOptions:
        plan = self.plan
        return replace(
            self.broker_options, name=name, cluster=plan.cluster, host=plan.advertise or plan.host, flush=plan.flush
        )


Companion: TypeAlias = Callable[[RunningCluster], AbstractContextManager[object]]
"""Entered once all servers are ready, and left before they stop."""


class BrokerStartSettings(TypedDict, total=False):
    """Settings of a broker at its start; `BrokerOptions` documents them, and has more."""

    auto_create_topics: bool
    default_topic_queues: int | None
    refuse_duplicates: bool
    refuse_unequal: bool
    notices: bool


def run_cluster(plan: ClusterPlan, companion: Companion, **settings: Unpack[BrokerStartSettings]) -> None:
    """Run servers and a companion until SIGTERM or SIGINT; the settings are those of the brokers."""
    cluster = RunningCluster(plan, BrokerOptions(**settings))
    _raise_open_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run_until_signal(cluster, companion))


async def _run_until_signal(cluster: RunningCluster, companion: Companion) -> None:
    stop_signal = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_signal.set)
    starting = loop.create_task(cluster.start())
    stopping = loop.create_task(stop_signal.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        await starting
    starting.result()
    companions = ExitStack()
    try:
        if not stop_signal.is_set():
            companions.enter_context(companion(cluster))
        await stopping
    finally:
        # In a thread: the companion may send requests to the cluster before it ends.
        await asyncio.to_thread(companions.close)
        await cluster.stop()


def _raise_open_file_limit() -> None:
    """Allow as many connections as the system permits: most shells start processes with few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
