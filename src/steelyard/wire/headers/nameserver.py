"""Headers of the name server: routes, registration, key-value settings."""

from msgspec import field

from steelyard.wire.fields import Header
from steelyard.wire.headers.common import TopicRequest
from steelyard.wire.numbers import Int32, Int64

__all__ = [
    "BrokerBeat",
    "BrokerIdentity",
    "BrokerMembers",
    "BrokerName",
    "ChangedAnswer",
    "Cluster",
    "DeleteTopic",
    "GetRoute",
    "KeyValue",
    "KeyValueAnswer",
    "Namespace",
    "RegisterAnswer",
    "RegisterBroker",
    "RegisterTopic",
    "WipeAnswer",
]


class GetRoute(TopicRequest, frozen=True):
    """105 GET_ROUTEINFO_BY_TOPIC: where this topic lives."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_name: str | None = field(default=None, name="__ZONE_NAME")
    zone_mode: str | None = field(default=None, name="__ZONE_MODE")


class BrokerIdentity(Header, frozen=True):
    """Which broker speaks: 104 UNREGISTER_BROKER and 322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class RegisterBroker(BrokerIdentity, frozen=True):
    """103 REGISTER_BROKER: a broker is here, with these topics."""

    ha_server_addr: str
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = field(default=None, name="__ZONE_NAME")


class RegisterAnswer(Header, frozen=True):
    """The answer to 103: where a replica finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerBeat(Header, frozen=True):
    """904 BROKER_HEARTBEAT: still here. The rest is for controllers."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class ChangedAnswer(Header, frozen=True):
    """The answer to 322: whether anything changed."""

    changed: bool


class BrokerMembers(Header, frozen=True):
    """901 GET_BROKER_MEMBER_GROUP: master and replicas of one broker."""

    cluster_name: str
    broker_name: str


class BrokerName(Header, frozen=True):
    """205 WIPE_WRITE_PERM_OF_BROKER and 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeAnswer(Header, frozen=True):
    """The answer to 205 and 327: how many topics it touched."""

    wipe_topic_count: Int32 | None = None
    add_topic_count: Int32 | None = None


class DeleteTopic(Header, frozen=True):
    """216 DELETE_TOPIC_IN_NAMESRV."""

    topic: str
    cluster_name: str | None = None


class RegisterTopic(Header, frozen=True):
    """217 REGISTER_TOPIC_IN_NAMESRV."""

    topic: str


class KeyValue(Header, frozen=True):
    """100, 101 and 102: put, get or delete a setting; only a put has a value."""

    namespace: str
    key: str
    value: str | None = None


class KeyValueAnswer(Header, frozen=True):
    """The answer to 101."""

    value: str | None = None


class Namespace(Header, frozen=True):
    """219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class Cluster(Header, frozen=True):
    """224 GET_TOPICS_BY_CLUSTER."""

    cluster: str
