"""Locks on queues: 41 LOCK_BATCH_MQ, 42 UNLOCK_BATCH_MQ.

Apache believes the client id in the body, whoever sends it. Here a line on which a member is registered locks and
unlocks under that member's id alone, and nobody does so in the name of a member of ours that has another line: what is
still under way on a line that was replaced must not free, or take, what the newer one holds. Lines that nobody
registered on are believed, as on Apache's.

Queues of other brokers are not locked here, and not granted. A renewal never takes a queue. To unlock, the owner must
match, and the epoch if one is given; if they do not, nothing happens, and the answer is success, as Apache's is.
"""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler
from steelyard.broker.locks import HowFreed, Lock, QueueKey, group_and_lease
from steelyard.broker.members import Member
from steelyard.broker.names import check_group, check_topic
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.locks import Denied, LockAnswer, LockAnswerWord, LockRequest
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.limits import LOCK_BYTES, LOCKED_QUEUES
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_LONGEST_ID = 255


def _lock(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    body = decode_request(LockRequest, request.body, most_bytes=LOCK_BYTES)
    group, is_lease = group_and_lease(body.group)
    member = _checked(state, body, group, peer)
    until_ms = None if member is not None and member.ours else now_ms + state.options.java_lock_ms
    renew = body.steelyard is not None and bool(body.steelyard.renew)
    granted, epochs, denied = [], [], []
    for ref, epoch in zip(body.queues, _epochs(body), strict=True):
        key = ref.topic, ref.queue_id
        lock: Lock | None = None
        if ref.broker_name == state.options.name and ref.queue_id >= 0:
            if renew:
                lock = state.locks.renew(
                    group, key, body.client_id, epoch, now_ms, until_ms=until_ms, is_lease=is_lease
                )
            else:
                lock = state.locks.take(group, key, body.client_id, now_ms, until_ms=until_ms, is_lease=is_lease)
        if lock is None:
            denied.append(Denied(*key, _holder(state, group, key, now_ms)))
        else:
            granted.append(ref)
            epochs.append(lock.epoch)
    word = None if body.steelyard is None else LockAnswerWord(denied=tuple(denied), epochs=tuple(epochs))
    return answer_to(request, body=encode_body(LockAnswer(granted=tuple(granted), steelyard=word)))


def _unlock(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    body = decode_request(LockRequest, request.body, most_bytes=LOCK_BYTES)
    group, _ = group_and_lease(body.group)
    _checked(state, body, group, peer)
    for ref, epoch in zip(body.queues, _epochs(body), strict=True):
        if ref.broker_name == state.options.name:
            how = HowFreed.GIVEN_UP if state.topics.get(ref.topic) is not None else HowFreed.TOPIC_GONE
            state.locks.release(group, (ref.topic, ref.queue_id), body.client_id, epoch, now_ms, how=how)
    return answer_to(request)


def _holder(state: State, group: str, key: QueueKey, now_ms: int) -> str:
    lock = state.locks.holder(group, *key, now_ms)
    return "" if lock is None else lock.owner


def _epochs(body: LockRequest) -> tuple[int | None, ...]:
    given = None if body.steelyard is None else body.steelyard.epochs
    if given is None:
        return (None,) * len(body.queues)
    if len(given) != len(body.queues):
        raise refusal(
            ResponseCode.INVALID_PARAMETER, f"{len(given)} epochs for {len(body.queues)} queues: give one for each"
        )
    return tuple(epoch if epoch >= 0 else None for epoch in given)


def _checked(state: State, body: LockRequest, group: str, peer: Peer) -> Member | None:
    """Return the member that asks, or None if nobody is registered on its line; refuse who asks for somebody else."""
    check_group(group)
    if not 0 < len(body.client_id) <= _LONGEST_ID or len(body.queues) > LOCKED_QUEUES:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"a client id has 1 to {_LONGEST_ID} letters, and {LOCKED_QUEUES} queues are locked at a time at most",
        )
    for topic in dict.fromkeys(ref.topic for ref in body.queues):
        check_topic(topic)
    ids = state.members.ids_on(peer)
    if ids and body.client_id not in ids:
        raise refusal(
            ResponseCode.NO_PERMISSION,
            f"this line belongs to {min(ids)} and cannot lock for {body.client_id[:80]}: use that client's own line",
        )
    member = state.members.on_line(peer, group)
    if member is None:
        found = state.members.group(group)
        other = None if found is None else found.members.get(body.client_id)
        if other is not None and other.ours:
            raise refusal(
                ResponseCode.NO_PERMISSION,
                f"{body.client_id} is registered in group {group} on another line than {peer.address}: use that one",
            )
    return member


HANDLERS: Mapping[int, Handler] = {Code.LOCK_BATCH_MQ: _lock, Code.UNLOCK_BATCH_MQ: _unlock}
