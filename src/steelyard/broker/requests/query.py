"""Queries for messages: 12 by key, 33 by position in the log, 321 entries of a consume queue.

12 QUERY_MESSAGE finds a message by any word of its keys and by its unique key; ``_UNIQUE_KEY_QUERY`` only decides how
many come: 32 by unique key, else the requested number, at max_messages 64. The newest come, the oldest of them first.
321 QUERY_CONSUME_QUEUE tells for each entry whether its tags code matches what the group subscribed to, where Apache
leaves that empty; SQL92 filters are not evaluated.

The key index is never behind the log when it is queried. Indexing costs about as much as storing a message, so it is
not done on arrival, but a little with each tick, and more when a query waits. A query that comes while the index is far
behind waits for it, so that the event loop never blocks. After our own index, ticks extend Apache's
(store/apache_key_index.py).
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from steelyard.broker.filters import compile_filter
from steelyard.broker.request_errors import request_error, system_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.errors import SubscriptionUnreadable
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.stats import ConsumeQueueIndexEntry, ConsumeQueuePart
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.pull import QueryConsumeQueue, QueryMessages, QueryMessagesResponse, ViewMessage
from steelyard.wire.record import decode_record

_MAX_BY_UNIQUE_KEY, _MAX_BY_KEY = 32, 64
_MAX_BYTES = 8 * 1024 * 1024
"""The limit of one response; the first message always fits."""
_MAX_ENTRIES = 1_024

_INDEXED_PER_TICK = 2_500
"""What is indexed with each tick, in keys; a message counts as ten and more. It is a few per cent of a busy broker's
time, for 200 usual messages."""
_INDEXED_FOR_QUERY = 50_000
"""The same when a query waits."""
_APACHE_KEYS_PER_TICK = 500
"""Keys added to Apache's index with each tick."""
_MAX_WAITING_QUERIES = 1_000


def _query_by_key(state: BrokerCoreState, request: Command, peer: Peer, _now_ms: int) -> Command | None:
    request.header(QueryMessages)  # a malformed one is refused at once
    if request.is_oneway:
        return None
    if not state.key_queries and state.store.lookup.build_key_index(_INDEXED_FOR_QUERY):
        return answer_by_key(state, request)
    if len(state.key_queries) >= _MAX_WAITING_QUERIES:
        raise request_error(
            ResponseCode.SYSTEM_BUSY, f"{_MAX_WAITING_QUERIES} queries by key wait for the index: try again later"
        )
    # Only its fields are needed: a body may be as large as a frame.
    state.key_queries.append((replace(request, body=b""), peer))
    return None


def connection_closed(state: BrokerCoreState, peer: Peer) -> None:
    """Drop the waiting queries of a closed connection."""
    if state.key_queries:
        state.key_queries = [query for query in state.key_queries if query[1].connection_id != peer.connection_id]


def tick(state: BrokerCoreState) -> Sequence[tuple[Command, Peer]]:
    """Extend the index, and return the queries that can be answered now."""
    if not state.key_queries:
        has_time = state.store.lookup.build_key_index(_INDEXED_PER_TICK, recent_only=True)
        if has_time and state.store.apache_key_index is not None:
            state.store.apache_key_index.build(_APACHE_KEYS_PER_TICK)
        return ()
    if not state.store.lookup.build_key_index(_INDEXED_FOR_QUERY):
        return ()
    answerable, state.key_queries = state.key_queries, []
    return answerable


def answer_by_key(state: BrokerCoreState, request: Command) -> Command:
    """Return the response to a query by key; the index must be complete."""
    header = request.header(QueryMessages)
    topic = state.topics.get(header.topic)
    max_messages = _MAX_BY_UNIQUE_KEY if header.by_unique_key else max(1, min(header.max_num, _MAX_BY_KEY))
    found: list[memoryview] = []
    if topic is not None:
        found = state.store.lookup.find_by_key(
            topic.name_bytes,
            header.key.encode(),
            max_messages=max_messages,
            start_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
    if not found:
        return response_to(
            request,
            ResponseCode.QUERY_NOT_FOUND,
            QueryMessagesResponse(0, 0),
            remark="can not find message, maybe time range not correct",
        )
    newest = decode_record(found[0])
    size, kept = 0, 0
    for record in found:
        size += len(record)
        if kept and size > _MAX_BYTES:
            break
        kept += 1
    fields = QueryMessagesResponse(newest.stored_ms, newest.position)
    return replace(response_to(request, fields=fields), parts=tuple(reversed(found[:kept])))


def _view_by_position(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    position = request.header(ViewMessage).offset
    record = state.store.lookup.record_at(position)
    if record is None:
        raise system_error(f"can not find message by the offset, {position}")
    return replace(response_to(request), parts=(record,))


def _query_consume_queue(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header = request.header(QueryConsumeQueue)
    topic, queue_id = state.topics.get(header.topic), header.queue_id
    low, high = (0, 0) if topic is None else state.store.bounds(topic.name_bytes, queue_id)
    if topic is None or not high:
        raise system_error(f"{queue_id}@{header.topic[:255]} is not exist!")
    members = state.consumers.group(header.consumer_group) if header.consumer_group else None
    subscription = members.subscriptions.get(topic.name) if members is not None else None
    filter_text, message_filter = None, None
    if subscription is not None:
        try:
            message_filter = compile_filter(subscription.kind, subscription.expression)
        except SubscriptionUnreadable as error:
            filter_text = error.remark
    elif header.consumer_group:
        filter_text = f"{header.consumer_group[:120]}@{topic.name} is not online!"
    start = max(header.index, low)
    count = max(0, min(header.count, _MAX_ENTRIES))
    entries = state.store.entries(topic.name_bytes, queue_id, start, start + count)
    view = ConsumeQueuePart(
        filter_text=filter_text,
        max_index=high,
        min_index=low,
        entries=tuple(
            ConsumeQueueIndexEntry(
                position=position,
                size=size,
                tags_code=tags_code,
                matches=message_filter is not None
                and (message_filter.tags_codes is None or tags_code in message_filter.tags_codes),
            )
            for position, size, tags_code in entries
        ),
        subscription=subscription,
    )
    return response_to(request, body=encode_body(view))


HANDLERS: Mapping[int, RequestHandler] = {
    RequestCode.QUERY_MESSAGE: _query_by_key,
    RequestCode.VIEW_MESSAGE_BY_ID: _view_by_position,
    RequestCode.QUERY_CONSUME_QUEUE: _query_consume_queue,
}
