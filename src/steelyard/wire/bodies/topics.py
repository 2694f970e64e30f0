"""Topic configs, routes, and the registration of a broker at a name server.

A registration is JSON, or the compressed form of older brokers: one zlib stream of parts, each with a length of four
bytes: the table's version as JSON; the number of topics and for each a line of its config; the filter servers as JSON;
and from version 413 on the number of static topics and for each its mapping as JSON. It does not have the order and the
system flag of topics.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec
from msgspec import field

from steelyard.errors import LimitExceeded, MalformedBody, MalformedRecord
from steelyard.model import BrokerAddresses, Permission, QueueCounts, TopicRoute
from steelyard.wire import limits
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.codes import Version
from steelyard.wire.compression import decompress
from steelyard.wire.java_json import Int32, Int64
from steelyard.wire.json_body import ById, JsonBody, always_written, decode_body
from steelyard.wire.sysflag import COMPRESSED

_EVERY_PERMISSION = sum(Permission)
"""Only the named bits are decoded: Python caches every other combination forever."""


class BrokerEntry(JsonBody, frozen=True, kw_only=True):
    """A broker and its addresses by id: 0 is the master (Java: BrokerData)."""

    addresses: ById[str] = always_written(ById(), "brokerAddrs")
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None


class QueueEntry(JsonBody, frozen=True, kw_only=True):
    """How many queues of the topic a broker has (Java: QueueData). Up to 4.8 the flag is ``topicSynFlag``."""

    legacy_names: ClassVar[dict[str, str]] = {"topicSynFlag": "topicSysFlag"}

    broker_name: str
    permission: Int32 = always_written(6, "perm")
    read_queues: Int32 = field(name="readQueueNums")
    sys_flag: Int32 = field(name="topicSysFlag")
    write_queues: Int32 = field(name="writeQueueNums")


class QueueMapping(JsonBody, frozen=True, kw_only=True):
    """The queues of a static topic on a broker, by the id that clients use (Java: TopicQueueMappingInfo)."""

    broker: str | None = field(default=None, name="bname")
    current: ById[Int32] = always_written(ById(), "currIdMap")
    dirty: bool = always_written(False)
    epoch: Int64 = always_written(0)
    scope: str | None = None
    topic: str | None = None
    total_queues: Int32 = always_written(0)


class RouteBody(JsonBody, frozen=True, kw_only=True):
    """The route of a topic (Java: TopicRouteData)."""

    brokers: tuple[BrokerEntry, ...] = always_written((), "brokerDatas")
    filter_servers: Mapping[str, tuple[str, ...]] = always_written({}, "filterServerTable")
    order: str | None = field(default=None, name="orderTopicConf")
    queues: tuple[QueueEntry, ...] = always_written((), "queueDatas")
    mappings: Mapping[str, QueueMapping] | None = field(default=None, name="topicQueueMappingByBroker")

    def route(self, topic: str) -> TopicRoute:
        """Return the route as a value of the model."""
        return TopicRoute(
            topic,
            tuple(
                BrokerAddresses(entry.broker_name, entry.cluster or "", dict(entry.addresses)) for entry in self.brokers
            ),
            tuple(
                QueueCounts(
                    entry.broker_name,
                    entry.read_queues,
                    entry.write_queues,
                    Permission(entry.permission & _EVERY_PERMISSION),
                )
                for entry in self.queues
            ),
            self.order,
        )

    @classmethod
    def of(cls, route: TopicRoute) -> "RouteBody":
        """Make the body for a route; flags that a route does not have are zero."""
        return cls(
            brokers=tuple(
                BrokerEntry(broker_name=broker.name, cluster=broker.cluster, addresses=ById(broker.addresses))
                for broker in route.brokers
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


class ClusterBody(JsonBody, frozen=True, kw_only=True):
    """Every broker by name, and the names in each cluster (Java: ClusterInfo)."""

    brokers: Mapping[str, BrokerEntry] = always_written({}, "brokerAddrTable")
    clusters: Mapping[str, tuple[str, ...]] = always_written({}, "clusterAddrTable")

    def places(self) -> dict[str, BrokerAddresses]:
        """Return the addresses of each broker, both sorted."""
        return {
            name: BrokerAddresses(name, entry.cluster or "", dict(sorted(entry.addresses.items())))
            for name, entry in sorted(self.brokers.items())
        }


class BrokerMemberGroup(JsonBody, frozen=True, kw_only=True):
    """The replicas of one broker, by id (Java: BrokerMemberGroup)."""

    addresses: ById[str] = always_written(ById(), "brokerAddrs")
    broker_name: str
    cluster: str | None = None


class BrokerMemberGroupResponse(JsonBody, frozen=True, kw_only=True):
    """A name server's response about one broker's replicas (Java: GetBrokerMemberGroupResponseBody)."""

    group: BrokerMemberGroup | None = field(default=None, name="brokerMemberGroup")


class QueueMappingItem(JsonBody, frozen=True, kw_only=True):
    """A part of a static topic's queue in one queue of one broker (Java: LogicQueueMappingItem)."""

    broker: str | None = field(default=None, name="bname")
    end_offset: Int64 = always_written(-1)
    generation: Int32 = always_written(0, "gen")
    logic_offset: Int64 = always_written(0)
    queue_id: Int32 = always_written(0)
    start_offset: Int64 = always_written(0)
    end_ms: Int64 = always_written(-1, "timeOfEnd")
    start_ms: Int64 = always_written(-1, "timeOfStart")


class QueueMappingDetail(JsonBody, frozen=True, kw_only=True):
    """A static topic on one broker with the history of its queues (Java: TopicQueueMappingDetail)."""

    broker: str | None = field(default=None, name="bname")
    current: ById[Int32] = always_written(ById(), "currIdMap")
    dirty: bool = always_written(False)
    epoch: Int64 = always_written(0)
    hosted: ById[tuple[QueueMappingItem, ...]] = always_written(ById(), "hostedQueues")
    scope: str | None = None
    topic: str | None = None
    total_queues: Int32 = always_written(0)


class TopicConfig(JsonBody, frozen=True, kw_only=True):
    """The config of a topic on a broker (Java: TopicConfig); 4.9 has no attributes."""

    attributes: Mapping[str, str] | None = None
    mapping: QueueMappingDetail | None = field(default=None, name="mappingDetail")
    order: bool = always_written(False)
    permission: Int32 = always_written(6, "perm")
    read_queues: Int32 = always_written(16, "readQueueNums")
    filter_type: str = always_written("SINGLE_TAG", "topicFilterType")
    name: str = field(name="topicName")
    sys_flag: Int32 = always_written(0, "topicSysFlag")
    write_queues: Int32 = always_written(16, "writeQueueNums")


class TopicConfigList(JsonBody, frozen=True, kw_only=True):
    """Topics to create or change together (Java: CreateTopicListRequestBody)."""

    topics: tuple[TopicConfig, ...] = always_written((), "topicConfigList")


class TopicConfigTable(JsonBody, frozen=True, kw_only=True):
    """Every topic of a broker (Java: TopicConfigAndMappingSerializeWrapper); 4.9 has the version and the topics."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    mapping_version: TableVersion | None = field(default=None, name="mappingDataVersion")
    topics: Mapping[str, TopicConfig] = always_written({}, "topicConfigTable")
    mapping_details: Mapping[str, QueueMappingDetail] | None = field(default=None, name="topicQueueMappingDetailMap")
    mappings: Mapping[str, QueueMapping] | None = field(default=None, name="topicQueueMappingInfoMap")


_REGISTRATION = "body of BrokerRegistration"


class BrokerRegistration(JsonBody, frozen=True, kw_only=True):
    """The topics that a broker registers (Java: RegisterBrokerBody)."""

    filter_servers: tuple[str, ...] = always_written((), "filterServerList")
    table: TopicConfigTable = always_written(TopicConfigTable(), "topicConfigSerializeWrapper")


def decompress_registration(data: bytes, *, version: int) -> BrokerRegistration:
    """Decode a registration in the compressed form of a broker's version."""
    try:
        parts = _PartReader(decompress(data, COMPRESSED))
    except MalformedRecord as error:
        raise MalformedBody(error.what, where=_REGISTRATION) from None
    table_version = decode_body(TableVersion, parts.read_part())
    topics = [_decode_topic(part) for part in parts.read_parts()]
    servers = decode_body(tuple[str, ...], parts.read_part())
    mappings = None
    if version >= Version.V5_0_0:
        read = (decode_body(QueueMapping, part) for part in parts.read_parts())
        mappings = {mapping.topic: mapping for mapping in read if mapping.topic is not None}
    table = TopicConfigTable(version=table_version, topics={topic.name: topic for topic in topics}, mappings=mappings)
    return BrokerRegistration(filter_servers=servers, table=table)


class _PartReader:
    """Reads lengths and parts in sequence."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._count = data, 0, 0

    def read_part(self) -> bytes:
        """Read one part."""
        size = self._read_int()
        start, end = self._at, self._at + size
        if end > len(self._data):
            raise MalformedBody(f"a part of {size} bytes is cut off", where=_REGISTRATION, at=start)
        self._at = end
        return self._data[start:end]

    def read_parts(self) -> Iterator[bytes]:
        """Read a number, and that many parts."""
        count, most = self._read_int(), limits.REGISTERED_PARTS
        self._count += count
        if self._count > most:
            raise LimitExceeded("number of topics", where=_REGISTRATION, limit=most, found=self._count, at=self._at - 4)
        for _ in range(count):
            yield self.read_part()

    def _read_int(self) -> int:
        word = self._data[self._at : self._at + 4]
        number = int.from_bytes(word, "big", signed=True)
        if len(word) < 4 or number < 0:
            raise MalformedBody(
                "a length is cut off" if len(word) < 4 else f"a length is {number}", where=_REGISTRATION, at=self._at
            )
        self._at += 4
        return number


def _decode_topic(line: bytes) -> TopicConfig:
    try:
        fields = line.decode().split(" ", 5)
        name, read, write, permission, filter_type = msgspec.convert(
            fields[:5], tuple[str, Int32, Int32, Int32, str], strict=False
        )
    except ValueError as error:
        raise MalformedBody(f"a topic's settings cannot be read: {error}", where=_REGISTRATION) from None
    return TopicConfig(
        attributes=_decode_attributes(fields[5]) if len(fields) > 5 else None,
        name=name,
        read_queues=read,
        write_queues=write,
        permission=permission,
        filter_type=filter_type,
    )


def _decode_attributes(text: str) -> dict[str, str] | None:
    # Java ignores attributes that it cannot decode.
    try:
        return decode_body(dict[str, str], text.encode())
    except MalformedBody:
        return None
