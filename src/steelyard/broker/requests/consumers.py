"""Members and producers: 38, 203, 204, 328, 343, 345; and requests forwarded to a member: 307, 309, 223.

38 GET_CONSUMER_LIST_BY_GROUP        the ids of a group; an empty group is refused (1), as Java expects. Ours also get
                                     which members are ours, the queues here, their owners, and warnings
203 GET_CONSUMER_CONNECTION_LIST     connections, settings and subscriptions of a group; 206 if it has no members
204 GET_PRODUCER_CONNECTION_LIST     the connections of a producer group; 1 if there are none. Ours also get the latency
                                     reports of our producers
328 GET_ALL_PRODUCER_INFO            every producer; ours get the same with it
343 QUERY_TOPICS_BY_CONSUMER         topics in which a group has offsets
345 QUERY_SUBSCRIPTION_BY_CONSUMER   a group's subscription to a topic, if any
307 GET_CONSUMER_RUNNING_INFO        forwarded unchanged, and so is the response: our members use it among themselves
309 CONSUME_MESSAGE_DIRECTLY         the message is read from the log and sent along, with the broker's name and the
                                     flags of topic and group
223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS   each member, or one, is asked for its offsets (221), and the responses are
                                     combined; a member without a response in time is left out

Errors of forwarded requests: 1 if the member is not connected or older than 3.1.8, 207 without a response in time.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice

from msgspec import structs

from steelyard.broker import client_expiry
from steelyard.broker.consumer_lag import waiting_queues
from steelyard.broker.consumer_registry import ConsumerGroup, GroupMember
from steelyard.broker.group_warnings import find_warnings
from steelyard.broker.producer_registry import RegisteredProducer
from steelyard.broker.request_errors import request_error, system_error
from steelyard.broker.requests.paging import check_rows
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.diagnostics import thresholds
from steelyard.errors import SteelyardError
from steelyard.wire.bodies import decode_request_body, encode_body
from steelyard.wire.bodies.common import TopicNames
from steelyard.wire.bodies.members import (
    ClientExtension,
    ConnectionEntry,
    ConsumerConnections,
    ConsumerIdList,
    FindingEntry,
    GroupExtension,
    GroupSubscription,
    MemberEntry,
    ProducerConnections,
    ProducerEntry,
    ProducerTable,
    WaitingQueueEntry,
)
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import CLIENT_LANGUAGE, SERVER_VERSION, ResponseCode, Version
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.admin import GetProducerConnections
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.group import ConsumeMessageDirectly, GetConsumerRunningState, GroupTopicRequest
from steelyard.wire.json_body import ByQueue
from steelyard.wire.limits import LIST_BYTES
from steelyard.wire.message_ids import parse_offset_id

_MAX_OWNERS = 1_000_000
"""Queues whose owners are listed: a few bytes each."""
_MAX_WAITING = 1_000
"""Queues without progress that are listed: more of them say nothing new."""


def _list_member_ids(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(GroupRequest).consumer_group
    group = state.consumers.group(name)
    if group is None:
        raise system_error(f"no consumer for this group, {name}")
    view = _group_view(state, group, now_ms) if request.language == CLIENT_LANGUAGE else None
    return response_to(request, body=encode_body(ConsumerIdList(ids=tuple(group.ids), steelyard=view)))


def _group_view(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> GroupExtension:
    queues = client_expiry.queue_counts(state, group)
    check_rows(sum(queues.values()), f"let the members of {group.name} subscribe to fewer topics", _MAX_OWNERS)
    return GroupExtension(
        epoch=group.epoch,
        findings=tuple(map(FindingEntry.of, find_warnings(group))) or None,
        members=tuple(
            MemberEntry(
                id=member.id,
                leaving=member.leaving,
                ours=member.is_steelyard,
                strategy=member.strategy,
                topics=tuple(sorted(member.subscriptions)),
            )
            for member in map(group.members.__getitem__, group.ids)
        ),
        owners=client_expiry.owners_by_topic(state, group, now_ms),
        queues=queues,
        settled=state.queue_locks.is_settled(group.name, now_ms),
    )


def _waiting_queues(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> tuple[WaitingQueueEntry, ...] | None:
    topics = [topic for name in group.subscriptions if (topic := state.topics.get(name)) is not None]
    found = (each for topic in topics for each in waiting_queues(state, group.name, topic, now_ms, thresholds.STUCK_MS))
    entries = (
        WaitingQueueEntry(
            lag=each.lag,
            offset=each.offset,
            oldest_ms=None if each.oldest_ms is None else max(0, now_ms - each.oldest_ms),
            queue_id=each.queue.queue_id,
            still_ms=now_ms - each.since_ms,
            topic=each.queue.topic,
        )
        for each in found
    )
    return tuple(islice(entries, _MAX_WAITING)) or None


def _consumer_connections(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(GroupRequest).consumer_group
    group = state.consumers.group(name)
    if group is None:
        raise request_error(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    view = None
    if request.language == CLIENT_LANGUAGE:
        view = structs.replace(_group_view(state, group, now_ms), waiting=_waiting_queues(state, group, now_ms))
    body = ConsumerConnections(
        connections=tuple(_to_connection(group.members[client_id]) for client_id in group.ids),
        start_from=group.start_from,
        kind=group.kind,
        model=group.model,
        steelyard=view,
        subscriptions=dict(group.subscriptions),
    )
    return response_to(request, body=encode_body(body))


def _to_connection(
    client: GroupMember | RegisteredProducer, extension: ClientExtension | None = None
) -> ConnectionEntry:
    return ConnectionEntry(
        client_address=client.peer.address,
        client_id=client.id,
        language=client.language,
        steelyard=extension,
        version=client.version,
    )


def _producer_connections(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(GetProducerConnections).producer_group
    producers = state.producers.in_group(name)
    if not producers:
        raise system_error(f"the producer group[{name}] not exist")
    connections = tuple(_to_connection(each, _latency_report(state, request, each, now_ms)) for each in producers)
    return response_to(request, body=encode_body(ProducerConnections(connections=connections)))


def _latency_report(
    state: BrokerCoreState, request: Command, producer: RegisteredProducer, now_ms: int
) -> ClientExtension | None:
    return state.producers.latency_report_of(producer, now_ms) if request.language == CLIENT_LANGUAGE else None


def _all_producers(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    table = {
        group: tuple(
            ProducerEntry(
                client_id=each.id,
                language=each.language,
                seen_ms=each.last_seen_ms,
                remote_ip=f"/{each.peer.address}",
                steelyard=_latency_report(state, request, each, now_ms),
                version=each.version,
            )
            for each in state.producers.in_group(group)
        )
        for group in state.producers.group_names()
    }
    return response_to(request, body=encode_body(ProducerTable(groups=table)))


def _topics_of_group(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    topics = state.offsets.topics_of(request.header(GroupTopicRequest).group)
    return response_to(
        request, body=encode_body(TopicNames(broker_address=state.options.address, topics=tuple(sorted(topics))))
    )


def _subscription_of_group(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(GroupTopicRequest)
    group = state.consumers.group(header.group)
    subscription = None if group is None else group.subscriptions.get(header.topic or "")
    body = GroupSubscription(group=header.group, subscription=subscription, topic=header.topic)
    return response_to(request, body=encode_body(body))


_STATUS_TIMEOUT_MS = 5_000


def _forward_running_info(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> None:
    header = request.header(GetConsumerRunningState)
    member = _online_member(state, header.consumer_group, header.client_id)
    _forward(state, request, peer, member, Command(request.code, request.texts(), request.body), now_ms)


def _forward_consume_directly(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> None:
    header = request.header(ConsumeMessageDirectly)
    member = _online_member(state, header.consumer_group, header.client_id or "")
    fields = {**request.texts(), "brokerName": state.options.name}
    topic, group = state.topics.get(header.topic or ""), state.groups.get(header.consumer_group)
    if topic is not None:
        fields["topicSysFlag"] = str(topic.settings.sys_flag or 0)
    if group is not None:
        fields["groupSysFlag"] = str(group.sys_flag or 0)
    message_id = header.msg_id or ""
    record = state.store.lookup.record_at(parse_offset_id(message_id)[1])
    if record is None:
        remark = f"there is no message {message_id[:80]} in the log of this broker"
        raise request_error(ResponseCode.QUERY_NOT_FOUND, remark)
    _forward(state, request, peer, member, Command(request.code, fields, bytes(record)), now_ms)


def _online_member(state: BrokerCoreState, group_name: str, client_id: str) -> GroupMember:
    member = state.consumers.member(group_name, client_id)
    if member is None or not member.connections:
        raise system_error(f"The Consumer <{group_name}> <{client_id[:255]}> not online")
    if member.version < Version.V3_1_8_SNAPSHOT:
        raise system_error(
            f"The Consumer <{client_id}> Version <{member.version}> too low to finish, please upgrade it to V3_1_8"
        )
    return member


def _forward(
    state: BrokerCoreState, request: Command, peer: Peer, member: GroupMember, forwarded: Command, now_ms: int
) -> None:
    request = _without_body(request)

    def on_response(answer: Command | None) -> None:
        if answer is None:
            remark = f"consumer <{member.group}> <{member.id}> Timeout: it did not answer, or its connection closed"
            response = response_to(request, ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark)
        else:
            fields: dict[str, str] = {}
            with suppress(SteelyardError):
                fields = answer.texts()
            response = response_to(request, answer.code, fields, answer.body, answer.remark)
        if not request.is_oneway:
            state.send(peer, response)

    forwarded = structs.replace(forwarded, version=SERVER_VERSION)
    _ask(state, member, forwarded, on_response, now_ms + state.options.forward_timeout_ms)


def _ask(
    state: BrokerCoreState,
    member: GroupMember,
    forwarded: Command,
    on_response: Callable[[Command | None], None],
    until_ms: int,
) -> None:
    state.send(member.peer, state.forwarded_requests.forward(member.peer, forwarded, on_response, until_ms))


def _without_body(request: Command) -> Command:
    """Return a request without its body, which may be large, to keep until the response comes."""
    return structs.replace(request, fields={}, body=b"")


def _collect_status(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> None:
    header = request.header(GroupTopicRequest)
    group = state.consumers.group(header.group)
    if group is None:
        raise system_error(f"No Any Consumer online in the consumer group: [{header.group}]")
    forwarded = Command(
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        GroupTopicRequest(group=header.group, topic=header.topic),
        version=SERVER_VERSION,
    )
    request = _without_body(request)
    asked = [each for each in group.members.values() if each.connections and header.client_addr in (None, "", each.id)]
    waiting = {member.id for member in asked}
    found = dict[str, ByQueue[int]]()

    def finish() -> None:
        if not waiting and not request.is_oneway:
            body = encode_body(MemberOffsets(members=dict(sorted(found.items()))))
            state.send(peer, response_to(request, body=body))

    def on_response(client_id: str, answer: Command | None) -> None:
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            # A malformed response counts as none.
            with suppress(SteelyardError):
                found[client_id] = decode_request_body(MemberOffsets, answer.body, max_bytes=LIST_BYTES).queues
        waiting.discard(client_id)
        finish()

    for member in asked:
        _ask(state, member, forwarded, partial(on_response, member.id), now_ms + _STATUS_TIMEOUT_MS)
    if not asked:
        finish()


HANDLERS: Mapping[int, RequestHandler] = {
    Code.GET_CONSUMER_LIST_BY_GROUP: _list_member_ids,
    Code.GET_CONSUMER_CONNECTION_LIST: _consumer_connections,
    Code.GET_PRODUCER_CONNECTION_LIST: _producer_connections,
    Code.GET_ALL_PRODUCER_INFO: _all_producers,
    Code.QUERY_TOPICS_BY_CONSUMER: _topics_of_group,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _subscription_of_group,
    Code.GET_CONSUMER_RUNNING_INFO: _forward_running_info,
    Code.CONSUME_MESSAGE_DIRECTLY: _forward_consume_directly,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _collect_status,
}
