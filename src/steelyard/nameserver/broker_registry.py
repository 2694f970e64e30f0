"""Broker registry: registered brokers by name, replica and connection, and the rules of registration.

1.  An address is one broker. If it registers under another id, name or cluster, it loses the former.
2.  A new address takes over an id from another live one, unless that one has the larger state version: then it won an
    election, and the new address is left out.
3.  A broker may begin with one topic. Apache's 5.x refuses that from an unknown broker, as an addition to a lost
    registration. Accepting it loses nothing: the next full registration brings the rest.
4.  Only a master's queues count; or those of its first replica, if the broker mentions acting masters at all. If it
    wants one, topics of the replica cannot be written.
5.  Queues are stored again only if the version of the table changed, or the broker's topic is unknown: so a change by
    an administrator stays until the broker changes something. Topics that are no longer listed stay.
6.  A broker is removed when it unregisters, when it was silent for too long, and when the connection of its last
    registration closes. The connection of a silent one is closed, unless others use it. Its topics go with its last
    address.
7.  A broker name belongs to one cluster while any address of it lives; Apache's lists such a broker in both.

A topic with an invalid name, or beyond the limits, is left out with a remark, and the rest is accepted: otherwise one
such topic would hide all others.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from steelyard.nameserver.options import NameServerOptions
from steelyard.nameserver.route_table import RouteTable
from steelyard.nameserver.validation import (
    MAX_BROKER_ADDRESSES,
    MAX_FILTER_SERVERS,
    check_address,
    check_name,
    find_name_problem,
    request_error,
)
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import (
    BrokerEntry,
    BrokerRegistration,
    QueueEntry,
    QueueMapping,
    RouteBody,
    TopicConfig,
)
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import CloseConnection, Peer
from steelyard.wire.headers.nameserver import RegisterBroker
from steelyard.wire.json_body import ById

MASTER = 0
"""The broker id of a master; all others are its replicas."""


@dataclass(slots=True)
class BrokerReplica:
    """One address of a broker: its master, or a replica."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha_address: str
    version: TableVersion
    """The version of its last registered topic table."""
    filter_servers: tuple[str, ...]
    peer: Peer
    """The connection of its last registration."""
    last_seen_ms: int
    timeout_ms: int
    """How long it may be silent."""


@dataclass(slots=True)
class RegisteredBroker:
    """A broker: all replicas of one name."""

    name: str
    cluster: str
    replicas: dict[int, BrokerReplica] = field(default_factory=dict)
    wants_acting_master: bool = False
    """Whether a replica may act for a lost master."""
    zone: str | None = None

    def addresses(self) -> ById[str]:
        """Return the addresses by id, the master's first."""
        return ById({broker_id: self.replicas[broker_id].address for broker_id in sorted(self.replicas)})

    def route_entry(self, *, with_acting_master: bool = False) -> BrokerEntry:
        """Return the broker for a route; with an acting master, the first replica is presented as the master."""
        addresses = self.addresses()
        if with_acting_master and MASTER not in addresses:
            first, *others = addresses.items()
            addresses = ById(dict([(MASTER, first[1]), *others]))
        return BrokerEntry(
            addresses=addresses,
            broker_name=self.name,
            cluster=self.cluster,
            enable_acting_master=self.wants_acting_master,
            zone_name=self.zone,
        )


class BrokerTable:
    """Brokers by name, address and connection."""

    def __init__(self) -> None:
        self._by_name: dict[str, RegisteredBroker] = {}
        self._by_address: dict[str, BrokerReplica] = {}
        self._by_connection: dict[int, dict[str, BrokerReplica]] = {}

    def __iter__(self) -> Iterator[RegisteredBroker]:
        """Iterate over all brokers, by name."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        """Count the addresses."""
        return len(self._by_address)

    def get(self, name: str) -> RegisteredBroker | None:
        """Return the broker of a name."""
        return self._by_name.get(name)

    def at_address(self, address: str) -> BrokerReplica | None:
        """Return the replica at an address."""
        return self._by_address.get(address)

    def on_connection(self, peer: Peer) -> list[BrokerReplica]:
        """Return the replicas whose last registration came over this connection."""
        return list(self._by_connection.get(peer.connection_id, {}).values())

    def find_silent(self, now_ms: int) -> list[BrokerReplica]:
        """Return the replicas that were silent for too long."""
        return [each for each in self._by_address.values() if each.last_seen_ms + each.timeout_ms < now_ms]

    def names_by_cluster(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the brokers in each cluster."""
        names: dict[str, list[str]] = {}
        for broker in self:
            names.setdefault(broker.cluster, []).append(broker.name)
        return {cluster: tuple(names[cluster]) for cluster in sorted(names)}

    def put(self, replica: BrokerReplica) -> RegisteredBroker:
        """Add a replica. Its address and its id must be free."""
        broker = self._by_name.setdefault(replica.broker, RegisteredBroker(replica.broker, replica.cluster))
        broker.replicas[replica.broker_id] = replica
        self._by_address[replica.address] = replica
        self._by_connection.setdefault(replica.peer.connection_id, {})[replica.address] = replica
        return broker

    def remove(self, replica: BrokerReplica) -> None:
        """Remove a replica; the broker stays, even without replicas, until `forget`."""
        del self._by_address[replica.address]
        del self._by_name[replica.broker].replicas[replica.broker_id]
        on_connection = self._by_connection[replica.peer.connection_id]
        del on_connection[replica.address]
        if not on_connection:
            del self._by_connection[replica.peer.connection_id]

    def forget(self, name: str) -> None:
        """Remove a broker without replicas."""
        del self._by_name[name]


WRITE, READ = 2, 4
"""Bits of a topic's permission."""

_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Brokers look up these topics to find their real master, so their routes contain no acting ones."""


class RegistrationResult(NamedTuple):
    """The result of a registration."""

    master: BrokerReplica | None
    """For a replica: its master, if it is registered."""
    remark: str | None
    """What was left out, and why."""


class BrokerRegistry:
    """Brokers and their topics."""

    def __init__(self) -> None:
        self.brokers = BrokerTable()
        self.routes = RouteTable()

    def register(
        self, header: RegisterBroker, body: BrokerRegistration, peer: Peer, options: NameServerOptions, now_ms: int
    ) -> RegistrationResult:
        """Register a broker, and its topics if they count."""
        replica = _to_replica(header, body, peer, options, now_ms)
        version, known = replica.version, self.brokers.at_address(replica.address)
        self._check_cluster(replica)
        if known is None and len(self.brokers) == MAX_BROKER_ADDRESSES:
            raise request_error(
                ResponseCode.SYSTEM_ERROR, f"this name server has {MAX_BROKER_ADDRESSES} brokers and accepts no more"
            )
        is_changed = known is None or _identity(known) != _identity(replica) or known.version != version
        broker = self.brokers.get(replica.broker)
        holder = broker.replicas.get(replica.broker_id) if broker else None
        if holder and holder.address != replica.address and _state_version(holder.version) > _state_version(version):
            if known is not None:
                self._remove(known)
            remark = (
                f"not registered: {holder.address} has the id {holder.broker_id} of the broker {holder.broker} "
                f"and the larger state version, {_state_version(holder.version)}"
            )
            return RegistrationResult(None, remark)
        if known is not None:
            # Its topics stay if it is the same broker.
            is_same = (known.cluster, known.broker) == (replica.cluster, replica.broker)
            (self.brokers.remove if is_same else self._remove)(known)
        if holder is not None and holder is not known:
            self.brokers.remove(holder)
        broker = self.brokers.put(replica)
        broker.wants_acting_master = bool(header.enable_acting_master)
        broker.zone = header.zone_name
        left_out: list[str] = []
        is_prime = header.enable_acting_master is not None and replica.broker_id == min(broker.replicas)
        if replica.broker_id == MASTER or is_prime:
            is_writable = replica.broker_id == MASTER or not broker.wants_acting_master
            left_out = self._update_topics(broker.name, body, is_changed, is_writable, options.drops_missing_topics)
        master = None if replica.broker_id == MASTER else broker.replicas.get(MASTER)
        return RegistrationResult(master, _left_out_remark(left_out))

    def unregister(self, broker: str, address: str) -> None:
        """Remove a broker; an unknown one is no error."""
        replica = self.brokers.at_address(address)
        if replica is not None and replica.broker == broker:
            self._remove(replica)

    def record_heartbeat(self, cluster: str, address: str, now_ms: int) -> BrokerReplica | None:
        """Record a heartbeat, and return the replica."""
        replica = self.brokers.at_address(address)
        if replica is None or replica.cluster != cluster:
            return None
        replica.last_seen_ms = now_ms
        return replica

    def connection_closed(self, peer: Peer) -> None:
        """Remove the replicas whose last registration came over this connection."""
        for replica in self.brokers.on_connection(peer):
            self._remove(replica)

    def expire(self, now_ms: int) -> Sequence[CloseConnection]:
        """Remove replicas that were silent for too long, and close their connections."""
        closed: dict[int, CloseConnection] = {}
        for replica in self.brokers.find_silent(now_ms):
            self._remove(replica)
            why = f"the broker {replica.broker} at {replica.address} was silent for more than {replica.timeout_ms} ms"
            if not self.brokers.on_connection(replica.peer):
                closed[replica.peer.connection_id] = CloseConnection(replica.peer, why)
        return list(closed.values())

    def route_of(self, topic: str, options: NameServerOptions) -> RouteBody | None:
        """Return the route of a topic, without its order; None if no broker has it."""
        queues = self.routes.queues(topic)
        if not queues:
            return None
        acting = options.presents_acting_masters and not topic.startswith(_MEMBER_TOPIC_PREFIX)
        entries, filter_servers = [], {}
        for queue in queues:
            broker = self.brokers.get(queue.broker_name)
            if broker is None:
                continue
            with_acting_master = acting and broker.wants_acting_master and not queue.permission & WRITE
            entries.append(broker.route_entry(with_acting_master=with_acting_master))
            for replica in broker.replicas.values():
                if replica.filter_servers:
                    filter_servers[replica.address] = replica.filter_servers
        return RouteBody(
            brokers=tuple(entries),
            filter_servers=filter_servers,
            queues=queues,
            mappings=self.routes.mappings(topic),
        )

    def add_queues(self, topic: str, queues: Sequence[QueueEntry]) -> None:
        """Store a topic's queues on registered brokers, all of them or none."""
        for queue in queues:
            if self.brokers.get(queue.broker_name) is None:
                raise request_error(
                    ResponseCode.BROKER_NOT_EXIST,
                    f"the broker {queue.broker_name[:80]!r} is not registered: nothing was changed",
                )
        for queue in queues:
            if not self.routes.put(topic, queue):
                raise request_error(ResponseCode.SYSTEM_ERROR, "this name server has no room for more topics")

    def _check_cluster(self, replica: BrokerReplica) -> None:
        broker = self.brokers.get(replica.broker)
        if broker is None or broker.cluster == replica.cluster:
            return
        if others := [other.address for other in broker.replicas.values() if other.address != replica.address]:
            raise request_error(
                ResponseCode.INVALID_PARAMETER,
                f"a broker {broker.name} is in the cluster {broker.cluster}, at {others[0]}: "
                f"give the one of {replica.cluster} another name, or stop the other one first",
            )

    def _remove(self, replica: BrokerReplica) -> None:
        self.brokers.remove(replica)
        broker = self.brokers.get(replica.broker)
        if broker is None or not broker.replicas:
            self.brokers.forget(replica.broker)
            self.routes.remove_broker(replica.broker)
        elif broker.wants_acting_master and MASTER not in broker.replicas:
            self.routes.change_permissions(broker.name, remove_write_permission)

    def _update_topics(
        self, broker: str, body: BrokerRegistration, is_changed: bool, is_writable: bool, drops_missing: bool
    ) -> list[str]:
        table, left_out = body.table, []
        if drops_missing and len(table.topics) != 1 and not table.mappings:
            listed = {topic.name for topic in table.topics.values()}
            for topic_name in [name for name in self.routes.topics_of(broker) if name not in listed]:
                self.routes.remove(topic_name, broker)
        for topic in table.topics.values():
            if not is_changed and self.routes.has(topic.name, broker):
                continue
            if wrong := find_name_problem(topic.name):
                left_out.append(f"{topic.name[:80]!r}, whose name {wrong}")
            elif not self.routes.put(topic.name, _queue_entry(broker, topic, is_writable)):
                left_out.append(f"{topic.name!r}, for want of room")
        if is_changed and table.mappings:
            left_out += self._update_mappings(broker, table.mappings.items())
        return left_out

    def _update_mappings(self, broker: str, mappings: Iterable[tuple[str, QueueMapping]]) -> list[str]:
        left_out = []
        for topic, mapping in mappings:
            named = replace(mapping, broker=broker, topic=topic)
            if find_name_problem(mapping.scope or "-"):
                left_out.append(f"the map of {topic[:80]!r}, whose scope is invalid")
            elif not self.routes.put_mapping(topic, broker, named):
                left_out.append(f"the map of {topic[:80]!r}, for want of room")
        return left_out


def remove_write_permission(permission: int) -> int:
    """Return a permission without the write bit.

    >>> remove_write_permission(7)
    5
    """
    return permission & ~WRITE


def _state_version(version: TableVersion) -> int:
    return version.state_version or 0


def _identity(replica: BrokerReplica) -> tuple[str, str, int]:
    return replica.cluster, replica.broker, replica.broker_id


def _to_replica(
    header: RegisterBroker, body: BrokerRegistration, peer: Peer, options: NameServerOptions, now_ms: int
) -> BrokerReplica:
    if len(body.filter_servers) > MAX_FILTER_SERVERS:
        remark = f"a broker has at most {MAX_FILTER_SERVERS} filter servers, and {len(body.filter_servers)} were given"
        raise request_error(ResponseCode.INVALID_PARAMETER, remark)
    if header.ha_server_addr:
        check_address("address for replicas", header.ha_server_addr)
    if header.zone_name:
        check_name("zone", header.zone_name)
    timeout_ms = header.heartbeat_timeout_millis
    return BrokerReplica(
        cluster=check_name("cluster", header.cluster_name),
        broker=check_name("broker", header.broker_name),
        broker_id=header.broker_id,
        address=check_address("broker's address", header.broker_addr),
        ha_address=header.ha_server_addr,
        version=(body.table.version or TableVersion()).normalized(),
        filter_servers=tuple(check_address("filter server", server) for server in body.filter_servers),
        peer=peer,
        last_seen_ms=now_ms,
        timeout_ms=timeout_ms if timeout_ms is not None and timeout_ms > 0 else options.broker_silence_ms,
    )


def _queue_entry(broker: str, topic: TopicConfig, is_writable: bool) -> QueueEntry:
    return QueueEntry(
        broker_name=broker,
        permission=topic.permission if is_writable else remove_write_permission(topic.permission),
        read_queues=topic.read_queues,
        sys_flag=topic.sys_flag,
        write_queues=topic.write_queues,
    )


def _left_out_remark(topics: Sequence[str]) -> str | None:
    if not topics:
        return None
    more = f", and {len(topics) - 3} more" if len(topics) > 3 else ""
    return f"registered, but these were left out: {'; '.join(topics[:3])}{more}"
