"""Which type the body of a request, and of its answer, has, by request code.

What is not listed has no body, or one that is not JSON: messages and records (wire/record.py, wire/batch.py), and
settings as text, whose codes are in `SETTINGS_REQUESTS` and `SETTINGS_ANSWERS` (settings_text.py).
"""

from collections.abc import Mapping
from typing import Any

from steelyard.wire.bodies.access import AccessRules, User
from steelyard.wire.bodies.accounts import Accounts
from steelyard.wire.bodies.assignment import AssignmentAnswer, AssignmentRequest, RequestModes, RequestModeSetting
from steelyard.wire.bodies.groups import GroupSettings, GroupSettingsList, GroupTable
from steelyard.wire.bodies.heartbeat import ClientCheck, Heartbeat
from steelyard.wire.bodies.locks import LockAnswer, LockRequest
from steelyard.wire.bodies.members import (
    ConsumerConnections,
    ConsumerIds,
    GroupSubscription,
    ProducerConnections,
    ProducerTable,
)
from steelyard.wire.bodies.offsets import CorrectionOffsets, DelayOffsets, GroupOffsets, MemberOffsets, ResetOffsets
from steelyard.wire.bodies.pop import BatchAck
from steelyard.wire.bodies.registration import Registration
from steelyard.wire.bodies.replicas import Epochs, ReplicaSets, Replication
from steelyard.wire.bodies.routes import BrokerGroup, BrokerGroupAnswer, ClusterBody, RouteBody
from steelyard.wire.bodies.running import DirectResult, RunningState
from steelyard.wire.bodies.shared import GroupNames, TableVersion, TextTable, TopicNames
from steelyard.wire.bodies.stats import (
    BrokerConsumeStats,
    BrokerStats,
    ConsumeStats,
    IndexView,
    TimeSpans,
    TopicStats,
)
from steelyard.wire.bodies.topics import TopicSettings, TopicSettingsList, TopicTable
from steelyard.wire.bodies.upkeep import ColdReads, IndexCheck
from steelyard.wire.codes import RequestCode

__all__ = ["BODY_OF_ANSWER", "BODY_OF_REQUEST", "SETTINGS_ANSWERS", "SETTINGS_REQUESTS"]

BODY_OF_REQUEST: Mapping[int, type[Any]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicSettingsList,
    RequestCode.HEART_BEAT: Heartbeat,
    RequestCode.LOCK_BATCH_MQ: LockRequest,
    RequestCode.UNLOCK_BATCH_MQ: LockRequest,
    RequestCode.CHECK_CLIENT_CONFIG: ClientCheck,
    RequestCode.REGISTER_BROKER: Registration,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: GroupSettings,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: RouteBody,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsets,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: GroupSettingsList,
    RequestCode.QUERY_DATA_VERSION: TableVersion,
    RequestCode.QUERY_ASSIGNMENT: AssignmentRequest,
    RequestCode.SET_MESSAGE_REQUEST_MODE: RequestModeSetting,
    RequestCode.AUTH_CREATE_USER: User,
    RequestCode.AUTH_UPDATE_USER: User,
    RequestCode.AUTH_CREATE_ACL: AccessRules,
    RequestCode.AUTH_UPDATE_ACL: AccessRules,
    RequestCode.BATCH_ACK_MESSAGE: BatchAck,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: tuple[str, ...],
}
"""The body of a request. A registration may also be compressed, and a reset for a C++ client is a list."""

BODY_OF_ANSWER: Mapping[int, type[Any]] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicTable,
    RequestCode.GET_BROKER_RUNTIME_INFO: TextTable,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ConsumerIds,
    RequestCode.LOCK_BATCH_MQ: LockAnswer,
    RequestCode.GET_ALL_CONSUMER_OFFSET: GroupOffsets,
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsets,
    RequestCode.REGISTER_BROKER: TextTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: RouteBody,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterBody,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GroupTable,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStats,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerConnections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ProducerConnections,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicNames,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.GET_KVLIST_BY_NAMESPACE: TextTable,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: MemberOffsets,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsets,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: MemberOffsets,
    RequestCode.GET_TOPICS_BY_CLUSTER: TopicNames,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupNames,
    RequestCode.QUERY_CONSUME_TIME_SPAN: TimeSpans,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: TopicNames,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicNames,
    RequestCode.GET_CONSUMER_RUNNING_INFO: RunningState,
    RequestCode.QUERY_CORRECTION_OFFSET: CorrectionOffsets,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: DirectResult,
    RequestCode.GET_UNIT_TOPIC_LIST: TopicNames,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicNames,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicNames,
    RequestCode.VIEW_BROKER_STATS_DATA: BrokerStats,
    RequestCode.GET_BROKER_CONSUME_STATS: BrokerConsumeStats,
    RequestCode.QUERY_CONSUME_QUEUE: IndexView,
    RequestCode.QUERY_DATA_VERSION: TableVersion,
    RequestCode.GET_ALL_PRODUCER_INFO: ProducerTable,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: TopicNames,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: GroupSubscription,
    RequestCode.GET_TOPIC_CONFIG: TopicSettings,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: GroupSettings,
    RequestCode.QUERY_ASSIGNMENT: AssignmentAnswer,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: RequestModes,
    RequestCode.GET_BROKER_MEMBER_GROUP: BrokerGroupAnswer,
    RequestCode.AUTH_GET_USER: User,
    RequestCode.AUTH_LIST_USER: tuple[User, ...],
    RequestCode.AUTH_GET_ACL: AccessRules,
    RequestCode.AUTH_LIST_ACL: tuple[AccessRules, ...],
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: Accounts,
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: IndexCheck,
    RequestCode.GET_BROKER_HA_STATUS: Replication,
    RequestCode.CONTROLLER_ELECT_MASTER: BrokerGroup,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: ReplicaSets,
    RequestCode.GET_BROKER_EPOCH_CACHE: Epochs,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: ColdReads,
}
"""The body of a successful answer, by the code of the request."""

SETTINGS_REQUESTS = frozenset(
    {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.UPDATE_CONTROLLER_CONFIG,
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    }
)
"""Requests whose body is settings as text."""

SETTINGS_ANSWERS = frozenset(
    {RequestCode.GET_BROKER_CONFIG, RequestCode.GET_NAMESRV_CONFIG, RequestCode.GET_CONTROLLER_CONFIG}
)
"""Requests whose answer's body is settings as text."""
