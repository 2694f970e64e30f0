"""Long polling: held pulls are retried when a message arrives, at their deadline, or when their queue is gone.

After each flush the queues with new messages are checked, and there only pulls whose filter may match: the tags codes
of new messages are read once for all of them. A pull that still finds nothing stays held, and remembers how far it was
compared, so that no message is compared twice; its final response continues from there. If its group changes its
subscription meanwhile, everything is compared again.
"""

from steelyard.broker.fetch import choose_filter, read_messages, resolve_target
from steelyard.broker.held_pulls import HeldPull
from steelyard.broker.request_errors import error_response
from steelyard.broker.state import BrokerCoreState
from steelyard.errors import SteelyardError
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.headers.pull import PullMessageResponse

_NOTHING_YET = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)

PULLS_PER_CALL = 3_000
"""Pulls retried or answered per call, of some microseconds each: the event loop waits meanwhile."""
_FILTER_COST_PER_RETRY = 16
"""Comparisons of a filter in the time that a retry takes without one."""
_READS_PER_RETRY = 4
"""Reads per retry of one pull. If there is still more to scan, its client is told to continue from there."""


def answer_ready_pulls(state: BrokerCoreState, now_ms: int) -> None:
    """Answer held pulls for which a message arrived, up to a limit; the rest with the next call."""
    left = PULLS_PER_CALL
    for key, queue_id in state.held_pulls.pop_arrived_queues():
        waiting = state.held_pulls.in_queue(key, queue_id)
        if not waiting:
            continue
        _, high = state.store.bounds(key, queue_id)
        arrived: set[int] | None = None
        for pull in waiting:
            tags_codes = pull.filter.tags_codes
            if tags_codes is not None and pull.spec.own_filter is not None:
                if arrived is None:
                    start = min(each.scanned_to for each in waiting)
                    arrived = {tags_code for _, _, tags_code in state.store.entries(key, queue_id, start, high)}
                if tags_codes.isdisjoint(arrived):
                    pull.scanned_to = high
                    continue
            if pull.scanned_to < high:
                if left <= 0:
                    state.held_pulls.notify_arrival(key, queue_id)
                    break
                left -= 1 + pull.filter.cost // _FILTER_COST_PER_RETRY
                _retry(state, pull, high, now_ms)


def answer_group_pulls(
    state: BrokerCoreState, group: str, topic: bytes, queue_id: int, now_ms: int, max_pulls: int
) -> int:
    """Answer a group's held pulls in a queue after a reset, the last one of each connection; return how many.

    Earlier ones may be of a member that released the queue and acquired it again, and ignores their responses. Those
    beyond ``max_pulls`` are answered at their deadline.
    """
    last = {
        pull.peer.connection_id: pull for pull in state.held_pulls.in_queue(topic, queue_id) if pull.spec.group == group
    }
    answered = list(last.values())[:max_pulls]
    for pull in answered:
        _answer_now(state, pull, now_ms)
    return len(answered)


def answer_expired_pulls(state: BrokerCoreState, now_ms: int) -> None:
    """Answer held pulls whose deadline has passed, and those whose queue or group can no longer be read."""
    answer_ready_pulls(state, now_ms)
    for pull in state.held_pulls.pop_expired(now_ms, PULLS_PER_CALL):
        state.send(pull.peer, _read_again(state, pull, now_ms))
    changes = (state.topics.changes, state.groups.changes)
    if changes != state.held_pulls.checked_changes and _answer_unservable(state, now_ms):
        state.held_pulls.checked_changes = changes


def answer_before_stop(state: BrokerCoreState) -> None:
    """Answer the held pulls of members other than ours, because the broker stops.

    Java's up to 4.9 do not notice that a connection closed while they wait for a response, and would wait until their
    own timeout, half a minute after the request. With this response they retry every three seconds.
    """
    for queue in state.held_pulls.queues():
        for pull in state.held_pulls.in_queue(*queue):
            member = state.consumers.on_connection(pull.peer, pull.spec.group)
            if member is not None and not member.is_steelyard and state.held_pulls.release(pull):
                response = response_to(pull.request(), ResponseCode.SERVICE_NOT_AVAILABLE, remark="the broker stops")
                state.send(pull.peer, response)


def connection_closed(state: BrokerCoreState, connection_id: int) -> None:
    """Drop the held pulls of a closed connection, and deliver again the resets that it may not have received."""
    state.held_pulls.drop_connection(connection_id)
    state.offsets.connection_closed(connection_id)


def _answer_unservable(state: BrokerCoreState, now_ms: int) -> bool:
    """Answer pulls that would not be held any more: their queue is gone, or their group may not read.

    Return whether that were all of them; the rest is answered with the next call.
    """
    left = PULLS_PER_CALL
    for key, queue_id in state.held_pulls.queues():
        topic = state.topics.get(key.decode())
        is_gone = topic is None or not topic.is_readable or queue_id >= topic.read_queues
        for pull in state.held_pulls.in_queue(key, queue_id):
            group = state.groups.get(pull.spec.group)
            if is_gone or (group is not None and not group.consume_enabled):
                if not left:
                    return False
                left -= 1
                _answer_now(state, pull, now_ms)
    return True


def _retry(state: BrokerCoreState, pull: HeldPull, high: int, now_ms: int) -> None:
    """Answer a pull if there is something for it now, or very much to scan; else it stays held."""
    answer = _read_again(state, pull, now_ms)
    for _ in range(_READS_PER_RETRY):
        if answer.code not in _NOTHING_YET or not isinstance(answer.fields, PullMessageResponse):
            break
        pull.scanned_to = answer.fields.next_begin_offset
        if pull.scanned_to >= high:
            return
        answer = _read_again(state, pull, now_ms)
    if state.held_pulls.release(pull):
        state.send(pull.peer, answer)


def _answer_now(state: BrokerCoreState, pull: HeldPull, now_ms: int) -> None:
    if state.held_pulls.release(pull):
        state.send(pull.peer, _read_again(state, pull, now_ms))


def _read_again(state: BrokerCoreState, pull: HeldPull, now_ms: int) -> Command:
    """Read as if the pull came now and could not be held."""
    request, spec = pull.request(), pull.spec
    try:
        target = resolve_target(state, spec.group, spec.topic, spec.queue_id, request, now_ms)
        if isinstance(target, Command):
            return target
        message_filter = choose_filter(state, spec, target.group, request, pull.peer)
        if isinstance(message_filter, Command):
            return message_filter
        if message_filter != pull.filter:
            pull.filter, pull.scanned_to = message_filter, spec.offset
        return read_messages(state, spec, target, message_filter, request, pull.peer, pull.scanned_to)
    except SteelyardError as error:
        return error_response(request, error)
