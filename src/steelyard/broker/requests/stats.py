"""Statistics: 202, 208, 303, 315, 317, and the runtime tables 28 and 907.

202 GET_TOPIC_STATS_INFO       bounds and last write of all queues of a topic (read or write queues, whichever are
                               more), and its rate; 17 for an unknown topic
208 GET_CONSUME_STATS          a group's offsets in each queue that it may read. Without a topic: in all topics with
                               offsets. Topics that it no longer subscribes to are left out, unless they are listed, or
                               it read them within the last hour, as pull consumers without subscriptions do
303 QUERY_CONSUME_TIME_SPAN    when the first, the last and the last consumed message of each queue were stored; at most
                               `_MAX_TIME_SPANS` queues, all others at most those of paging.py
315 VIEW_BROKER_STATS_DATA     one counter over a minute, an hour and a day; 1 for an unknown one
317 GET_BROKER_CONSUME_STATS   208 for all groups, on request only for ordered topics. Apache counts the lag over write
                               queues; here it is read queues, as in 208, so that none is missed
28 GET_BROKER_RUNTIME_INFO     a table of strings. Tools fail on a missing name, so every name of 4.9 and 5.x is here,
                               both spellings of those that changed; what this broker does not have (thread pools with
                               queues, off-heap buffers) is 0. Ours also get a report on disk, flushing and recovery
907 GET_BROKER_HA_STATUS       no replicas

Times in strings are in UTC.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from steelyard.broker.consumer_lag import topics_read_by
from steelyard.broker.request_errors import system_error
from steelyard.broker.requests.paging import check_rows
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.stats import DAY, HOUR, MINUTE, StatsWindow, TrafficCounter, WindowTotals
from steelyard.broker.topics import BrokerTopic
from steelyard.model import Queue
from steelyard.store.log_scan import Damage
from steelyard.store.recovery import CUT_OFF
from steelyard.store.tags_code import SCHEDULE_TOPIC
from steelyard.version import __version__
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.bodies.stats import (
    REPORT_NAME,
    BrokerConsumeStats,
    BrokerReport,
    BrokerStats,
    BrokerStatsItem,
    ConsumeOffset,
    ConsumeStats,
    ConsumeTimeSpans,
    DamageReport,
    QueueTimeSpan,
    RecoveryReport,
    ReplicationState,
    TopicOffset,
    TopicStats,
)
from steelyard.wire.codes import CLIENT_LANGUAGE, SERVER_VERSION, Version
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers import admin
from steelyard.wire.headers.common import TopicNameRequest
from steelyard.wire.headers.group import GroupTopicRequest
from steelyard.wire.json_body import ByQueue, QueueRef

_NO_TIME = -1
_BY_QUEUE = "request one queue at a time (30, 31)"
_TIME_LENGTH = len("1970-01-01#00:00:00:000")
_MAX_TIME_SPANS = 4_096
"""Queues in one 303, which reads and writes three times for each."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _topic_stats(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    topic = state.topics[request.header(TopicNameRequest).topic]
    check_rows(topic.queues, _BY_QUEUE)
    queues = {_queue(state, topic, number): _queue_ends(state, topic, number) for number in range(topic.queues)}
    counter = state.traffic.topic_counter(topic.name)
    stats = TopicStats(queues=ByQueue(queues), put_tps=_tps(counter, now_ms))
    return response_to(request, body=encode_body(stats))


def _queue_ends(state: BrokerCoreState, topic: BrokerTopic, number: int) -> TopicOffset:
    low, high = state.store.bounds(topic.name_bytes, number)
    written_ms = _stored_ms(state, topic, number, high - 1) if high else 0
    return TopicOffset(written_ms=written_ms, max_offset=high, min_offset=low)


def _consume_stats(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(admin.GetConsumeStats)
    group = header.consumer_group
    listed = [name for name in (header.topic_list or "").split(";") if name.strip()]
    names = listed or topics_read_by(
        state, group, [header.topic] if header.topic else state.offsets.topics_of(group), now_ms
    )
    topics = [topic for name in dict.fromkeys(names) if (topic := state.topics.get(name))]
    check_rows(sum(topic.read_queues for topic in topics), "request one topic of the group at a time")
    stats = [_consume_stats_of(state, group, topic, now_ms) for topic in topics]
    combined = ConsumeStats(
        consume_tps=sum((each.consume_tps for each in stats), 0.0),
        queues=ByQueue({queue: offsets for each in stats for queue, offsets in each.queues.items()}),
    )
    return response_to(request, body=encode_body(combined))


def _consume_stats_of(state: BrokerCoreState, group: str, topic: BrokerTopic, now_ms: int) -> ConsumeStats:
    queues = {
        _queue(state, topic, number): _queue_progress(state, group, topic, number)
        for number in range(topic.read_queues)
    }
    return ConsumeStats(
        consume_tps=_tps(state.traffic.group_counter(group, topic.name), now_ms), queues=ByQueue(queues)
    )


def _queue_progress(state: BrokerCoreState, group: str, topic: BrokerTopic, number: int) -> ConsumeOffset:
    committed = max(0, state.offsets.get(group, topic.name, number) or 0)
    pulled = state.offsets.pulled_in(group, topic.name).get(number) or 0
    consumed_ms = _stored_ms(state, topic, number, committed - 1)
    return ConsumeOffset(
        broker_offset=state.store.bounds(topic.name_bytes, number)[1],
        consumer_offset=committed,
        consumed_ms=max(0, consumed_ms),
        pull_offset=max(committed, pulled),
    )


def _broker_consume_stats(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    only_ordered = request.header(admin.GetBrokerConsumeStats).is_order
    read: dict[str, list[BrokerTopic]] = {}
    for settings in state.groups:
        names = topics_read_by(state, settings.name, state.offsets.topics_of(settings.name), now_ms)
        found = filter(None, map(state.topics.get, names))
        read[settings.name] = [topic for topic in found if topic.settings.order or not only_ordered]
    check_rows(
        sum(topic.read_queues for topics in read.values() for topic in topics), "request one group at a time (208)"
    )
    groups: list[dict[str, tuple[ConsumeStats, ...]]] = []
    lag = in_flight = 0
    for group, topics in read.items():
        stats = tuple(_consume_stats_of(state, group, topic, now_ms) for topic in topics)
        groups.append({group: stats})
        for offsets in (offsets for each in stats for offsets in each.queues.values()):
            # An offset beyond the end is no negative lag, and sums stay within Java's numbers.
            lag += max(0, offsets.broker_offset - offsets.consumer_offset)
            in_flight += max(0, min(offsets.pull_offset or 0, offsets.broker_offset) - offsets.consumer_offset)
    body = BrokerConsumeStats(
        broker_address=state.options.address, groups=tuple(groups), total_lag=lag, total_in_flight=in_flight
    )
    return response_to(request, body=encode_body(body))


def _time_spans(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(GroupTopicRequest)
    topic = state.topics[header.topic or ""]
    check_rows(topic.write_queues, _BY_QUEUE, _MAX_TIME_SPANS)
    spans = [_queue_times(state, header.group, topic, number, now_ms) for number in range(topic.write_queues)]
    return response_to(request, body=encode_body(ConsumeTimeSpans(queues=tuple(spans))))


def _queue_times(state: BrokerCoreState, group: str, topic: BrokerTopic, number: int, now_ms: int) -> QueueTimeSpan:
    low, high = state.store.bounds(topic.name_bytes, number)
    first_ms, last_ms = (_stored_ms(state, topic, number, offset) for offset in (low, high - 1))
    committed = state.offsets.get(group, topic.name, number) or 0
    consumed_ms = _stored_ms(state, topic, number, committed - 1) if committed > 0 else first_ms
    waiting_ms = _stored_ms(state, topic, number, max(low, committed))
    return QueueTimeSpan(
        consumed_ms=consumed_ms,
        consumed_text=_format_time(consumed_ms),
        delay_ms=max(0, now_ms - waiting_ms) if waiting_ms != _NO_TIME else 0,
        last_ms=last_ms,
        last_text=_format_time(last_ms),
        queue=QueueRef.of(_queue(state, topic, number)),
        first_ms=first_ms,
        first_text=_format_time(first_ms),
    )


def _format_time(time_ms: int) -> str:
    """Format a time as Java does.

    >>> _format_time(-1)
    '1969-12-31#23:59:59:999'
    """
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat("#", "milliseconds").replace(".", ":")[:_TIME_LENGTH]


def _queue(state: BrokerCoreState, topic: BrokerTopic, number: int) -> Queue:
    return Queue(topic.name, state.options.name, number)


def _stored_ms(state: BrokerCoreState, topic: BrokerTopic, number: int, offset: int) -> int:
    stored_ms = state.store.lookup.stored_ms(topic.name_bytes, number, offset)
    return _NO_TIME if stored_ms is None else stored_ms


def _tps(counter: TrafficCounter | None, now_ms: int) -> float:
    return 0.0 if counter is None else counter.totals_within(MINUTE, now_ms).tps


def _view_stats(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(admin.ViewBrokerStats)
    find, total = _STATISTICS.get(header.stats_name, (None, _MESSAGES))
    counter = None if find is None else find(state, header.stats_key)
    if counter is None:
        remark = f"The stats <{header.stats_name[:80]}> <{header.stats_key[:400]}> not exist"
        raise system_error(remark)

    def rate(window: StatsWindow) -> BrokerStatsItem:
        flow = counter.totals_within(window, now_ms)
        amount = flow[total]
        return BrokerStatsItem(average=amount / max(1, flow.calls), sum=amount, tps=amount * 1_000 / flow.covered_ms)

    return response_to(request, body=encode_body(BrokerStats(day=rate(DAY), hour=rate(HOUR), minute=rate(MINUTE))))


def _broker_counter(state: BrokerCoreState, key: str, index: int) -> TrafficCounter | None:
    return state.traffic.broker_counters()[index] if key == state.options.cluster else None


def _group_counter(state: BrokerCoreState, key: str) -> TrafficCounter | None:
    topic, _, group = key.partition("@")
    return state.traffic.group_counter(group, topic)


_MESSAGES, _BYTES = (WindowTotals._fields.index(name) for name in ("messages", "size"))
_STATISTICS: Mapping[str, tuple[Callable[[BrokerCoreState, str], TrafficCounter | None], int]] = {
    "TOPIC_PUT_NUMS": (lambda state, key: state.traffic.topic_counter(key), _MESSAGES),
    "TOPIC_PUT_SIZE": (lambda state, key: state.traffic.topic_counter(key), _BYTES),
    "GROUP_GET_NUMS": (_group_counter, _MESSAGES),
    "GROUP_GET_SIZE": (_group_counter, _BYTES),
    "BROKER_PUT_NUMS": (lambda state, key: _broker_counter(state, key, 0), _MESSAGES),
    "BROKER_GET_NUMS": (lambda state, key: _broker_counter(state, key, 1), _MESSAGES),
}
"""By Java's name: the counter of a key, and which of its totals counts."""


_POOLS = ("sendThreadPool", "pullThreadPool", "litePullThreadPool", "queryThreadPool", "ackThreadPool")
_POOL_CAPACITY = "100000"

_FIXED_ENTRIES: Mapping[str, str] = {
    **{f"{pool}QueueSize": "0" for pool in _POOLS},
    **{f"{pool}QueueHeadWaitTimeMills": "0" for pool in _POOLS},
    **{f"{pool}QueueCapacity": _POOL_CAPACITY for pool in _POOLS},
    **dict.fromkeys(
        "EndTransactionQueueSize dispatchBehindBytes dispatchMaxBuffer getMessageEntireTimeMax pageCacheLockTimeMills "
        "putMessageEntireTimeMax putMessageFailedTimes startAcceptSendRequestTimeStamp timerCongestNum "
        "timerOffsetBehind timerReadBehind".split(),
        "0",
    ),
    "EndTransactionThreadPoolQueueCapacity": _POOL_CAPACITY,
    "brokerActive": "true",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
    "[500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 ",
    "remainTransientStoreBufferNumbs": "2147483647",
    "timerDequeueTps": "0.0",
    "timerEnqueueTps": "0.0",
}

_MAX_DAMAGES = 100
"""Damages that are reported; a log may have any number of them."""
_MAX_REASON_LENGTH = 500

_UNITS = "KMGTPE"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def _runtime_table(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    table = {
        **_FIXED_ENTRIES,
        "brokerVersion": str(SERVER_VERSION),
        "brokerVersionDesc": Version(SERVER_VERSION).name,
        "bootTimestamp": str(state.started_ms),
        "runtime": _format_duration(now_ms - state.started_ms),
        **_traffic_entries(state, now_ms),
        **_log_entries(state),
        **_delay_entries(state),
    }
    if request.language == CLIENT_LANGUAGE:
        table[REPORT_NAME] = encode_body(_broker_report(state)).decode()
    return response_to(request, body=encode_body(KVTable(table=dict(sorted(table.items())))))


def _traffic_entries(state: BrokerCoreState, now_ms: int) -> dict[str, str]:
    traffic = state.traffic
    rates, (put, got), stored = traffic.rates(now_ms), traffic.daily_totals(), traffic.stored
    pulls = [found + missed for found, missed in zip(rates.found, rates.missed, strict=True)]
    return {
        "putTps": _join_numbers(rates.stored),
        "getFoundTps": _join_numbers(rates.found),
        "getMissTps": _join_numbers(rates.missed),
        "getTotalTps": _join_numbers(pulls),
        "getTransferredTps": _join_numbers(rates.delivered),
        "getTransferedTps": _join_numbers(rates.delivered),
        "msgPutTotalYesterdayMorning": str(put.yesterday),
        "msgPutTotalTodayMorning": str(put.today),
        "msgPutTotalTodayNow": str(put.now),
        "msgGetTotalYesterdayMorning": str(got.yesterday),
        "msgGetTotalTodayMorning": str(got.today),
        "msgGetTotalTodayNow": str(got.now),
        "putMessageTimesTotal": str(stored.messages),
        "putMessageSizeTotal": str(stored.size),
        "putMessageAverageSize": str(stored.size / max(1, stored.messages)),
    }


def _log_entries(state: BrokerCoreState) -> dict[str, str]:
    """Return the bounds of the log, and the used and free disk space."""
    store = state.store
    free, size = state.disk.free_bytes(), state.disk.size_bytes()
    # As Apache counts: other files on this disk fill it, too. Without a disk size, the log is all there is.
    used = store.end - store.start if size is None else max(0, size - free)
    ratio = f"{used / max(1, used + free):.4f}"
    earliest_ms = store.lookup.earliest_ms()
    return {
        "commitLogMinOffset": str(store.start),
        "commitLogMaxOffset": str(store.end),
        "earliestMessageTimeStamp": str(-1 if earliest_ms is None else earliest_ms),
        "commitLogDiskRatio": ratio,
        "commitLogDiskRatio_commitlog": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {_format_bytes(used + free)}, Free : {_format_bytes(free)}.",
        "remainHowManyDataToFlush": _format_bytes(max(0, store.end - store.durable)),
    }


def _delay_entries(state: BrokerCoreState) -> dict[str, str]:
    """Return how far each delay level was delivered, of how many messages."""
    entries = {}
    for queue_id, reached in enumerate(state.delay_offsets.next_offsets):
        end = state.store.bounds(SCHEDULE_TOPIC, queue_id)[1]
        if end:
            entries[f"scheduleMessageOffset_{queue_id + 1}"] = f"{reached},{end}"
    return entries


def _broker_report(state: BrokerCoreState) -> BrokerReport:
    """Return the state of disk and flushing, and what recovery found."""
    store, options, refusal = state.store, state.options, state.disk_alerts.read_only_reason
    recovery = store.recovery
    return BrokerReport(
        damage=tuple(map(_damage_report, store.damages[:_MAX_DAMAGES])) or None,
        damages=len(store.damages),
        disk_bytes=state.disk.size_bytes(),
        disk_free_bytes=state.disk.free_bytes(),
        flush=options.flush,
        flush_interval_ms=options.flush_interval_ms,
        flush_last_us=None if state.last_sync_ms is None else round(state.last_sync_ms * 1_000),
        log_bytes=store.end - store.start,
        log_files=store.segment_count,
        product=f"Steelyard {__version__}",
        recovery=RecoveryReport(
            cut_bytes=recovery.cut_bytes,
            damages=sum(each.what != CUT_OFF for each in recovery.damages),
            found=recovery.previous_shutdown.value,
            read_bytes=recovery.read_bytes,
            records=recovery.records,
            took_ms=state.open_duration_ms,
        ),
        refusal=None if refusal is None else refusal[:_MAX_REASON_LENGTH],
        unflushed_bytes=max(0, store.end - store.durable),
    )


def _damage_report(found: Damage) -> DamageReport:
    return DamageReport(
        path=found.path, position=found.position, records=found.records, size=found.size, what=found.what
    )


def _join_numbers(numbers: Iterable[float]) -> str:
    return " ".join(str(round(number, 4)) for number in numbers)


def _format_bytes(count: int) -> str:
    """Format a number of bytes as Java does.

    >>> _format_bytes(940), _format_bytes(1_229), _format_bytes(270_582_939_648)
    ('940 B', '1.2 KiB', '252.0 GiB')
    """
    if count < 1_024:
        return f"{count} B"
    power = (count.bit_length() - 1) // 10
    return f"{count / (1 << 10 * power):.1f} {_UNITS[power - 1]}iB"


def _format_duration(passed_ms: int) -> str:
    """Format a duration as Java does.

    >>> _format_duration(96_000)
    '[ 0 days, 0 hours, 1 minutes, 36 seconds ]'
    """
    seconds = max(0, passed_ms) // 1_000
    days, hours, minutes = seconds // _DAY, seconds % _DAY // _HOUR, seconds % _HOUR // _MINUTE
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % _MINUTE} seconds ]"


def _ha_status(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return response_to(request, body=encode_body(ReplicationState(is_master=True, end=state.store.end)))


HANDLERS: Mapping[int, RequestHandler] = {
    Code.GET_TOPIC_STATS_INFO: _topic_stats,
    Code.GET_CONSUME_STATS: _consume_stats,
    Code.QUERY_CONSUME_TIME_SPAN: _time_spans,
    Code.VIEW_BROKER_STATS_DATA: _view_stats,
    Code.GET_BROKER_CONSUME_STATS: _broker_consume_stats,
    Code.GET_BROKER_RUNTIME_INFO: _runtime_table,
    Code.GET_BROKER_HA_STATUS: _ha_status,
}
