"""Request handlers of a name server.

- 103 REGISTER_BROKER, every 30 s and at each change of a topic; 4.9 sends many oneway. The body is JSON or, from
  older brokers, compressed; below version 37 it is the bare table of topics. ``bodyCrc32`` is checked unless it is 0.
  The response holds a replica's master, and the order that was set for topics.
- 104 UNREGISTER_BROKER; 322 QUERY_DATA_VERSION is a heartbeat that asks whether the broker's table is known;
  904 BROKER_HEARTBEAT is usually oneway, and the rest of its fields is for controllers.
- 105 GET_ROUTEINFO_BY_TOPIC, from every client every 30 s. Broker ids are numbers as keys: quoted for clients from
  version 401 on and for those that want standard JSON, raw for others, which cut the text by hand. 17 for an unknown
  topic. A zone in the request is ignored. 106 GET_BROKER_CLUSTER_INFO and 901 GET_BROKER_MEMBER_GROUP: ids are raw.
- 205 WIPE_WRITE_PERM_OF_BROKER and 327 ADD_WRITE_PERM_OF_BROKER, for all topics of a broker until it changes its table.
  Apache's 327 sets the permission to 6 and so loses the inherit bit; here it is kept.
- 216 DELETE_TOPIC_IN_NAMESRV, with a cluster only on its brokers; an unknown topic is no error. 217
  REGISTER_TOPIC_IN_NAMESRV: Apache's answers 0 and does nothing if a broker is unknown; here that is 211.
- 206, 224, 304, 311 to 313: lists of topics; 304 are the names of clusters and brokers, with one broker's address; 311
  to 313 go by flags, bit 1 for a unit and bit 2 for a unit's subscription. A list that is switched off is a 1 with the
  remark ``disable``.
- 100, 101, 102, 219: key-value config; a missing item is a 22, deleting it a 0. 318 and 319: the name server's own
  settings as ``name=value`` lines; what cannot be changed is a 16.

Left out: telling replicas that the smallest id changed, which Apache's does only if it is configured to.
"""

import zlib
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from steelyard.nameserver.broker_registry import READ, WRITE, normalize_version, remove_write_permission
from steelyard.nameserver.kv_config import ORDER_TOPICS
from steelyard.nameserver.options import apache_settings, apply_apache_settings
from steelyard.nameserver.state import NameServerRequestHandler, NameServerState
from steelyard.nameserver.validation import check_name, request_error
from steelyard.wire.bodies import decode_request_body, encode_body
from steelyard.wire.bodies.common import KVTable, TableVersion, TopicNames, decode_settings, encode_settings
from steelyard.wire.bodies.topics import (
    BrokerMemberGroup,
    BrokerMemberGroupResponse,
    BrokerRegistration,
    ClusterBody,
    RouteBody,
    TopicConfigTable,
    decompress_registration,
)
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode, Version
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.nameserver import (
    BrokerHeartbeat,
    BrokerIdentity,
    DeleteTopic,
    GetBrokerMemberGroup,
    GetRoute,
    GetTopicsByCluster,
    KVConfigRequest,
    KVConfigResponse,
    KVNamespaceRequest,
    QueryVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    RegisterTopic,
    WritePermissionRequest,
    WritePermissionResponse,
)
from steelyard.wire.json_body import ById
from steelyard.wire.limits import FRAME_BYTES, REGISTRATION_MARKS

__all__ = ["HANDLERS"]


T = TypeVar("T")

_JAVA_CRC_BITS = 0x7FFF_FFFF


def _register_broker(state: NameServerState, command: Command, peer: Peer, now_ms: int) -> Command:
    header = command.header(RegisterBroker)
    if header.body_crc32 and zlib.crc32(command.body) & _JAVA_CRC_BITS != header.body_crc32:
        raise request_error(ResponseCode.SYSTEM_ERROR, "crc32 not match: the body is not what was sent; send it again")
    body = _decode_registration(command, header)
    registered = state.registry.register(header, body, peer, state.options, now_ms)
    master = registered.master
    fields = RegisterBrokerResponse(master.ha_address, master.address) if master else RegisterBrokerResponse()
    order = state.kv_config.namespace_values(ORDER_TOPICS) if state.options.tells_brokers_order else None
    answer_body = b"" if order is None else encode_body(KVTable(table=order))
    return response_to(command, fields=fields, body=answer_body, remark=registered.remark)


def _unregister_broker(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(BrokerIdentity)
    state.registry.unregister(header.broker_name, header.broker_addr)
    return response_to(command)


def _query_data_version(state: NameServerState, command: Command, _peer: Peer, now_ms: int) -> Command:
    header = command.header(BrokerIdentity)
    sent = decode_request_body(TableVersion, command.body) if command.body else None
    replica = state.registry.record_heartbeat(header.cluster_name, header.broker_addr, now_ms)
    if replica is None:
        return response_to(command, fields=QueryVersionResponse(True))
    is_changed = sent is None or normalize_version(sent) != replica.version
    return response_to(command, fields=QueryVersionResponse(is_changed), body=encode_body(replica.version))


def _broker_heartbeat(state: NameServerState, command: Command, _peer: Peer, now_ms: int) -> Command:
    header = command.header(BrokerHeartbeat)
    state.registry.record_heartbeat(header.cluster_name, header.broker_addr, now_ms)
    return response_to(command)


def _decode_registration(command: Command, header: RegisterBroker) -> BrokerRegistration:
    if not command.body:
        return BrokerRegistration()
    if command.version < Version.V3_0_11:
        return BrokerRegistration(table=_decode_table(TopicConfigTable, command))
    if header.compressed:
        return decompress_registration(command.body, version=command.version)
    return _decode_table(BrokerRegistration, command)


def _decode_table(kind: type[T], command: Command) -> T:
    return decode_request_body(kind, command.body, max_bytes=FRAME_BYTES, max_marks=REGISTRATION_MARKS)


def _get_route(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(GetRoute)
    topic = check_name("topic", header.topic)
    found = state.registry.route_of(topic, state.options)
    if found is None:
        raise request_error(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}\n"
            "Create it on a broker that is registered here, or check that its broker is (106).",
        )
    if state.options.tells_clients_order:
        found = replace(found, order=state.kv_config.get(ORDER_TOPICS, topic))
    quoted = command.version >= Version.V4_9_4 or bool(header.accept_standard_json_only)
    return response_to(command, body=encode_body(found, quoted_ids=quoted))


def _get_cluster(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    brokers = state.registry.brokers
    body = ClusterBody(
        brokers={broker.name: broker.route_entry() for broker in brokers}, clusters=brokers.names_by_cluster()
    )
    return response_to(command, body=encode_body(body))


def _get_broker_members(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(GetBrokerMemberGroup)
    broker = state.registry.brokers.get(header.broker_name)
    group = BrokerMemberGroup(
        addresses=broker.addresses() if broker else ById(),
        broker_name=check_name("broker", header.broker_name),
        cluster=check_name("cluster", header.cluster_name),
    )
    return response_to(command, body=encode_body(BrokerMemberGroupResponse(group=group)))


def _wipe_write_permission(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    broker = command.header(WritePermissionRequest).broker_name
    count = state.registry.routes.change_permissions(broker, remove_write_permission)
    return response_to(command, fields=WritePermissionResponse(wipe_topic_count=count))


def _add_write_permission(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    broker = command.header(WritePermissionRequest).broker_name
    count = state.registry.routes.change_permissions(broker, lambda permission: permission | READ | WRITE)
    return response_to(command, fields=WritePermissionResponse(add_topic_count=count))


def _delete_topic(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header, registry = command.header(DeleteTopic), state.registry
    if not header.cluster_name:
        registry.routes.remove_topic(header.topic)
    for broker in registry.brokers.names_by_cluster().get(header.cluster_name or "", ()):
        registry.routes.remove(header.topic, broker)
    return response_to(command)


def _register_topic(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    topic = check_name("topic", command.header(RegisterTopic).topic)
    queues = decode_request_body(RouteBody, command.body).queues if command.body else ()
    state.registry.add_queues(topic, queues)
    return response_to(command)


_UNIT, _UNIT_SUBSCRIPTION = 1, 2


def _list_topics(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    _check_allowed(state.options.lists_all_topics)
    return _topic_names(command, state.registry.routes.topics())


def _list_topics_of_cluster(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    _check_allowed(state.options.lists_topics)
    registry = state.registry
    brokers = registry.brokers.names_by_cluster().get(command.header(GetTopicsByCluster).cluster, ())
    return _topic_names(command, dict.fromkeys(chain.from_iterable(map(registry.routes.topics_of, brokers))))


def _list_system_topics(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    brokers = state.registry.brokers
    names = chain.from_iterable((cluster, *inside) for cluster, inside in brokers.names_by_cluster().items())
    address = next((address for broker in brokers for address in broker.addresses().values()), None)
    return _topic_names(command, dict.fromkeys(names), address)


def _list_flagged_topics(*, has: int, lacks: int = 0) -> NameServerRequestHandler:
    """Make the handler for 311, 312 or 313: topics that have some flags, and lack others."""

    def listed(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
        _check_allowed(state.options.lists_topics)
        flagged = state.registry.routes.topics_with_flags()
        return _topic_names(command, (topic for topic, flags in flagged if flags & has and not flags & lacks))

    return listed


def _topic_names(command: Command, topics: Iterable[str], address: str | None = None) -> Command:
    return response_to(command, body=encode_body(TopicNames(broker_address=address, topics=tuple(topics))))


def _check_allowed(is_allowed: bool) -> None:
    if not is_allowed:
        raise request_error(ResponseCode.SYSTEM_ERROR, "disable")


def _put_kv_config(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(KVConfigRequest)
    if header.value is None:
        remark = "the field value is missing; to take a setting away, send DELETE_KV_CONFIG (102)"
        raise request_error(ResponseCode.INVALID_PARAMETER, remark)
    namespace, key = check_name("namespace", header.namespace), check_name("key", header.key)
    state.kv_config.put(namespace, key, header.value)
    state.has_unsaved_changes = True
    return response_to(command)


def _get_kv_config(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(KVConfigRequest)
    value = state.kv_config.get(header.namespace, header.key)
    if value is None:
        namespace, key = check_name("namespace", header.namespace), check_name("key", header.key)
        raise request_error(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
    return response_to(command, fields=KVConfigResponse(value))


def _delete_kv_config(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(KVConfigRequest)
    state.has_unsaved_changes |= state.kv_config.delete(header.namespace, header.key)
    return response_to(command)


def _list_kv_namespace(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    namespace = check_name("namespace", command.header(KVNamespaceRequest).namespace)
    entries = state.kv_config.namespace_values(namespace)
    if entries is None:
        raise request_error(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return response_to(command, body=encode_body(KVTable(table=entries)))


def _update_config(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    settings = decode_settings(command.body)
    before = apache_settings(state.options)
    state.options = apply_apache_settings(state.options, settings)
    after = apache_settings(state.options)
    if changed := {name: value for name, value in after.items() if value != before[name]}:
        state.changed_settings |= changed
        state.has_unsaved_changes = True
    return response_to(command)


def _get_config(state: NameServerState, command: Command, _peer: Peer, _now_ms: int) -> Command:
    return response_to(command, body=encode_settings(apache_settings(state.options)))


HANDLERS: Mapping[int, NameServerRequestHandler] = {
    Code.PUT_KV_CONFIG: _put_kv_config,
    Code.GET_KV_CONFIG: _get_kv_config,
    Code.DELETE_KV_CONFIG: _delete_kv_config,
    Code.GET_KVLIST_BY_NAMESPACE: _list_kv_namespace,
    Code.UPDATE_NAMESRV_CONFIG: _update_config,
    Code.GET_NAMESRV_CONFIG: _get_config,
    Code.REGISTER_BROKER: _register_broker,
    Code.UNREGISTER_BROKER: _unregister_broker,
    Code.QUERY_DATA_VERSION: _query_data_version,
    Code.BROKER_HEARTBEAT: _broker_heartbeat,
    Code.GET_ROUTEINFO_BY_TOPIC: _get_route,
    Code.GET_BROKER_CLUSTER_INFO: _get_cluster,
    Code.GET_BROKER_MEMBER_GROUP: _get_broker_members,
    Code.WIPE_WRITE_PERM_OF_BROKER: _wipe_write_permission,
    Code.ADD_WRITE_PERM_OF_BROKER: _add_write_permission,
    Code.DELETE_TOPIC_IN_NAMESRV: _delete_topic,
    Code.REGISTER_TOPIC_IN_NAMESRV: _register_topic,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _list_topics,
    Code.GET_TOPICS_BY_CLUSTER: _list_topics_of_cluster,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _list_system_topics,
    Code.GET_UNIT_TOPIC_LIST: _list_flagged_topics(has=_UNIT),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _list_flagged_topics(has=_UNIT_SUBSCRIPTION),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _list_flagged_topics(has=_UNIT_SUBSCRIPTION, lacks=_UNIT),
}
"""By request code. What is not listed is answered with 3."""
