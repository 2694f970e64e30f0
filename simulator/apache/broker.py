"""The model of Apache's broker: what its clients can observe, not how it is made.

Everything that a balancing protocol has to live with is here as it is. Requests are executed by thread pools and may
change places, even those of a closed connection. Members are counted by connection. Lock requests are believed, and
locks last sixty seconds. Offsets are taken from anyone, and saved every five seconds. Nothing is fenced. The log
survives everything.

Left out: replicas, power loss, SQL92, timer messages, offset resets, accounts, and all requests of administrators only:
they are answered with 3. It registers at name servers with the commands of our broker; Apache reconnects only with its
next registration, up to half a minute after a connection was lost.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from simulator.apache.release import ApacheRelease
from simulator.apache.requests import (
    ADMIN_POOL_CODES,
    HANDLERS,
    check_transactions,
    client_disconnected,
    forward_timed_out,
    forwarded_response,
    pull_after_hold,
    record_lock_facts,
    record_unregistered,
)
from simulator.apache.state import (
    FORWARD_TIMEOUT_MS,
    HELD_PULL_CHECK_MS,
    SCAN_MS,
    ApacheBrokerState,
    ApacheRequestHandler,
    ApacheStore,
    ApacheThreadPools,
)
from simulator.apache.store import FIRST_FLUSH_MS, FLUSH_MS, ApacheLog, ApacheTopics
from simulator.facts import Fact, MessageLogged
from simulator.network import SimulatedConnection
from simulator.process import Process
from steelyard.broker.nameserver_registration import NameServerCommand, Registrar, RegistrationIdentity
from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.wire.bodies.topics import TopicConfigTable
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.hosts import host_bytes

if TYPE_CHECKING:
    from simulator.world import Timer, World

_RECONNECT_MS = 1_000
_REGISTER_TIMEOUT_MS = 3_000


class _ApacheRegistration:
    """Registers the broker at its name servers."""

    def __init__(
        self, process: Process, identity: RegistrationIdentity, name_servers: Sequence[str], table: TopicConfigTable
    ) -> None:
        self._process = process
        self._registrar = Registrar(identity, name_servers, table, now_ms=process.clock.steady_ms())
        self._connections: dict[str, SimulatedConnection] = {}
        self._pending: dict[tuple[int, int], NameServerCommand] = {}
        self._timer: Timer | None = None
        for address in name_servers:
            self._connect(address)

    def owns(self, connection: SimulatedConnection) -> bool:
        """Whether this is a connection to a name server."""
        return self._connections.get(connection.remote) is connection

    def change(self, table: TopicConfigTable) -> None:
        """Register changed topics."""
        self._registrar.update_table(table)
        self._send_due()

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Register everything on a new connection."""
        self._registrar.on_connection_lost(connection.remote, self._now_ms())
        self._send_due()

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Connect again."""
        address = connection.remote
        del self._connections[address]
        for key in [key for key in self._pending if key[0] == connection.number]:
            del self._pending[key]
        self._process.call_later(_RECONNECT_MS, lambda: self._connect(address))

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Take a response."""
        sent = self._pending.pop((connection.number, command.opaque), None)
        if sent is not None:
            self._registrar.on_response(sent, command, self._now_ms())
            self._send_due()

    def unregister(self) -> None:
        """Unregister at all connected name servers."""
        for command in self._registrar.unregister():
            self._send(command)

    def _connect(self, address: str) -> None:
        self._connections[address] = self._process.world.network.connect(self._process, address)

    def _send_due(self) -> None:
        """Send what is due, and set the timer for the rest."""
        now_ms = self._now_ms()
        for command in self._registrar.tick(now_ms):
            self._send(command)
        next_ms = self._registrar.next_ms
        if self._timer is not None:
            self._timer.cancel()
        if next_ms is not None:
            self._timer = self._process.call_later(max(1, next_ms - now_ms), self._send_due)

    def _send(self, command: NameServerCommand) -> None:
        connection = self._connections.get(command.name_server)
        if connection is None or not connection.is_open:
            self._registrar.on_failure(command, self._now_ms())
            return
        key = connection.number, command.command.opaque
        self._pending[key] = command
        connection.send(command.command)
        self._process.call_later(_REGISTER_TIMEOUT_MS, lambda: self._timed_out(key))

    def _timed_out(self, key: tuple[int, int]) -> None:
        command = self._pending.pop(key, None)
        if command is not None:
            self._registrar.on_failure(command, self._now_ms())
            self._send_due()

    def _now_ms(self) -> int:
        return self._process.clock.steady_ms()


_CLUSTER = "DefaultCluster"
_PORT = 10_911
_DELIVERY_MS = 100
"""How late a delayed message may be: Apache checks that often."""

_TRANSACTION_CHECK_MS = {ApacheRelease.V4: 60_000, ApacheRelease.V5: 30_000}
"""Between two rounds of transaction checks."""


class ApacheBrokerProcess(Process):
    """One Apache broker."""

    def __init__(
        self,
        world: "World",
        name: str,
        host: str,
        name_servers: Sequence[str],
        *,
        topics: Mapping[str, int] | None = None,
        version: str = "5.x",
        port: int = _PORT,
        cluster: str = _CLUSTER,
    ) -> None:
        super().__init__(world, name, host)
        self.address = f"{host}:{port}"
        self.release = ApacheRelease(version)
        self._cluster, self._name_servers = cluster, tuple(name_servers)
        log = ApacheLog(host_bytes(self.address))
        self._store = ApacheStore(log, ApacheTopics(name, cluster, topics or {}))
        self._registered_changes = 0
        self._delivery: Timer | None = None
        self._registration: _ApacheRegistration | None = None
        self.state = self._new_state()
        self.is_alive = False

    # -- start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it on what it stored, and listen."""
        if self.is_alive:
            return
        self.revive()
        self.state = self._new_state()
        self.state.started_ms = self.clock.wall_ms()
        self.record_server_started("broker")
        self.world.network.listen(self, self.address)
        identity = RegistrationIdentity(self._cluster, self.name, 0, self.address, self.address)
        table = self._store.topics.table(self.clock.wall_ms())
        self._registration = _ApacheRegistration(self, identity, self._name_servers, table)
        self._registered_changes = self._store.topics.changes
        self.call_later(FIRST_FLUSH_MS, self._flush)
        self.call_later(SCAN_MS, self._scan_connections)
        self.call_later(HELD_PULL_CHECK_MS, self._check_held_pulls)
        self.call_later(_TRANSACTION_CHECK_MS[self.release], self._check_transactions)
        self._delivery = None
        self._deliver_later()

    restart = start

    def crash(self) -> None:
        """Crash it: members, locks and up to five seconds of commits are lost."""
        self.kill("crashed")

    def stop(self) -> None:
        """Shut it down cleanly: offsets are written, it unregisters."""
        if not self.is_alive:
            return
        self.state.offsets.flush()
        if self._registration is not None:
            self._registration.unregister()
        for connection in list(self.connections.values()):
            connection.close()
        self.kill("left")

    def lose_power(self) -> None:
        """End its machine: connections are not closed. Its log survives, see above."""
        self.kill("power")

    def process_died(self, how: str) -> None:
        """Record the members and locks that died with it."""
        del how
        state = self.state
        for group in list(state.registry.groups()):
            clients = list(dict.fromkeys(group.clients.values()))
            group.clients.clear()
            for client in clients:
                record_unregistered(state, group, client, "restart")
        state.locks.lose_all(self.at_ms())
        record_lock_facts(state)
        # A dead broker shows what its next incarnation will start with.
        self.state = self._new_state()

    def _new_state(self) -> ApacheBrokerState:
        return ApacheBrokerState(
            self._store,
            name=self.name,
            cluster=self._cluster,
            address=self.address,
            release=self.release,
            host=self,
            pools=ApacheThreadPools(self.world.random, self.call_later_us),
        )

    # -- inspection, not through the network --------------------------------------------------------------------------

    def logged_messages(self) -> list[MessageLogged]:
        """Return every message of its log."""
        return list(self._store.log.logged_messages(self.name, self.at_ms()))

    def committed_offsets(self) -> dict[tuple[str, Queue], int]:
        """Return the committed offsets of all groups."""
        return dict(self.state.offsets.table())

    def held_locks(self) -> list[tuple[str, str, Queue, str]]:
        """Return the live locks: broker, lock group, queue, owner."""
        return [(self.name, *lock) for lock in self.state.locks.live(self.clock.wall_ms())]

    def queues(self, topic: str) -> list[Queue]:
        """Return its queues of a topic."""
        settings = self._store.topics.get(topic)
        return [] if settings is None else [Queue(topic, self.name, number) for number in range(settings.read_queues)]

    def set_queues(self, topic: str, queues: int) -> None:
        """Create a topic, or change its number of queues, as an administrator does."""
        self._store.topics.put(topic, queues)
        if self.is_alive:
            self.changed()

    # -- connections --------------------------------------------------------------------------------------------------

    def connection_accepted(self, connection: SimulatedConnection) -> None:
        """Accept a client."""
        self.state.connections[connection.number] = connection

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Register at a name server."""
        if self._registration is not None and self._registration.owns(connection):
            self._registration.connection_opened(connection)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Remove a connection and its clients; its requests are executed all the same."""
        if self._registration is not None and self._registration.owns(connection):
            self._registration.connection_closed(connection)
            return
        self.state.connections.pop(connection.number, None)
        client_disconnected(self.state, connection.number)

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Submit a request to a pool, or pass on the response of a member."""
        if self._registration is not None and self._registration.owns(connection):
            self._registration.command_received(connection, command)
        elif command.is_response:
            forwarded_response(self.state, connection.number, command)
        else:
            is_admin = command.code in ADMIN_POOL_CODES
            self.state.pools.submit(partial(self.execute, connection, command), is_admin=is_admin)

    def execute(self, connection: SimulatedConnection, request: Command) -> None:
        """Execute a request, whether or not its connection is still open."""
        self._run_handler(HANDLERS.get(request.code), connection, request)

    def serve_held_pull(self, connection: SimulatedConnection, request: Command) -> None:
        """Serve a held pull again."""
        self._run_handler(pull_after_hold, connection, request)

    def _run_handler(
        self, handler: ApacheRequestHandler | None, connection: SimulatedConnection, request: Command
    ) -> None:
        answer: Command | None
        if handler is None:
            remark = f"request type {request.code} not supported"
            answer = self.state.answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        else:
            try:
                answer = handler(self.state, request, connection, self.clock.wall_ms())
            except SteelyardError as error:
                answer = self.state.answer(request, ResponseCode.SYSTEM_ERROR, remark=str(error))
        if answer is not None and not request.is_oneway:
            connection.send(answer)

    # -- timers -------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self.state.offsets.flush()
        self.call_later(FLUSH_MS, self._flush)

    def _scan_connections(self) -> None:
        """Remove and close connections that were silent for too long, without notification."""
        for number in self.state.registry.silent(self.clock.wall_ms()):
            for group, client in self.state.registry.drop_connection(number):
                record_unregistered(self.state, group, client, "silent")
            connection = self.state.connections.pop(number, None)
            if connection is not None:
                connection.close()
        self.call_later(SCAN_MS, self._scan_connections)

    def _check_held_pulls(self) -> None:
        for pull in self.state.held_pulls.pop_expired(self.clock.wall_ms()):
            self.state.pools.submit(partial(self.serve_held_pull, pull.connection, pull.request))
        self.call_later(HELD_PULL_CHECK_MS, self._check_held_pulls)

    def _check_transactions(self) -> None:
        check_transactions(self.state, self.clock.wall_ms())
        self.call_later(_TRANSACTION_CHECK_MS[self.release], self._check_transactions)

    def _deliver_later(self) -> None:
        next_ms = self._store.delays.next_ms
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None
        if next_ms is not None:
            late_ms = self.world.random.randint(0, _DELIVERY_MS)
            wait_ms = max(0, next_ms - self.clock.wall_ms()) + late_ms
            # In steps, because the wall clock may jump.
            self._delivery = self.call_later(min(wait_ms, 1_000 + late_ms), self._deliver)

    def _deliver(self) -> None:
        now_ms = self.clock.wall_ms()
        for entry in self._store.delays.deliver(self._store.log, now_ms):
            self.state.message_stored(entry, now_ms)
        self._deliver_later()

    # -- for its handlers ---------------------------------------------------------------------------------------------

    def at_ms(self) -> int:
        """Return the world's time."""
        return self.world.now_ms()

    def record(self, fact: Fact) -> None:
        """Record a fact."""
        self.world.record(fact)

    def changed(self) -> None:
        """Register new topics, and schedule delayed messages."""
        if self._registered_changes != self._store.topics.changes and self._registration is not None:
            self._registered_changes = self._store.topics.changes
            self._registration.change(self._store.topics.table(self.clock.wall_ms()))
        self._deliver_later()

    def request_forwarded(self, connection_id: int, opaque: int) -> None:
        """Start the timeout of a forwarded request."""
        self.call_later(FORWARD_TIMEOUT_MS, lambda: forward_timed_out(self.state, connection_id, opaque))
