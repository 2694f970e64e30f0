"""Headers of a broker's administration: topics, groups, statistics, accounts."""

from steelyard.wire.fields import Header
from steelyard.wire.headers.common import BrokerRequest, TopicRequest
from steelyard.wire.numbers import Int32

__all__ = [
    "BrokerConfigAnswer",
    "BrokerConsumeStats",
    "CloneOffsets",
    "ConsumeStats",
    "CreateTopic",
    "DeleteGroup",
    "GroupList",
    "GroupListAnswer",
    "GroupSettings",
    "Policies",
    "PolicySubject",
    "ProducerGroup",
    "ResumeCheck",
    "TopicList",
    "TopicListAnswer",
    "UserFilter",
    "UserName",
    "ViewStats",
]


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


class TopicList(BrokerRequest, frozen=True):
    """21 GET_ALL_TOPIC_CONFIG: all topics, or one page of them (5.3 and later)."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class TopicListAnswer(Header, frozen=True):
    """The answer to 21 where paging is known."""

    total_topic_num: Int32 | None = None


class GroupList(BrokerRequest, frozen=True):
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all groups, or one page of them (5.3 and later)."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GroupListAnswer(Header, frozen=True):
    """The answer to 201 where paging is known."""

    total_group_num: Int32 | None = None


class GroupSettings(BrokerRequest, frozen=True):
    """352 GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class DeleteGroup(BrokerRequest, frozen=True):
    """207 DELETE_SUBSCRIPTIONGROUP. 5.x says ``clean_offset``, 4.9 ``remove_offset``."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None


class ProducerGroup(BrokerRequest, frozen=True):
    """204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class ConsumeStats(TopicRequest, frozen=True):
    """208 GET_CONSUME_STATS: how far behind the group is."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class CloneOffsets(BrokerRequest, frozen=True):
    """314 CLONE_GROUP_OFFSET: one group's offsets to another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


class ViewStats(BrokerRequest, frozen=True):
    """315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class BrokerConsumeStats(BrokerRequest, frozen=True):
    """317 GET_BROKER_CONSUME_STATS."""

    is_order: bool


class ResumeCheck(TopicRequest, frozen=True):
    """323 RESUME_CHECK_HALF_MESSAGE."""

    topic: str | None = None
    msg_id: str | None = None


class BrokerConfigAnswer(Header, frozen=True):
    """The answer to 26: the version of the settings, as JSON text."""

    version: str | None = None


class UserName(BrokerRequest, frozen=True):
    """3001 to 3004: one account."""

    username: str


class UserFilter(BrokerRequest, frozen=True):
    """3005: accounts whose name contains this."""

    filter: str | None = None


class PolicySubject(BrokerRequest, frozen=True):
    """3006 to 3009: the policies of one subject, such as ``User:alice``."""

    subject: str
    resource: str | None = None
    policy_type: str | None = None


class Policies(BrokerRequest, frozen=True):
    """3010: policies by subject and resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
