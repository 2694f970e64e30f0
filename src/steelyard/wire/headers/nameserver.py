"""Headers of the name server: routes, registration, key-value configuration."""

from msgspec import field

from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import TopicRequest
from steelyard.wire.java_json import Int32, Int64


class GetRoute(TopicRequest, frozen=True):
    """105 GET_ROUTEINFO_BY_TOPIC: the route of a topic."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_name: str | None = field(default=None, name="__ZONE_NAME")
    zone_mode: str | None = field(default=None, name="__ZONE_MODE")


class BrokerIdentity(Header, frozen=True):
    """The broker that sends 104 UNREGISTER_BROKER or 322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class RegisterBroker(BrokerIdentity, frozen=True):
    """103 REGISTER_BROKER: a broker and its topics."""

    ha_server_addr: str
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = field(default=None, name="__ZONE_NAME")


class RegisterBrokerResponse(Header, frozen=True):
    """The response to 103: the address of a replica's master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerHeartbeat(Header, frozen=True):
    """904 BROKER_HEARTBEAT. The optional fields are for controllers."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class QueryVersionResponse(Header, frozen=True):
    """The response to 322: whether anything changed."""

    changed: bool


class GetBrokerMemberGroup(Header, frozen=True):
    """901 GET_BROKER_MEMBER_GROUP: master and replicas of one broker."""

    cluster_name: str
    broker_name: str


class WritePermissionRequest(Header, frozen=True):
    """205 WIPE_WRITE_PERM_OF_BROKER and 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WritePermissionResponse(Header, frozen=True):
    """The response to 205 and 327: how many topics it changed."""

    wipe_topic_count: Int32 | None = None
    add_topic_count: Int32 | None = None


class DeleteTopic(Header, frozen=True):
    """216 DELETE_TOPIC_IN_NAMESRV."""

    topic: str
    cluster_name: str | None = None


class RegisterTopic(Header, frozen=True):
    """217 REGISTER_TOPIC_IN_NAMESRV."""

    topic: str


class KVConfigRequest(Header, frozen=True):
    """100, 101 and 102: put, get or delete a key; only a put has a value."""

    namespace: str
    key: str
    value: str | None = None


class KVConfigResponse(Header, frozen=True):
    """The response to 101."""

    value: str | None = None


class KVNamespaceRequest(Header, frozen=True):
    """219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class GetTopicsByCluster(Header, frozen=True):
    """224 GET_TOPICS_BY_CLUSTER."""

    cluster: str
