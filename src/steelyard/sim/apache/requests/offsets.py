"""Offsets, as Apache keeps and tells them: 14, 15, 29, 30, 31, 43.

A commit is taken from whoever sends it, higher or lower, and may be for a queue that is not there; release 5 wants the
group (26) and the topic (17) to exist. Nothing stored: release 4.9 says 0, release 5 says 0 only if the queue has a
message and the caller did not ask for the truth, else 22.
"""

from collections.abc import Mapping

from steelyard.model import Queue
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.facts import Committed
from steelyard.sim.line import Line
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.offsets import GroupOffsets
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetAnswer, QueueRequest
from steelyard.wire.headers.group import CommitOffset, GetMaxOffset, QueryOffset, SearchOffset
from steelyard.wire.maps import ById

__all__ = ["HANDLERS", "commit"]


def commit(state: State, line: Line, group: str, queue: Queue, offset: int) -> None:
    """Take a commit, whoever sent it."""
    before = state.offsets.commit(group, queue, offset)
    fact = Committed(
        at_ms=state.hands.at_ms(),
        group=group,
        queue=queue,
        offset=offset,
        member=state.registry.member_on(line.number, group),
        before=before,
    )
    state.hands.tell(fact)


def _commit(state: State, request: Command, line: Line, _now_ms: int) -> Command:
    header = request.header(CommitOffset)
    if state.release is Release.V5:
        if header.consumer_group not in state.groups:
            remark = f"Group {header.consumer_group} not exist!"
            return state.answer(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=remark)
        if state.topics.get(header.topic) is None:
            return state.answer(request, ResponseCode.TOPIC_NOT_EXIST, remark=f"Topic {header.topic} not exist!")
    queue = state.queue(header.topic, header.queue_id)
    commit(state, line, header.consumer_group, queue, header.commit_offset)
    return state.answer(request)


def _query(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    header = request.header(QueryOffset)
    stored = state.offsets.get(header.consumer_group, state.queue(header.topic, header.queue_id))
    if stored is None and _says_zero(state, header):
        stored = 0
    if stored is None:
        remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        return state.answer(request, ResponseCode.QUERY_NOT_FOUND, remark=remark)
    return state.answer(request, fields=OffsetAnswer(stored))


def _says_zero(state: State, header: QueryOffset) -> bool:
    """Whether a release takes a young queue for one that was read from its start."""
    if state.release is Release.V4:
        return True
    return header.set_zero_if_not_found is not False and state.log.end(header.topic, header.queue_id) > 0


def _all(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    table: dict[str, dict[int, int]] = {}
    for (group, queue), offset in state.offsets.table().items():
        table.setdefault(f"{queue.topic}@{group}", {})[queue.queue_id] = offset
    offsets = {name: ById(by_queue) for name, by_queue in table.items()}
    return state.answer(request, body=encode_body(GroupOffsets(offsets=offsets)))


def _max(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    header = request.header(GetMaxOffset)
    return state.answer(request, fields=OffsetAnswer(state.log.end(header.topic, header.queue_id)))


def _min(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    request.header(QueueRequest)
    return state.answer(request, fields=OffsetAnswer(0))


def _search(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    header = request.header(SearchOffset)
    end = state.log.end(header.topic, header.queue_id)
    entries = state.log.read(header.topic, header.queue_id, 0, end)
    found = next((each.offset for each in entries if each.record().stored_ms >= header.timestamp), end)
    if found == end and state.release is Release.V4:
        found = max(0, end - 1)
    return state.answer(request, fields=OffsetAnswer(found))


HANDLERS: Mapping[int, Handler] = {
    RequestCode.UPDATE_CONSUMER_OFFSET: _commit,
    RequestCode.QUERY_CONSUMER_OFFSET: _query,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _all,
    RequestCode.GET_MAX_OFFSET: _max,
    RequestCode.GET_MIN_OFFSET: _min,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _search,
}
