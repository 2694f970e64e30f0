"""Where Java's member starts in a queue: what the group committed, else at the end, the start or a time."""

from steelyard.balance.actions import StartAt
from steelyard.model import Queue
from steelyard.sim.apache.java_calls import Ask, Script
from steelyard.sim.apache.java_state import JavaState
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import GetMaxOffset, QueryOffset, SearchOffset

__all__ = ["start_of"]

_QUERY_MS = 5_000


def start_of(state: JavaState, queue: Queue) -> Script[int | None]:
    """Ask where to start; None if nobody says."""
    address = state.addresses.get(queue.broker)
    if address is None:
        return None
    if state.is_broadcasting:
        stored = state.file.get(queue)
        if stored is not None:
            return stored
    else:
        header = QueryOffset(state.options.group, queue.topic, queue.queue_id)
        answer = yield Ask(address, state.request(RequestCode.QUERY_CONSUMER_OFFSET, header), _QUERY_MS)
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            return answer.header(OffsetAnswer).offset
        if answer is None or answer.code != ResponseCode.QUERY_NOT_FOUND:
            return None
    return (yield from _fresh(state, queue, address))


def _fresh(state: JavaState, queue: Queue, address: str) -> Script[int | None]:
    """Say where a group starts that has stored nothing."""
    start, is_retry = state.options.start, queue.topic == state.options.retry_topic
    if start.at is StartAt.FIRST or (start.at is StartAt.LAST and is_retry):
        return 0
    if start.at is StartAt.TIME and not is_retry:
        search = SearchOffset(queue.topic, queue.queue_id, start.time_ms)
        command = state.request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
    else:
        command = state.request(RequestCode.GET_MAX_OFFSET, GetMaxOffset(queue.topic, queue.queue_id))
    answer = yield Ask(address, command)
    return answer.header(OffsetAnswer).offset if answer is not None and answer.code == ResponseCode.SUCCESS else None
