"""Brokers with faults in front of their cores: delays, refused and aborted connections, faults of requests.

A `FaultyCore` replaces the core of a running `RemotingServer`, so a server without faults pays nothing for them. A
`FaultHost` makes one for each broker that starts; its faults, request log and clock outlive the brokers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from steelyard.broker.options import BrokerOptions
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Subscription
from steelyard.net.server import CommandHandler, RemotingServer, Replies, ServerCore
from steelyard.serve.broker import RunningBroker
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing.broker_inspection import MemberOffsetProbe
from steelyard.testing.clock import AdvanceableClock
from steelyard.testing.request_faults import RequestFaults
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import HeartbeatBody, MessageModel
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Peer, Reply
from steelyard.wire.headers.pull import PullMessage

MAX_DELAY_MS = 3_600_000


class FaultyCore:
    """Stands between a server and its core from the moment it is made. Used on the server's loop only."""

    def __init__(self, core: ServerCore, server: RemotingServer) -> None:
        self._core, self._server = core, server
        self.handler: CommandHandler = core.handle
        """Gets each command when it is due: the core, or a function in front of it."""
        self._delays = DelayQueue(asyncio.get_running_loop(), lambda: server.flush_core(server.clock()))
        server.set_core(self)

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Handle a command, or put it off; the server answers it then, as it would now."""
        if self._delays.delay_ms and not self._delays.is_running:
            self._delays.put(lambda: self._server.handle_command(command, peer, self._server.clock()))
            return ()
        return self.handler(command, peer, now_ms)

    def flush(self, now_ms: int) -> Replies:
        """Finish a read."""
        return self._core.flush(now_ms)

    def tick(self, now_ms: int) -> Replies:
        """Do what is due: a slow broker is slow to answer, and its timers are on time."""
        return self._core.tick(now_ms)

    def connection_closed(self, peer: Peer, now_ms: int) -> Replies:
        """Report a closed connection, after the last command that it brought."""
        if self._delays.delay_ms and not self._delays.is_running:
            self._delays.put(partial(self._server.notify_closed, peer))
            return ()
        return self._core.connection_closed(peer, now_ms)

    @property
    def delayed_commands(self) -> int:
        """The number of commands, and ends of connections, that are put off."""
        return len(self._delays)

    def set_delay(self, delay_ms: int) -> None:
        """Put off each command by a time; 0 handles those that wait now."""
        if not 0 <= delay_ms <= MAX_DELAY_MS:
            raise ConfigurationError(f"a delay of {delay_ms} ms is not possible", next_step=f"give 0 to {MAX_DELAY_MS}")
        self._delays.delay_ms = delay_ms
        if not delay_ms:
            self._delays.run_due(run_all=True)

    def drop_commands(self) -> None:
        """Forget the commands that wait, and ignore new ones: the server is about to be killed."""
        self._delays.delay_ms = 0
        self._delays.clear()
        self.handler = lambda *_: ()

    def refuse_connections(self, *, is_refusing: bool) -> None:
        """Abort new connections as soon as they open, or accept them again; open ones stay."""
        self._server.is_accepting = not is_refusing

    def cut_connections(self, matches: Callable[[Peer], bool]) -> int:
        """Abort the connections of some peers, as a failing network does; return how many."""
        found = [peer for peer in self._server.peers() if matches(peer)]
        for peer in found:
            self._server.abort_connection(peer, "a test cut it")
        return len(found)


_RESOLUTION_S = 0.001


class DelayQueue:
    """Actions that wait for their time, and run in the order in which they were put. ``on_progress`` follows each run.

    A shorter delay, or none, overtakes nothing: what waits runs first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_progress: Callable[[], None]) -> None:
        self._loop, self._on_progress = loop, on_progress
        self._pending: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.delay_ms = 0
        self.is_running = False  # whether actions are being run right now

    def __len__(self) -> int:
        """Return the number of actions that wait."""
        return len(self._pending)

    def put(self, action: Callable[[], None]) -> None:
        """Run something after the delay, and after all that was put before."""
        # Loops fire a timer early by up to their resolution, and a delay is never shorter than was asked for.
        due_s = self._loop.time() + self.delay_ms / 1000 + _RESOLUTION_S
        if self._pending:
            due_s = max(due_s, self._pending[-1][0])
        self._pending.append((due_s, action))
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self.run_due)

    def clear(self) -> None:
        """Forget all that waits."""
        self._pending.clear()
        self._stop_timer()

    def run_due(self, *, run_all: bool = False) -> None:
        """Run what is due, or all that waits."""
        self._stop_timer()
        now_s, pending = self._loop.time() + _RESOLUTION_S, self._pending
        if not pending:
            return
        self.is_running = True
        try:
            while pending and (run_all or pending[0][0] <= now_s):
                pending.popleft()[1]()
        finally:
            self.is_running = False
        self._on_progress()
        if pending and self._timer is None:
            self._timer = self._loop.call_at(pending[0][0], self.run_due)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_MAX_REFUSALS = 50
_MAX_CONNECTIONS = 10_000
_RESULT_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.QUERY_NOT_FOUND,
    }
)
"""Response codes that are not refusals."""
_EXISTENCE_CHECKS = frozenset({RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG})
"""Here "not found" is a result: a client that creates a topic checks first."""
_PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})


@dataclass(slots=True)
class _LoggedGroup:
    """What a group did."""

    members: dict[str, str] = field(default_factory=dict)  # the ids of all members so far, with their last addresses
    subscriptions: dict[str, Subscription] = field(default_factory=dict)  # by topic, as of the last heartbeat
    first_offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The lowest offset that was pulled, by topic, broker and queue."""
    is_broadcast: bool = False


@dataclass(slots=True)
class _LoggedConnection:
    """What a connection did."""

    address: str
    client_id: str | None = None
    last_request: str = ""  # the name of the last request


class RequestLog:
    """What clients requested of all brokers, to explain failed tests: a broker forgets members that left, and refusals.

    Used on the servers' loop only.
    """

    def __init__(self) -> None:
        self.groups: dict[str, _LoggedGroup] = {}
        self.connections: dict[int, _LoggedConnection] = {}
        """By connection id; the oldest are dropped when there are very many."""
        self.refusals: deque[str] = deque(maxlen=_MAX_REFUSALS)

    def record(self, broker: str, command: Command, peer: Peer, replies: Replies) -> None:
        """Record a request and the broker's immediate replies."""
        if command.is_response:
            return
        connection = self.connections.get(peer.connection_id)
        if connection is None:
            if len(self.connections) >= _MAX_CONNECTIONS:
                del self.connections[next(iter(self.connections))]
            connection = self.connections[peer.connection_id] = _LoggedConnection(peer.address)
        connection.last_request = _request_name(command.code)
        try:
            if command.code == RequestCode.HEART_BEAT:
                connection.client_id = self._record_heartbeat(decode_body(HeartbeatBody, command.body), peer)
            elif command.code in _PULLS:
                self._record_pull(broker, command.header(PullMessage))
        except SteelyardError:
            pass  # the broker refuses what cannot be decoded: recorded below
        if command.code not in _EXISTENCE_CHECKS:
            self._record_refusals(broker, connection, replies)

    def _record_heartbeat(self, heartbeat: HeartbeatBody, peer: Peer) -> str:
        for consumer in heartbeat.consumers:
            group = self.groups.setdefault(consumer.group, _LoggedGroup())
            group.members[heartbeat.client_id] = peer.address
            group.is_broadcast = consumer.model is MessageModel.BROADCASTING
            for each in consumer.subscriptions:
                group.subscriptions[each.topic] = each.subscription()
        return heartbeat.client_id

    def _record_pull(self, broker: str, pull: PullMessage) -> None:
        group = self.groups.setdefault(pull.consumer_group, _LoggedGroup())
        queue = pull.topic, broker, pull.queue_id
        group.first_offsets[queue] = min(pull.queue_offset, group.first_offsets.get(queue, pull.queue_offset))

    def _record_refusals(self, broker: str, connection: _LoggedConnection, replies: Replies) -> None:
        who = connection.client_id or connection.address
        for reply in replies:
            if isinstance(reply, Reply) and reply.command.is_response and reply.command.code not in _RESULT_CODES:
                why = reply.command.remark or reply.command.code
                self.refusals.append(f"{broker} refused {connection.last_request} of {who}: {why}")


def _request_name(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request {code}"


# The first send of a test makes its topic, and must not wait to register it.
_BROKER_OPTIONS = BrokerOptions(announce_gap_ms=0)


class FaultHost:
    """Puts a `FaultyCore` in front of each broker that starts. Used on the servers' loop only."""

    def __init__(self) -> None:
        self.clock = AdvanceableClock()
        self.request_faults = RequestFaults()
        self.request_log = RequestLog()
        self.member_probe = MemberOffsetProbe()
        self.delays_ms: dict[str, int] = {}  # brokers that are slow, and stay so after a restart
        self.isolated_brokers: set[str] = set()  # brokers that accept no connection
        self.cores: dict[str, FaultyCore] = {}  # by broker, of its last start

    def attach(self, running: RunningBroker) -> None:
        """Put the faults in front of a broker that starts."""
        core = self.cores[running.name] = FaultyCore(running, running.server)
        core.handler = partial(self._handle, running)
        core.refuse_connections(is_refusing=running.name in self.isolated_brokers)
        core.set_delay(self.delays_ms.get(running.name, 0))

    def clear(self, brokers: Iterable[RunningBroker]) -> None:
        """End all faults, so that clients can close in order."""
        self.request_faults.clear()
        self.delays_ms.clear()
        self.isolated_brokers.clear()
        for running in brokers:
            self.cores[running.name].set_delay(0)
            self.cores[running.name].refuse_connections(is_refusing=False)

    def _handle(self, running: RunningBroker, command: Command, peer: Peer, now_ms: int) -> Replies:
        if command.is_response and self.member_probe.handle_response(peer, command):
            return ()
        replies = self.request_faults.handle(running.name, running.handle, command, peer, now_ms)
        self.request_log.record(running.name, command, peer, replies)
        return replies


class FaultyCluster(Cluster):
    """An embedded cluster whose brokers can be disturbed.

    >>> with FaultyCluster(brokers=2) as cluster:
    ...     cluster.slow_broker("broker-0", 800)
    """

    def __init__(self, brokers: int = 1, name_servers: int = 1, *, fault_host: FaultHost | None = None) -> None:
        """Describe a cluster, in memory and on free ports."""
        self._fault_host = host = fault_host or FaultHost()
        super().__init__(
            brokers, name_servers, broker_options=_BROKER_OPTIONS, clock=host.clock, on_broker_start=host.attach
        )

    def slow_broker(self, name: str, ms: int) -> None:
        """Let a broker handle each command ``ms`` after it arrived, in order, until it restarts; 0 ends that."""
        self.call(lambda running: self._fault_host.cores[running.running_broker(name).name].set_delay(ms))

    def stop(self) -> None:
        """Stop everything; commands that slow brokers still hold are handled first."""
        if self.is_running:
            self._for_cores(self.brokers, lambda core: core.set_delay(0))
        super().stop()

    def stop_broker(self, name: str) -> None:
        """Stop a broker in order; commands that it still holds are handled first."""
        self._for_cores([name], lambda core: core.set_delay(0))
        super().stop_broker(name)

    def kill_broker(self, name: str) -> None:
        """Stop a broker as a crash does; commands that it still holds are lost."""
        self._for_cores([name], FaultyCore.drop_commands)
        super().kill_broker(name)

    def _for_cores(self, names: Iterable[str], action: Callable[[FaultyCore], None]) -> None:
        cores = self._fault_host.cores

        def on_loop(_: RunningCluster) -> None:
            for name in names:
                if name in cores:
                    action(cores[name])

        self.call(on_loop)
