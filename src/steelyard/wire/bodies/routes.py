"""Routes: what a name server knows of a topic, of a cluster and of one broker's replicas."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from steelyard.model import BrokerPlace, Permission, QueueCounts, Route
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.maps import ById
from steelyard.wire.numbers import Int32, Int64

__all__ = ["BrokerEntry", "BrokerGroup", "BrokerGroupAnswer", "ClusterBody", "QueueEntry", "QueueMapping", "RouteBody"]

_EVERY_PERMISSION = sum(Permission)


class BrokerEntry(Body, frozen=True, kw_only=True):
    """A broker and the addresses it answers at, by id: 0 is the master (Java: BrokerData)."""

    addresses: ById[str] = always(ById(), "brokerAddrs")
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None


class QueueEntry(Body, frozen=True, kw_only=True):
    """How many queues of the topic a broker has (Java: QueueData). Up to 4.8 the flag was called ``topicSynFlag``."""

    old_names: ClassVar[dict[str, str]] = {"topicSynFlag": "topicSysFlag"}

    broker_name: str
    permission: Int32 = always(6, "perm")
    read_queues: Int32 = field(name="readQueueNums")
    sys_flag: Int32 = field(name="topicSysFlag")
    write_queues: Int32 = field(name="writeQueueNums")


class QueueMapping(Body, frozen=True, kw_only=True):
    """Which queues of a static topic are on a broker, by the number that clients use (Java: TopicQueueMappingInfo)."""

    broker: str | None = field(default=None, name="bname")
    current: ById[Int32] = always(ById(), "currIdMap")
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    scope: str | None = None
    topic: str | None = None
    total_queues: Int32 = always(0)


class RouteBody(Body, frozen=True, kw_only=True):
    """Where a topic lives (Java: TopicRouteData).

    >>> body = RouteBody(
    ...     brokers=(BrokerEntry(broker_name="broker-a", addresses=ById({0: "127.0.0.1:10911"})),),
    ...     queues=(QueueEntry(broker_name="broker-a", read_queues=2, write_queues=1, sys_flag=0),),
    ... )
    >>> [str(queue) for queue in body.route("orders").readable()]
    ['orders@broker-a:0', 'orders@broker-a:1']
    >>> RouteBody.of(body.route("orders")).route("orders") == body.route("orders")
    True
    """

    brokers: tuple[BrokerEntry, ...] = always((), "brokerDatas")
    filter_servers: Mapping[str, tuple[str, ...]] = always_map("filterServerTable")
    order: str | None = field(default=None, name="orderTopicConf")
    queues: tuple[QueueEntry, ...] = always((), "queueDatas")
    mappings: Mapping[str, QueueMapping] | None = field(default=None, name="topicQueueMappingByBroker")

    def route(self, topic: str) -> Route:
        """Return the route as the rest of the house knows it."""
        return Route(
            topic,
            tuple(BrokerPlace(entry.broker_name, entry.cluster or "", dict(entry.addresses)) for entry in self.brokers),
            tuple(
                QueueCounts(entry.broker_name, entry.read_queues, entry.write_queues, _permission(entry.permission))
                for entry in self.queues
            ),
            self.order,
        )

    @classmethod
    def of(cls, route: Route) -> "RouteBody":
        """Make the body for a route; flags that a route does not keep are zero."""
        return cls(
            brokers=tuple(
                BrokerEntry(broker_name=place.name, cluster=place.cluster, addresses=ById(place.addresses))
                for place in route.brokers
            ),
            order=route.order,
            queues=tuple(
                QueueEntry(
                    broker_name=counts.broker,
                    permission=int(counts.permission),
                    read_queues=counts.read,
                    sys_flag=0,
                    write_queues=counts.write,
                )
                for counts in route.counts
            ),
        )


def _permission(number: int) -> Permission:
    # Only the bits that have a name: Python remembers every other combination that was ever seen, for ever.
    return Permission(number & _EVERY_PERMISSION)


class ClusterBody(Body, frozen=True, kw_only=True):
    """Every broker by name, and the names in each cluster (Java: ClusterInfo)."""

    brokers: Mapping[str, BrokerEntry] = always_map("brokerAddrTable")
    clusters: Mapping[str, tuple[str, ...]] = always_map("clusterAddrTable")


class BrokerGroup(Body, frozen=True, kw_only=True):
    """The replicas of one broker, by id (Java: BrokerMemberGroup)."""

    addresses: ById[str] = always(ById(), "brokerAddrs")
    broker_name: str
    cluster: str | None = None


class BrokerGroupAnswer(Body, frozen=True, kw_only=True):
    """A name server's answer about one broker's replicas (Java: GetBrokerMemberGroupResponseBody)."""

    group: BrokerGroup | None = field(default=None, name="brokerMemberGroup")
