"""The name server core: one command in, at most one response out.

Brokers register here, and clients ask for routes. Name servers know nothing of each other: a broker registers with all
of them, and a client asks any one. Nothing that a peer sends makes it raise: what is malformed, unknown or too much is
answered with a code and a remark that says what to do. A oneway request is handled and never answered.

Brokers and routes are not saved: brokers register again. The key-value config and changed switches are, in the form of
Apache's ``kvConfig.json``, with the switches beside the table, where Apache's name server ignores them.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from steelyard.errors import ConfigurationError, ProtocolError, ServerError, SteelyardError
from steelyard.nameserver.broker_registry import READ, WRITE, BrokerRegistry, remove_write_permission
from steelyard.nameserver.options import NameServerOptions, apache_settings, apply_apache_settings
from steelyard.nameserver.validation import (
    MAX_KEY_VALUE_BYTES,
    MAX_KEY_VALUES,
    check_name,
    error_response,
    request_error,
)
from steelyard.wire.bodies import decode_body, decode_request_body, encode_body
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
from steelyard.wire.command import CloseConnection, Command, Peer, Reply, response_to
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
from steelyard.wire.json_body import ById, JsonBody, always_written
from steelyard.wire.limits import FRAME_BYTES, REGISTRATION_MARKS

T = TypeVar("T")

_CODES = frozenset(Code)
_JAVA_CRC_BITS = 0x7FFF_FFFF
_UNIT, _UNIT_SUBSCRIPTION = 1, 2
_ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The one namespace with a meaning: how many queues each broker has of strictly ordered topics, whatever brokers come
and go."""


class _SavedState(JsonBody, frozen=True, kw_only=True):
    key_values: Mapping[str, Mapping[str, str]] = always_written({}, "configTable")
    settings: Mapping[str, str] = always_written({})


class _KVConfig:
    """Key-value config: strings by namespace and key, which any client may write and read.

    As in Apache's, a namespace stays when its last key is deleted; it is dropped when its space is needed, and is not
    saved.

    >>> table = _KVConfig({})
    >>> table.put("team", "lead", "Ada")
    >>> table.get("team", "lead"), table.get("team", "other"), table.namespace_values("nobody")
    ('Ada', None, None)
    """

    def __init__(self, saved: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = {namespace: dict(entries) for namespace, entries in saved.items() if entries}
        self._count = len(self._namespaces) + sum(map(len, self._namespaces.values()))
        self._bytes = sum(_size(namespace) + _sizes(entries) for namespace, entries in self._namespaces.items())

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value."""
        return self._namespaces.get(namespace, {}).get(key)

    def namespace_values(self, namespace: str) -> Mapping[str, str] | None:
        """Return all keys and values of a namespace; None if it does not exist."""
        return self._namespaces.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Put a value; refuse it if there is no room."""
        count, size = self._size_with(namespace, key, value)
        if count > MAX_KEY_VALUES or size > MAX_KEY_VALUE_BYTES:
            self._drop_empty()
            count, size = self._size_with(namespace, key, value)
            if count > MAX_KEY_VALUES or size > MAX_KEY_VALUE_BYTES:
                raise request_error(
                    ResponseCode.SYSTEM_ERROR,
                    f"there is no room for another setting: the limit is {MAX_KEY_VALUES} of them, and "
                    f"{MAX_KEY_VALUE_BYTES} bytes together; delete some (102) first",
                )
        self._count, self._bytes = count, size
        self._namespaces.setdefault(namespace, {})[key] = value

    def delete(self, namespace: str, key: str) -> bool:
        """Delete a value; return whether there was one."""
        entries = self._namespaces.get(namespace, {})
        value = entries.pop(key, None)
        if value is None:
            return False
        self._count -= 1
        self._bytes -= _size(key) + _size(value)
        return True

    def export(self) -> dict[str, dict[str, str]]:
        """Return what is worth saving."""
        return {namespace: dict(entries) for namespace, entries in self._namespaces.items() if entries}

    def _size_with(self, namespace: str, key: str, value: str) -> tuple[int, int]:
        """Return the number of settings and namespaces after a put, and their bytes."""
        entries, count, size = self._namespaces.get(namespace), self._count, self._bytes
        if entries is None:
            count, size = count + 1, size + _size(namespace)
        old = (entries or {}).get(key)
        if old is None:
            return count + 1, size + _size(key) + _size(value)
        return count, size + _size(value) - _size(old)

    def _drop_empty(self) -> None:
        for namespace in [name for name, entries in self._namespaces.items() if not entries]:
            del self._namespaces[namespace]
            self._count -= 1
            self._bytes -= _size(namespace)


def _size(text: str) -> int:
    return len(text.encode())


def _sizes(entries: Mapping[str, str]) -> int:
    return sum(_size(key) + _size(value) for key, value in entries.items())


class NameServerCore:
    """One name server.

    >>> core = NameServerCore(NameServerOptions())
    >>> (reply,) = core.handle(Command(105, {"topic": "orders"}), Peer.at("127.0.0.1", 50_123, connection_id=1), 0)
    >>> reply.command.code
    17
    """

    def __init__(self, options: NameServerOptions, *, saved: bytes | None = None) -> None:
        try:
            loaded = decode_body(_SavedState, saved) if saved else _SavedState()
            self.options = apply_apache_settings(options, loaded.settings)
        except (ProtocolError, ServerError) as error:
            raise ConfigurationError(
                "the saved settings of the name server cannot be used: "
                f"{error.remark if isinstance(error, ServerError) else error}",
                next_step="repair the file, or move it away to start without settings",
            ) from None
        self.changed_settings = dict(loaded.settings)
        self.kv_config = _KVConfig(loaded.key_values)
        self.registry = BrokerRegistry()
        self.has_unsaved_changes = False
        """Whether something to save has changed since the last `export_state`."""

    def export_state(self) -> bytes:
        """Return what should outlive the process; pass it as ``saved`` to the next one."""
        self.has_unsaved_changes = False
        return encode_body(_SavedState(key_values=self.kv_config.export(), settings=self.changed_settings))

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Sequence[Reply]:
        """Handle a request and return its response; responses and oneway requests get none."""
        if command.is_response:
            return ()  # a name server sends no requests
        handler = HANDLERS.get(command.code, _unsupported)
        try:
            answer = handler(self, command, peer, now_ms)
        except SteelyardError as error:
            answer = error_response(command, error)
        return () if command.is_oneway else (Reply(peer, answer),)

    def is_broker(self, peer: Peer) -> bool:
        """Return whether a broker registered over this connection."""
        return bool(self.registry.brokers.on_connection(peer))

    def connection_closed(self, peer: Peer, now_ms: int) -> Sequence[Reply | CloseConnection]:
        """Remove the brokers that registered over a closed connection, and do what is due."""
        self.registry.connection_closed(peer)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> Sequence[Reply | CloseConnection]:
        """Remove brokers that were silent for too long; return the connections to close."""
        return self.registry.expire(now_ms)


_RequestHandler: TypeAlias = Callable[[NameServerCore, Command, Peer, int], Command]
"""Takes (core, request, peer, now_ms) and returns the response; it refuses by raising an error of the tree."""


def _unsupported(_core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    remark = f"request type {command.code} not supported by a name server"
    if command.code in _CODES:
        remark += f": {Code(command.code).name} is for a broker, and GET_BROKER_CLUSTER_INFO (106) lists those"
    return response_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def _register_broker(core: NameServerCore, command: Command, peer: Peer, now_ms: int) -> Command:
    header = command.header(RegisterBroker)
    if header.body_crc32 and zlib.crc32(command.body) & _JAVA_CRC_BITS != header.body_crc32:
        raise request_error(ResponseCode.SYSTEM_ERROR, "crc32 not match: the body is not what was sent; send it again")
    body = _decode_registration(command, header)
    registered = core.registry.register(header, body, peer, core.options, now_ms)
    master = registered.master
    fields = RegisterBrokerResponse(master.ha_address, master.address) if master else RegisterBrokerResponse()
    order = core.kv_config.namespace_values(_ORDER_TOPICS) if core.options.tells_brokers_order else None
    answer_body = b"" if order is None else encode_body(KVTable(table=order))
    return response_to(command, fields=fields, body=answer_body, remark=registered.remark)


def _unregister_broker(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(BrokerIdentity)
    core.registry.unregister(header.broker_name, header.broker_addr)
    return response_to(command)


def _query_data_version(core: NameServerCore, command: Command, _peer: Peer, now_ms: int) -> Command:
    header = command.header(BrokerIdentity)
    sent = decode_request_body(TableVersion, command.body) if command.body else None
    replica = core.registry.record_heartbeat(header.cluster_name, header.broker_addr, now_ms)
    if replica is None:
        return response_to(command, fields=QueryVersionResponse(True))
    is_changed = sent is None or sent.normalized() != replica.version
    return response_to(command, fields=QueryVersionResponse(is_changed), body=encode_body(replica.version))


def _broker_heartbeat(core: NameServerCore, command: Command, _peer: Peer, now_ms: int) -> Command:
    header = command.header(BrokerHeartbeat)
    core.registry.record_heartbeat(header.cluster_name, header.broker_addr, now_ms)
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


def _get_route(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(GetRoute)
    topic = check_name("topic", header.topic)
    found = core.registry.route_of(topic, core.options)
    if found is None:
        raise request_error(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}\n"
            "Create it on a broker that is registered here, or check that its broker is (106).",
        )
    if core.options.tells_clients_order:
        found = replace(found, order=core.kv_config.get(_ORDER_TOPICS, topic))
    quoted = command.version >= Version.V4_9_4 or bool(header.accept_standard_json_only)
    return response_to(command, body=encode_body(found, quoted_ids=quoted))


def _get_cluster(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    brokers = core.registry.brokers
    body = ClusterBody(
        brokers={broker.name: broker.route_entry() for broker in brokers}, clusters=brokers.names_by_cluster()
    )
    return response_to(command, body=encode_body(body))


def _get_broker_members(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(GetBrokerMemberGroup)
    broker = core.registry.brokers.get(header.broker_name)
    group = BrokerMemberGroup(
        addresses=broker.addresses() if broker else ById(),
        broker_name=check_name("broker", header.broker_name),
        cluster=check_name("cluster", header.cluster_name),
    )
    return response_to(command, body=encode_body(BrokerMemberGroupResponse(group=group)))


def _wipe_write_permission(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    broker = command.header(WritePermissionRequest).broker_name
    count = core.registry.routes.change_permissions(broker, remove_write_permission)
    return response_to(command, fields=WritePermissionResponse(wipe_topic_count=count))


def _add_write_permission(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    broker = command.header(WritePermissionRequest).broker_name
    count = core.registry.routes.change_permissions(broker, lambda permission: permission | READ | WRITE)
    return response_to(command, fields=WritePermissionResponse(add_topic_count=count))


def _delete_topic(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header, registry = command.header(DeleteTopic), core.registry
    if not header.cluster_name:
        registry.routes.remove_topic(header.topic)
    for broker in registry.brokers.names_by_cluster().get(header.cluster_name or "", ()):
        registry.routes.remove(header.topic, broker)
    return response_to(command)


def _register_topic(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    topic = check_name("topic", command.header(RegisterTopic).topic)
    queues = decode_request_body(RouteBody, command.body).queues if command.body else ()
    core.registry.add_queues(topic, queues)
    return response_to(command)


def _list_topics(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    _check_allowed(core.options.lists_all_topics)
    return _topic_names(command, core.registry.routes.topics())


def _list_topics_of_cluster(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    _check_allowed(core.options.lists_topics)
    registry = core.registry
    brokers = registry.brokers.names_by_cluster().get(command.header(GetTopicsByCluster).cluster, ())
    return _topic_names(command, registry.routes.topics_on(brokers))


def _list_system_topics(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    brokers = core.registry.brokers
    names = chain.from_iterable((cluster, *inside) for cluster, inside in brokers.names_by_cluster().items())
    address = next((address for broker in brokers for address in broker.addresses().values()), None)
    return _topic_names(command, dict.fromkeys(names), address)


def _list_flagged_topics(*, has: int, lacks: int = 0) -> _RequestHandler:
    """Make the handler for 311, 312 or 313: topics that have some flags, and lack others."""

    def listed(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
        _check_allowed(core.options.lists_topics)
        flagged = core.registry.routes.topics_with_flags()
        return _topic_names(command, (topic for topic, flags in flagged if flags & has and not flags & lacks))

    return listed


def _topic_names(command: Command, topics: Iterable[str], address: str | None = None) -> Command:
    return response_to(command, body=encode_body(TopicNames(broker_address=address, topics=tuple(topics))))


def _check_allowed(is_allowed: bool) -> None:
    if not is_allowed:
        raise request_error(ResponseCode.SYSTEM_ERROR, "disable")


def _put_kv_config(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(KVConfigRequest)
    if header.value is None:
        remark = "the field value is missing; to take a setting away, send DELETE_KV_CONFIG (102)"
        raise request_error(ResponseCode.INVALID_PARAMETER, remark)
    namespace, key = check_name("namespace", header.namespace), check_name("key", header.key)
    core.kv_config.put(namespace, key, header.value)
    core.has_unsaved_changes = True
    return response_to(command)


def _get_kv_config(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(KVConfigRequest)
    value = core.kv_config.get(header.namespace, header.key)
    if value is None:
        namespace, key = check_name("namespace", header.namespace), check_name("key", header.key)
        raise request_error(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
    return response_to(command, fields=KVConfigResponse(value))


def _delete_kv_config(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    header = command.header(KVConfigRequest)
    core.has_unsaved_changes |= core.kv_config.delete(header.namespace, header.key)
    return response_to(command)


def _list_kv_namespace(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    namespace = check_name("namespace", command.header(KVNamespaceRequest).namespace)
    entries = core.kv_config.namespace_values(namespace)
    if entries is None:
        raise request_error(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return response_to(command, body=encode_body(KVTable(table=entries)))


def _update_config(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    settings = decode_settings(command.body)
    before = apache_settings(core.options)
    core.options = apply_apache_settings(core.options, settings)
    after = apache_settings(core.options)
    if changed := {name: value for name, value in after.items() if value != before[name]}:
        core.changed_settings |= changed
        core.has_unsaved_changes = True
    return response_to(command)


def _get_config(core: NameServerCore, command: Command, _peer: Peer, _now_ms: int) -> Command:
    return response_to(command, body=encode_settings(apache_settings(core.options)))


HANDLERS: Mapping[int, _RequestHandler] = {
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
