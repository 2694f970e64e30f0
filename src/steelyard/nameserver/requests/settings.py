"""Settings: by namespace and key (100, 101, 102, 219), and the name server's own (318, 319).

- 100 PUT_KV_CONFIG, 101 GET_KV_CONFIG, 102 DELETE_KV_CONFIG, 219 GET_KVLIST_BY_NAMESPACE. What is not there is a 22;
  deleting it is a 0.
- 318 UPDATE_NAMESRV_CONFIG and 319 GET_NAMESRV_CONFIG carry ``name=value`` lines. What cannot be changed is a 16.
"""

from steelyard.nameserver.names import check_name, refusal
from steelyard.nameserver.settings import change_settings, shown_settings
from steelyard.nameserver.state import State
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.nameserver import KeyValue, KeyValueAnswer, Namespace
from steelyard.wire.peers import Peer

__all__ = ["change", "delete", "get", "listed", "put", "show"]


def put(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """100: put a value."""
    header = command.header(KeyValue)
    if header.value is None:
        remark = "the field value is missing; to take a setting away, send DELETE_KV_CONFIG (102)"
        raise refusal(ResponseCode.INVALID_PARAMETER, remark)
    namespace, key = check_name("namespace", header.namespace), check_name("key", header.key)
    state.key_values.put(namespace, key, header.value)
    state.is_changed = True
    return answer_to(command)


def get(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """101: tell a value."""
    header = command.header(KeyValue)
    value = state.key_values.get(header.namespace, header.key)
    if value is None:
        namespace, key = check_name("namespace", header.namespace), check_name("key", header.key)
        raise refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
    return answer_to(command, fields=KeyValueAnswer(value))


def delete(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """102: take a value away."""
    header = command.header(KeyValue)
    state.is_changed |= state.key_values.delete(header.namespace, header.key)
    return answer_to(command)


def listed(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """219: tell all values of a namespace."""
    namespace = check_name("namespace", command.header(Namespace).namespace)
    entries = state.key_values.listed(namespace)
    if entries is None:
        raise refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return answer_to(command, body=encode_body(TextTable(table=entries)))


def change(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """318: change the name server's own settings."""
    wanted = decode_settings(command.body)
    before = shown_settings(state.options)
    state.options = change_settings(state.options, wanted)
    after = shown_settings(state.options)
    if changed := {name: value for name, value in after.items() if value != before[name]}:
        state.changed_settings |= changed
        state.is_changed = True
    return answer_to(command)


def show(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """319: tell the name server's own settings."""
    return answer_to(command, body=encode_settings(shown_settings(state.options)))
