"""Which of Apache's classes is which body; the parts of a body are tested inside of it."""

from steelyard.wire.bodies import acl, common, groups, heartbeat, members, offsets, queue_assignment, stats, topics
from steelyard.wire.json_body import JsonBody

JAVA_BODIES: tuple[tuple[type[JsonBody], str], ...] = (
    (acl.AclRules, "AclInfo"),
    (queue_assignment.AssignmentResponse, "QueryAssignmentResponseBody"),
    (queue_assignment.AssignmentRequest, "QueryAssignmentRequestBody"),
    (stats.BrokerConsumeStats, "ConsumeStatsList"),
    (topics.BrokerMemberGroupResponse, "GetBrokerMemberGroupResponseBody"),
    (stats.BrokerStats, "BrokerStatsData"),
    (heartbeat.CheckClientRequest, "CheckClientRequestBody"),
    (topics.ClusterBody, "ClusterInfo"),
    (stats.ConsumeStats, "ConsumeStats"),
    (members.ConsumerConnections, "ConsumerConnection"),
    (members.ConsumerIdList, "GetConsumerListByGroupResponseBody"),
    (members.ConsumeDirectlyResult, "ConsumeMessageDirectlyResult"),
    (common.GroupNames, "GroupList"),
    (offsets.ConsumerOffsetTable, "ConsumerOffsetSerializeWrapper"),
    (groups.SubscriptionGroupConfig, "SubscriptionGroupConfig"),
    (groups.SubscriptionGroupConfigList, "SubscriptionGroupList"),
    (members.GroupSubscription, "QuerySubscriptionResponseBody"),
    (groups.SubscriptionGroupTable, "SubscriptionGroupWrapper"),
    (heartbeat.HeartbeatBody, "HeartbeatData"),
    (stats.ConsumeQueuePart, "QueryConsumeQueueResponseBody"),
    (queue_assignment.LockResponse, "LockBatchResponseBody"),
    (queue_assignment.LockRequest, "LockBatchRequestBody"),
    (queue_assignment.LockRequest, "UnlockBatchRequestBody"),
    (offsets.MemberOffsets, "GetConsumerStatusBody"),
    (members.ProducerConnections, "ProducerConnection"),
    (members.ProducerTable, "ProducerTableInfo"),
    (topics.BrokerRegistration, "RegisterBrokerBody"),
    (queue_assignment.MessageRequestModeSetting, "SetMessageRequestModeRequestBody"),
    (offsets.ResetOffsets, "ResetOffsetBody"),
    (offsets.ResetOffsetsList, "ResetOffsetBodyForC"),
    (topics.RouteBody, "TopicRouteData"),
    (members.ConsumerRunningState, "ConsumerRunningInfo"),
    (common.TableVersion, "DataVersion"),
    (common.KVTable, "KVTable"),
    (stats.ConsumeTimeSpans, "QueryConsumeTimeSpanBody"),
    (common.TopicNames, "TopicList"),
    (topics.TopicConfig, "TopicConfig"),
    (topics.TopicConfig, "TopicConfigAndQueueMapping"),
    (topics.TopicConfigList, "CreateTopicListRequestBody"),
    (stats.TopicStats, "TopicStatsTable"),
    (topics.TopicConfigTable, "TopicConfigSerializeWrapper"),
    (topics.TopicConfigTable, "TopicConfigAndMappingSerializeWrapper"),
    (acl.AclUser, "UserInfo"),
)

ONLY_IN_5 = frozenset(
    {
        "AclInfo",
        "CreateTopicListRequestBody",
        "GetBrokerMemberGroupResponseBody",
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
