"""Heartbeats and unregistration: 34, 35, 46.

34 HEART_BEAT           a client and all its groups. Creates groups and their retry topics where that is allowed,
                        registers members and producers, and stores latency reports of our producers. A group that may
                        not be created is skipped, as with Apache, so that one wrong group does not stop the others; one
                        of our clients gets the error (26). Java's second version has a fingerprint, and may omit its
                        subscriptions. The fingerprint is kept by client and not by group, so that two clients that
                        differ are not asked for subscriptions again for ever
35 UNREGISTER_CLIENT    removes a client from a group at once: on its own connection, or if that is closed
46 CHECK_CLIENT_CONFIG  checks a SQL92 subscription before it is used

Two live processes under one client id: the second one is refused if it is ours, since it can choose another id. Others
are accepted as on Apache's broker, are listed once, so that no queues go to an entry without a reader, and lead to a
warning (unless the options refuse them).
"""

from collections.abc import Mapping

from steelyard.broker import client_expiry
from steelyard.broker.consumer_registry import GroupMember, MemberHeartbeat
from steelyard.broker.filters import compile_filter
from steelyard.broker.producer_registry import RegisteredProducer
from steelyard.broker.request_errors import invalid_parameter, system_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.subscriptions import newest_by_topic, signature_of
from steelyard.broker.validation import check_topic
from steelyard.errors import GroupNotFound, ServerError
from steelyard.model import ExpressionType
from steelyard.wire.bodies import decode_request_body
from steelyard.wire.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerHeartbeat,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
)
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.group import HeartbeatResponse, UnregisterClient
from steelyard.wire.limits import HEARTBEAT_BYTES

_MAX_ID_LENGTH = _MAX_GROUP_LENGTH = 255
_MAX_INSTANCE_LENGTH = _MAX_STRATEGY_LENGTH = 64
_MAX_STALLED_QUEUES, _MAX_STALLED_LENGTH = 8, 500
_MAX_LANGUAGE_LENGTH = 32
_MAX_GROUPS = 1_024
_MAX_TOPICS = 4_096

_DEFAULT_HEARTBEAT_MS = 3_000
_MIN_HEARTBEAT_MS, _MAX_HEARTBEAT_MS = 1_000, 30_000
_HEARTBEATS_PER_TIMEOUT = 4


def _heartbeat(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command:
    body = decode_request_body(HeartbeatBody, request.body, max_bytes=HEARTBEAT_BYTES)
    _check_body(body)
    extension = body.steelyard
    refused: ServerError | None = None
    needs_subscriptions = False
    state.producers.record_client(body.client_id, peer)
    for consumer in body.consumers:
        try:
            needs_subscriptions |= _register_consumer(state, request, body, consumer, peer, now_ms)
        except GroupNotFound as error:
            if extension is not None:
                refused = error
        except ServerError as error:
            refused = error
    for each in body.producers:
        language = request.language[:_MAX_LANGUAGE_LENGTH]
        producer = RegisteredProducer(body.client_id, peer, language, request.version, now_ms)
        state.producers.register(each.group, producer)
    if body.producers:
        state.producers.record_latency_report(peer, None if extension is None else extension.broker_latency, now_ms)
    if refused is not None:
        raise refused
    return response_to(
        request,
        fields=HeartbeatResponse(
            supports_v2=True,
            subscription_changed=needs_subscriptions if body.fingerprint else True,
            steelyard=None if extension is None else "1",
            heartbeat_ms=None if extension is None else _heartbeat_interval_ms(extension),
        ),
    )


def _register_consumer(
    state: BrokerCoreState, request: Command, body: HeartbeatBody, consumer: ConsumerHeartbeat, peer: Peer, now_ms: int
) -> bool:
    """Register one group of a heartbeat; return whether the client has to send its subscriptions again."""
    settings = state.groups.get_or_create(consumer.group, now_ms)
    _check_topics(consumer)
    beat = _member_heartbeat(state, request, body, consumer, peer)
    _refuse_duplicate(state, beat, now_ms)
    if state.options.refuse_unequal:
        _refuse_unequal(state, beat)
    state.topics.get_or_create_retry(consumer.group, settings.retry_queues, now_ms)
    found = client_expiry.register_heartbeat(state, beat, now_ms)
    if beat.is_steelyard:
        extension = _group_extension(body, consumer.group)
        _reclaim_queues(state, beat, extension, now_ms)
        member = state.consumers.on_connection(beat.peer, beat.group)
        if member is not None:
            _count_avoided_duplicates(state, member, (extension and extension.avoided) or 0)
    return found.needs_subscriptions


def _count_avoided_duplicates(state: BrokerCoreState, member: GroupMember, total: int) -> None:
    """Count what a member avoided since its last heartbeat; earlier ones were counted elsewhere."""
    if member.avoided_duplicates is not None and total > member.avoided_duplicates:
        state.event_counters.avoided_duplicates.add(member.group, count=total - member.avoided_duplicates)
    member.avoided_duplicates = total


def _check_body(body: HeartbeatBody) -> None:
    if not 0 < len(body.client_id) <= _MAX_ID_LENGTH or not body.client_id.isprintable():
        raise invalid_parameter(
            f"a client id has 1 to {_MAX_ID_LENGTH} printable characters, this one has {len(body.client_id)}"
        )
    if len(body.consumers) + len(body.producers) > _MAX_GROUPS:
        raise invalid_parameter(f"a client may be in {_MAX_GROUPS} groups at most")
    if any(len(each.group) > _MAX_GROUP_LENGTH for each in body.producers):
        raise invalid_parameter(f"a producer group has at most {_MAX_GROUP_LENGTH} characters")


def _check_topics(consumer: ConsumerHeartbeat) -> None:
    if len(consumer.subscriptions) > _MAX_TOPICS:
        raise invalid_parameter(
            f"group {consumer.group} subscribes to {len(consumer.subscriptions)} topics, {_MAX_TOPICS} are allowed"
        )
    for each in consumer.subscriptions:
        check_topic(each.topic)


def _heartbeat_interval_ms(extension: HeartbeatExtension) -> int:
    return max(_MIN_HEARTBEAT_MS, min(extension.heartbeat_ms or _DEFAULT_HEARTBEAT_MS, _MAX_HEARTBEAT_MS))


def _group_extension(body: HeartbeatBody, group: str) -> HeartbeatGroupExtension | None:
    return None if body.steelyard is None or body.steelyard.groups is None else body.steelyard.groups.get(group)


def _member_heartbeat(
    state: BrokerCoreState, request: Command, body: HeartbeatBody, consumer: ConsumerHeartbeat, peer: Peer
) -> MemberHeartbeat:
    extension, group_extension = body.steelyard, _group_extension(body, consumer.group)
    instance = strategy = None
    stalled: tuple[str, ...] = ()
    timeout_ms = state.options.client_silence_ms
    if extension is not None:
        timeout_ms, instance = _HEARTBEATS_PER_TIMEOUT * _heartbeat_interval_ms(extension), extension.instance
    if group_extension is not None:
        strategy, stalled = group_extension.strategy, group_extension.stopped or ()
    is_unchanged = body.fingerprint and body.without_subscriptions
    return MemberHeartbeat(
        group=consumer.group,
        id=body.client_id,
        peer=peer,
        language=request.language[:_MAX_LANGUAGE_LENGTH],
        version=request.version,
        timeout_ms=timeout_ms,
        kind=consumer.kind,
        model=consumer.model,
        start_from=consumer.start_from,
        subscriptions=None if is_unchanged else newest_by_topic(consumer.subscriptions),
        fingerprint=body.fingerprint or 0,
        is_steelyard=extension is not None,
        instance=None if instance is None else instance[:_MAX_INSTANCE_LENGTH],
        leaving=extension is not None and bool(extension.leaving),
        strategy=None if strategy is None else strategy[:_MAX_STRATEGY_LENGTH],
        stalled_queues=tuple(each[:_MAX_STALLED_LENGTH] for each in stalled[:_MAX_STALLED_QUEUES]),
    )


def _refuse_duplicate(state: BrokerCoreState, heartbeat: MemberHeartbeat, now_ms: int) -> None:
    if state.consumers.is_replaced_connection(heartbeat):
        raise system_error(
            f"{heartbeat.id} has a newer connection to this broker than {heartbeat.peer.address}: use that"
        )
    if not heartbeat.is_steelyard and not state.options.refuse_duplicates:
        return
    rival = state.consumers.find_duplicate(heartbeat, now_ms)
    if rival is not None:
        raise system_error(
            f"the client id {heartbeat.id} is already in group {heartbeat.group}, in another process at "
            f"{rival.address}: give every member an id of its own"
        )


def _refuse_unequal(state: BrokerCoreState, heartbeat: MemberHeartbeat) -> None:
    group = state.consumers.group(heartbeat.group)
    if group is None or heartbeat.subscriptions is None:
        return
    signature = signature_of(heartbeat.subscriptions)
    for other in group.members.values():
        if other.id != heartbeat.id and other.signature is not None and other.signature != signature:
            topics = ", ".join(sorted({topic for topic, _, _ in other.signature ^ signature})[:5])
            raise system_error(
                f"{heartbeat.id} and {other.id} of group {heartbeat.group} have different subscriptions to {topics}: "
                "give all members of a group equal subscriptions"
            )


def _reclaim_queues(
    state: BrokerCoreState, heartbeat: MemberHeartbeat, group_extension: HeartbeatGroupExtension | None, now_ms: int
) -> None:
    """Give a member the queues that it held before this broker restarted."""
    if group_extension is None or group_extension.held is None or state.queue_locks.is_settled(heartbeat.group, now_ms):
        return
    for name, queues in group_extension.held.items():
        topic = state.topics.get(name)
        for held in queues if topic is not None else ():
            if topic is not None and 0 <= held.queue_id < topic.queues:
                state.queue_locks.reclaim(heartbeat.group, (name, held.queue_id), heartbeat.id, held.epoch, now_ms)


def _unregister(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command:
    header = request.header(UnregisterClient)
    if header.producer_group:
        state.producers.unregister(header.producer_group, peer)
    member = state.consumers.member(header.consumer_group or "", header.client_id)
    # A late request from a replaced connection does not concern the present one.
    if member is not None and (peer.connection_id in member.connections or not member.connections):
        _count_avoided_duplicates(state, member, header.steelyard_avoided or 0)
        client_expiry.unregister(state, member, peer, now_ms)
    return response_to(request)


def _check_client(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    subscription = decode_request_body(CheckClientRequest, request.body).subscription
    if subscription is None or subscription.kind in ("", ExpressionType.TAG.value):
        return response_to(request)
    if not state.options.property_filter:
        raise system_error(
            f"The broker does not support consumer to filter message by {subscription.kind[:80]}: it is switched off"
        )
    compile_filter(subscription.kind, subscription.expression)
    return response_to(request)


HANDLERS: Mapping[int, RequestHandler] = {
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _unregister,
    Code.CHECK_CLIENT_CONFIG: _check_client,
}
