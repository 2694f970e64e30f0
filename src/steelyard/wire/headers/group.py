"""Headers of groups and their members: offsets, unregistration, resets, and requests from a broker to a member."""

from msgspec import field

from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import BrokerRequest, QueueRequest, TopicRequest
from steelyard.wire.java_json import Int32, Int64


class HeartbeatResponse(Header, frozen=True):
    """The response to 34; our broker adds the last two, Apache's 5.x has only the first two, 4.9 none."""

    supports_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool | None = field(default=None, name="IS_SUB_CHANGE")
    steelyard: str | None = None
    heartbeat_ms: Int32 | None = None


class UnregisterClient(BrokerRequest, frozen=True):
    """35 UNREGISTER_CLIENT: this client leaves these groups."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None
    steelyard_avoided: Int64 | None = None
    """As ``avoided`` of `HeartbeatGroupExtension`."""


class QueryConsumerOffset(TopicRequest, frozen=True):
    """14 QUERY_CONSUMER_OFFSET: the committed offset of a group."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class CommitOffset(TopicRequest, frozen=True):
    """15 UPDATE_CONSUMER_OFFSET: commit an offset. ``lock_epoch`` fences it on our broker."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    lock_epoch: Int64 | None = None


class SearchOffset(QueueRequest, frozen=True):
    """29 SEARCH_OFFSET_BY_TIMESTAMP: the first message at or after this time."""

    timestamp: Int64
    boundary_type: str | None = None


class GetMaxOffset(QueueRequest, frozen=True):
    """30 GET_MAX_OFFSET: the next offset to be written."""

    committed: bool | None = None


class EarliestStoreTimeResponse(Header, frozen=True):
    """The response to 32: when the oldest message was stored, -1 without one."""

    timestamp: Int64


class ResetOffset(TopicRequest, frozen=True):
    """222 INVOKE_BROKER_TO_RESET_OFFSET, and 220 RESET_CONSUMER_CLIENT_OFFSET from broker to member."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class GroupTopicRequest(TopicRequest, frozen=True):
    """A group and a topic: 221, 223, 303, 343, 345. ``client_addr`` limits 223 to one member."""

    group: str
    topic: str | None = None
    client_addr: str | None = None


class GetConsumerRunningState(BrokerRequest, frozen=True):
    """307 GET_CONSUMER_RUNNING_INFO: the state of a member, relayed by the broker; our members add the last two."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None
    steelyard_wants: str | None = None
    steelyard_asker: str | None = None


class ConsumeMessageDirectly(TopicRequest, frozen=True):
    """309 CONSUME_MESSAGE_DIRECTLY: a member must handle this message now."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
