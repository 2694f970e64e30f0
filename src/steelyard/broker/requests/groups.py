"""Consumer groups and their settings: 200, 201, 207, 225, 352.

200 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP        makes a group or changes all its settings; 29 for a bad name. What a
                                               release does not know and so does not say stays as it is
201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG           all groups, or a page of them (5.3), as topics are told
207 DELETE_SUBSCRIPTIONGROUP                   the group's settings go, and if asked for (cleanOffset, in 4.9
                                               removeOffset) its offsets; members that are there make it again
225 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST   many groups; all names are looked at before the first one is made
352 GET_SUBSCRIPTIONGROUP_CONFIG               one group; asking makes it, as with Apache, or 26 where that is off
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.broker.attributes import GROUP_ATTRIBUTES, altered
from steelyard.broker.handlers import Handler
from steelyard.broker.names import check_group, refuse_own_group
from steelyard.broker.options import MOST_QUEUES
from steelyard.broker.refusals import refusal
from steelyard.broker.requests.pages import page_of
from steelyard.broker.state import State
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.groups import GroupSettings, GroupSettingsList
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.admin import DeleteGroup, GroupList, GroupListAnswer
from steelyard.wire.headers.admin import GroupSettings as GroupAsked
from steelyard.wire.limits import LIST_BYTES
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_NOT_IN_4 = ("orderly", "consume_timeout_minutes", "retry_policy", "sys_flag", "subscriptions")


def _put(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    state.groups.put(_checked(state, decode_request(GroupSettings, request.body)), now_ms)
    return answer_to(request)


def _put_all(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    wanted = [
        _checked(state, each) for each in decode_request(GroupSettingsList, request.body, most_bytes=LIST_BYTES).groups
    ]
    for settings in wanted:
        state.groups.put(settings, now_ms)
    return answer_to(request)


def _checked(state: State, wanted: GroupSettings) -> GroupSettings:
    """Return the settings that a group gets; attributes come as changes of those it has."""
    check_group(wanted.name)
    if wanted.retry_queues > MOST_QUEUES:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"group {wanted.name} cannot have {wanted.retry_queues} queues of retries: give at most {MOST_QUEUES}",
        )
    before = state.groups.planned(wanted.name)
    kept = {name: getattr(before, name) for name in _NOT_IN_4 if getattr(wanted, name) is None}
    return replace(wanted, attributes=altered(GROUP_ATTRIBUTES, before.attributes, wanted.attributes or {}), **kept)


def _list(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    asked, table = request.header(GroupList), state.groups.table()
    page = page_of(table.groups, table.version, asked.group_seq, asked.data_version, asked.max_group_num)
    return answer_to(request, fields=GroupListAnswer(len(table.groups)), body=encode_body(replace(table, groups=page)))


def _get(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    return answer_to(request, body=encode_body(state.groups.known(request.header(GroupAsked).group, now_ms)))


def _delete(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    asked = request.header(DeleteGroup)
    refuse_own_group(asked.group_name)
    state.groups.remove(asked.group_name, now_ms)
    state.rates.forget_group(asked.group_name)
    state.kept_subscriptions.forget(asked.group_name)
    if asked.clean_offset or asked.remove_offset:
        state.offsets.forget_group(asked.group_name)
    return answer_to(request)


HANDLERS: Mapping[int, Handler] = {
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _put,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _put_all,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _list,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _get,
    Code.DELETE_SUBSCRIPTIONGROUP: _delete,
}
