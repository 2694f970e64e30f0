"""How far queues and groups are, and how much passes: 202, 208, 303, 315, 317.

202 GET_TOPIC_STATS_INFO       ends of all queues of a topic (as many as it has for reading or for writing), when each
                               was written last, and how much comes in; 17 for a topic that is not there
208 GET_CONSUME_STATS          where a group is in each queue it may read. Without a topic: all topics in which it has
                               offsets. Topics that it does not subscribe to any more are left out, unless a list
                               names them, or it read from them within the last hour, as pullers do that subscribe to
                               nothing
303 QUERY_CONSUME_TIME_SPAN    when the first, the last and the last consumed message of each queue were stored
315 VIEW_BROKER_STATS_DATA     one counter over a minute, an hour and a day; 1 if nothing was counted under that name
317 GET_BROKER_CONSUME_STATS   208 for all groups, if asked for only topics that are ordered

Apache counts the lag of 317 over queues for writing; here it is those for reading, as in 208, so that none is missed.
Times in texts are in UTC.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from steelyard.broker.handlers import Handler
from steelyard.broker.lags import wanted_topics
from steelyard.broker.rates import DAY, HOUR, MINUTE, Counter, Flow, Window
from steelyard.broker.refusals import refusal
from steelyard.broker.requests.rows import check_rows
from steelyard.broker.state import State
from steelyard.broker.topics import Topic
from steelyard.model import Queue
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.stats import (
    BrokerConsumeStats,
    BrokerStats,
    ConsumeStats,
    GroupPlace,
    QueueEnds,
    QueueTimes,
    Rate,
    TimeSpans,
    TopicStats,
)
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers import admin
from steelyard.wire.headers.common import TopicName
from steelyard.wire.headers.group import GroupAndTopic
from steelyard.wire.maps import ByQueue, QueueRef
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_NO_TIME = -1
_BY_QUEUE = "ask for one queue at a time (30, 31)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _topic_stats(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    topic = state.topics[request.header(TopicName).topic]
    check_rows(topic.queues, _BY_QUEUE)
    queues = {_queue(state, topic, number): _ends(state, topic, number) for number in range(topic.queues)}
    counter = state.rates.of_topic(topic.name)
    stats = TopicStats(queues=ByQueue(queues), put_tps=_tps(counter, now_ms))
    return answer_to(request, body=encode_body(stats))


def _ends(state: State, topic: Topic, number: int) -> QueueEnds:
    low, high = state.store.bounds(topic.key, number)
    written_ms = _stored_ms(state, topic, number, high - 1) if high else 0
    return QueueEnds(written_ms=written_ms, max_offset=high, min_offset=low)


def _consume_stats(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    asked = request.header(admin.ConsumeStats)
    group = asked.consumer_group
    listed = [name for name in (asked.topic_list or "").split(";") if name.strip()]
    names = listed or wanted_topics(
        state, group, [asked.topic] if asked.topic else state.offsets.topics_of(group), now_ms
    )
    topics = [topic for name in dict.fromkeys(names) if (topic := state.topics.get(name))]
    check_rows(sum(topic.read_queues for topic in topics), "ask for one topic of the group at a time")
    stats = [_places(state, group, topic, now_ms) for topic in topics]
    together = ConsumeStats(
        consume_tps=sum((each.consume_tps for each in stats), 0.0),
        queues=ByQueue({queue: place for each in stats for queue, place in each.queues.items()}),
    )
    return answer_to(request, body=encode_body(together))


def _places(state: State, group: str, topic: Topic, now_ms: int) -> ConsumeStats:
    queues = {_queue(state, topic, number): _place(state, group, topic, number) for number in range(topic.read_queues)}
    return ConsumeStats(consume_tps=_tps(state.rates.of_group(group, topic.name), now_ms), queues=ByQueue(queues))


def _place(state: State, group: str, topic: Topic, number: int) -> GroupPlace:
    committed = max(0, state.offsets.get(group, topic.name, number) or 0)
    pulled = state.offsets.pulled(group, topic.name, number) or 0
    consumed_ms = _stored_ms(state, topic, number, committed - 1)
    return GroupPlace(
        broker_offset=state.store.bounds(topic.key, number)[1],
        consumer_offset=committed,
        consumed_ms=max(0, consumed_ms),
        pull_offset=max(committed, pulled),
    )


def _broker_consume_stats(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    only_ordered = request.header(admin.BrokerConsumeStats).is_order
    read: dict[str, list[Topic]] = {}
    for settings in state.groups:
        names = wanted_topics(state, settings.name, state.offsets.topics_of(settings.name), now_ms)
        found = filter(None, map(state.topics.get, names))
        read[settings.name] = [topic for topic in found if topic.settings.order or not only_ordered]
    check_rows(
        sum(topic.read_queues for topics in read.values() for topic in topics), "ask for one group at a time (208)"
    )
    groups: list[dict[str, tuple[ConsumeStats, ...]]] = []
    lag = in_flight = 0
    for group, topics in read.items():
        stats = tuple(_places(state, group, topic, now_ms) for topic in topics)
        groups.append({group: stats})
        for place in (place for each in stats for place in each.queues.values()):
            # A group may have committed what is not there: it is behind by nothing, and sums stay numbers of Java's.
            lag += max(0, place.broker_offset - place.consumer_offset)
            in_flight += max(0, min(place.pull_offset or 0, place.broker_offset) - place.consumer_offset)
    body = BrokerConsumeStats(
        broker_address=state.options.address, groups=tuple(groups), total_lag=lag, total_in_flight=in_flight
    )
    return answer_to(request, body=encode_body(body))


def _time_spans(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    asked = request.header(GroupAndTopic)
    topic = state.topics[asked.topic or ""]
    check_rows(topic.write_queues, _BY_QUEUE)
    spans = [_times(state, asked.group, topic, number, now_ms) for number in range(topic.write_queues)]
    return answer_to(request, body=encode_body(TimeSpans(queues=tuple(spans))))


def _times(state: State, group: str, topic: Topic, number: int, now_ms: int) -> QueueTimes:
    low, high = state.store.bounds(topic.key, number)
    first_ms, last_ms = (_stored_ms(state, topic, number, offset) for offset in (low, high - 1))
    committed = state.offsets.get(group, topic.name, number) or 0
    consumed_ms = _stored_ms(state, topic, number, committed - 1) if committed > 0 else first_ms
    waiting_ms = _stored_ms(state, topic, number, max(low, committed))
    return QueueTimes(
        consumed_ms=consumed_ms,
        consumed_text=_text(consumed_ms),
        delay_ms=max(0, now_ms - waiting_ms) if waiting_ms != _NO_TIME else 0,
        last_ms=last_ms,
        last_text=_text(last_ms),
        queue=QueueRef.of(_queue(state, topic, number)),
        first_ms=first_ms,
        first_text=_text(first_ms),
    )


def _text(time_ms: int) -> str:
    """Return a time as Java prints it there.

    >>> _text(-1)
    '1969-12-31#23:59:59:999'
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{moment.microsecond // 1_000:03d}"


def _queue(state: State, topic: Topic, number: int) -> Queue:
    return Queue(topic.name, state.options.name, number)


def _stored_ms(state: State, topic: Topic, number: int, offset: int) -> int:
    stored_ms = state.store.lookup.stored_ms(topic.key, number, offset)
    return _NO_TIME if stored_ms is None else stored_ms


def _tps(counter: Counter | None, now_ms: int) -> float:
    return 0.0 if counter is None else counter.within(MINUTE, now_ms).tps


def _view_stats(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    asked = request.header(admin.ViewStats)
    find, measure = _STATISTICS.get(asked.stats_name, (_unknown, _messages))
    counter = find(state, asked.stats_key)
    if counter is None:
        remark = f"The stats <{asked.stats_name[:80]}> <{asked.stats_key[:400]}> not exist"
        raise refusal(ResponseCode.SYSTEM_ERROR, remark)

    def rate(window: Window) -> Rate:
        flow = counter.within(window, now_ms)
        amount = measure(flow)
        return Rate(average=amount / max(1, flow.calls), sum=amount, tps=amount * 1_000 / flow.covered_ms)

    return answer_to(request, body=encode_body(BrokerStats(day=rate(DAY), hour=rate(HOUR), minute=rate(MINUTE))))


def _unknown(_state: State, _key: str) -> None:
    return None


def _topic_counter(state: State, key: str) -> Counter | None:
    return state.rates.of_topic(key)


def _group_counter(state: State, key: str) -> Counter | None:
    topic, _, group = key.partition("@")
    return state.rates.of_group(group, topic)


def _stored_counter(state: State, key: str) -> Counter | None:
    return state.rates.of_broker()[0] if key == state.options.cluster else None


def _delivered_counter(state: State, key: str) -> Counter | None:
    return state.rates.of_broker()[1] if key == state.options.cluster else None


def _messages(flow: Flow) -> int:
    return flow.messages


def _bytes(flow: Flow) -> int:
    return flow.size


_STATISTICS: Mapping[str, tuple[Callable[[State, str], Counter | None], Callable[[Flow], int]]] = {
    "TOPIC_PUT_NUMS": (_topic_counter, _messages),
    "TOPIC_PUT_SIZE": (_topic_counter, _bytes),
    "GROUP_GET_NUMS": (_group_counter, _messages),
    "GROUP_GET_SIZE": (_group_counter, _bytes),
    "BROKER_PUT_NUMS": (_stored_counter, _messages),
    "BROKER_GET_NUMS": (_delivered_counter, _messages),
}
"""By Java's name: what is counted under a key, and what of it."""

HANDLERS: Mapping[int, Handler] = {
    Code.GET_TOPIC_STATS_INFO: _topic_stats,
    Code.GET_CONSUME_STATS: _consume_stats,
    Code.QUERY_CONSUME_TIME_SPAN: _time_spans,
    Code.VIEW_BROKER_STATS_DATA: _view_stats,
    Code.GET_BROKER_CONSUME_STATS: _broker_consume_stats,
}
