"""Metrics of a broker: RocketMQ 5's families, and ours on top.

Everything is read from tables that exist anyway; nothing is counted on hot paths for this alone. A family may come in
several parts, a group at a time, so that the event loop can run between them; `steelyard.metrics.families.joined`
combines them. What clients can make many of is limited: topics, groups, pairs of both, and queues. What exceeds a
limit is counted as left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from steelyard.broker import stats
from steelyard.broker.consumer_lag import compute_lag, topics_read_by
from steelyard.broker.consumer_registry import ConsumerGroup
from steelyard.broker.group_warnings import find_warnings
from steelyard.broker.state import BrokerCoreState
from steelyard.broker.topics import READ, WRITE, BrokerTopic
from steelyard.broker.validation import BROKER_GROUPS
from steelyard.errors import StoreError
from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.families import MetricFamily, MetricNode
from steelyard.model.reserved_names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    TIMER_TOPIC,
    is_system_group,
    is_system_topic,
)
from steelyard.store.recovery import CUT_OFF, PreviousShutdown
from steelyard.store.tags_code import SCHEDULE_TOPIC
from steelyard.wire.bodies.heartbeat import ConsumeType
from steelyard.wire.codes import LANGUAGES, release_name

T = TypeVar("T")

_MAX_ROWS = 20_000
"""Topics, and pairs of group and topic, that are exported."""
_MAX_GROUPS = 5_000
"""Groups whose members are exported, each with up to 51 rows."""
_ROWS_PER_CHUNK = 500
"""How many of them are in one part of a family."""
_LAGS_PER_CHUNK = 20
"""The same for lags, each of which reads some queues."""
_MAX_QUEUES = 200_000
"""Queues that are read, for all groups together."""

_MAX_CLIENTS = 50
"""Pairs of language and version that are counted separately."""
_OTHER_CLIENT = ("other", "other", "remoting")

_MESSAGE_TYPES = {SCHEDULE_TOPIC.decode(): "delay", TIMER_TOPIC: "delay", HALF_TOPIC: "transaction"}


def metrics_node(state: BrokerCoreState) -> MetricNode:
    """Return the labels of the broker."""
    return MetricNode(state.options.cluster, "broker", state.options.name)


def collect_metrics(state: BrokerCoreState, now_ms: int) -> Iterator[MetricFamily]:
    """Iterate over the families of a broker, which may change in between."""
    node, budget = metrics_node(state), _MetricsBudget()
    yield node.family(rocketmq.BROKER_PERMISSION, [((), READ | WRITE)])
    yield node.family(rocketmq.TOPIC_COUNT, [((), len(state.topics))])
    yield node.family(rocketmq.CONSUMER_GROUP_COUNT, [((), len(state.groups))])
    counted = [
        (name, each) for name, each in state.traffic.topic_counters() if not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
    ]
    for part in _chunks(budget.take_first(counted)):
        yield from _incoming(node, part)
    for some in _chunks(budget.take_first(state.traffic.group_topic_counters())):
        yield from _outgoing(node, some)
    producers = (each for group in state.producers.group_names() for each in state.producers.in_group(group))
    clients = _count_clients(_client_labels(each.language, each.version) for each in producers)
    yield node.family(rocketmq.PRODUCER_CONNECTIONS, clients)
    yield from _transaction_outcomes(node, state)
    yield from _storage(node, state, now_ms)
    yield from _steelyard_metrics(node, state)
    for name in dict.fromkeys([*(settings.name for settings in state.groups), *state.consumers.group_names()]):
        members = state.consumers.group(name)
        if members is not None and budget.try_take_group():
            yield from _group(node, state, members, now_ms)
        topics = [topic for topic in _topics_of(state, name, now_ms) if budget.try_take(topic)]
        for few in _chunks(topics, _LAGS_PER_CHUNK):
            yield from _lags(node, state, name, few, now_ms)
    yield node.family(own.SAMPLES_LEFT_OUT, [((), budget.left_out)])


class _MetricsBudget:
    """How much may still be exported, and how much was left out."""

    def __init__(self) -> None:
        self._groups, self._pairs, self._queues, self.left_out = _MAX_GROUPS, _MAX_ROWS, _MAX_QUEUES, 0

    def take_first(self, rows: list[T]) -> list[T]:
        """Return as many rows as are exported."""
        self.left_out += max(0, len(rows) - _MAX_ROWS)
        return rows[:_MAX_ROWS]

    def try_take_group(self) -> bool:
        """Return whether the members of one more group are exported."""
        self._groups -= 1
        self.left_out += self._groups < 0
        return self._groups >= 0

    def try_take(self, topic: BrokerTopic) -> bool:
        """Return whether a group's lag in one more topic is exported."""
        if self._pairs < 1 or self._queues < topic.read_queues:
            self.left_out += 1
            return False
        self._pairs, self._queues = self._pairs - 1, self._queues - topic.read_queues
        return True


def _chunks(rows: list[T], size: int = _ROWS_PER_CHUNK) -> Iterator[list[T]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _incoming(node: MetricNode, counted: Iterable[tuple[str, stats.TrafficCounter]]) -> Iterator[MetricFamily]:
    known = [
        ((name, _MESSAGE_TYPES.get(name, "normal"), _bool_label(is_system_topic(name))), each) for name, each in counted
    ]
    yield node.family(rocketmq.MESSAGES_IN, ((labels, each.messages) for labels, each in known))
    yield node.family(rocketmq.THROUGHPUT_IN, ((labels, each.size) for labels, each in known))


def _outgoing(
    node: MetricNode, pairs: Iterable[tuple[tuple[str, str], stats.TrafficCounter]]
) -> Iterator[MetricFamily]:
    known = [((topic, group, _is_system(group, topic)), each) for (group, topic), each in pairs]
    yield node.family(rocketmq.MESSAGES_OUT, ((labels, each.messages) for labels, each in known))
    yield node.family(rocketmq.THROUGHPUT_OUT, ((labels, each.size) for labels, each in known))


def _transaction_outcomes(node: MetricNode, state: BrokerCoreState) -> Iterator[MetricFamily]:
    counters = state.event_counters
    dead = (((group, topic, _is_system(group, topic)), count) for (group, topic), count in counters.dead_letters)
    yield node.family(rocketmq.DEAD_LETTERS, dead)
    yield node.family(rocketmq.COMMITTED_TRANSACTIONS, counters.committed)
    yield node.family(rocketmq.ROLLED_BACK_TRANSACTIONS, counters.rolled_back)
    yield node.family(
        rocketmq.HALF_MESSAGES,
        (((topic,), count) for topic, count in state.half_messages.open_by_topic.most_common(_MAX_ROWS)),
    )


def _topics_of(state: BrokerCoreState, group: str, now_ms: int) -> list[BrokerTopic]:
    if group in BROKER_GROUPS:
        return []
    members = state.consumers.group(group)
    names = {
        *topics_read_by(state, group, state.offsets.topics_of(group), now_ms),
        *(members.subscriptions if members else ()),
    }
    return [topic for name in sorted(names) if (topic := state.topics.get(name)) is not None]


def _lags(
    node: MetricNode, state: BrokerCoreState, group: str, topics: Sequence[BrokerTopic], now_ms: int
) -> Iterator[MetricFamily]:
    found = []
    for topic in topics:
        is_retry = _bool_label(topic.name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
        labels = (group, topic.name, is_retry, _is_system(group, topic.name))
        found.append((labels, compute_lag(state, group, topic, now_ms)))
    yield node.family(rocketmq.CONSUMER_LAG, ((labels, lag.lag) for labels, lag in found))
    yield node.family(rocketmq.CONSUMER_LAG_LATENCY, ((labels, lag.lag_ms) for labels, lag in found))
    stuck = (((group, topic.name), lag.stuck_ms / 1_000) for topic, (_, lag) in zip(topics, found, strict=True))
    yield node.family(own.SECONDS_SINCE_PROGRESS, stuck)
    yield node.family(rocketmq.CONSUMER_INFLIGHT, ((labels, lag.in_flight) for labels, lag in found))
    yield node.family(rocketmq.CONSUMER_READY, ((labels, lag.ready) for labels, lag in found))
    yield node.family(rocketmq.CONSUMER_QUEUEING_LATENCY, ((labels, lag.ready_ms) for labels, lag in found))


def _group(node: MetricNode, state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> Iterator[MetricFamily]:
    members = list(group.members.values())
    mode, is_system = (group.kind or ConsumeType.PUSH).name.lower(), _bool_label(is_system_group(group.name))
    connections = _count_clients(
        _client_labels(each.language, each.version) for each in members for _ in each.connections
    )
    yield node.family(
        rocketmq.CONSUMER_CONNECTIONS,
        (((group.name, *client, mode, is_system), count) for client, count in connections),
    )
    warnings = Counter(warning.rule for warning in find_warnings(group))
    yield node.family(own.GROUP_WARNINGS, (((group.name, kind), count) for kind, count in warnings.items()))
    if all(each.is_steelyard and not each.is_broadcasting for each in members):
        # Other members use no locks: their queues would look free.
        held = sum(1 for _ in state.queue_locks.held_queues(group.name, now_ms))
        free = max(0, sum(group.queue_counts.values()) - held)
        yield node.family(own.GROUP_QUEUES, [((group.name, "held"), held), ((group.name, "free"), free)])


def _storage(node: MetricNode, state: BrokerCoreState, now_ms: int) -> Iterator[MetricFamily]:
    store, local = state.store, ("local", "disk")
    earliest_ms = store.lookup.earliest_ms()
    with suppress(StoreError):  # a disk that fails even here is reported elsewhere
        free, size = state.disk.free_bytes(), state.disk.size_bytes()
        yield node.family(rocketmq.STORAGE_SIZE, [(local, store.end - store.start if size is None else size - free)])
        yield node.family(own.STORAGE_FREE, [((), free)])
    yield node.family(rocketmq.FLUSH_BEHIND, [(local, max(0, store.end - store.durable))])
    yield node.family(rocketmq.DISPATCH_BEHIND, [(local, 0)])
    if earliest_ms is not None:
        yield node.family(rocketmq.MESSAGE_RESERVE_TIME, [(local, max(0, now_ms - earliest_ms))])
    yield node.family(own.STORAGE_WRITABLE, [((), int(state.disk_alerts.read_only_reason is None))])
    yield node.family(own.STORAGE_FAILURES, [((), state.disk_alerts.failures)])
    damaged = (damage.records or 0 for damage in store.damages if damage.what != CUT_OFF)
    yield node.family(own.CORRUPT_RECORDS, [((), sum(damaged))])
    yield node.family(own.RECOVERY_UNCLEAN, [((), int(store.recovery.previous_shutdown is PreviousShutdown.UNCLEAN))])
    yield node.family(own.RECOVERY_CUT_BYTES, [((), store.recovery.cut_bytes)])
    if state.open_duration_ms is not None:
        yield node.family(own.RECOVERY_DURATION, [((), state.open_duration_ms / 1_000)])
    yield node.family(own.FSYNC_DURATION, [((), state.sync_times)])


def _steelyard_metrics(node: MetricNode, state: BrokerCoreState) -> Iterator[MetricFamily]:
    totals = sorted(state.rebalance_history.totals.items())
    yield node.family(own.START_TIME, [((), state.started_ms / 1_000)])
    yield node.family(own.REBALANCES, (((group,), each.rebalances) for group, each in totals))
    # A histogram is many lines, so there is none without values.
    yield node.family(
        own.REBALANCE_DURATION, (((group,), each.duration_s) for group, each in totals if each.rebalances)
    )
    yield node.family(
        own.MOVES, (((group, kind), count) for group, each in totals for kind, count in each.moves.items())
    )
    yield node.family(own.HANDOVER_GAP, (((group,), each.gap_s) for group, each in totals if each.gap_s.total))
    yield node.family(own.FENCED_COMMITS, state.event_counters.fenced_commits)
    yield node.family(own.LOWERED_COMMITS, [((), state.offsets.backward_commits)])
    yield node.family(own.DUPLICATES_AVOIDED, state.event_counters.avoided_duplicates)
    traffic = state.traffic
    yield node.family(own.PULLS, [(("found",), traffic.delivered.calls), (("empty",), traffic.empty_pulls)])
    yield node.family(own.WAITING_PULLS, [((), len(state.held_pulls))])
    levels = sum(
        max(0, state.store.bounds(SCHEDULE_TOPIC, queue_id)[1] - reached)
        for queue_id, reached in enumerate(state.delay_offsets.next_offsets)
    )
    yield node.family(own.DELAYED_MESSAGES, [(("level",), levels), (("time",), len(state.timers))])


def _count_clients(clients: Iterable[tuple[str, str, str]]) -> list[tuple[tuple[str, str, str], int]]:
    """Count clients by language and version; clients choose these, so the rarest are counted together."""
    counts = Counter(clients)
    common = Counter(dict(counts.most_common(_MAX_CLIENTS)))
    if len(common) < len(counts):
        common[_OTHER_CLIENT] += counts.total() - common.total()
    return list(common.items())


def _client_labels(language: str, version: int) -> tuple[str, str, str]:
    if language not in LANGUAGES:
        return _OTHER_CLIENT
    return language.lower(), f"v{release_name(version)}".lower().replace(".", "_").replace("-", "_"), "remoting"


def _is_system(group: str, topic: str) -> str:
    return _bool_label(is_system_group(group) or is_system_topic(topic))


def _bool_label(value: bool) -> str:
    return "true" if value else "false"
