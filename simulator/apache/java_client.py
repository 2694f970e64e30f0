"""The model of Java's client: remoting and threads, process queues, heartbeats, routes, start offsets, locks.

A connection is opened by the first request for it, and after a loss by the next one. When the other end closes it,
pending requests fail at once in release 5, and only at their timeout in 4.9. A Java thread is a generator here: it
yields a `JavaRequest` and resumes with the response, or None after a timeout, or yields a `JavaSleep` and resumes
later. A thread whose request times out closes the connection, as in Java: the broker may then take it for a new member.
"""

from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simulator.apache.release import ApacheRelease
from simulator.network import SimulatedConnection
from simulator.process import Process
from steelyard.balance.assignors.average import Average
from steelyard.balance.assignors.strategy import Strategy
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.options import ConsumeMode
from steelyard.model import Queue, StoredMessage, Subscription, TopicRoute
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.queue_assignment import LockRequest, LockResponse
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY_FLAG, Command, CommandFields
from steelyard.wire.headers.common import EmptyHeader, OffsetResponse
from steelyard.wire.headers.group import CommitOffset, GetMaxOffset, QueryConsumerOffset, SearchOffset, UnregisterClient
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.json_body import QueueRef

if TYPE_CHECKING:
    from simulator.world import Timer

T = TypeVar("T")


class JavaRequest(Struct, frozen=True):
    """A request whose response a thread waits for."""

    address: str
    command: Command
    timeout_ms: int = 3_000


class JavaSleep(Struct, frozen=True):
    """A thread sleeps for a while."""

    time_ms: int


JavaThread = Generator[JavaRequest | JavaSleep, Command | None, T]
"""A thread: it sends requests, sleeps, and returns a result."""

_Then = Callable[[Command | None], None]


class JavaRemotingClient:
    """All connections of one client, and the requests that are pending on them."""

    def __init__(self, process: Process, when_opened: Callable[[str], None], *, fails_fast: bool) -> None:
        self._process, self._when_opened, self._fails_fast = process, when_opened, fails_fast
        self._connections: dict[str, SimulatedConnection] = {}
        self._opened: set[int] = set()
        """The numbers of connections that were open."""
        self._pending: dict[int, tuple[SimulatedConnection, _Then, Timer]] = {}
        self._opaque = 0

    def request(self, address: str, command: Command, timeout_ms: int, then: _Then, *, closes: bool = False) -> None:
        """Send a request, and pass the response to ``then``; ``closes``: a timeout closes the connection."""
        self._opaque += 1
        opaque, connection = self._opaque, self._connection_to(address)
        timer = self._process.call_later(timeout_ms, lambda: self._timed_out(opaque, closes=closes))
        self._pending[opaque] = connection, then, timer
        connection.send(replace(command, opaque=opaque))

    def send_oneway(self, address: str, command: Command) -> None:
        """Send a request without a response."""
        self._opaque += 1
        self._connection_to(address).send(replace(command, opaque=self._opaque, flag=ONEWAY_FLAG))

    def run_thread(self, thread: JavaThread[T], then: Callable[[T], None]) -> None:
        """Run a thread, and pass its result to ``then``."""
        self._resume(thread, then, None)

    def _resume(self, thread: JavaThread[T], then: Callable[[T], None], response: Command | None) -> None:
        try:
            step = thread.send(response)
        except StopIteration as done:
            then(done.value)
            return
        if isinstance(step, JavaSleep):
            self._process.call_later(step.time_ms, lambda: self._resume(thread, then, None))
        else:
            self.request(
                step.address,
                step.command,
                step.timeout_ms,
                lambda response: self._resume(thread, then, response),
                closes=True,
            )

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Remember an open connection, and pass it on."""
        self._opened.add(connection.number)
        self._when_opened(connection.remote)

    def response_received(self, connection: SimulatedConnection, response: Command) -> None:
        """Pass a response to its request."""
        pending = self._pending.get(response.opaque)
        if pending is not None and pending[0] is connection:
            del self._pending[response.opaque]
            pending[2].cancel()
            pending[1](response)

    def connection_lost(self, connection: SimulatedConnection) -> None:
        """Forget a connection that closed, or could not be opened."""
        was_open = connection.number in self._opened
        self._opened.discard(connection.number)
        if self._connections.get(connection.remote) is connection:
            del self._connections[connection.remote]
        if self._fails_fast or not was_open:
            self._fail_pending(connection)

    def _fail_pending(self, connection: SimulatedConnection) -> None:
        """Fail all requests that are pending on a connection."""
        for opaque in [opaque for opaque, pending in self._pending.items() if pending[0] is connection]:
            pending = self._pending.pop(opaque, None)
            if pending is not None:
                pending[2].cancel()
                pending[1](None)

    def _timed_out(self, opaque: int, *, closes: bool) -> None:
        pending = self._pending.pop(opaque, None)
        if pending is None:
            return
        connection, then, _ = pending
        if closes:
            connection.close()
            self.connection_lost(connection)
            self._fail_pending(connection)
        then(None)

    def _connection_to(self, address: str) -> SimulatedConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self._process.world.network.connect(self._process, address)
        return connection


_LOCK_MAX_LIVE_MS = 30_000
"""The age of a lock, from its response, after which nothing is handled in order."""

_PULL_MAX_IDLE_MS = 120_000
_MAX_CACHED_MESSAGES, _MAX_OFFSET_SPAN = 1_000, 2_000


class JavaProcessQueue:
    """A queue of a member: its messages, and how far they are handled.

    It has no generation: a queue that is taken away is marked as dropped, and its handlers check the mark. Offsets are
    committed up to the first message that is not done.

    >>> queue = JavaProcessQueue(Queue("orders", "b", 0), 5, 0)
    >>> queue.put([StoredMessage(queue.queue, offset, b"") for offset in (5, 6, 7)])
    >>> queue.remove_message(6), queue.remove_message(5), queue.remove_message(7)
    (5, 7, 8)
    """

    def __init__(self, queue: Queue, next_offset: int, now_ms: int) -> None:
        self.queue, self.next_offset = queue, next_offset
        self.is_dropped = False
        self.is_locked = False
        self.locked_ms = 0
        self.last_pull_ms = self.last_consume_ms = now_ms
        self.unlock_tries = 0
        self.was_previously_locked = False
        """Whether it was pulled under the lock before: the first time the offset is queried again."""
        self.is_busy = False
        """Orderly: whether a thread works on it."""
        self.is_in_listener = False
        """Orderly: whether a handler runs, which is what a thread that removes the queue waits for."""
        self.attempts: dict[int, int] = {}
        """By offset: how often a message was tried here."""
        self._messages: dict[int, StoredMessage] = {}
        self._taken: dict[int, StoredMessage] = {}
        self._highest = -1

    @property
    def message_count(self) -> int:
        """The number of messages that are not done."""
        return len(self._messages) + len(self._taken)

    @property
    def is_full(self) -> bool:
        """Whether flow control stops pulling."""
        span = self._highest - next(iter(self._messages)) if self._messages else 0
        return self.message_count > _MAX_CACHED_MESSAGES or span > _MAX_OFFSET_SPAN

    def put(self, messages: Sequence[StoredMessage]) -> None:
        """Add pulled messages, which are in order."""
        for message in messages:
            self._messages[message.offset] = message
            self._highest = max(self._highest, message.offset)

    def remove_message(self, offset: int) -> int:
        """Remove a message that is done; return the offset to commit."""
        self._messages.pop(offset, None)
        self.attempts.pop(offset, None)
        # A message that is tried again keeps its place: messages are only ever added at the end.
        return next(iter(self._messages)) if self._messages else self._highest + 1

    def pop_message(self) -> StoredMessage | None:
        """Take the next message in order; it stays taken until `commit` or `return_taken`."""
        if not self._messages:
            return None
        offset = next(iter(self._messages))
        message = self._taken[offset] = self._messages.pop(offset)
        return message

    def commit(self) -> int:
        """Remove the taken messages; return the offset to commit."""
        last = max(self._taken)
        for offset in self._taken:
            self.attempts.pop(offset, None)
        self._taken.clear()
        return last + 1

    def return_taken(self) -> None:
        """Put back the taken messages, to be handled again."""
        self._messages = self._taken | self._messages
        self._taken = {}

    def is_lock_expired(self, now_ms: int) -> bool:
        """Whether the lock was last confirmed too long ago."""
        return now_ms - self.locked_ms > _LOCK_MAX_LIVE_MS

    def is_pull_expired(self, now_ms: int) -> bool:
        """Whether it was not pulled for so long that it is dropped and added again."""
        return now_ms - self.last_pull_ms > _PULL_MAX_IDLE_MS


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """The options of a Java push consumer."""

    group: str
    id: str
    topics: Mapping[str, Subscription]
    mode: ConsumeMode = ConsumeMode.CONCURRENT
    strategy: Strategy = field(default_factory=Average)
    start: StartPosition = field(default_factory=StartPosition)
    handlers: int = 20
    max_attempts: int = 16
    """Of orderly messages: -1 is without limit, which is Java's default."""
    version: str = "5.x"

    @property
    def retry_topic(self) -> str:
        """The group's retry topic."""
        return f"%RETRY%{self.group}"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """The topics to pull; a broadcast group has no retry topic."""
        topics = sorted(self.topics)
        return tuple(topics) if self.mode is ConsumeMode.BROADCAST else (*topics, self.retry_topic)

    @property
    def model(self) -> MessageModel:
        """The message model of heartbeats."""
        return MessageModel.BROADCASTING if self.mode is ConsumeMode.BROADCAST else MessageModel.CLUSTERING


class JavaState:
    """The state of one member."""

    def __init__(
        self,
        process: Process,
        client: JavaRemotingClient,
        options: JavaOptions,
        name_servers: Sequence[str],
        offset_file: MutableMapping[Queue, int],
        rebalance_immediately: Callable[[], None],
    ) -> None:
        self.process, self.client, self.options = process, client, options
        self.release = ApacheRelease(options.version)
        self.is_orderly = options.mode is ConsumeMode.ORDERLY
        self.is_broadcasting = options.mode is ConsumeMode.BROADCAST
        self.rebalance_immediately = rebalance_immediately
        self.name_servers, self.name_server = tuple(name_servers), 0
        self.routes: dict[str, TopicRoute] = {}
        self.addresses: dict[str, str] = {}
        """The master of each broker, from the last routes."""
        self.queues: dict[Queue, JavaProcessQueue] = {}
        self.offsets: dict[Queue, int] = {}
        """The offsets to commit."""
        self.offset_file = offset_file
        """The offsets of a broadcast member, which outlive it."""
        self.subscription_versions = dict.fromkeys(options.all_topics, process.clock.wall_ms())
        """By topic: when its assigned queues last changed."""
        self.is_sending_heartbeats = False
        self.is_stopped = False
        self._client_version = self.release.client_version

    def now_ms(self) -> int:
        """Return the time as Java reads it: the wall clock."""
        return self.process.clock.wall_ms()

    def request(self, code: int, fields: CommandFields, body: bytes = b"") -> Command:
        """Make a request."""
        return Command(code, fields, body, version=self._client_version, language="JAVA")

    def update_offset(self, queue: Queue, offset: int, *, increase_only: bool = True) -> None:
        """Set the offset to commit."""
        if not increase_only or offset > self.offsets.get(queue, -1):
            self.offsets[queue] = offset

    def persist(self, queue: Queue) -> None:
        """Commit a queue, without a response."""
        offset = self.offsets.get(queue)
        if offset is None:
            return
        if self.is_broadcasting:
            self.offset_file[queue] = offset
            return
        address = self.addresses.get(queue.broker)
        if address is not None:
            header = CommitOffset(self.options.group, queue.topic, queue.queue_id, offset)
            self.client.send_oneway(address, self.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def persist_all(self) -> None:
        """Commit every queue, changed or not."""
        for queue in list(self.queues):
            self.persist(queue)


# Heartbeats and unregistering: to every broker of the routes, one after the other.

_START_FROM: Mapping[StartAt, ConsumeFromWhere] = {
    StartAt.LAST: ConsumeFromWhere.LAST_OFFSET,
    StartAt.FIRST: ConsumeFromWhere.FIRST_OFFSET,
    StartAt.TIME: ConsumeFromWhere.TIMESTAMP,
}


def subscription_bodies(state: JavaState) -> tuple[SubscriptionBody, ...]:
    """Return the subscriptions, with their current versions."""
    subscriptions = (state.options.topics.get(topic) or Subscription(topic) for topic in state.options.all_topics)
    return tuple(
        SubscriptionBody.of(
            Subscription(each.topic, each.expression, each.expression_type, state.subscription_versions[each.topic])
        )
        for each in subscriptions
    )


def heartbeat_command(state: JavaState) -> Command:
    """Make a heartbeat."""
    consumer = ConsumerHeartbeat(
        start_from=_START_FROM[state.options.start.at],
        kind=ConsumeType.PUSH,
        group=state.options.group,
        model=state.options.model,
        subscriptions=subscription_bodies(state),
    )
    producer = ProducerHeartbeat(group="CLIENT_INNER_PRODUCER")
    heartbeat = HeartbeatBody(client_id=state.options.id, consumers=(consumer,), producers=(producer,))
    return state.request(RequestCode.HEART_BEAT, EmptyHeader(), encode_body(heartbeat))


def send_heartbeats(state: JavaState) -> JavaThread[None]:
    """Send a heartbeat to every broker, unless another thread does so."""
    if state.is_sending_heartbeats:
        return
    state.is_sending_heartbeats = True
    for address in list(dict.fromkeys(state.addresses.values())):
        yield JavaRequest(address, heartbeat_command(state))
    state.is_sending_heartbeats = False


def unregister_client(state: JavaState) -> JavaThread[None]:
    """Unregister at every broker."""
    header = UnregisterClient(state.options.id, consumer_group=state.options.group)
    for address in list(dict.fromkeys(state.addresses.values())):
        yield JavaRequest(address, state.request(RequestCode.UNREGISTER_CLIENT, header))


def update_route(state: JavaState, topic: str) -> JavaThread[None]:
    """Query the route of a topic; after an error the old one stays, after a timeout the next name server is used."""
    address = state.name_servers[state.name_server % len(state.name_servers)]
    response = yield JavaRequest(address, state.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)))
    if response is None:
        state.name_server += 1
    elif response.code == ResponseCode.SUCCESS:
        route = state.routes[topic] = decode_body(RouteBody, response.body).route(topic)
        state.addresses |= {broker.name: broker.master for broker in route.brokers if broker.master is not None}


def update_routes(state: JavaState) -> JavaThread[None]:
    """Query the routes of all topics."""
    for topic in state.options.all_topics:
        yield from update_route(state, topic)


_QUERY_TIMEOUT_MS = 5_000


def fetch_start_offset(state: JavaState, queue: Queue) -> JavaThread[int | None]:
    """Return the committed offset, else the end, the start or that of a time; None if the broker does not respond."""
    address = state.addresses.get(queue.broker)
    if address is None:
        return None
    if state.is_broadcasting:
        stored = state.offset_file.get(queue)
        if stored is not None:
            return stored
    else:
        header = QueryConsumerOffset(state.options.group, queue.topic, queue.queue_id)
        response = yield JavaRequest(
            address, state.request(RequestCode.QUERY_CONSUMER_OFFSET, header), _QUERY_TIMEOUT_MS
        )
        if response is not None and response.code == ResponseCode.SUCCESS:
            return response.header(OffsetResponse).offset
        if response is None or response.code != ResponseCode.QUERY_NOT_FOUND:
            return None
    return (yield from _initial_offset(state, queue, address))


def _initial_offset(state: JavaState, queue: Queue, address: str) -> JavaThread[int | None]:
    """Return where a group without a committed offset starts."""
    start, is_retry = state.options.start, queue.topic == state.options.retry_topic
    if start.at is StartAt.FIRST or (start.at is StartAt.LAST and is_retry):
        return 0
    if start.at is StartAt.TIME and not is_retry:
        search = SearchOffset(queue.topic, queue.queue_id, start.time_ms)
        command = state.request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
    else:
        command = state.request(RequestCode.GET_MAX_OFFSET, GetMaxOffset(queue.topic, queue.queue_id))
    response = yield JavaRequest(address, command)
    return (
        response.header(OffsetResponse).offset
        if response is not None and response.code == ResponseCode.SUCCESS
        else None
    )


_LOCK_TIMEOUT_MS = 1_000


def lock_queue(state: JavaState, queue: Queue) -> JavaThread[bool]:
    """Lock a queue; return whether it is locked."""
    granted = yield from _lock_batch(state, queue.broker, [queue])
    return granted is not None and queue in granted


def lock_all_queues(state: JavaState) -> JavaThread[None]:
    """Renew all locks; a queue that is not granted is not locked any more, without a response nothing changes."""
    for broker, queues in _by_broker(state):
        granted = yield from _lock_batch(state, broker, queues)
        if granted is not None:
            for queue in queues:
                process_queue = state.queues.get(queue)
                if process_queue is not None and queue not in granted:
                    process_queue.is_locked = False


def _lock_batch(state: JavaState, broker: str, queues: Sequence[Queue]) -> JavaThread[frozenset[Queue] | None]:
    address = state.addresses.get(broker)
    if address is None:
        return None
    response = yield JavaRequest(address, _lock_command(state, RequestCode.LOCK_BATCH_MQ, queues), _LOCK_TIMEOUT_MS)
    if response is None or response.code != ResponseCode.SUCCESS:
        return None
    granted = frozenset(each.queue for each in decode_body(LockResponse, response.body).granted)
    for queue in queues:
        process_queue = state.queues.get(queue)
        if process_queue is not None and queue in granted:
            process_queue.is_locked, process_queue.locked_ms = True, state.now_ms()
    return granted


def unlock_queue(state: JavaState, queue: Queue) -> None:
    """Unlock a queue, without a response."""
    address = state.addresses.get(queue.broker)
    if address is not None:
        state.client.send_oneway(address, _lock_command(state, RequestCode.UNLOCK_BATCH_MQ, [queue]))


def unlock_all_queues(state: JavaState) -> JavaThread[None]:
    """Unlock all queues."""
    for broker, queues in _by_broker(state):
        address = state.addresses.get(broker)
        if address is not None:
            yield JavaRequest(address, _lock_command(state, RequestCode.UNLOCK_BATCH_MQ, queues), _LOCK_TIMEOUT_MS)


def _by_broker(state: JavaState) -> list[tuple[str, list[Queue]]]:
    """Return the queues of each broker; release 5 skips dropped ones, 4.9 renews their locks as well."""
    queues: dict[str, list[Queue]] = {}
    for queue, process_queue in sorted(state.queues.items()):
        if state.release is ApacheRelease.V4 or not process_queue.is_dropped:
            queues.setdefault(queue.broker, []).append(queue)
    return list(queues.items())


def _lock_command(state: JavaState, code: RequestCode, queues: Sequence[Queue]) -> Command:
    refs = tuple(map(QueueRef.of, queues))
    body = LockRequest(client_id=state.options.id, group=state.options.group, queues=refs)
    return state.request(code, EmptyHeader(), encode_body(body))
