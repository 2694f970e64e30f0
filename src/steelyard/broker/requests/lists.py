"""Who is there and what they want: 38, 203, 204, 328, 343, 345.

38 GET_CONSUMER_LIST_BY_GROUP        the ids of a group; an empty group is refused (1), as Java expects. Ours also get
                                     which of them are ours, the queues here, who holds which, and what looks wrong
203 GET_CONSUMER_CONNECTION_LIST     lines, ways and subscriptions of a group; 206 if nobody is there
204 GET_PRODUCER_CONNECTION_LIST     the lines of a producer group; 1 if nobody is there. Ours also get what each of
                                     our producers knows of brokers
328 GET_ALL_PRODUCER_INFO            every producer; ours get the same with it
343 QUERY_TOPICS_BY_CONSUMER         topics in which a group has offsets
345 QUERY_SUBSCRIPTION_BY_CONSUMER   what a group wants of a topic; without a subscription if nothing
"""

from collections.abc import Mapping

from steelyard.broker import membership
from steelyard.broker.handlers import Handler
from steelyard.broker.hazards import hazards_of
from steelyard.broker.members import Member, MemberGroup
from steelyard.broker.owners import owners_of
from steelyard.broker.producers import Producer
from steelyard.broker.refusals import refusal
from steelyard.broker.requests.rows import check_rows
from steelyard.broker.state import State
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.members import (
    ClientWord,
    Connection,
    ConsumerConnections,
    ConsumerIds,
    GroupSubscription,
    GroupView,
    MemberView,
    ProducerConnections,
    ProducerLine,
    ProducerTable,
)
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import OUR_LANGUAGE, ResponseCode
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.admin import ProducerGroup
from steelyard.wire.headers.common import Group
from steelyard.wire.headers.group import GroupAndTopic
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_MOST_OWNERS = 1_000_000
"""Queues whose owners are told: a few bytes each."""


def _ids(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(Group).consumer_group
    group = state.members.group(name)
    if group is None:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    view = _view(state, group, now_ms) if request.language == OUR_LANGUAGE else None
    return answer_to(request, body=encode_body(ConsumerIds(ids=tuple(group.ids), steelyard=view)))


def _view(state: State, group: MemberGroup, now_ms: int) -> GroupView:
    queues = membership.queue_counts(state, group)
    check_rows(sum(queues.values()), f"let the members of {group.name} want fewer topics", _MOST_OWNERS)
    return GroupView(
        epoch=group.epoch,
        hazards=tuple(hazard.sentence for hazard in hazards_of(group)) or None,
        members=tuple(_member(group.members[client_id]) for client_id in group.ids),
        owners=owners_of(state, group, now_ms),
        queues=queues,
        settled=state.locks.is_settled(group.name, now_ms),
    )


def _member(member: Member) -> MemberView:
    return MemberView(
        id=member.id,
        leaving=member.leaving,
        ours=member.ours,
        strategy=member.strategy,
        topics=tuple(sorted(member.subscriptions)),
    )


def _connections(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(Group).consumer_group
    group = state.members.group(name)
    if group is None:
        raise refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    body = ConsumerConnections(
        connections=tuple(_connection(group.members[client_id]) for client_id in group.ids),
        start_from=group.start_from,
        kind=group.kind,
        model=group.model,
        steelyard=_view(state, group, now_ms) if request.language == OUR_LANGUAGE else None,
        subscriptions=dict(group.subscriptions),
    )
    return answer_to(request, body=encode_body(body))


def _connection(member: Member) -> Connection:
    return Connection(
        client_address=member.peer.address, client_id=member.id, language=member.language, version=member.version
    )


def _producer_connections(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(ProducerGroup).producer_group
    producers = state.producers.of(name)
    if not producers:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    lines = tuple(
        Connection(
            client_address=each.peer.address,
            client_id=each.id,
            language=each.language,
            steelyard=_producer_word(state, request, each, now_ms),
            version=each.version,
        )
        for each in producers
    )
    return answer_to(request, body=encode_body(ProducerConnections(connections=lines)))


def _producer_word(state: State, request: Command, producer: Producer, now_ms: int) -> ClientWord | None:
    return state.producers.word_of(producer, now_ms) if request.language == OUR_LANGUAGE else None


def _all_producers(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    table = {
        group: tuple(
            ProducerLine(
                client_id=each.id,
                language=each.language,
                seen_ms=each.seen_ms,
                remote_ip=f"/{each.peer.address}",
                steelyard=_producer_word(state, request, each, now_ms),
                version=each.version,
            )
            for each in state.producers.of(group)
        )
        for group in state.producers.groups()
    }
    return answer_to(request, body=encode_body(ProducerTable(groups=table)))


def _topics(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    topics = state.offsets.topics_of(request.header(GroupAndTopic).group)
    return answer_to(
        request, body=encode_body(TopicNames(broker_address=state.options.address, topics=tuple(sorted(topics))))
    )


def _subscription(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(GroupAndTopic)
    group = state.members.group(header.group)
    wanted = None if group is None else group.subscriptions.get(header.topic or "")
    body = GroupSubscription(group=header.group, subscription=wanted, topic=header.topic)
    return answer_to(request, body=encode_body(body))


HANDLERS: Mapping[int, Handler] = {
    Code.GET_CONSUMER_LIST_BY_GROUP: _ids,
    Code.GET_CONSUMER_CONNECTION_LIST: _connections,
    Code.GET_PRODUCER_CONNECTION_LIST: _producer_connections,
    Code.GET_ALL_PRODUCER_INFO: _all_producers,
    Code.QUERY_TOPICS_BY_CONSUMER: _topics,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _subscription,
}
