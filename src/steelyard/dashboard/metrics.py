"""The `/metrics` endpoint: metrics of the cluster in this process, or of a remote one as seen from outside.

A remote cluster is measured with what an administrator may ask, under the metric names that brokers themselves use. An
unknown label is empty, an unknown number is left out. Messages in are counted by the max offsets of queues, for topics
that some group reads. Responses are cached, and only one collection runs at a time: more scrapes must not cost a
cluster more requests. A part that does not answer in time is left out, and counted.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from steelyard.client.admin.admin import Admin
from steelyard.client.admin.admin_session import gather_limited
from steelyard.client.admin.brokers import BrokerRuntime, BrokerStatus, GroupLag
from steelyard.dashboard.context import DashboardContext
from steelyard.errors import SteelyardError
from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.exposition import Exposition, format_exposition
from steelyard.metrics.families import MetricFamily, MetricNode, SampleRow, merge_families
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic
from steelyard.net.clock import steady_ms

_PART_TIMEOUT_S = 4.0  # the timeout of each part: a scrape waits for ten seconds by default
_MAX_ROWS = 20_000  # pairs of group and topic that are exported of one broker
_MAX_GROUPS = 1_000  # groups whose members are counted: each takes requests of its own

T = TypeVar("T")


class _BrokerPoll(NamedTuple):
    """What one broker answered."""

    broker: BrokerStatus
    state: BrokerRuntime | None
    lags: list[GroupLag] | None


async def collect_cluster_metrics(admin: Admin) -> list[MetricFamily]:
    """Return the metrics of a remote cluster; an error if not even its name servers answer."""
    brokers, topics, groups = await asyncio.gather(
        admin.brokers.list(), _or_none_if_late(admin.topics.list(system=True)), _or_none_if_late(_member_rows(admin))
    )
    seen = await gather_limited(lambda broker: _poll_broker(admin, broker), brokers)
    cluster = MetricNode(brokers[0].cluster if brokers else "", "", "")
    found = [family for each in seen for family in _broker_families(each)]
    on_each = Counter(broker for topic in topics or () for broker in topic.brokers)
    if topics is not None:
        found += [_node(each).family(rocketmq.TOPIC_COUNT, [((), on_each[each.name])]) for each in brokers]
    found.append(cluster.family(rocketmq.CONSUMER_CONNECTIONS, groups or ()))
    unanswered = [topics, groups, *(part for each in seen if each.broker.problem is None for part in each[1:])].count(
        None
    )
    found.append(cluster.family(own.QUESTIONS_UNANSWERED, [((), unanswered)]))
    return merge_families(found)


async def _or_none_if_late(work: Awaitable[T]) -> T | None:
    """Return the result, or None if it fails or is late."""
    try:
        async with asyncio.timeout(_PART_TIMEOUT_S):
            return await work
    except (TimeoutError, SteelyardError):
        return None


async def _poll_broker(admin: Admin, broker: BrokerStatus) -> _BrokerPoll:
    if broker.problem is not None:
        return _BrokerPoll(broker, None, None)
    answers = await asyncio.gather(
        _or_none_if_late(admin.brokers.describe(broker.name)), _or_none_if_late(admin.brokers.lag(broker.name))
    )
    return _BrokerPoll(broker, *answers)


async def _member_rows(admin: Admin) -> list[SampleRow] | None:
    if len(await admin.groups.names()) > _MAX_GROUPS:
        return None
    return [
        ((each.name, "", "", "remoting", each.kind or "", _bool_label(is_system_group(each.name))), each.members)
        for each in await admin.groups.list()
        if each.members
    ]


def _node(broker: BrokerStatus) -> MetricNode:
    return MetricNode(broker.cluster, "broker", broker.name)


def _broker_families(poll: _BrokerPoll) -> Iterator[MetricFamily]:
    node = _node(poll.broker)
    yield node.family(own.BROKER_REACHED, [((), int(poll.broker.problem is None))])
    if poll.broker.took_ms is not None:
        yield node.family(own.BROKER_ANSWER, [((), poll.broker.took_ms / 1_000)])
    if poll.state is not None:
        yield from _state_families(node, poll.state)
    if poll.lags is not None:
        yield from _lag_families(node, poll.lags)


def _state_families(node: MetricNode, state: BrokerRuntime) -> Iterator[MetricFamily]:
    local = ("local", "disk")
    delivered = state.reported.get("msgGetTotalTodayNow", "")
    if delivered.isdecimal():
        yield node.family(rocketmq.MESSAGES_OUT, [(("", "", ""), int(delivered))])
    if state.index_behind_bytes is not None:
        yield node.family(rocketmq.DISPATCH_BEHIND, [(local, state.index_behind_bytes)])
    if state.oldest_at is not None:
        kept_ms = (datetime.now(UTC) - state.oldest_at).total_seconds() * 1_000
        yield node.family(rocketmq.MESSAGE_RESERVE_TIME, [(local, max(0, round(kept_ms)))])
    if state.started_at is not None:
        yield node.family(own.START_TIME, [((), state.started_at.timestamp())])
    if state.version:
        yield node.family(own.BUILD_INFO, [((state.version, ""), 1)])


def _lag_families(node: MetricNode, lags: Iterable[GroupLag]) -> Iterator[MetricFamily]:
    pairs: dict[tuple[str, str], list[GroupLag]] = defaultdict(list)
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for lag in lags:
        pairs[lag.group, lag.queue.topic].append(lag)
        ends[lag.queue.topic][lag.queue.queue_id] = lag.end
    yield node.family(
        rocketmq.MESSAGES_IN,
        (
            ((topic, "", _bool_label(is_system_topic(topic))), sum(queues.values()))
            for topic, queues in list(ends.items())[:_MAX_ROWS]
            if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        ),
    )
    exported = list(pairs.items())[:_MAX_ROWS]
    labels = [
        (
            group,
            topic,
            _bool_label(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))),
            _bool_label(is_system_group(group) or is_system_topic(topic)),
        )
        for (group, topic), _ in exported
    ]
    yield node.family(
        rocketmq.CONSUMER_LAG, ((label, _lag(each)) for label, (_, each) in zip(labels, exported, strict=True))
    )
    pulled = [(label, each) for label, (_, each) in zip(labels, exported, strict=True) if _reports_pulls(each)]
    yield node.family(rocketmq.CONSUMER_INFLIGHT, ((label, _in_flight(each)) for label, each in pulled))
    yield node.family(rocketmq.CONSUMER_READY, ((label, _lag(each) - _in_flight(each)) for label, each in pulled))
    yield node.family(own.SAMPLES_LEFT_OUT, [((), len(pairs) - len(exported))])


def _lag(queues: Iterable[GroupLag]) -> int:
    return sum(each.lag for each in queues)


def _reports_pulls(queues: Iterable[GroupLag]) -> bool:
    return all(each.pulled is not None for each in queues)


def _in_flight(queues: Iterable[GroupLag]) -> int:
    return sum(max(0, min(each.pulled or 0, each.end) - each.committed) for each in queues)


def _bool_label(is_so: bool) -> str:
    return "true" if is_so else "false"


_LOCAL_TTL_MS, _REMOTE_TTL_MS = 1_000, 10_000
"""How long a result is served again: of a cluster in this process, and of a remote one."""

_CACHE_KEY = "metrics"


@dataclass(slots=True)
class _CachedMetrics:
    """The last result, and a lock while the next is collected."""

    families: list[MetricFamily] = field(default_factory=list)
    until_ms: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


async def metrics_response(context: DashboardContext, accept: str = "") -> tuple[str, str]:
    """Return the metrics in the format that this Accept header asks for, and their content type."""
    last: _CachedMetrics = context.cache.setdefault(_CACHE_KEY, _CachedMetrics())
    async with last.lock:
        if steady_ms() >= last.until_ms:
            here = context.local_metrics
            last.families = await (collect_cluster_metrics(context.admin) if here is None else here())
            last.until_ms = steady_ms() + (_REMOTE_TTL_MS if here is None else _LOCAL_TTL_MS)
    exposition = Exposition.accepted(accept)
    return format_exposition(last.families, exposition), exposition.value
