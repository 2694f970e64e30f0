"""Consumer groups and their settings: 200, 201, 207, 225, 352.

200 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP        creates a group or changes all its settings; 29 for an invalid name.
                                               Settings that the client's release does not know stay unchanged
201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG           all groups, or a page of them (5.3)
207 DELETE_SUBSCRIPTIONGROUP                   deletes the settings, and with cleanOffset (in 4.9 removeOffset) the
                                               offsets; present members create the group again
225 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST   many groups; all are checked before the first one is created
352 GET_SUBSCRIPTIONGROUP_CONFIG               one group; creates it, as with Apache, or 26 where that is off
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.broker.options import MAX_QUEUES
from steelyard.broker.request_errors import invalid_parameter
from steelyard.broker.requests.paging import page_of
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.validation import GROUP_ATTRIBUTES, apply_attribute_changes, check_group, check_not_broker_group
from steelyard.wire.bodies import decode_request_body, encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupConfigList
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.admin import DeleteGroup, GetAllGroupConfigs, GetAllGroupConfigsResponse, GetGroupConfig
from steelyard.wire.limits import LIST_BYTES

_FIELDS_NEW_IN_5 = ("orderly", "consume_timeout_minutes", "retry_policy", "sys_flag", "subscriptions")


def _update_group(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    state.groups.put(_checked_settings(state, decode_request_body(SubscriptionGroupConfig, request.body)), now_ms)
    return response_to(request)


def _update_groups(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    groups = decode_request_body(SubscriptionGroupConfigList, request.body, max_bytes=LIST_BYTES).groups
    for settings in [_checked_settings(state, each) for each in groups]:
        state.groups.put(settings, now_ms)
    return response_to(request)


def _checked_settings(state: BrokerCoreState, settings: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
    """Return the new settings of a group; attributes come as changes."""
    check_group(settings.name)
    if settings.retry_queues > MAX_QUEUES:
        raise invalid_parameter(
            f"group {settings.name} cannot have {settings.retry_queues} retry queues: give at most {MAX_QUEUES}"
        )
    before = state.groups.settings_or_default(settings.name)
    unchanged = {name: getattr(before, name) for name in _FIELDS_NEW_IN_5 if getattr(settings, name) is None}
    return replace(
        settings,
        attributes=apply_attribute_changes(GROUP_ATTRIBUTES, before.attributes, settings.attributes or {}),
        **unchanged,
    )


def _list_groups(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header, table = request.header(GetAllGroupConfigs), state.groups.table()
    page = page_of(table.groups, table.version, header.group_seq, header.data_version, header.max_group_num)
    return response_to(
        request, fields=GetAllGroupConfigsResponse(len(table.groups)), body=encode_body(replace(table, groups=page))
    )


def _get_group(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    settings = state.groups.get_or_create(request.header(GetGroupConfig).group, now_ms)
    return response_to(request, body=encode_body(settings))


def _delete_group(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(DeleteGroup)
    check_not_broker_group(header.group_name)
    state.groups.remove(header.group_name, now_ms)
    state.traffic.forget_group(header.group_name)
    state.saved_subscriptions.forget_group(header.group_name)
    if header.clean_offset or header.remove_offset:
        state.offsets.forget_group(header.group_name)
    return response_to(request)


HANDLERS: Mapping[int, RequestHandler] = {
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _update_group,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _update_groups,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _list_groups,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _get_group,
    Code.DELETE_SUBSCRIPTIONGROUP: _delete_group,
}
