"""Who is there: brokers by name, their replicas by id, and the line over which each was heard of.

An address is one broker: it is here once, whatever names and ids it had before. An id of a broker is one address. So
whatever goes can be found by its address, by its name and id, or by its line, and nothing stays behind.

Left out: the rules of who may join, which are in registry.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from steelyard.wire.bodies.routes import BrokerEntry
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.maps import ById
from steelyard.wire.peers import Peer

__all__ = ["MASTER", "Broker", "Brokers", "Replica"]

MASTER = 0
"""The id of a master; all others are its replicas."""


@dataclass(slots=True)
class Replica:
    """One address of a broker: its master, or one that follows it."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha_address: str
    version: TableVersion
    """Of the table of topics that it registered last."""
    filter_servers: tuple[str, ...]
    peer: Peer
    """The line that carried its last registration."""
    seen_ms: int
    silence_ms: int
    """How long it may be silent."""

    def is_silent(self, now_ms: int) -> bool:
        """Whether it was not heard of for longer than it may."""
        return self.seen_ms + self.silence_ms < now_ms


@dataclass(slots=True)
class Broker:
    """A broker: all replicas of one name."""

    name: str
    cluster: str
    replicas: dict[int, Replica] = field(default_factory=dict)
    wants_acting_master: bool = False
    """Whether a replica may stand in for a master that is gone."""
    zone: str | None = None

    def addresses(self) -> ById[str]:
        """Return the addresses by id, the master's first."""
        return ById({broker_id: self.replicas[broker_id].address for broker_id in sorted(self.replicas)})

    def entry(self, *, with_acting_master: bool = False) -> BrokerEntry:
        """Return the broker as routes have it; with an acting master, the first replica is presented as the master."""
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


class Brokers:
    """The table of brokers."""

    def __init__(self) -> None:
        self._by_name: dict[str, Broker] = {}
        self._by_address: dict[str, Replica] = {}
        self._by_line: dict[int, dict[str, Replica]] = {}

    def __iter__(self) -> Iterator[Broker]:
        """Go through all brokers, by name."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        """Count the addresses."""
        return len(self._by_address)

    def get(self, name: str) -> Broker | None:
        """Return the broker of a name."""
        return self._by_name.get(name)

    def at(self, address: str) -> Replica | None:
        """Return who is at an address."""
        return self._by_address.get(address)

    def of_line(self, peer: Peer) -> list[Replica]:
        """Return those whose last registration came over this line."""
        return list(self._by_line.get(peer.number, {}).values())

    def silent(self, now_ms: int) -> list[Replica]:
        """Return those that were silent for too long."""
        return [replica for replica in self._by_address.values() if replica.is_silent(now_ms)]

    def names_by_cluster(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the brokers in each cluster."""
        names: dict[str, list[str]] = {}
        for broker in self:
            names.setdefault(broker.cluster, []).append(broker.name)
        return {cluster: tuple(names[cluster]) for cluster in sorted(names)}

    def put(self, replica: Replica) -> Broker:
        """Add a replica. Whoever had its address, or its id, must be gone."""
        broker = self._by_name.setdefault(replica.broker, Broker(replica.broker, replica.cluster))
        broker.replicas[replica.broker_id] = replica
        self._by_address[replica.address] = replica
        self._by_line.setdefault(replica.peer.number, {})[replica.address] = replica
        return broker

    def remove(self, replica: Replica) -> None:
        """Take a replica out; the broker stays, even with nobody left, until it is forgotten."""
        del self._by_address[replica.address]
        del self._by_name[replica.broker].replicas[replica.broker_id]
        of_line = self._by_line[replica.peer.number]
        del of_line[replica.address]
        if not of_line:
            del self._by_line[replica.peer.number]

    def forget(self, name: str) -> None:
        """Forget a broker that has nobody left."""
        del self._by_name[name]
