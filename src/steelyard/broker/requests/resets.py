"""Resetting where a group reads: 222 INVOKE_BROKER_TO_RESET_OFFSET.

Done here and not in the members, as with 5.5: the new offset is stored, overrides what members commit, and the next
pull of each queue is answered with 21 and the offset to go to. Pulls that wait are answered at once; Apache lets them
wait their time out. Our own members go there with the lock that they hold: were it taken from them, they would go there
twice, by this answer and by the next commit.

Nothing is pushed (220) to members of a clustering group, of 4.9 neither: they know 21 as "your offset was moved", drop
the queue, commit the offset they were given ten seconds later and take the queue again with it. What they commit in
those ten seconds is ignored (offsets.py), so nothing of the reset is lost. In a broadcasting group every member keeps
its own offsets and whoever pulls first would take the reset for itself: so there each member is told with 220, which
all Java clients know, and nothing is stored.

``isForce`` false means: back only. 5.5 ignores it, which would skip messages that nobody wanted skipped; here a group
that is not yet at the new offset stays where it is, as with 4.9.
"""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler
from steelyard.broker.names import refuse_own_group
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.broker.topics import Topic
from steelyard.broker.waking import wake_group
from steelyard.model import Queue
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.bodies.offsets import ResetOffsets, ResetOffsetsList
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.group import ResetOffset
from steelyard.wire.maps import ByQueue
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_CPP = "CPP"


def _reset(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(ResetOffset)
    topic, group = state.topics[header.topic], header.group
    refuse_own_group(group)
    if state.groups.get(group) is None:
        raise refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:120]} does not exist")
    targets = _targets(state, topic, header)
    moved = dict(targets)
    for queue_id, offset in targets.items():
        known = state.offsets.get(group, topic.name, queue_id)
        if known is not None and known <= offset and not header.is_force:
            targets[queue_id] = known
            del moved[queue_id]
    reset = ResetOffsets(
        offsets=ByQueue(
            {Queue(topic.name, state.options.name, queue_id): offset for queue_id, offset in targets.items()}
        )
    )
    members = state.members.group(group)
    if members is not None and members.model is MessageModel.BROADCASTING:
        for member in list(members.members.values()):
            body = ResetOffsetsList.of(reset) if member.language == _CPP else reset
            state.tell(member.peer, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, encode_body(body))
    else:
        for queue_id, offset in moved.items():
            state.offsets.reset(group, topic.name, queue_id, offset)
            wake_group(state, group, topic.key, queue_id, now_ms)
    return answer_to(request, body=encode_body(reset))


def _targets(state: State, topic: Topic, header: ResetOffset) -> dict[int, int]:
    """Return where each queue should go: one queue or all, to an offset, a time, or the end."""
    queue_id = -1 if header.queue_id is None else header.queue_id
    if queue_id < 0:
        if not topic.read_queues:
            raise refusal(ResponseCode.SYSTEM_ERROR, f"{topic.name} has no queues to reset")
        return {queue: _at(state, topic, queue, header.timestamp) for queue in range(topic.read_queues)}
    if queue_id >= topic.queues:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"{topic.name} has no queue {queue_id}: its queues are 0 to {topic.queues - 1}",
        )
    if header.offset is None or header.offset == -1:
        return {queue_id: _at(state, topic, queue_id, header.timestamp)}
    low, high = state.store.bounds(topic.key, queue_id)
    if not low <= header.offset <= high + 1:
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"Target offset {header.offset} not in consume queue range [{low}-{high}]"
        )
    return {queue_id: min(header.offset, high)}


def _at(state: State, topic: Topic, queue_id: int, timestamp: int) -> int:
    """Return the first offset stored at or after a time; the end for a time below zero."""
    if timestamp < 0:
        return state.store.bounds(topic.key, queue_id)[1]
    return state.store.lookup.offset_at(topic.key, queue_id, timestamp)


HANDLERS: Mapping[int, Handler] = {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _reset}
