"""Which of Apache's classes is which body; the parts of a body are tested inside of it."""

from steelyard.wire.bodies import (
    access,
    assignment,
    groups,
    heartbeat,
    locks,
    members,
    offsets,
    pop,
    registration,
    routes,
    running,
    shared,
    stats,
    topics,
)
from steelyard.wire.body import Body

__all__ = ["JAVA_BODIES", "LOST", "LOST_IN_4", "NOT_IN_4", "ONLY_IN_4", "ONLY_IN_5", "SETS"]

JAVA_BODIES: tuple[tuple[type[Body], str], ...] = (
    (access.AccessRules, "AclInfo"),
    (assignment.AssignmentAnswer, "QueryAssignmentResponseBody"),
    (assignment.AssignmentRequest, "QueryAssignmentRequestBody"),
    (pop.BatchAck, "BatchAckMessageRequestBody"),
    (stats.BrokerConsumeStats, "ConsumeStatsList"),
    (routes.BrokerGroupAnswer, "GetBrokerMemberGroupResponseBody"),
    (stats.BrokerStats, "BrokerStatsData"),
    (heartbeat.ClientCheck, "CheckClientRequestBody"),
    (routes.ClusterBody, "ClusterInfo"),
    (stats.ConsumeStats, "ConsumeStats"),
    (members.ConsumerConnections, "ConsumerConnection"),
    (members.ConsumerIds, "GetConsumerListByGroupResponseBody"),
    (offsets.CorrectionOffsets, "QueryCorrectionOffsetBody"),
    (running.DirectResult, "ConsumeMessageDirectlyResult"),
    (shared.GroupNames, "GroupList"),
    (offsets.GroupOffsets, "ConsumerOffsetSerializeWrapper"),
    (groups.GroupSettings, "SubscriptionGroupConfig"),
    (groups.GroupSettingsList, "SubscriptionGroupList"),
    (members.GroupSubscription, "QuerySubscriptionResponseBody"),
    (groups.GroupTable, "SubscriptionGroupWrapper"),
    (heartbeat.Heartbeat, "HeartbeatData"),
    (stats.IndexView, "QueryConsumeQueueResponseBody"),
    (locks.LockAnswer, "LockBatchResponseBody"),
    (locks.LockRequest, "LockBatchRequestBody"),
    (locks.LockRequest, "UnlockBatchRequestBody"),
    (offsets.MemberOffsets, "GetConsumerStatusBody"),
    (members.ProducerConnections, "ProducerConnection"),
    (members.ProducerTable, "ProducerTableInfo"),
    (registration.Registration, "RegisterBrokerBody"),
    (assignment.RequestModeSetting, "SetMessageRequestModeRequestBody"),
    (assignment.RequestModes, "MessageRequestModeSerializeWrapper"),
    (offsets.ResetOffsets, "ResetOffsetBody"),
    (offsets.ResetOffsetsList, "ResetOffsetBodyForC"),
    (routes.RouteBody, "TopicRouteData"),
    (running.RunningState, "ConsumerRunningInfo"),
    (shared.TableVersion, "DataVersion"),
    (shared.TextTable, "KVTable"),
    (stats.TimeSpans, "QueryConsumeTimeSpanBody"),
    (shared.TopicNames, "TopicList"),
    (topics.TopicSettings, "TopicConfig"),
    (topics.TopicSettings, "TopicConfigAndQueueMapping"),
    (topics.TopicSettingsList, "CreateTopicListRequestBody"),
    (stats.TopicStats, "TopicStatsTable"),
    (topics.TopicTable, "TopicConfigSerializeWrapper"),
    (topics.TopicTable, "TopicConfigAndMappingSerializeWrapper"),
    (access.User, "UserInfo"),
)

ONLY_IN_5 = frozenset(
    {
        "AclInfo",
        "BatchAckMessageRequestBody",
        "CreateTopicListRequestBody",
        "GetBrokerMemberGroupResponseBody",
        "MessageRequestModeSerializeWrapper",
        "QueryAssignmentRequestBody",
        "QueryAssignmentResponseBody",
        "QuerySubscriptionResponseBody",
        "SetMessageRequestModeRequestBody",
        "SubscriptionGroupList",
        "TopicConfigAndMappingSerializeWrapper",
        "TopicConfigAndQueueMapping",
        "UserInfo",
    }
)
"""Classes that 4.9 does not have."""

ONLY_IN_4 = frozenset({"TopicConfigSerializeWrapper"})
"""Classes that 5.x has, but writes and registers a larger one instead."""

SETS = frozenset(
    {
        "clusterAddrTable",
        "codeSet",
        "connectionSet",
        "consumerDataSet",
        "groupList",
        "lockOKMQSet",
        "messageQueueAssignments",
        "mqSet",
        "producerDataSet",
        "subscriptionDataSet",
        "subscriptionSet",
        "tagsSet",
        "topicList",
    }
)
"""Lists that are sets in Java, and come back in another order."""

NOT_IN_4 = frozenset(
    {
        "attributes",
        "consumeMessageOrderly",
        "consumeTimeoutMinute",
        "enableActingMaster",
        "forbiddenTable",
        "groupRetryPolicy",
        "groupSysFlag",
        "heartbeatFingerprint",
        "mappingDataVersion",
        "mqPopTable",
        "namespace",
        "onlyThisBroker",
        "pullOffset",
        "stateVersion",
        "topicPutTps",
        "topicQueueMappingByBroker",
        "topicQueueMappingDetailMap",
        "topicQueueMappingInfoMap",
        "totalInflightDiff",
        "userConsumerInfo",
        "withoutSub",
        "zoneName",
    }
)
"""Properties that 4.9 does not know and skips."""

LOST_IN_4 = {
    "ConsumerOffsetSerializeWrapper": {"dataVersion"},
    "SubscriptionGroupConfig": {"subscriptionDataSet"},
    "SubscriptionGroupWrapper": {"subscriptionDataSet"},
}
"""Properties that 4.9 knows elsewhere, by the class that lacks them."""

LOST = {
    # What our members and brokers tell each other beyond Java.
    "ConsumerConnection": {"steelyard"},
    "ConsumerRunningInfo": {"steelyard"},
    "GetConsumerListByGroupResponseBody": {"steelyard"},
    "HeartbeatData": {"steelyard"},
    "LockBatchRequestBody": {"steelyard"},
    "LockBatchResponseBody": {"steelyard"},
    "ProducerConnection": {"steelyard"},
    "ProducerTableInfo": {"steelyard"},
    "UnlockBatchRequestBody": {"steelyard"},
    # Made of the numbers beside them whenever Java writes.
    "QueryConsumeTimeSpanBody": {"consumeTimeStampStr", "maxTimeStampStr", "minTimeStampStr"},
    # The half of a table that has no static topics.
    "TopicConfigSerializeWrapper": {
        "mappingDataVersion",
        "topicQueueMappingDetailMap",
        "topicQueueMappingInfoMap",
    },
}
"""What Java does not keep in either release, by class."""
