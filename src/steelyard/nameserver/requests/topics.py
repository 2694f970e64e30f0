"""Lists of topics: 206, 224, 304, and 311 to 313.

- 206 GET_ALL_TOPIC_LIST_FROM_NAMESERVER: all of them.
- 224 GET_TOPICS_BY_CLUSTER: those of a cluster's brokers; none for a cluster that nobody knows.
- 304 GET_SYSTEM_TOPIC_LIST_FROM_NS: the names of clusters and brokers, which are topics of their own, and the address
  of one broker, where the caller can ask on.
- 311 GET_UNIT_TOPIC_LIST, 312 GET_HAS_UNIT_SUB_TOPIC_LIST and 313 GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: by the topics'
  flags, bit 1 for a unit and bit 2 for a unit's subscription.

A list that is switched off is a 1, whose remark is ``disable``.
"""

from collections.abc import Iterable
from itertools import chain

from steelyard.nameserver.names import refusal
from steelyard.nameserver.state import Handler, State
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.nameserver import Cluster
from steelyard.wire.peers import Peer

__all__ = ["UNIT", "UNIT_SUBSCRIPTION", "all_topics", "flagged_topics", "own_topics", "topics_of_cluster"]

UNIT, UNIT_SUBSCRIPTION = 1, 2


def all_topics(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """206: all topics."""
    _check_allowed(state.options.lists_all_topics)
    return _names(command, state.registry.routes.topics())


def topics_of_cluster(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """224: the topics of a cluster."""
    _check_allowed(state.options.lists_topics)
    registry = state.registry
    brokers = registry.brokers.names_by_cluster().get(command.header(Cluster).cluster, ())
    return _names(command, dict.fromkeys(chain.from_iterable(map(registry.routes.topics_of, brokers))))


def own_topics(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
    """304: topics that are named after clusters and brokers, and where to ask on."""
    brokers = state.registry.brokers
    names = chain.from_iterable((cluster, *inside) for cluster, inside in brokers.names_by_cluster().items())
    address = next((address for broker in brokers for address in broker.addresses().values()), None)
    return _names(command, dict.fromkeys(names), address)


def flagged_topics(*, has: int, lacks: int = 0) -> Handler:
    """Make the handler for 311, 312 or 313: topics that have some flags, and lack others."""

    def listed(state: State, command: Command, _peer: Peer, _now_ms: int) -> Command:
        _check_allowed(state.options.lists_topics)
        flagged = state.registry.routes.flagged()
        return _names(command, (topic for topic, flags in flagged if flags & has and not flags & lacks))

    return listed


def _names(command: Command, topics: Iterable[str], address: str | None = None) -> Command:
    return answer_to(command, body=encode_body(TopicNames(broker_address=address, topics=tuple(topics))))


def _check_allowed(is_allowed: bool) -> None:
    if not is_allowed:
        raise refusal(ResponseCode.SYSTEM_ERROR, "disable")
