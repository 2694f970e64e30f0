"""A broker in a simulated world: the real core, on a disk that fails and a network that breaks.

What serve/ does with sockets and threads is done here in turns. Each read is flushed once. A sync or a save takes a
drawn time and touches the disk at the end of it, so that a crash in between finds nothing done. The core alone answers
requests. What to register at name servers, and when, is decided by the real broker/nameserver_registration.py; a
response that creates a topic is held until all name servers know it, as in a real broker.

Its tables record facts (instrumented_tables.py). It records its own start and end, and the situations that come up when
it starts on what its last incarnation left.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from simulator.actors.instrumented_tables import (
    BrokerFactReporter,
    InstrumentedConsumerRegistry,
    InstrumentedOffsets,
    InstrumentedQueueLocks,
)
from simulator.disk import ProcessDied, SimulatedDisk
from simulator.facts import CommitRejected, MessageLogged, Situation
from simulator.network import SimulatedConnection
from simulator.process import Process
from simulator.world import SeededRandom
from steelyard.broker.broker import BrokerCore, Replies, SaveJob
from steelyard.broker.nameserver_registration import NameServerCommand, Registrar, RegistrationIdentity
from steelyard.broker.options import BrokerOptions
from steelyard.errors import SteelyardError, StoreError
from steelyard.model import Queue
from steelyard.store.options import StoreOptions
from steelyard.store.recovery import CUT_OFF
from steelyard.store.sync import SyncJob
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import CloseConnection, Command, Peer
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.hosts import host_bytes
from steelyard.wire.record import decode_records

if TYPE_CHECKING:
    from simulator.world import Timer, World
    from steelyard.broker.state import BrokerCoreState

_REGISTER_TIMEOUT_MS = 3_000
_HOLD_TIMEOUT_MS = 1_000
_ROUTES_MS = 30_000
_ROUTE_OPAQUES = 1 << 30
"""Opaques of route requests start here, so that they differ from those of registrations."""


@dataclass(slots=True)
class _NameServer:
    """The state of one name server."""

    address: str
    known_changes: int = -1
    """The number of topic changes that it knows."""
    connection: "SimulatedConnection | None" = None
    pending: "dict[int, tuple[NameServerCommand, int, Timer]]" = field(default_factory=dict)


class _SimulatedRegistration:
    """Registers one broker at its name servers over simulated connections, and asks them for routes."""

    def __init__(self, process: "Process", state: "BrokerCoreState", name_servers: Iterable[str]) -> None:
        self._process, self._state = process, state
        options = state.options
        identity = RegistrationIdentity(
            options.cluster,
            options.name,
            options.broker_id,
            options.address,
            f"{options.host}:{options.port + 1}",
        )
        self._servers = {address: _NameServer(address) for address in name_servers}
        self._registrar = Registrar(
            identity, self._servers, state.topics.registration_table(), now_ms=process.clock.wall_ms()
        )
        self._changes = state.topics.changes
        self._held_replies = deque[tuple[int, int, Callable[[], None]]]()
        self._route_requests: dict[int, str] = {}
        self._wanted_routes: set[str] = set()
        self._routes_ms = 0
        self._opaque = _ROUTE_OPAQUES

    def tick(self) -> None:
        """Send the registrations that are due, and request the wanted routes."""
        now_ms, state = self._process.clock.wall_ms(), self._state
        next_ms = self._next_ms
        if next_ms is not None and next_ms <= now_ms:
            if state.topics.changes != self._changes:
                self._changes = state.topics.changes
                self._registrar.update_table(state.topics.registration_table())
            for command in self._registrar.tick(now_ms):
                self._announce(command)
        if state.wanted_routes and (now_ms >= self._routes_ms or not state.wanted_routes <= self._wanted_routes):
            self._routes_ms, self._wanted_routes = now_ms + _ROUTES_MS, set(state.wanted_routes)
            self._request_routes()
        self._release_held(now_ms)

    @property
    def _next_ms(self) -> int | None:
        return self._registrar.next_change_ms(self._state.topics.changes - self._changes)

    def hold_until_registered(self, action: Callable[[], None]) -> None:
        """Run an action once all name servers know the current topics, at the latest after a second."""
        now_ms = self._process.clock.wall_ms()
        self._held_replies.append((self._state.topics.changes, now_ms + _HOLD_TIMEOUT_MS, action))
        self.tick()
        next_ms = self._next_ms
        if self._held_replies and next_ms is not None and next_ms - now_ms < _HOLD_TIMEOUT_MS:
            self._process.call_later(max(0, next_ms - now_ms), self.tick)

    def _release_held(self, now_ms: int) -> None:
        known = min((server.known_changes for server in self._servers.values()), default=self._state.topics.changes)
        while self._held_replies and (self._held_replies[0][0] <= known or self._held_replies[0][1] <= now_ms):
            self._held_replies.popleft()[2]()

    def _announce(self, command: NameServerCommand) -> None:
        server = self._servers[command.name_server]
        opaque, process = command.command.opaque, self._process
        timeout = process.call_later(_REGISTER_TIMEOUT_MS, lambda: self._announcement_failed(server, opaque))
        server.pending[opaque] = command, self._changes, timeout
        self._connection_to(server).send(command.command)

    def _connection_to(self, server: _NameServer) -> "SimulatedConnection":
        if server.connection is None or server.connection.is_closed:
            server.connection = self._process.world.network.connect(self._process, server.address)
        return server.connection

    def _announcement_failed(self, server: _NameServer, opaque: int) -> None:
        pending = server.pending.pop(opaque, None)
        if pending is not None:
            pending[2].cancel()
            now_ms = self._process.clock.wall_ms()
            self._registrar.on_failure(pending[0], now_ms)
            server.known_changes = pending[1]  # no response waits for an unreachable name server
            self._release_held(now_ms)

    def command_received(self, connection: "SimulatedConnection", answer: Command) -> None:
        """Take a response of a name server."""
        topic = self._route_requests.pop(answer.opaque, None)
        if topic is not None:
            self._store_route(topic, answer)
            return
        server = self._server_of(connection)
        pending = server.pending.pop(answer.opaque, None) if server is not None else None
        if server is not None and pending is not None:
            command, server.known_changes, timeout = pending
            timeout.cancel()
            now_ms = self._process.clock.wall_ms()
            self._registrar.on_response(command, answer, now_ms)
            self._release_held(now_ms)

    def connection_closed(self, connection: "SimulatedConnection") -> None:
        """Fail the registrations on a connection that closed, or could not be opened."""
        server = self._server_of(connection)
        if server is not None:
            server.connection = None
            for opaque in list(server.pending):
                self._announcement_failed(server, opaque)
            self._registrar.on_connection_lost(server.address, self._process.clock.wall_ms())

    def _server_of(self, connection: "SimulatedConnection") -> _NameServer | None:
        server = self._servers.get(connection.remote)
        return server if server is not None and server.connection is connection else None

    def _request_routes(self) -> None:
        connections = [
            server.connection for server in self._servers.values() if server.connection and server.connection.is_open
        ]
        for topic in sorted(self._wanted_routes) if connections else ():
            self._opaque += 1
            self._route_requests[self._opaque] = topic
            connections[0].send(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic), opaque=self._opaque))

    def _store_route(self, topic: str, answer: Command) -> None:
        """Store a route. After an error the old one stays: a name server may just have started."""
        if answer.code == 0:
            try:
                self._state.routes[topic] = decode_body(RouteBody, answer.body).route(topic)
            except SteelyardError as error:
                self._process.world.journal.trace_remark(
                    f"{self._process.name} cannot read the route of {topic}: {error}"
                )

    def unregister(self) -> None:
        """Unregister at all connected name servers."""
        for command in self._registrar.unregister():
            connection = self._servers[command.name_server].connection
            if connection is not None and connection.is_open:
                connection.send(command.command)


_TICK_MS = 100
_SEGMENT_BYTES = 1 << 16
_RESTART_RETRY_MS = 1_000
"""Before a broker that could not start is started again."""
_COMMIT_CODE = int(RequestCode.UPDATE_CONSUMER_OFFSET)


class BrokerProcess(Process):
    """One broker. `start` starts it on what is on its disk."""

    def __init__(
        self,
        world: "World",
        options: BrokerOptions,
        name_servers: Iterable[str],
        *,
        segment_bytes: int = _SEGMENT_BYTES,
    ) -> None:
        super().__init__(world, options.name, options.host)
        self.options, self.name_servers = options, tuple(name_servers)
        self.disk = SimulatedDisk(SeededRandom(world.random.getrandbits(64)))
        self._store_options = StoreOptions(
            segment_bytes=segment_bytes, keep_ms=None, store_host=host_bytes(options.address)
        )
        self._reporter = BrokerFactReporter(options.name, world.record, world.now_ms)
        self.broker: BrokerCore | None = None
        """Its core, while it runs."""
        self._peers: dict[int, Peer] = {}
        self._is_syncing = self._is_refusing = False
        self._topics_changed = False
        """Whether the current read created or removed a topic."""
        self._last_log_end: int | None = None
        """The end of the log when the last incarnation died."""
        self.is_alive = False

    # -- start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the store, listen, register; if the disk fails, try again later."""
        if self.is_alive:
            return
        self.revive()
        try:
            broker = BrokerCore.open(self.options, self.disk, self._store_options, now_ms=self.clock.wall_ms())
        except (ProcessDied, StoreError) as error:
            self._record_situation("a broker could not start", why=str(error)[:200])
            self.kill("crashed")
            self.world.schedule(_RESTART_RETRY_MS * 1000, self.start)
            return
        self.broker = broker
        self._instrument(broker)
        self._is_syncing = self._topics_changed = self._is_refusing = False
        self._registration = _SimulatedRegistration(self, broker.state, self.name_servers)
        self.record_server_started("broker")
        self._record_recovery(broker)
        self.world.network.listen(self, self.options.address)
        self._registration.tick()
        self.call_later(_TICK_MS, self._tick)

    def restart(self) -> None:
        """Start it again, if it does not run."""
        self.start()

    def _instrument(self, broker: BrokerCore) -> None:
        """Replace the core's tables by those that record facts."""
        state, reporter, now_ms = broker.state, self._reporter, self.clock.wall_ms()
        reporter.peer = reporter.epoch = None
        self._members = InstrumentedConsumerRegistry(reporter, self.options.max_members, now_ms)
        known_groups = [group.name for group in state.groups]
        self._locks = InstrumentedQueueLocks(
            reporter, now_ms, self.options.settle_ms, known_groups, state.rebalance_history
        )
        state.consumers, state.queue_locks = self._members, self._locks
        state.offsets = self._offsets = InstrumentedOffsets(reporter, state.offsets, self._members)
        self._topics = state.topics

    def _record_recovery(self, broker: BrokerCore) -> None:
        for damage in broker.state.store.damages:
            name = "recovery cut a tail" if damage.what == CUT_OFF else "recovery found damage"
            self._record_situation(name, what=str(damage)[:200])
        if self._last_log_end is not None and broker.state.store.end < self._last_log_end:
            self._record_situation(
                "a start found less than was written", bytes=str(self._last_log_end - broker.state.store.end)
            )
        if any("beyond the end" in note for note in broker.state.warnings):
            self._record_situation("offsets were beyond the end of their queues")

    def _record_situation(self, name: str, **about: str) -> None:
        self.world.record(Situation(at_ms=self.world.now_ms(), name=name, about={"broker": self.name, **about}))

    def stop(self) -> None:
        """Shut it down cleanly: it unregisters, closes its connections and writes everything."""
        broker = self.broker
        if broker is None:
            return
        try:
            self._registration.unregister()
            self._send_replies(broker.flush(self.clock.wall_ms()))
            for connection in list(self.connections.values()):
                connection.close()
            broker.close(self.clock.wall_ms())
        except ProcessDied:
            self.kill("crashed")
        except StoreError as error:
            self.world.journal.trace_remark(f"{self.name} could not close cleanly: {error}")
            self.kill("crashed")
        else:
            self.kill("left")

    def crash(self) -> None:
        """Crash the process; its machine goes on, and everything written is there."""
        self.kill("crashed")

    def lose_power(self) -> None:
        """End the machine: connections are not closed, and the disk keeps what was synced and some of the rest."""
        self.kill("power")

    def process_died(self, how: str) -> None:
        """Leave a disk for the next incarnation; the core is gone."""
        if self.broker is not None:
            self._members.report_restart()
            self._locks.report_restart()
            self._last_log_end = None if how == "left" else self.broker.state.store.end
            self.broker = None
        self._peers.clear()
        if how == "power":
            self.disk = self.disk.lose_power()
        elif how != "left":
            self.disk = self.disk.crash()

    # -- connections --------------------------------------------------------------------------------------------------

    def connection_accepted(self, connection: SimulatedConnection) -> None:
        """Accept a client."""
        self._peers[connection.number] = connection.peer()

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Pass a command to the core, or to the registration if it is from a name server."""
        peer, broker = self._peers.get(connection.number), self.broker
        if broker is None:
            return
        if peer is None:
            self._registration.command_received(connection, command)
            return
        changes, now_ms = self._topics.changes, self.clock.wall_ms()
        self._reporter.peer = peer
        if command.code == _COMMIT_CODE and not command.is_response:
            replies = self._handle_commit(broker, command, peer, now_ms)
        else:
            replies = broker.handle(command, peer, now_ms)
        self._reporter.peer = None
        if changes != self._topics.changes:
            self._topics_changed = True
            self._hold_replies(replies)
        elif replies:
            self._send_replies(replies)

    def _handle_commit(self, broker: BrokerCore, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Pass a commit to the core, and record it if it is rejected."""
        try:
            header = command.header(CommitOffset)
        except SteelyardError:
            return broker.handle(command, peer, now_ms)
        fenced_before = self._offsets.fenced_commits
        self._reporter.epoch = header.lock_epoch
        replies = broker.handle(command, peer, now_ms)
        self._reporter.epoch = None
        if self._offsets.fenced_commits != fenced_before:
            member = self._members.on_connection(peer, header.consumer_group)
            rejected = CommitRejected(
                at_ms=self.world.now_ms(),
                group=header.consumer_group,
                queue=Queue(header.topic, self.name, header.queue_id),
                offset=header.commit_offset,
                member=None if member is None else member.id,
            )
            self.world.record(rejected)
        return replies

    def read_finished(self, connection: SimulatedConnection) -> None:
        """Flush what one read brought, and start a sync if one is due."""
        broker = self.broker
        if broker is None or connection.number not in self._peers:
            return
        now_ms = self.clock.wall_ms()
        replies = broker.flush(now_ms)
        self._sync(broker, now_ms)
        if self._topics_changed:
            self._topics_changed = False
            self._hold_replies(replies)
        elif replies:
            self._send_replies(replies)

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Pass a closed connection to the core."""
        peer, broker = self._peers.pop(connection.number, None), self.broker
        if broker is None:
            return
        if peer is None:
            self._registration.connection_closed(connection)
        else:
            self._send_replies(broker.connection_closed(peer, self.clock.wall_ms()))

    def _hold_replies(self, replies: Replies) -> None:
        if replies:
            self._registration.hold_until_registered(partial(self._send_replies, replies))

    def _send_replies(self, replies: Replies) -> None:
        connections = self.connections
        for reply in replies:
            connection = connections.get(reply.peer.connection_id)
            if connection is None:
                continue
            if isinstance(reply, CloseConnection):
                connection.close()
                self.connection_closed(connection)
            else:
                connection.send(reply.command)

    # -- time and disk ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        broker = self.broker
        if broker is None:
            return
        now_ms = self.clock.wall_ms()
        self._send_replies(broker.tick(now_ms))
        self._sync(broker, now_ms)
        for job in broker.due_saves(now_ms):
            self.call_later_us(self._draw_disk_delay_us(), partial(self._save, broker, job))
        self._registration.tick()
        broker.state.warnings.clear()
        if not self._is_refusing and broker.state.store.read_only_reason is not None:
            self._is_refusing = True
            self._record_situation("a broker refuses writes", why=broker.state.store.read_only_reason[:200])
        self.call_later(_TICK_MS, self._tick)

    def _sync(self, broker: BrokerCore, now_ms: int) -> None:
        if self._is_syncing or not broker.is_sync_due(now_ms):
            return
        job = broker.begin_sync(now_ms)
        if job.files:
            self._is_syncing = True
            self.call_later_us(self._draw_disk_delay_us(), partial(self._finish_sync, broker, job))
        else:
            job.run()
            self._hold_replies(broker.end_sync(job))

    def _finish_sync(self, broker: BrokerCore, job: SyncJob) -> None:
        job.run()
        self._is_syncing = False
        self._hold_replies(broker.end_sync(job))
        self._sync(broker, self.clock.wall_ms())

    def _save(self, broker: BrokerCore, job: SaveJob) -> None:
        job.run()
        broker.save_finished(job, self.clock.wall_ms())

    def _draw_disk_delay_us(self) -> int:
        """Draw how long the disk takes: mostly 0.3 to 5 ms, seldom more."""
        drawn = self.world.random.random()
        return int(300 + 5_000 * drawn) if drawn < 0.97 else int(5_000 + 4_000_000 * (drawn - 0.97))

    @property
    def is_refusing(self) -> bool:
        """Whether it refuses writes since its disk failed, until it is restarted."""
        return self.broker is not None and self.broker.state.store.read_only_reason is not None

    # -- inspection, not through the network --------------------------------------------------------------------------

    def logged_messages(self) -> list[MessageLogged]:
        """Return every message of every queue, system topics too."""
        broker, at_ms = self.broker, self.world.now_ms()
        pending: list[MessageLogged] = []
        for key, queue_id in broker.state.store.queues() if broker is not None else ():
            assert broker is not None
            queue, store = Queue(key.decode(), self.name, queue_id), broker.state.store
            low, high = store.bounds(key, queue_id)
            read = store.read(key, queue_id, low, max_messages=max(1, high - low), max_bytes=1 << 30)
            pending += [
                MessageLogged(
                    at_ms=at_ms,
                    queue=queue,
                    offset=record.offset,
                    uid=record.body.decode(errors="replace"),
                    reconsume_times=record.reconsume_times,
                )
                for record in decode_records(read.joined())
            ]
        return pending

    def committed_offsets(self) -> dict[tuple[str, Queue], int]:
        """Return the committed offsets of every group, those of the broker itself too."""
        if self.broker is None:
            return {}
        offsets = self.broker.state.offsets
        return {
            (group, Queue(topic, self.name, queue_id)): offset
            for topic, group in sorted(_split_names(offsets.table().offsets))
            for queue_id, offset in sorted(offsets.committed_in(group, topic).items())
        }

    def held_locks(self) -> list[tuple[str, str, Queue, str]]:
        """Return the held locks: broker, lock group, queue, owner."""
        if self.broker is None:
            return []
        held = self._locks.held_locks(self.clock.wall_ms())
        return [(self.name, name, Queue(key[0], self.name, key[1]), owner) for name, key, owner in held]


def _split_names(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(topic, group) for topic, _, group in (name.partition("@") for name in names)]
