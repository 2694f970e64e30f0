"""The type of the body of each request, and of its response, by request code.

What is not listed has no body, or one that is not JSON: messages and records (wire/record.py, wire/batch.py), and
settings as text, whose codes are in `SETTINGS_REQUESTS` and `SETTINGS_RESPONSES` (settings_text.py).
"""

from collections.abc import Mapping
from typing import Any

from steelyard.wire.bodies.acl import AclRules, AclUser
from steelyard.wire.bodies.common import GroupNames, KVTable, TableVersion, TopicNames
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupConfigList, SubscriptionGroupTable
from steelyard.wire.bodies.heartbeat import CheckClientRequest, HeartbeatBody
from steelyard.wire.bodies.members import (
    ConsumeDirectlyResult,
    ConsumerConnections,
    ConsumerIdList,
    ConsumerRunningState,
    GroupSubscription,
    ProducerConnections,
    ProducerTable,
)
from steelyard.wire.bodies.offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    MemberOffsets,
    ResetOffsets,
)
from steelyard.wire.bodies.queue_assignment import (
    AssignmentRequest,
    AssignmentResponse,
    LockRequest,
    LockResponse,
    MessageRequestModeSetting,
)
from steelyard.wire.bodies.stats import (
    BrokerConsumeStats,
    BrokerStats,
    ConsumeQueuePart,
    ConsumeStats,
    ConsumeTimeSpans,
    ReplicationState,
    TopicStats,
)
from steelyard.wire.bodies.topics import (
    BrokerMemberGroupResponse,
    BrokerRegistration,
    ClusterBody,
    RouteBody,
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
)
from steelyard.wire.codes import RequestCode

BODY_OF_REQUEST: Mapping[int, type[Any]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList,
    RequestCode.HEART_BEAT: HeartbeatBody,
    RequestCode.LOCK_BATCH_MQ: LockRequest,
    RequestCode.UNLOCK_BATCH_MQ: LockRequest,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientRequest,
    RequestCode.REGISTER_BROKER: BrokerRegistration,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: RouteBody,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsets,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupConfigList,
    RequestCode.QUERY_DATA_VERSION: TableVersion,
    RequestCode.QUERY_ASSIGNMENT: AssignmentRequest,
    RequestCode.SET_MESSAGE_REQUEST_MODE: MessageRequestModeSetting,
    RequestCode.AUTH_CREATE_USER: AclUser,
    RequestCode.AUTH_UPDATE_USER: AclUser,
    RequestCode.AUTH_CREATE_ACL: AclRules,
    RequestCode.AUTH_UPDATE_ACL: AclRules,
}
"""The body of a request. A registration may also be compressed, and a reset for a C++ client is a list."""

BODY_OF_RESPONSE: Mapping[int, type[Any]] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigTable,
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ConsumerIdList,
    RequestCode.LOCK_BATCH_MQ: LockResponse,
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetTable,
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetTable,
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: RouteBody,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterBody,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupTable,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStats,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerConnections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ProducerConnections,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicNames,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.GET_KVLIST_BY_NAMESPACE: KVTable,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: MemberOffsets,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsets,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: MemberOffsets,
    RequestCode.GET_TOPICS_BY_CLUSTER: TopicNames,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupNames,
    RequestCode.QUERY_CONSUME_TIME_SPAN: ConsumeTimeSpans,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: TopicNames,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicNames,
    RequestCode.GET_CONSUMER_RUNNING_INFO: ConsumerRunningState,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeDirectlyResult,
    RequestCode.GET_UNIT_TOPIC_LIST: TopicNames,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicNames,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicNames,
    RequestCode.VIEW_BROKER_STATS_DATA: BrokerStats,
    RequestCode.GET_BROKER_CONSUME_STATS: BrokerConsumeStats,
    RequestCode.QUERY_CONSUME_QUEUE: ConsumeQueuePart,
    RequestCode.QUERY_DATA_VERSION: TableVersion,
    RequestCode.GET_ALL_PRODUCER_INFO: ProducerTable,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: TopicNames,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: GroupSubscription,
    RequestCode.GET_TOPIC_CONFIG: TopicConfig,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupConfig,
    RequestCode.QUERY_ASSIGNMENT: AssignmentResponse,
    RequestCode.GET_BROKER_MEMBER_GROUP: BrokerMemberGroupResponse,
    RequestCode.AUTH_GET_USER: AclUser,
    RequestCode.AUTH_LIST_USER: tuple[AclUser, ...],
    RequestCode.AUTH_GET_ACL: AclRules,
    RequestCode.AUTH_LIST_ACL: tuple[AclRules, ...],
    RequestCode.GET_BROKER_HA_STATUS: ReplicationState,
}
"""The body of a successful answer, by the code of the request."""

SETTINGS_REQUESTS = frozenset(
    {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
    }
)
"""Requests whose body is settings as text."""

SETTINGS_RESPONSES = frozenset({RequestCode.GET_BROKER_CONFIG, RequestCode.GET_NAMESRV_CONFIG})
"""Requests whose answer's body is settings as text."""
