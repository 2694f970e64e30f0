"""Offsets of groups and of queues: 14 and 15, 29 to 32, 314, and the tables 43 and 45.

14 QUERY_CONSUMER_OFFSET: a group without an offset gets 22 and decides by itself where to start, unless nothing of the
queue was ever removed: then it gets 0, as with 4.9. 5.5 says 22 of an empty queue, too; Java's clients then ask for the
end, and skip what was sent between the two questions. Who wants 22 says so (``setZeroIfNotFound=false``). 4.9 ignores
that, and both look whether the first message is in memory; here every message that is still there is as good as that.

15 UPDATE_CONSUMER_OFFSET: 26 and 17 for a group and a topic that are not there, as with 5.5; 16 for who does not hold
the queue (fencing.py). What Apache takes and nobody can mean is refused with 29: an offset below zero, and a queue that
the topic neither has nor had.

29 to 32 about a topic or a queue that is not there answer 0, or -1 for a time.
"""

from collections.abc import Mapping

from steelyard.broker.fencing import Verdict, commit
from steelyard.broker.handlers import Handler
from steelyard.broker.names import check_group, refuse_own_group
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.wire.bodies import encode_body
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.admin import CloneOffsets
from steelyard.wire.headers.common import OffsetAnswer, QueueRequest
from steelyard.wire.headers.group import CommitOffset, EarliestAnswer, GetMaxOffset, QueryOffset, SearchOffset
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_UPPER = "UPPER"


def _query(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueryOffset)
    offset = state.offsets.get(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        if header.set_zero_if_not_found is False:
            raise refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
        if _bounds(state, header.topic, header.queue_id)[0] > 0:
            raise refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
        offset = 0
    return answer_to(request, fields=OffsetAnswer(offset))


def _commit(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    header = request.header(CommitOffset)
    group, queue_id, offset = header.consumer_group, header.queue_id, header.commit_offset
    refuse_own_group(group)
    if state.groups.get(group) is None:
        raise refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:120]} not exist: a heartbeat or a pull makes it"
        )
    topic = state.topics[header.topic]
    if offset < 0 or not (0 <= queue_id < topic.queues or state.store.bounds(topic.key, queue_id)[1]):
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"offset {offset} of queue {queue_id} cannot be committed: {topic.name} has {topic.queues} queues, "
            "and offsets begin with 0",
        )
    verdict = commit(state, peer, group, topic.name, queue_id, offset, header.lock_epoch, now_ms)
    if verdict is Verdict.FENCED:
        raise refusal(
            ResponseCode.NO_PERMISSION,
            f"another member of {group} holds queue {queue_id} of {topic.name}: take the queue again before committing",
        )
    return answer_to(request, remark="Offset has been previously reset" if verdict is Verdict.RESET else None)


def _search(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(SearchOffset)
    topic = state.topics.get(header.topic)
    if topic is None:
        return answer_to(request, fields=OffsetAnswer(0))
    look = state.store.lookup.offset_at
    if (header.boundary_type or "").upper() == _UPPER:
        # The last message that was stored at or before the time.
        low, _ = state.store.bounds(topic.key, header.queue_id)
        offset = max(low, look(topic.key, header.queue_id, header.timestamp + 1) - 1)
    else:
        offset = look(topic.key, header.queue_id, header.timestamp)
    return answer_to(request, fields=OffsetAnswer(offset))


def _max_offset(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(GetMaxOffset)
    return answer_to(request, fields=OffsetAnswer(_bounds(state, header.topic, header.queue_id)[1]))


def _min_offset(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueueRequest)
    return answer_to(request, fields=OffsetAnswer(_bounds(state, header.topic, header.queue_id)[0]))


def _earliest(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueueRequest)
    topic, time_ms = state.topics.get(header.topic), None
    if topic is not None:
        lookup = state.store.lookup
        first = lookup.offset_at(topic.key, header.queue_id, 0)  # one that is lost has no time
        time_ms = lookup.stored_ms(topic.key, header.queue_id, first)
    return answer_to(request, fields=EarliestAnswer(-1 if time_ms is None else time_ms))


def _bounds(state: State, name: str, queue_id: int) -> tuple[int, int]:
    topic = state.topics.get(name)
    return (0, 0) if topic is None else state.store.bounds(topic.key, queue_id)


def _clone(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    """Give one group the offsets of another: of one topic, or of all that the source reads."""
    header = request.header(CloneOffsets)
    source, target = header.src_group, header.dest_group
    check_group(target)
    refuse_own_group(target)
    state.groups.known(target, now_ms)
    topics = [header.topic] if header.topic else state.offsets.topics_of(source)
    members = None if header.offline else state.members.group(source)
    subscribed = members.subscriptions if members is not None else {}
    for topic in topics:
        if state.topics.get(topic) is None or (subscribed and topic not in subscribed):
            continue
        for queue_id in state.offsets.copy(source, target, topic):
            state.locks.bump(target, topic, queue_id)
    return answer_to(request)


def _group_offsets(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return answer_to(request, body=encode_body(state.offsets.table()))


def _delay_offsets(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return answer_to(request, body=encode_body(state.schedule.table()))


HANDLERS: Mapping[int, Handler] = {
    RequestCode.QUERY_CONSUMER_OFFSET: _query,
    RequestCode.UPDATE_CONSUMER_OFFSET: _commit,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _search,
    RequestCode.GET_MAX_OFFSET: _max_offset,
    RequestCode.GET_MIN_OFFSET: _min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _earliest,
    RequestCode.CLONE_GROUP_OFFSET: _clone,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _group_offsets,
    RequestCode.GET_ALL_DELAY_OFFSET: _delay_offsets,
}
