"""Offsets of groups and queues: 14, 15, 29 to 32, 314, the tables 43 and 45, and resets (222).

14 QUERY_CONSUMER_OFFSET: a group without an offset gets 22 and chooses its start, unless nothing of the queue was
ever deleted: then it gets 0, as with 4.9. 5.5 returns 22 for an empty queue, too; Java's clients then request the end,
and skip what was sent between the two requests. With ``setZeroIfNotFound=false`` it is always 22. 4.9 ignores that, and
both check whether the first message is in memory; here every stored message counts as that. 15 UPDATE_CONSUMER_OFFSET:
26 and 17 for an unknown group or topic, as with 5.5; 16 if another member holds the queue (commit_fencing.py); 29 for a
negative offset or a queue that never existed, which Apache accepts. 29 to 32 return 0 for an unknown topic or queue, or
-1 for a time.

222 INVOKE_BROKER_TO_RESET_OFFSET is done here and not in the members, as with 5.5: the new offset is stored, overrides
commits, and the next pull of each queue is answered with 21 and the offset. Held pulls are answered at once; Apache's
time out. Our own members keep their lock: without it they would go there twice. Nothing is pushed (220) to members
of a clustering group, not even of 4.9: they take 21 for "your offset moved", drop the queue, commit the given offset
ten seconds later and acquire the queue again. What they commit meanwhile is ignored (offsets.py). In a broadcasting
group each member keeps its own offsets, so each gets a 220, and nothing is stored. ``isForce`` false means: only
backwards. 5.5 ignores it, which would skip messages; here a group before the new offset stays where it is, as with 4.9.
"""

from collections.abc import Mapping

from steelyard.broker.commit_fencing import CommitResult, commit_offset
from steelyard.broker.long_polling import PULLS_PER_CALL, answer_group_pulls
from steelyard.broker.request_errors import invalid_parameter, request_error, system_error
from steelyard.broker.requests.paging import check_rows
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.topics import BrokerTopic
from steelyard.broker.validation import check_group, check_not_broker_group
from steelyard.model import Queue
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.bodies.offsets import ResetOffsets, ResetOffsetsList
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.admin import CloneGroupOffset
from steelyard.wire.headers.common import OffsetResponse, QueueRequest
from steelyard.wire.headers.group import (
    CommitOffset,
    EarliestStoreTimeResponse,
    GetMaxOffset,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
)
from steelyard.wire.json_body import ByQueue

_ONE_QUEUE = "reset one queue at a time (queueId)"
_MAX_COPIED = 80_000
"""Offsets that are copied to another group at a time: one topic always fits."""
_MAX_READS = 24_000
"""Messages whose times a reset reads: a thousand queues with a million messages each."""
_MAX_PUSHED = 500_000
"""Offsets that a reset sends to the members of a broadcasting group, together."""


def _query_offset(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueryConsumerOffset)
    offset = state.offsets.get(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        if header.set_zero_if_not_found is False:
            remark = "Not found, do not set to zero, maybe this group boot first"
            raise request_error(ResponseCode.QUERY_NOT_FOUND, remark)
        if _bounds(state, header.topic, header.queue_id)[0] > 0:
            raise request_error(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
        offset = 0
    return response_to(request, fields=OffsetResponse(offset))


def _update_offset(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command:
    header = request.header(CommitOffset)
    group, queue_id, offset = header.consumer_group, header.queue_id, header.commit_offset
    check_not_broker_group(group)
    if state.groups.get(group) is None:
        remark = f"Group {group[:120]} not exist: a heartbeat or a pull creates it"
        raise request_error(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    topic = state.topics[header.topic]
    if offset < 0 or not (0 <= queue_id < topic.queues or state.store.bounds(topic.name_bytes, queue_id)[1]):
        raise invalid_parameter(
            f"offset {offset} of queue {queue_id} cannot be committed: {topic.name} has {topic.queues} queues, "
            "and offsets begin with 0"
        )
    result = commit_offset(state, peer, group, topic.name, queue_id, offset, header.lock_epoch, now_ms)
    if result is CommitResult.FENCED:
        raise request_error(
            ResponseCode.NO_PERMISSION,
            f"another member of {group} holds queue {queue_id} of {topic.name}: lock the queue again before committing",
        )
    return response_to(request, remark="Offset has been previously reset" if result is CommitResult.RESET else None)


def _search_offset(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(SearchOffset)
    topic = state.topics.get(header.topic)
    if topic is None:
        return response_to(request, fields=OffsetResponse(0))
    offset_by_time = state.store.lookup.offset_by_time
    if (header.boundary_type or "").upper() == "UPPER":
        # The last message that was stored at or before the time.
        low, _ = state.store.bounds(topic.name_bytes, header.queue_id)
        offset = max(low, offset_by_time(topic.name_bytes, header.queue_id, header.timestamp + 1) - 1)
    else:
        offset = offset_by_time(topic.name_bytes, header.queue_id, header.timestamp)
    return response_to(request, fields=OffsetResponse(offset))


def _max_offset(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(GetMaxOffset)
    return response_to(request, fields=OffsetResponse(_bounds(state, header.topic, header.queue_id)[1]))


def _min_offset(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueueRequest)
    return response_to(request, fields=OffsetResponse(_bounds(state, header.topic, header.queue_id)[0]))


def _earliest_stored(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueueRequest)
    topic, time_ms = state.topics.get(header.topic), None
    if topic is not None:
        lookup = state.store.lookup
        first = lookup.offset_by_time(topic.name_bytes, header.queue_id, 0)  # a lost message has no time
        time_ms = lookup.stored_ms(topic.name_bytes, header.queue_id, first)
    return response_to(request, fields=EarliestStoreTimeResponse(-1 if time_ms is None else time_ms))


def _bounds(state: BrokerCoreState, name: str, queue_id: int) -> tuple[int, int]:
    topic = state.topics.get(name)
    return (0, 0) if topic is None else state.store.bounds(topic.name_bytes, queue_id)


def _clone_offsets(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    """Copy the offsets of a group to another: of one topic, or of all that the source reads."""
    header = request.header(CloneGroupOffset)
    source, target = header.src_group, header.dest_group
    check_group(target)
    check_not_broker_group(target)
    topics = [header.topic] if header.topic else state.offsets.topics_of(source)
    members = None if header.offline else state.consumers.group(source)
    subscribed = members.subscriptions if members is not None else {}
    copied = [
        topic for topic in topics if state.topics.get(topic) is not None and (not subscribed or topic in subscribed)
    ]
    check_rows(
        sum(len(state.offsets.committed_in(source, topic)) for topic in copied), "copy one topic at a time", _MAX_COPIED
    )
    state.groups.get_or_create(target, now_ms)
    for topic in copied:
        for queue_id in state.offsets.clone(source, target, topic):
            state.queue_locks.advance_epoch(target, topic, queue_id)
    return response_to(request)


def _group_offsets(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return response_to(request, body=encode_body(state.offsets.table()))


def _delay_offsets(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return response_to(request, body=encode_body(state.delay_offsets.table()))


def _reset_offsets(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(ResetOffset)
    topic, group = state.topics[header.topic], header.group
    check_not_broker_group(group)
    if state.groups.get(group) is None:
        raise request_error(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:120]} does not exist")
    targets = _target_offsets(state, topic, header)
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
    body = encode_body(reset)
    members = state.consumers.group(group)
    if members is not None and members.model is MessageModel.BROADCASTING:
        check_rows(len(targets) * len(members.members), _ONE_QUEUE, _MAX_PUSHED)
        is_list_needed = any(member.language == "CPP" for member in members.members.values())
        for_cpp = encode_body(ResetOffsetsList.of(reset)) if is_list_needed else b""
        for member in list(members.members.values()):
            pushed = for_cpp if member.language == "CPP" else body
            state.send_oneway(member.peer, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, pushed)
    else:
        left = PULLS_PER_CALL
        for queue_id, offset in moved.items():
            state.offsets.reset(group, topic.name, queue_id, offset)
            left -= answer_group_pulls(state, group, topic.name_bytes, queue_id, now_ms, left)
    return response_to(request, body=body)


def _target_offsets(state: BrokerCoreState, topic: BrokerTopic, header: ResetOffset) -> dict[int, int]:
    """Return the new offset of one queue or all, by an offset, a time, or the end."""
    queue_id = -1 if header.queue_id is None else header.queue_id
    if queue_id < 0:
        if not topic.read_queues:
            raise system_error(f"{topic.name} has no queues to reset")
        check_rows(topic.read_queues, _ONE_QUEUE)
        _check_reads(state, topic, header.timestamp)
        return {queue: _offset_at(state, topic, queue, header.timestamp) for queue in range(topic.read_queues)}
    if queue_id >= topic.queues:
        raise invalid_parameter(f"{topic.name} has no queue {queue_id}: its queues are 0 to {topic.queues - 1}")
    if header.offset is None or header.offset == -1:
        return {queue_id: _offset_at(state, topic, queue_id, header.timestamp)}
    low, high = state.store.bounds(topic.name_bytes, queue_id)
    if not low <= header.offset <= high + 1:
        raise system_error(f"Target offset {header.offset} not in consume queue range [{low}-{high}]")
    return {queue_id: min(header.offset, high)}


def _check_reads(state: BrokerCoreState, topic: BrokerTopic, timestamp: int) -> None:
    """Refuse a search by time that would read too many records: each queue is searched by halves."""
    if timestamp >= 0:
        ends = (state.store.bounds(topic.name_bytes, queue) for queue in range(topic.read_queues))
        reads = sum((high - low).bit_length() + 1 for low, high in ends)
        if reads > _MAX_READS:
            raise system_error(
                f"{reads} messages would be read to find the time, at most {_MAX_READS} are: {_ONE_QUEUE}"
            )


def _offset_at(state: BrokerCoreState, topic: BrokerTopic, queue_id: int, timestamp: int) -> int:
    """Return the first offset stored at or after a time; the end for a time below zero."""
    if timestamp < 0:
        return state.store.bounds(topic.name_bytes, queue_id)[1]
    return state.store.lookup.offset_by_time(topic.name_bytes, queue_id, timestamp)


HANDLERS: Mapping[int, RequestHandler] = {
    RequestCode.QUERY_CONSUMER_OFFSET: _query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: _update_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _search_offset,
    RequestCode.GET_MAX_OFFSET: _max_offset,
    RequestCode.GET_MIN_OFFSET: _min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _earliest_stored,
    RequestCode.CLONE_GROUP_OFFSET: _clone_offsets,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _group_offsets,
    RequestCode.GET_ALL_DELAY_OFFSET: _delay_offsets,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _reset_offsets,
}
