"""The typed header of each request code; a request that is not listed has no fields, or is not served here."""

from collections.abc import Mapping
from types import MappingProxyType

from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.header_codec import Header
from steelyard.wire.headers import admin, common, group, nameserver, pull, send

_REQUESTS_OF_HEADER: Mapping[type[Header], tuple[Code, ...]] = {
    send.SendMessage: (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE),
    send.SendMessageV2: (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2),
    send.PushReplyMessage: (Code.PUSH_REPLY_MESSAGE_TO_CLIENT,),
    send.SendMessageBack: (Code.CONSUMER_SEND_MSG_BACK,),
    send.EndTransaction: (Code.END_TRANSACTION,),
    send.CheckTransactionState: (Code.CHECK_TRANSACTION_STATE,),
    pull.PullMessage: (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE),
    pull.QueryMessages: (Code.QUERY_MESSAGE,),
    pull.ViewMessage: (Code.VIEW_MESSAGE_BY_ID,),
    pull.QueryConsumeQueue: (Code.QUERY_CONSUME_QUEUE,),
    common.BrokerRequest: (
        Code.HEART_BEAT,
        Code.CHECK_CLIENT_CONFIG,
        Code.LOCK_BATCH_MQ,
        Code.UNLOCK_BATCH_MQ,
        Code.QUERY_ASSIGNMENT,
        Code.SET_MESSAGE_REQUEST_MODE,
    ),
    group.UnregisterClient: (Code.UNREGISTER_CLIENT,),
    group.QueryConsumerOffset: (Code.QUERY_CONSUMER_OFFSET,),
    group.CommitOffset: (Code.UPDATE_CONSUMER_OFFSET,),
    group.SearchOffset: (Code.SEARCH_OFFSET_BY_TIMESTAMP,),
    group.GetMaxOffset: (Code.GET_MAX_OFFSET,),
    common.QueueRequest: (Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME),
    common.GroupRequest: (
        Code.GET_CONSUMER_LIST_BY_GROUP,
        Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.GET_CONSUMER_CONNECTION_LIST,
    ),
    group.ResetOffset: (Code.RESET_CONSUMER_CLIENT_OFFSET, Code.INVOKE_BROKER_TO_RESET_OFFSET),
    group.GroupTopicRequest: (
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Code.QUERY_CONSUME_TIME_SPAN,
        Code.QUERY_TOPICS_BY_CONSUMER,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
    ),
    group.GetConsumerRunningState: (Code.GET_CONSUMER_RUNNING_INFO,),
    group.ConsumeMessageDirectly: (Code.CONSUME_MESSAGE_DIRECTLY,),
    admin.CreateTopic: (Code.UPDATE_AND_CREATE_TOPIC,),
    common.TopicNameRequest: (
        Code.DELETE_TOPIC_IN_BROKER,
        Code.GET_TOPIC_CONFIG,
        Code.GET_TOPIC_STATS_INFO,
        Code.QUERY_TOPIC_CONSUME_BY_WHO,
    ),
    admin.GetAllTopicConfigs: (Code.GET_ALL_TOPIC_CONFIG,),
    admin.GetAllGroupConfigs: (Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,),
    admin.GetGroupConfig: (Code.GET_SUBSCRIPTIONGROUP_CONFIG,),
    admin.DeleteGroup: (Code.DELETE_SUBSCRIPTIONGROUP,),
    admin.GetProducerConnections: (Code.GET_PRODUCER_CONNECTION_LIST,),
    admin.GetConsumeStats: (Code.GET_CONSUME_STATS,),
    admin.CloneGroupOffset: (Code.CLONE_GROUP_OFFSET,),
    admin.ViewBrokerStats: (Code.VIEW_BROKER_STATS_DATA,),
    admin.GetBrokerConsumeStats: (Code.GET_BROKER_CONSUME_STATS,),
    admin.ResumeCheckHalfMessage: (Code.RESUME_CHECK_HALF_MESSAGE,),
    admin.UserRequest: (Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_GET_USER),
    admin.ListUsers: (Code.AUTH_LIST_USER,),
    admin.PolicyRequest: (Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL, Code.AUTH_GET_ACL),
    admin.ListPolicies: (Code.AUTH_LIST_ACL,),
    nameserver.GetRoute: (Code.GET_ROUTEINFO_BY_TOPIC,),
    nameserver.RegisterBroker: (Code.REGISTER_BROKER,),
    nameserver.BrokerIdentity: (Code.UNREGISTER_BROKER, Code.QUERY_DATA_VERSION),
    nameserver.BrokerHeartbeat: (Code.BROKER_HEARTBEAT,),
    nameserver.GetBrokerMemberGroup: (Code.GET_BROKER_MEMBER_GROUP,),
    nameserver.WritePermissionRequest: (Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER),
    nameserver.DeleteTopic: (Code.DELETE_TOPIC_IN_NAMESRV,),
    nameserver.RegisterTopic: (Code.REGISTER_TOPIC_IN_NAMESRV,),
    nameserver.KVConfigRequest: (Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG),
    nameserver.KVNamespaceRequest: (Code.GET_KVLIST_BY_NAMESPACE,),
    nameserver.GetTopicsByCluster: (Code.GET_TOPICS_BY_CLUSTER,),
}

HEADER_OF_REQUEST: Mapping[int, type[Header]] = MappingProxyType(
    {code: header for header, codes in _REQUESTS_OF_HEADER.items() for code in codes}
)
