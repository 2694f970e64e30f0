"""The state of the model of Apache's broker: registry, locks, held pulls, forwarded requests, thread pools.

All of it is lost when the process ends; what survives is in `ApacheStore`. Handlers (requests.py) change it and never
touch a clock or a timer: the process (broker.py) runs them and does that for them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol
from zlib import crc32

from msgspec import Struct

from simulator.apache.release import ApacheRelease
from simulator.apache.store import (
    ApacheDelays,
    ApacheHalfMessages,
    ApacheLog,
    ApacheLogEntry,
    ApacheOffsets,
    ApacheTopics,
    TopicQueue,
)
from simulator.facts import Fact, LockFreed, LockGranted
from simulator.network import SimulatedConnection
from steelyard.model import Queue
from steelyard.wire.bodies.heartbeat import ConsumerHeartbeat, MessageModel, SubscriptionBody
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command, CommandFields
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import CLUSTER, REGION, TRACE_ON

_CLIENT_TIMEOUT_MS = 120_000
SCAN_MS = 10_000


@dataclass(slots=True)
class ApacheGroup:
    """The connections of a group, and its subscriptions."""

    name: str
    clients: dict[int, str] = field(default_factory=dict)
    """The client id of each connection, in the order in which they registered."""
    subscriptions: dict[str, SubscriptionBody] = field(default_factory=dict)
    model: MessageModel | None = None

    def connection_of(self, client: str) -> int | None:
        """Return a connection of a client; of several, any: it may be an old, dead one."""
        connections = [number for number, each in self.clients.items() if each == client]
        return min(connections, key=lambda number: crc32(b"%d" % number), default=None)

    def subscribe(self, wanted: Sequence[SubscriptionBody]) -> bool:
        """Replace the group's subscriptions by those of one member; return whether a topic was added or removed."""
        changed = False
        for each in wanted:
            known = self.subscriptions.get(each.topic)
            changed = changed or known is None
            if known is None or each.version > known.version:
                self.subscriptions[each.topic] = each
        topics = {each.topic for each in wanted}
        for topic in [topic for topic in self.subscriptions if topic not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed


class _ApacheConsumerRegistry:
    """Apache's consumer registry: by connection, not by client.

    A member with two connections counts twice. Subscriptions belong to the group, and the last heartbeat rewrites them.
    A closed connection is removed at once. One that is silent for two minutes is removed and closed, without
    notification. There is one heartbeat time for each connection, so that a heartbeat of one group keeps its other
    groups alive.
    """

    def __init__(self) -> None:
        self._groups: dict[str, ApacheGroup] = {}
        self._heartbeat_ms: dict[int, int] = {}

    def get(self, group: str) -> ApacheGroup | None:
        """Return a group, or None if it is empty."""
        return self._groups.get(group)

    def groups(self) -> Iterable[ApacheGroup]:
        """Return all groups."""
        return self._groups.values()

    def member_on(self, connection_id: int, group: str) -> str | None:
        """Return the client that is registered in a group on a connection."""
        known = self._groups.get(group)
        return None if known is None else known.clients.get(connection_id)

    def record_heartbeat(
        self, connection_id: int, client: str, consumer: ConsumerHeartbeat, now_ms: int
    ) -> tuple[ApacheGroup, bool]:
        """Register a connection; return its group and whether that changed."""
        group = self._groups.get(consumer.group)
        if group is None:
            group = self._groups[consumer.group] = ApacheGroup(consumer.group)
        is_new = connection_id not in group.clients
        group.clients[connection_id] = client
        group.model = consumer.model
        self._heartbeat_ms[connection_id] = now_ms
        has_other_topics = group.subscribe(consumer.subscriptions)
        return group, is_new or has_other_topics

    def leave(self, connection_id: int, group: str) -> tuple[ApacheGroup | None, str | None]:
        """Remove a connection from a group; return the group if it existed, and the client."""
        known = self._groups.get(group)
        if known is None:
            return None, None
        client = known.clients.pop(connection_id, None)
        if not known.clients:
            del self._groups[group]
        return known, client

    def drop_connection(self, connection_id: int) -> list[tuple[ApacheGroup, str]]:
        """Remove a connection from every group; return these groups and its client there."""
        self._heartbeat_ms.pop(connection_id, None)
        left = [
            (group, group.clients.pop(connection_id))
            for group in list(self._groups.values())
            if connection_id in group.clients
        ]
        for group, _ in left:
            if not group.clients:
                del self._groups[group.name]
        return left

    def silent(self, now_ms: int) -> Iterator[int]:
        """Yield the connections without a heartbeat for too long."""
        yield from [
            connection_id
            for connection_id, heartbeat_ms in self._heartbeat_ms.items()
            if now_ms - heartbeat_ms > _CLIENT_TIMEOUT_MS
        ]


_LOCK_MS = 60_000
"""How long a lock lasts without a renewal."""


class _Lock:
    __slots__ = ("owner", "since_ms")

    def __init__(self, owner: str, since_ms: int) -> None:
        self.owner, self.since_ms = owner, since_ms

    def is_expired(self, now_ms: int) -> bool:
        return now_ms - self.since_ms > _LOCK_MS


class _ApacheLocks:
    """Apache's queue locks: who locked last within sixty seconds, and no more. Changes are collected in ``facts``.

    Group and client are any texts, and not checked against the connection. A lock lasts from its last renewal. A closed
    connection frees nothing: only its owner's name in an unlock does, or time. A broker starts without locks.

    >>> locks, queue = _ApacheLocks("b1"), Queue("orders", "b1", 0)
    >>> [locks.lock("g", queue, client, now_ms, 0) for client, now_ms in (("c1", 0), ("c2", 60_000), ("c2", 60_001))]
    [True, False, True]
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._groups: dict[str, dict[Queue, _Lock]] = {}
        self.facts: list[Fact] = []

    def lock(self, group: str, queue: Queue, client: str, now_ms: int, at_ms: int) -> bool:
        """Lock a queue for a client: if it is free, its own, or held for too long."""
        locks = self._groups.setdefault(group, {})
        held = locks.get(queue)
        if held is not None and held.owner != client:
            if not held.is_expired(now_ms):
                return False
            self._freed(group, queue, held.owner, "expired", at_ms)
            held = None
        # Its own lock counts as kept even if it is expired: no one else has had it meanwhile.
        again = held is not None
        locks[queue] = _Lock(client, now_ms)
        granted = LockGranted(
            at_ms=at_ms, broker=self._broker, lock_group=group, queue=queue, member=client, again=again
        )
        self.facts.append(granted)
        return True

    def unlock(self, group: str, queue: Queue, client: str, at_ms: int) -> None:
        """Free a queue if this client owns it, whoever sends the request."""
        locks = self._groups.get(group, {})
        held = locks.get(queue)
        if held is not None and held.owner == client:
            del locks[queue]
            self._freed(group, queue, client, "unlocked", at_ms)

    def has_live(self, group: str, now_ms: int) -> bool:
        """Whether a group has any live lock: then release 5 takes it for an orderly one."""
        return any(not lock.is_expired(now_ms) for lock in self._groups.get(group, {}).values())

    def live(self, now_ms: int) -> Iterator[tuple[str, Queue, str]]:
        """Yield group, queue and owner of the live locks."""
        for group in sorted(self._groups):
            locks = self._groups[group]
            yield from (
                (group, queue, locks[queue].owner) for queue in sorted(locks) if not locks[queue].is_expired(now_ms)
            )

    def lose_all(self, at_ms: int) -> None:
        """Drop all locks, because the process is gone."""
        for group in sorted(self._groups):
            for queue in sorted(self._groups[group]):
                self._freed(group, queue, self._groups[group][queue].owner, "restart", at_ms)
        self._groups.clear()

    def _freed(self, group: str, queue: Queue, client: str, how: str, at_ms: int) -> None:
        fact = LockFreed(at_ms=at_ms, broker=self._broker, lock_group=group, queue=queue, member=client, how=how)
        self.facts.append(fact)


HELD_PULL_CHECK_MS = 5_000


class ApacheHeldPull(Struct, frozen=True, eq=False):
    """A pull that found nothing, and waits."""

    connection: SimulatedConnection
    request: Command
    offset: int
    hashes: tuple[int, ...]
    """The tags that it wants; empty: all."""
    until_ms: int

    def matches(self, entry: ApacheLogEntry) -> bool:
        """Whether it waits for this message."""
        return entry.offset >= self.offset and (not self.hashes or entry.tag in self.hashes)


class _ApacheHeldPulls:
    """Held pulls, by queue: until a message arrives in it, or their time is over.

    Times are checked every `HELD_PULL_CHECK_MS` only, so a pull may wait that much longer than it asked for. A pull
    whose connection closed waits on.
    """

    def __init__(self) -> None:
        self._pulls: dict[TopicQueue, list[ApacheHeldPull]] = {}

    def __bool__(self) -> bool:
        """Whether any pull is held."""
        return bool(self._pulls)

    def add(self, place: TopicQueue, pull: ApacheHeldPull) -> None:
        """Hold a pull."""
        self._pulls.setdefault(place, []).append(pull)

    def pop_matching(self, entry: ApacheLogEntry) -> list[ApacheHeldPull]:
        """Remove and return the pulls that a stored message ends."""
        pulls = self._pulls.get(entry.place)
        return self._remove(entry.place, [pull for pull in pulls if pull.matches(entry)]) if pulls else []

    def pop_expired(self, now_ms: int) -> list[ApacheHeldPull]:
        """Remove and return the pulls whose time is over."""
        removed = []
        for place, pulls in list(self._pulls.items()):
            removed += self._remove(place, [pull for pull in pulls if pull.until_ms <= now_ms])
        return removed

    def _remove(self, place: TopicQueue, removed: list[ApacheHeldPull]) -> list[ApacheHeldPull]:
        if removed:
            remaining = [pull for pull in self._pulls[place] if pull not in removed]
            if remaining:
                self._pulls[place] = remaining
            else:
                del self._pulls[place]
        return removed


FORWARD_TIMEOUT_MS = 10_000


class ApacheForwardedRequest(Struct, frozen=True):
    """A request that was forwarded to a member."""

    connection: SimulatedConnection
    """The connection of the requester."""
    request: Command
    group: str
    client: str


class _ApacheForwardedRequests:
    """Requests that were forwarded to members, by the opaque they were forwarded with."""

    def __init__(self) -> None:
        self._opaque = 0
        self._open: dict[tuple[int, int], ApacheForwardedRequest] = {}

    def add(self, target: int, forwarded: ApacheForwardedRequest) -> int:
        """Add a request to the member on a connection, and return its opaque."""
        self._opaque += 1
        self._open[target, self._opaque] = forwarded
        return self._opaque

    def remove(self, target: int, opaque: int) -> ApacheForwardedRequest | None:
        """Remove and return a request that was answered or timed out; None if it was removed before."""
        return self._open.pop((target, opaque), None)


ADMIN_THREADS = 16

_USUAL_US, _LATE_US, _LATEST_US = 400, 4_000, 60_000
_LATE, _LATEST = 0.05, 0.005
"""The fraction of requests that waits for a busy thread, and for a stalled one."""


class ApacheThreadPools:
    """Apache's thread pools: why two requests of one connection may be executed in the other order.

    Each request waits for its own thread, whatever came before it on its connection, and is executed even if that is
    closed by then. The admin pool has sixteen threads, and a request that is forwarded to a member blocks one until it
    is answered: while sixteen members are silent, locks and offsets wait as well.
    """

    def __init__(self, random: Random, call_later_us: Callable[[int, Callable[[], None]], object]) -> None:
        self._random, self._call_later_us = random, call_later_us
        self._blocked = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, task: Callable[[], None], *, is_admin: bool = False) -> None:
        """Execute a task soon."""
        self._call_later_us(self.draw_delay_us(), (lambda: self._admin(task)) if is_admin else task)

    def draw_delay_us(self) -> int:
        """Draw how long a request waits for its thread."""
        drawn = self._random.random()
        if drawn >= _LATE:
            return int(_USUAL_US * drawn)
        bound_us = _LATEST_US if drawn < _LATEST else _LATE_US
        return int(bound_us * self._random.random())

    def block(self) -> None:
        """Block a thread of the admin pool for a forwarded request."""
        self._blocked += 1

    def free(self) -> None:
        """Free it, and run the tasks that waited."""
        self._blocked -= 1
        while self._waiting and self._blocked < ADMIN_THREADS:
            self._waiting.popleft()()

    def _admin(self, task: Callable[[], None]) -> None:
        if self._blocked < ADMIN_THREADS:
            task()
        else:
            self._waiting.append(task)


_NO_FIELDS: dict[str, str] = {}


class ApacheStore:
    """What survives the process: log, topics, groups, delayed and half messages, and offsets as the file has them."""

    def __init__(self, log: ApacheLog, topics: ApacheTopics) -> None:
        self.log, self.topics = log, topics
        self.groups: set[str] = set()
        self.delays = ApacheDelays()
        self.half_messages = ApacheHalfMessages()
        self.offsets_file: dict[tuple[str, Queue], int] = {}


class _ApacheBrokerHost(Protocol):
    """What the process does for its handlers."""

    def at_ms(self) -> int:
        """Return the world's time, for facts."""

    def record(self, fact: Fact) -> None:
        """Record a fact."""

    def changed(self) -> None:
        """React to a changed topic, or a new delayed message."""

    def request_forwarded(self, connection_id: int, opaque: int) -> None:
        """Start the timeout of a forwarded request."""

    def serve_held_pull(self, connection: SimulatedConnection, request: Command) -> None:
        """Serve a held pull again."""


class ApacheBrokerState:
    """The state of one incarnation of a broker."""

    def __init__(
        self,
        store: ApacheStore,
        *,
        name: str,
        cluster: str,
        address: str,
        release: ApacheRelease,
        host: _ApacheBrokerHost,
        pools: ApacheThreadPools,
    ) -> None:
        self.store, self.name, self.cluster, self.address, self.release = store, name, cluster, address, release
        self.log, self.topics, self.groups = store.log, store.topics, store.groups
        self.host, self.pools = host, pools
        self.registry, self.locks, self.held_pulls, self.forwarded_requests = (
            _ApacheConsumerRegistry(),
            _ApacheLocks(name),
            _ApacheHeldPulls(),
            _ApacheForwardedRequests(),
        )
        self.offsets = ApacheOffsets(store.offsets_file)
        self.producers: dict[str, dict[int, str]] = {}
        """Producer groups: the client id of each connection."""
        self.connections: dict[int, SimulatedConnection] = {}
        """Open connections. A request may be executed after its connection closed."""
        self.started_ms = 0
        self.sequence = 0
        self.broker_properties = _broker_properties(cluster, release)
        """Properties that every message gets."""
        self._version = release.server_version

    def queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue of this broker."""
        return Queue(topic, self.name, queue_id)

    def answer(
        self,
        request: Command,
        code: int = ResponseCode.SUCCESS,
        fields: CommandFields = _NO_FIELDS,
        body: bytes = b"",
        remark: str | None = None,
    ) -> Command:
        """Make the response to a request."""
        return Command(
            code, fields, body, request.opaque, RESPONSE_FLAG, remark, self._version, "JAVA", request.header_type
        )

    def request(self, code: int, fields: CommandFields, body: bytes = b"", *, flag: int = 0) -> Command:
        """Make a request to a client."""
        return Command(code, fields, body, flag=flag, version=self._version, language="JAVA")

    def message_stored(self, entry: ApacheLogEntry, now_ms: int) -> None:
        """Serve the pulls that wait for a stored message, or schedule its delivery."""
        if self.store.delays.schedule(entry, now_ms):
            self.host.changed()
        for pull in self.held_pulls.pop_matching(entry):
            self.pools.submit(partial(self.host.serve_held_pull, pull.connection, pull.request))

    def next_sequence(self) -> int:
        """Return the next number, for round-robin choices."""
        self.sequence += 1
        return self.sequence


def _broker_properties(cluster: str, release: ApacheRelease) -> bytes:
    region = {} if release is ApacheRelease.V4 else {REGION: "DefaultRegion", TRACE_ON: "true"}
    return encode_properties({CLUSTER: cluster} | region)


ApacheRequestHandler = Callable[[ApacheBrokerState, Command, SimulatedConnection, int], Command | None]
"""Executes a request: state, request, its connection, the broker's time. None: the response comes later, or never."""
