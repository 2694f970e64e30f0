"""Where a topic lives, and the two lists that balancing starts from.

A route says which brokers hold a topic and how many queues each has. From it every producer makes the same publish
list (so that one key goes to one queue whoever sends) and every consumer the same list of readable queues.

Left out: the rotation over a publish list (balance/pick.py keeps the counter, so that this value can stay frozen and be
swapped whole), and how a route is looked up (client/routes.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from steelyard.errors import ConfigurationError
from steelyard.model.java_text import utf16_units
from steelyard.model.queue import Queue, in_order

__all__ = ["BrokerPlace", "Permission", "PublishList", "QueueCounts", "Route"]

_MASTER = 0

# A route comes from a peer: a number that is a mistake or an attack must not become a list that fills the memory.
_MOST_QUEUES = 65_536


class Permission(IntFlag):
    """What may be done with a topic's queues on a broker.

    >>> Permission.READ in Permission(6), Permission.INHERIT in Permission(6)
    (True, False)
    """

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """A broker by name, and the addresses it answers at: id 0 is the master, others are replicas.

    >>> BrokerPlace("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"}).master
    '127.0.0.1:10911'
    """

    name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        """The address that takes writes, or None while there is no master."""
        return self.addresses.get(_MASTER)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many queues of a topic a broker has, and what may be done with them."""

    broker: str
    read: int
    write: int
    permission: Permission = Permission.READ | Permission.WRITE


@dataclass(frozen=True, slots=True)
class PublishList:
    """The queues that a producer may choose from, in the order that every client agrees on.

    Usable means: not empty. ``ordered`` tells a topic whose places are fixed by the administrator; ``real`` is False
    for a list made from the default topic, before the topic itself exists.
    """

    topic: str
    queues: tuple[Queue, ...]
    ordered: bool = False
    real: bool = True
    route: "Route | None" = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.queues)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic lives. ``order`` is the administrator's fixed list, such as ``broker-a:4;broker-b:4``, or None.

    >>> here = BrokerPlace("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"})
    >>> route = Route("orders", (here,), (QueueCounts("broker-a", read=2, write=1),))
    >>> [str(q) for q in route.publish_list().queues], [str(q) for q in route.readable()]
    (['orders@broker-a:0'], ['orders@broker-a:0', 'orders@broker-a:1'])
    """

    topic: str
    brokers: tuple[BrokerPlace, ...]
    counts: tuple[QueueCounts, ...]
    order: str | None = None

    def publish_list(self) -> PublishList:
        """Make the publish list of this topic from its own route."""
        if self.order:
            return PublishList(self.topic, self._fixed(self.order), ordered=True, route=self)
        return PublishList(self.topic, self._writable(self.topic, cap=None), route=self)

    def borrowed_list(self, topic: str, *, cap: int = 4) -> PublishList:
        """Make a list for a topic that does not exist yet from this route of the default topic.

        At most ``cap`` queues a broker: that is how many the broker will create with the first message.

        >>> here = BrokerPlace("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"})
        >>> default = Route("TBW102", (here,), (QueueCounts("broker-a", read=8, write=8, permission=Permission(7)),))
        >>> [str(queue) for queue in default.borrowed_list("new").queues]
        ['new@broker-a:0', 'new@broker-a:1', 'new@broker-a:2', 'new@broker-a:3']
        """
        return PublishList(topic, self._writable(topic, cap=cap), real=False, route=self)

    def readable(self) -> tuple[Queue, ...]:
        """List the queues that can be read, master or not, in the order that all members agree on."""
        sizes = [(counts.broker, counts.read) for counts in self.counts if Permission.READ in counts.permission]
        return tuple(in_order(set(self._numbered(self.topic, sizes))))

    def _writable(self, topic: str, *, cap: int | None) -> tuple[Queue, ...]:
        masters = {broker.name for broker in self.brokers if broker.master is not None}
        # Java caps by the *read* count of the default topic, and writes what it read.
        sizes = [
            (counts.broker, counts.write if cap is None else min(cap, counts.read))
            for counts in sorted(self.counts, key=lambda counts: utf16_units(counts.broker))
            if Permission.WRITE in counts.permission and counts.broker in masters
        ]
        return self._numbered(topic, sizes)

    def _fixed(self, order: str) -> tuple[Queue, ...]:
        sizes: list[tuple[str, int]] = []
        for item in filter(None, order.split(";")):
            broker, _, number = item.partition(":")
            # Nine digits always fit in Java's int; Python itself refuses to read thousands of them.
            if not number.isascii() or not number.isdigit() or len(number) > 9:
                raise ConfigurationError(
                    f"the order configuration of topic {self.topic!r} has the item {item[:80]!r}",
                    next_step="an item is a broker's name, a colon and a count, such as broker-a:4",
                )
            sizes.append((broker, int(number)))
        return self._numbered(self.topic, sizes)

    def _numbered(self, topic: str, sizes: list[tuple[str, int]]) -> tuple[Queue, ...]:
        total = sum(size for _, size in sizes if size > 0)
        if total > _MOST_QUEUES:
            raise ConfigurationError(
                f"the route of topic {self.topic!r} names {total} queues; a topic may have {_MOST_QUEUES}",
                next_step="correct the queue counts of the topic",
            )
        return tuple(Queue(topic, broker, number) for broker, size in sizes for number in range(size))
