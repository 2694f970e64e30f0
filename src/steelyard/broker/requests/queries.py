"""Looking for messages: 12 by key, 33 by their place in the log, 321 the index of a queue.

12 QUERY_MESSAGE finds a message by any word of its keys and by its unique key; which of the two is asked for
(``_UNIQUE_KEY_QUERY``) decides only how many come: 32 by unique key, else what is asked for, at most 64. The newest
come, oldest of them first. How far the index reaches is told by the newest message that was found; the index itself is
never behind the log when it is asked: where it would have far to go first, the question waits (catching_up.py).

321 QUERY_CONSUME_QUEUE says for each entry whether its mark matches what the group subscribed to, where Apache leaves
that empty; a condition on properties is not looked at.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.broker.catching_up import may_look_now
from steelyard.broker.filters.compiled import Filter, compile_filter
from steelyard.broker.handlers import Handler
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.errors import SubscriptionUnreadable
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.stats import IndexEntry, IndexView
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.pull import QueryIndex, QueryMessages, QueryMessagesAnswer, ViewMessage
from steelyard.wire.peers import Peer
from steelyard.wire.record import decode_record

__all__ = ["HANDLERS", "by_key"]

_BY_UNIQUE_KEY, _BY_KEY = 32, 64
_MOST_BYTES = 8 * 1024 * 1024
"""What one answer holds at most; the first message always fits."""
_MOST_ENTRIES = 1_024


def _ask_by_key(state: State, request: Command, peer: Peer, _now_ms: int) -> Command | None:
    request.header(QueryMessages)  # one that cannot be read is refused at once
    if request.is_oneway:
        return None
    return by_key(state, request) if may_look_now(state, request, peer) else None


def by_key(state: State, request: Command) -> Command:
    """Return the answer to a question by key; the index must have caught up with the log."""
    header = request.header(QueryMessages)
    topic = state.topics.get(header.topic)
    most = _BY_UNIQUE_KEY if header.by_unique_key else max(1, min(header.max_num, _BY_KEY))
    found: list[memoryview] = []
    if topic is not None:
        found = state.store.lookup.by_key(
            topic.key,
            header.key.encode(),
            most=most,
            start_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
    if not found:
        return answer_to(
            request,
            ResponseCode.QUERY_NOT_FOUND,
            QueryMessagesAnswer(0, 0),
            remark="can not find message, maybe time range not correct",
        )
    newest = decode_record(found[0])
    size, kept = 0, 0
    for record in found:
        size += len(record)
        if kept and size > _MOST_BYTES:
            break
        kept += 1
    return _with_records(request, QueryMessagesAnswer(newest.stored_ms, newest.position), tuple(reversed(found[:kept])))


def _with_records(request: Command, fields: QueryMessagesAnswer | None, records: tuple[memoryview, ...]) -> Command:
    return replace(answer_to(request, fields=fields if fields is not None else {}), parts=records)


def _by_position(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    position = request.header(ViewMessage).offset
    record = state.store.lookup.at(position)
    if record is None:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {position}")
    return _with_records(request, None, (record,))


def _index(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueryIndex)
    topic, queue_id = state.topics.get(header.topic), header.queue_id
    low, high = (0, 0) if topic is None else state.store.bounds(topic.key, queue_id)
    if topic is None or not high:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{header.topic[:255]} is not exist!")
    members = state.members.group(header.consumer_group) if header.consumer_group else None
    subscription = members.subscriptions.get(topic.name) if members is not None else None
    filter_text, wanted = None, None
    if subscription is not None:
        wanted, filter_text = _filter(subscription.kind, subscription.expression)
    elif header.consumer_group:
        filter_text = f"{header.consumer_group[:120]}@{topic.name} is not online!"
    start = max(header.index, low)
    count = max(0, min(header.count, _MOST_ENTRIES))
    entries = state.store.entries(topic.key, queue_id, start, start + count)
    view = IndexView(
        filter_text=filter_text,
        max_index=high,
        min_index=low,
        entries=tuple(
            IndexEntry(
                position=position,
                size=size,
                tags_code=mark,
                matches=wanted is not None and (wanted.marks is None or mark in wanted.marks),
            )
            for position, size, mark in entries
        ),
        subscription=subscription,
    )
    return answer_to(request, body=encode_body(view))


def _filter(kind: str, expression: str) -> tuple[Filter | None, str | None]:
    try:
        return compile_filter(kind, expression), None
    except SubscriptionUnreadable as error:
        return None, error.remark


HANDLERS: Mapping[int, Handler] = {
    RequestCode.QUERY_MESSAGE: _ask_by_key,
    RequestCode.VIEW_MESSAGE_BY_ID: _by_position,
    RequestCode.QUERY_CONSUME_QUEUE: _index,
}
