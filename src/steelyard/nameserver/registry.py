"""The rules by which brokers come and go, and which of their words about topics count.

1.  An address is one broker. One that registers under another id, name or cluster is no longer what it was.
2.  An id that another live address has is taken over, unless that one's table has the larger state version: then it
    won an election that the newcomer has not heard of, and the newcomer is left out.
3.  A broker may come with one topic. Apache's 5.x refuses this from a broker it does not know, since it takes it for an
    addition to a registration that was lost. Taking it loses nothing: the next full registration brings whatever is
    missing, and a broker with one topic is served as well.
4.  Only a master tells about queues; or its first replica, if the broker said anything at all about acting masters. If
    it said that it wants one, nobody can write to the topics that the replica tells of.
5.  Queues are noted again only if the version of the table changed, or the topic is not known of this broker: so what
    an administrator changed here stays until the broker changes something. Topics that are not listed any more stay.
6.  A broker goes when it says so, when it was silent for too long, and when the line closes that carried its last
    registration. The line of a silent one is hung up, unless it carried others that are not silent.
7.  A broker's topics go with its last address.
8.  A broker's name is in one cluster: while others of the name are alive in one, it cannot register in another.
    Apache's lists such a broker in both and finds it in neither reliably.

A topic with an impossible name, or beyond the limits, is left out and the rest is taken, with a remark: otherwise a
client that makes one such topic on a broker would hide all others.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from steelyard.nameserver.brokers import MASTER, Brokers, Replica
from steelyard.nameserver.limits import BROKER_ADDRESSES, FILTER_SERVERS
from steelyard.nameserver.names import check_address, check_name, refusal, wrong_with
from steelyard.nameserver.options import NameServerOptions
from steelyard.nameserver.routes import Routes
from steelyard.wire.bodies.registration import Registration
from steelyard.wire.bodies.routes import QueueEntry, QueueMapping, RouteBody
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.bodies.topics import TopicSettings
from steelyard.wire.codes import ResponseCode
from steelyard.wire.headers.nameserver import RegisterBroker
from steelyard.wire.peers import Hangup, Peer

__all__ = ["READ", "WRITE", "Registered", "Registry", "comparable", "without_write"]

WRITE, READ = 2, 4
"""Bits of a topic's permission."""

_MEMBER_TOPIC = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Brokers look these topics up to find their true master, so nobody is presented as one in their routes."""


class Registered(NamedTuple):
    """What a broker is told when it has registered."""

    master: Replica | None
    """For a replica: its master, if that is here."""
    remark: str | None
    """What was not taken, and why."""


class Registry:
    """Brokers and their topics."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.routes = Routes()

    def register(
        self, header: RegisterBroker, body: Registration, peer: Peer, options: NameServerOptions, now_ms: int
    ) -> Registered:
        """Note a broker, and its topics if its word counts."""
        replica = _replica(header, body, peer, options, now_ms)
        version, known = replica.version, self.brokers.at(replica.address)
        self._check_cluster(replica)
        if known is None and len(self.brokers) == BROKER_ADDRESSES:
            raise refusal(
                ResponseCode.SYSTEM_ERROR, f"this name server has {BROKER_ADDRESSES} brokers and takes no more"
            )
        is_news = known is None or _place(known) != _place(replica) or known.version != version
        broker = self.brokers.get(replica.broker)
        holder = broker.replicas.get(replica.broker_id) if broker else None
        if holder and holder.address != replica.address and _state(holder.version) > _state(version):
            if known is not None:
                self._leave(known)
            return Registered(None, _outvoted(holder))
        if known is not None:
            self._make_room(known, replica)
        if holder is not None and holder is not known:
            self.brokers.remove(holder)
        broker = self.brokers.put(replica)
        broker.wants_acting_master = bool(header.enable_acting_master)
        broker.zone = header.zone_name
        left_out: list[str] = []
        is_prime = header.enable_acting_master is not None and replica.broker_id == min(broker.replicas)
        if replica.broker_id == MASTER or is_prime:
            is_writable = replica.broker_id == MASTER or not broker.wants_acting_master
            left_out = self._note_topics(broker.name, body, is_news, is_writable, options.drops_missing_topics)
        master = None if replica.broker_id == MASTER else broker.replicas.get(MASTER)
        return Registered(master, _left_out(left_out))

    def unregister(self, broker: str, address: str) -> None:
        """Let a broker go that says so; one that is not here is gone already."""
        replica = self.brokers.at(address)
        if replica is not None and replica.broker == broker:
            self._leave(replica)

    def heard_of(self, cluster: str, address: str, now_ms: int) -> Replica | None:
        """Note that a broker is alive, and return what is known of it."""
        replica = self.brokers.at(address)
        if replica is None or replica.cluster != cluster:
            return None
        replica.seen_ms = now_ms
        return replica

    def line_closed(self, peer: Peer) -> None:
        """Let those go whose last registration came over this line."""
        for replica in self.brokers.of_line(peer):
            self._leave(replica)

    def expire(self, now_ms: int) -> Sequence[Hangup]:
        """Let those go that were silent for too long, and hang up on them."""
        hangups: dict[int, Hangup] = {}
        for replica in self.brokers.silent(now_ms):
            self._leave(replica)
            why = f"the broker {replica.broker} at {replica.address} was silent for more than {replica.silence_ms} ms"
            if not self.brokers.of_line(replica.peer):
                hangups[replica.peer.number] = Hangup(replica.peer, why)
        return list(hangups.values())

    def route(self, topic: str, options: NameServerOptions) -> RouteBody | None:
        """Return where a topic lives, without its order; None if nobody has it."""
        queues = self.routes.queues(topic)
        if not queues:
            return None
        acting = options.presents_acting_masters and not topic.startswith(_MEMBER_TOPIC)
        entries, filter_servers = [], {}
        for queue in queues:
            broker = self.brokers.get(queue.broker_name)
            if broker is None:
                continue
            has_stand_in = acting and broker.wants_acting_master and not queue.permission & WRITE
            entries.append(broker.entry(with_acting_master=has_stand_in))
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
        """Note a topic's queues on brokers that are known, all of them or none."""
        for queue in queues:
            if self.brokers.get(queue.broker_name) is None:
                raise refusal(
                    ResponseCode.BROKER_NOT_EXIST,
                    f"the broker {queue.broker_name[:80]!r} is not registered: nothing was changed",
                )
        for queue in queues:
            if not self.routes.put(topic, queue):
                raise refusal(ResponseCode.SYSTEM_ERROR, "this name server has no room for more topics")

    def _check_cluster(self, replica: Replica) -> None:
        broker = self.brokers.get(replica.broker)
        if broker is None or broker.cluster == replica.cluster:
            return
        if others := [other.address for other in broker.replicas.values() if other.address != replica.address]:
            raise refusal(
                ResponseCode.INVALID_PARAMETER,
                f"a broker {broker.name} is in the cluster {broker.cluster}, at {others[0]}: "
                f"give the one of {replica.cluster} another name, or stop the other one first",
            )

    def _make_room(self, known: Replica, replica: Replica) -> None:
        """Take the address out of its old place; with all consequences unless it stays the same broker."""
        if (known.cluster, known.broker) == (replica.cluster, replica.broker):
            self.brokers.remove(known)
        else:
            self._leave(known)

    def _leave(self, replica: Replica) -> None:
        self.brokers.remove(replica)
        broker = self.brokers.get(replica.broker)
        if broker is None or not broker.replicas:
            self.brokers.forget(replica.broker)
            self.routes.remove_broker(replica.broker)
        elif broker.wants_acting_master and MASTER not in broker.replicas:
            self.routes.change_permissions(broker.name, without_write)

    def _note_topics(
        self, broker: str, body: Registration, is_news: bool, is_writable: bool, drops_missing: bool
    ) -> list[str]:
        table, left_out = body.table, []
        if drops_missing and len(table.topics) != 1 and not table.mappings:
            listed = {topic.name for topic in table.topics.values()}
            for topic_name in [name for name in self.routes.topics_of(broker) if name not in listed]:
                self.routes.remove(topic_name, broker)
        for topic in table.topics.values():
            if not is_news and self.routes.has(topic.name, broker):
                continue
            if wrong := wrong_with(topic.name):
                left_out.append(f"{topic.name[:80]!r}, whose name {wrong}")
            elif not self.routes.put(topic.name, _entry(broker, topic, is_writable)):
                left_out.append(f"{topic.name!r}, for want of room")
        if is_news and table.mappings:
            left_out += self._note_mappings(broker, table.mappings.items())
        return left_out

    def _note_mappings(self, broker: str, mappings: Iterable[tuple[str, QueueMapping]]) -> list[str]:
        left_out = []
        for topic, mapping in mappings:
            named = replace(mapping, broker=broker, topic=topic)
            if wrong_with(mapping.scope or "-"):
                left_out.append(f"the map of {topic[:80]!r}, whose scope has no fit name")
            elif not self.routes.put_mapping(topic, broker, named):
                left_out.append(f"the map of {topic[:80]!r}, for want of room")
        return left_out


def without_write(permission: int) -> int:
    """Return a permission without the one to write.

    >>> without_write(7)
    5
    """
    return permission & ~WRITE


def comparable(version: TableVersion | None) -> TableVersion:
    """Return a version as two are compared: 4.9 does not send the state version, which then is 0."""
    version = version or TableVersion()
    return version if version.state_version is not None else replace(version, state_version=0)


def _state(version: TableVersion) -> int:
    return version.state_version or 0


def _place(replica: Replica) -> tuple[str, str, int]:
    return replica.cluster, replica.broker, replica.broker_id


def _replica(
    header: RegisterBroker, body: Registration, peer: Peer, options: NameServerOptions, now_ms: int
) -> Replica:
    if len(body.filter_servers) > FILTER_SERVERS:
        remark = f"a broker has at most {FILTER_SERVERS} filter servers, and {len(body.filter_servers)} were given"
        raise refusal(ResponseCode.INVALID_PARAMETER, remark)
    if header.ha_server_addr:
        check_address("address for replicas", header.ha_server_addr)
    if header.zone_name:
        check_name("zone", header.zone_name)
    wanted_ms = header.heartbeat_timeout_millis
    return Replica(
        cluster=check_name("cluster", header.cluster_name),
        broker=check_name("broker", header.broker_name),
        broker_id=header.broker_id,
        address=check_address("broker's address", header.broker_addr),
        ha_address=header.ha_server_addr,
        version=comparable(body.table.version),
        filter_servers=tuple(check_address("filter server", server) for server in body.filter_servers),
        peer=peer,
        seen_ms=now_ms,
        silence_ms=wanted_ms if wanted_ms is not None and wanted_ms > 0 else options.broker_silence_ms,
    )


def _entry(broker: str, topic: TopicSettings, is_writable: bool) -> QueueEntry:
    return QueueEntry(
        broker_name=broker,
        permission=topic.permission if is_writable else without_write(topic.permission),
        read_queues=topic.read_queues,
        sys_flag=topic.sys_flag,
        write_queues=topic.write_queues,
    )


def _outvoted(holder: Replica) -> str:
    return (
        f"not registered: {holder.address} has the id {holder.broker_id} of the broker {holder.broker} "
        f"and the larger state version, {_state(holder.version)}"
    )


def _left_out(topics: Sequence[str]) -> str | None:
    if not topics:
        return None
    more = f", and {len(topics) - 3} more" if len(topics) > 3 else ""
    return f"registered, but these were left out: {'; '.join(topics[:3])}{more}"
