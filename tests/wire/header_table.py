"""The typed header of the response to each request code."""

from collections.abc import Mapping

from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.header_codec import Header
from steelyard.wire.headers import admin, common, group, nameserver, pull, send

HEADER_OF_RESPONSE: Mapping[int, type[Header]] = {
    Code.SEND_MESSAGE: send.SendMessageResponse,
    Code.SEND_MESSAGE_V2: send.SendMessageResponse,
    Code.SEND_BATCH_MESSAGE: send.SendMessageResponse,
    Code.SEND_REPLY_MESSAGE: send.SendMessageResponse,
    Code.SEND_REPLY_MESSAGE_V2: send.SendMessageResponse,
    Code.PULL_MESSAGE: pull.PullMessageResponse,
    Code.LITE_PULL_MESSAGE: pull.PullMessageResponse,
    Code.QUERY_MESSAGE: pull.QueryMessagesResponse,
    Code.HEART_BEAT: group.HeartbeatResponse,
    Code.QUERY_CONSUMER_OFFSET: common.OffsetResponse,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: common.OffsetResponse,
    Code.GET_MAX_OFFSET: common.OffsetResponse,
    Code.GET_MIN_OFFSET: common.OffsetResponse,
    Code.GET_EARLIEST_MSG_STORETIME: group.EarliestStoreTimeResponse,
    Code.GET_ALL_TOPIC_CONFIG: admin.GetAllTopicConfigsResponse,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: admin.GetAllGroupConfigsResponse,
    Code.GET_BROKER_CONFIG: admin.GetBrokerConfigResponse,
    Code.REGISTER_BROKER: nameserver.RegisterBrokerResponse,
    Code.QUERY_DATA_VERSION: nameserver.QueryVersionResponse,
    Code.WIPE_WRITE_PERM_OF_BROKER: nameserver.WritePermissionResponse,
    Code.ADD_WRITE_PERM_OF_BROKER: nameserver.WritePermissionResponse,
    Code.GET_KV_CONFIG: nameserver.KVConfigResponse,
}
"""Responses with code 0, and those of a send or a pull that are results. A refusal may have no fields at all."""
