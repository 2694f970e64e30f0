"""Headers of a broker's administration: topics, groups, statistics, ACL 2.0 users and policies."""

from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import BrokerRequest, TopicRequest
from steelyard.wire.java_json import Int32


class CreateTopic(TopicRequest, frozen=True):
    """17 UPDATE_AND_CREATE_TOPIC. ``attributes`` is written ``+name=value,-name``."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    order: bool
    topic_sys_flag: Int32 | None = None
    attributes: str | None = None
    force: bool | None = None


class GetAllTopicConfigs(BrokerRequest, frozen=True):
    """21 GET_ALL_TOPIC_CONFIG: all topics, or one page of them (5.3 and later)."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigsResponse(Header, frozen=True):
    """The response to 21 of brokers with paging."""

    total_topic_num: Int32 | None = None


class GetAllGroupConfigs(BrokerRequest, frozen=True):
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all groups, or one page of them (5.3 and later)."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllGroupConfigsResponse(Header, frozen=True):
    """The response to 201 of brokers with paging."""

    total_group_num: Int32 | None = None


class GetGroupConfig(BrokerRequest, frozen=True):
    """352 GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class DeleteGroup(BrokerRequest, frozen=True):
    """207 DELETE_SUBSCRIPTIONGROUP. 5.x uses ``clean_offset``, 4.9 ``remove_offset``."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None


class GetProducerConnections(BrokerRequest, frozen=True):
    """204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class GetConsumeStats(TopicRequest, frozen=True):
    """208 GET_CONSUME_STATS: the offsets and the lag of a group."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class CloneGroupOffset(BrokerRequest, frozen=True):
    """314 CLONE_GROUP_OFFSET: copy the offsets of one group to another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


class ViewBrokerStats(BrokerRequest, frozen=True):
    """315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class GetBrokerConsumeStats(BrokerRequest, frozen=True):
    """317 GET_BROKER_CONSUME_STATS."""

    is_order: bool


class ResumeCheckHalfMessage(TopicRequest, frozen=True):
    """323 RESUME_CHECK_HALF_MESSAGE."""

    topic: str | None = None
    msg_id: str | None = None


class GetBrokerConfigResponse(Header, frozen=True):
    """The response to 26: the version of the settings, as JSON text."""

    version: str | None = None


class UserRequest(BrokerRequest, frozen=True):
    """3001 to 3004: one user."""

    username: str


class ListUsers(BrokerRequest, frozen=True):
    """3005: users whose name contains this."""

    filter: str | None = None


class PolicyRequest(BrokerRequest, frozen=True):
    """3006 to 3009: the policies of one subject, such as ``User:alice``."""

    subject: str
    resource: str | None = None
    policy_type: str | None = None


class ListPolicies(BrokerRequest, frozen=True):
    """3010: policies by subject and resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
