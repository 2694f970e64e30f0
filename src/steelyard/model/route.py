"""The route of a topic, and the two lists of queues that balancing starts from.

A route says which brokers have a topic, and how many queues each. From it every producer makes the same publish list,
so that one key goes to one queue from every producer, and every consumer the same list of readable queues.

Left out: the rotation over a publish list (balance/producer/queue_selection.py), and route lookups
(client/topic_routes.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from steelyard.errors import ConfigurationError
from steelyard.model.java_strings import utf16_units
from steelyard.model.queue import Queue, sort_queues

_MASTER_ID = 0

# A route comes from a peer: a wrong or hostile number must not become a list that fills the memory.
_MAX_QUEUES = 65_536


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
class BrokerAddresses:
    """A broker by name, and its addresses by id: 0 is the master, others are replicas.

    >>> BrokerAddresses("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"}).master
    '127.0.0.1:10911'
    """

    name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        """The address of the master, or None while there is none."""
        return self.addresses.get(_MASTER_ID)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many queues of a topic a broker has, and their permission."""

    broker: str
    read: int
    write: int
    permission: Permission = Permission.READ | Permission.WRITE


@dataclass(frozen=True, slots=True)
class PublishList:
    """The queues that a producer may choose from, in the order that all clients share.

    ``ordered`` marks a topic whose queues the administrator fixed; ``topic_exists`` is False for a list that is made
    from the default topic.
    """

    topic: str
    queues: tuple[Queue, ...]
    ordered: bool = False
    topic_exists: bool = True
    route: "TopicRoute | None" = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.queues)


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic. ``order`` is the administrator's fixed list, such as ``broker-a:4;broker-b:4``, or None.

    >>> here = BrokerAddresses("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"})
    >>> route = TopicRoute("orders", (here,), (QueueCounts("broker-a", read=2, write=1),))
    >>> [str(q) for q in route.publish_list().queues], [str(q) for q in route.readable_queues()]
    (['orders@broker-a:0'], ['orders@broker-a:0', 'orders@broker-a:1'])
    """

    topic: str
    brokers: tuple[BrokerAddresses, ...]
    counts: tuple[QueueCounts, ...]
    order: str | None = None

    def publish_list(self) -> PublishList:
        """Make the publish list of this topic."""
        if self.order:
            return PublishList(self.topic, self._ordered_queues(self.order), ordered=True, route=self)
        return PublishList(self.topic, self._writable_queues(self.topic, max_queues=None), route=self)

    def publish_list_for_new_topic(self, topic: str, *, max_queues: int = 4) -> PublishList:
        """Make the publish list of a topic that does not exist yet, from this route of the default topic.

        At most ``max_queues`` per broker: so many the broker will create with the first message.

        >>> here = BrokerAddresses("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"})
        >>> counts = QueueCounts("broker-a", read=8, write=8, permission=Permission(7))
        >>> default = TopicRoute("TBW102", (here,), (counts,))
        >>> [str(queue) for queue in default.publish_list_for_new_topic("new").queues]
        ['new@broker-a:0', 'new@broker-a:1', 'new@broker-a:2', 'new@broker-a:3']
        """
        return PublishList(topic, self._writable_queues(topic, max_queues=max_queues), topic_exists=False, route=self)

    def readable_queues(self) -> tuple[Queue, ...]:
        """List the readable queues, with a master or not, in the order that all members share."""
        sizes = [(counts.broker, counts.read) for counts in self.counts if Permission.READ in counts.permission]
        return tuple(sort_queues(set(self._numbered_queues(self.topic, sizes))))

    def _writable_queues(self, topic: str, *, max_queues: int | None) -> tuple[Queue, ...]:
        masters = {broker.name for broker in self.brokers if broker.master is not None}
        # Java caps by the *read* count of the default topic.
        sizes = [
            (counts.broker, counts.write if max_queues is None else min(max_queues, counts.read))
            for counts in sorted(self.counts, key=lambda counts: utf16_units(counts.broker))
            if Permission.WRITE in counts.permission and counts.broker in masters
        ]
        return self._numbered_queues(topic, sizes)

    def _ordered_queues(self, order_config: str) -> tuple[Queue, ...]:
        sizes: list[tuple[str, int]] = []
        for item in filter(None, order_config.split(";")):
            broker, _, number = item.partition(":")
            # Nine digits always fit in Java's int; Python itself refuses thousands of them.
            if not number.isascii() or not number.isdigit() or len(number) > 9:
                raise ConfigurationError(
                    f"the order configuration of topic {self.topic!r} has the item {item[:80]!r}",
                    next_step="an item is a broker's name, a colon and a count, such as broker-a:4",
                )
            sizes.append((broker, int(number)))
        return self._numbered_queues(self.topic, sizes)

    def _numbered_queues(self, topic: str, sizes: list[tuple[str, int]]) -> tuple[Queue, ...]:
        total = sum(size for _, size in sizes if size > 0)
        if total > _MAX_QUEUES:
            raise ConfigurationError(
                f"the route of topic {self.topic!r} names {total} queues; a topic may have {_MAX_QUEUES}",
                next_step="correct the queue counts of the topic",
            )
        return tuple(Queue(topic, broker, number) for broker, size in sizes for number in range(size))
