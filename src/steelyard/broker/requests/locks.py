"""Queue locks: 41 LOCK_BATCH_MQ, 42 UNLOCK_BATCH_MQ.

Apache trusts the client id in the body. Here a connection with a registered member locks and unlocks only under that
member's id, and no other connection does so for a member of ours: what is still in flight on a replaced connection must
neither release nor acquire what the newer one holds. Connections without a member are trusted, as on Apache's.

Queues of other brokers are not locked. A renewal never acquires a queue. To unlock, the owner must match, and the epoch
if one is given; otherwise nothing happens, and the response is success, as Apache's.
"""

from collections.abc import Mapping

from steelyard.broker.consumer_registry import GroupMember
from steelyard.broker.queue_locks import QueueLock, ReleaseReason, parse_lock_group
from steelyard.broker.request_errors import invalid_parameter, request_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.validation import check_group, check_topic
from steelyard.wire.bodies import decode_request_body, encode_body
from steelyard.wire.bodies.queue_assignment import DeniedLock, LockRequest, LockResponse, LockResponseExtension
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.limits import LOCK_BYTES, LOCKED_QUEUES

_MAX_ID_LENGTH = 255


def _lock(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command:
    body = decode_request_body(LockRequest, request.body, max_bytes=LOCK_BYTES)
    group, is_lease = parse_lock_group(body.group)
    member = _requesting_member(state, body, group, peer)
    until_ms = None if member is not None and member.is_steelyard else now_ms + state.options.java_lock_ms
    renew = body.steelyard is not None and bool(body.steelyard.renew)
    granted, epochs, denied = [], [], []
    for ref, epoch in zip(body.queues, _epochs(body), strict=True):
        key = ref.topic, ref.queue_id
        lock: QueueLock | None = None
        if ref.broker_name == state.options.name and ref.queue_id >= 0:
            if renew:
                lock = state.queue_locks.renew(
                    group, key, body.client_id, epoch, now_ms, until_ms=until_ms, is_lease=is_lease
                )
            else:
                lock = state.queue_locks.acquire(
                    group, key, body.client_id, now_ms, until_ms=until_ms, is_lease=is_lease
                )
        if lock is None:
            holder = state.queue_locks.holder(group, *key, now_ms)
            denied.append(DeniedLock(*key, "" if holder is None else holder.owner))
        else:
            granted.append(ref)
            epochs.append(lock.epoch)
    extension = None if body.steelyard is None else LockResponseExtension(denied=tuple(denied), epochs=tuple(epochs))
    return response_to(request, body=encode_body(LockResponse(granted=tuple(granted), steelyard=extension)))


def _unlock(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command:
    body = decode_request_body(LockRequest, request.body, max_bytes=LOCK_BYTES)
    group, _ = parse_lock_group(body.group)
    _requesting_member(state, body, group, peer)
    for ref, epoch in zip(body.queues, _epochs(body), strict=True):
        if ref.broker_name == state.options.name:
            how = ReleaseReason.GIVEN_UP if state.topics.get(ref.topic) is not None else ReleaseReason.TOPIC_GONE
            state.queue_locks.release(group, (ref.topic, ref.queue_id), body.client_id, epoch, now_ms, how=how)
    return response_to(request)


def _epochs(body: LockRequest) -> tuple[int | None, ...]:
    given = None if body.steelyard is None else body.steelyard.epochs
    if given is None:
        return (None,) * len(body.queues)
    if len(given) != len(body.queues):
        raise invalid_parameter(f"{len(given)} epochs for {len(body.queues)} queues: give one for each")
    return tuple(epoch if epoch >= 0 else None for epoch in given)


def _requesting_member(state: BrokerCoreState, body: LockRequest, group: str, peer: Peer) -> GroupMember | None:
    """Return the requesting member, or None if the connection has none; refuse a request for another member."""
    check_group(group)
    if not 0 < len(body.client_id) <= _MAX_ID_LENGTH or len(body.queues) > LOCKED_QUEUES:
        raise invalid_parameter(
            f"a client id has 1 to {_MAX_ID_LENGTH} letters, and {LOCKED_QUEUES} queues are locked at a time at most"
        )
    for topic in dict.fromkeys(ref.topic for ref in body.queues):
        check_topic(topic)
    ids = state.consumers.ids_on_connection(peer)
    if ids and body.client_id not in ids:
        raise request_error(
            ResponseCode.NO_PERMISSION,
            f"this connection belongs to {min(ids)} and cannot lock for {body.client_id[:80]}: use that client's own",
        )
    member = state.consumers.on_connection(peer, group)
    if member is None:
        other = state.consumers.member(group, body.client_id)
        if other is not None and other.is_steelyard:
            raise request_error(
                ResponseCode.NO_PERMISSION,
                f"{body.client_id} is registered in group {group} on another connection than {peer.address}: use that",
            )
    return member


HANDLERS: Mapping[int, RequestHandler] = {Code.LOCK_BATCH_MQ: _lock, Code.UNLOCK_BATCH_MQ: _unlock}
