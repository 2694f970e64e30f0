"""Where topics and brokers are, and what administrators change about it: 105, 106, 205, 216, 217, 327 and 901.

- 105 GET_ROUTEINFO_BY_TOPIC, from every client every 30 s. Ids of brokers are numbers as keys: quoted for callers from
  version 401 on and for those that want standard JSON, raw for the others, whose readers cut the text by hand. 17 for a
  topic that nobody has. A zone in the request is not looked at: all brokers of the topic are told.
- 106 GET_BROKER_CLUSTER_INFO, from tools and, every 5 s, from 5.x brokers: ids are raw, whoever asks.
- 205 WIPE_WRITE_PERM_OF_BROKER and 327 ADD_WRITE_PERM_OF_BROKER: stop and allow writing to all topics of a broker,
  until the broker changes its table. Apache's 327 sets the permission to 6 and so loses the bit of pattern topics; here
  it is kept.
- 216 DELETE_TOPIC_IN_NAMESRV, with a cluster only on its brokers. An unknown topic is deleted already.
- 217 REGISTER_TOPIC_IN_NAMESRV: queues on brokers that are known. Apache's answers 0 and does nothing if one is not;
  here that is 211.
- 901 GET_BROKER_MEMBER_GROUP: all replicas of a broker, none if it is not known; ids are raw.
"""

from msgspec.structs import replace

from steelyard.nameserver.key_values import ORDER_TOPICS
from steelyard.nameserver.names import check_name, refusal
from steelyard.nameserver.registry import READ, WRITE, without_write
from steelyard.nameserver.state import State
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.routes import BrokerGroup, BrokerGroupAnswer, ClusterBody, RouteBody
from steelyard.wire.codes import ResponseCode, Version
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.nameserver import (
    BrokerMembers,
    BrokerName,
    DeleteTopic,
    GetRoute,
    RegisterTopic,
    WipeAnswer,
)
from steelyard.wire.maps import ById
from steelyard.wire.peers import Peer

__all__ = ["add_queues", "allow_writing", "clusters", "delete_topic", "replicas", "route", "stop_writing"]


def route(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """105: tell where a topic lives."""
    header = command.header(GetRoute)
    topic = check_name("topic", header.topic)
    found = state.registry.route(topic, state.options)
    if found is None:
        raise refusal(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}\n"
            "Create it on a broker that is registered here, or check that its broker is (106).",
        )
    if state.options.tells_clients_order:
        found = replace(found, order=state.key_values.get(ORDER_TOPICS, topic))
    quoted = command.version >= Version.V4_9_4 or bool(header.accept_standard_json_only)
    return answer_to(command, body=encode_body(found, quoted_ids=quoted))


def clusters(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """106: tell which brokers are there."""
    brokers = state.registry.brokers
    body = ClusterBody(brokers={broker.name: broker.entry() for broker in brokers}, clusters=brokers.names_by_cluster())
    return answer_to(command, body=encode_body(body))


def replicas(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """901: tell which replicas a broker has."""
    header = command.header(BrokerMembers)
    broker = state.registry.brokers.get(header.broker_name)
    group = BrokerGroup(
        addresses=broker.addresses() if broker else ById(),
        broker_name=check_name("broker", header.broker_name),
        cluster=check_name("cluster", header.cluster_name),
    )
    return answer_to(command, body=encode_body(BrokerGroupAnswer(group=group)))


def stop_writing(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """205: nobody shall write to this broker."""
    broker = command.header(BrokerName).broker_name
    count = state.registry.routes.change_permissions(broker, without_write)
    return answer_to(command, fields=WipeAnswer(wipe_topic_count=count))


def allow_writing(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """327: this broker may be written to again."""
    broker = command.header(BrokerName).broker_name
    count = state.registry.routes.change_permissions(broker, lambda permission: permission | READ | WRITE)
    return answer_to(command, fields=WipeAnswer(add_topic_count=count))


def delete_topic(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """216: forget this topic, everywhere or in one cluster."""
    header, registry = command.header(DeleteTopic), state.registry
    if not header.cluster_name:
        registry.routes.remove_topic(header.topic)
    for broker in registry.brokers.names_by_cluster().get(header.cluster_name or "", ()):
        registry.routes.remove(header.topic, broker)
    return answer_to(command)


def add_queues(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """217: this topic has these queues."""
    topic = check_name("topic", command.header(RegisterTopic).topic)
    queues = decode_request(RouteBody, command.body).queues if command.body else ()
    state.registry.add_queues(topic, queues)
    return answer_to(command)
