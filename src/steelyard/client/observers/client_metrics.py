"""Metrics of the clients of this process: an observer that counts, read as values, as text, or by a registry.

Names, labels and units (milliseconds) are those of RocketMQ 5's own clients where they exist; ours begin with
``steelyard_``. Clients differ by the label ``client_id``. What one that has ended counted goes on under an empty id,
and its gauges are removed, so a process that opens client after client has no more samples than one with a few. Nor do
topics without end fill the memory: what is beyond a limit is counted together. Two of RocketMQ's differ: brokers do not
report when they deliver a message, so ``rocketmq_delivery_latency`` starts with its store; of a batch only the first
message has a ``rocketmq_await_time``.
"""

import platform
import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, TypeVar

from steelyard.client.consumer.notifications import Rebalanced
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.observers.observer import (
    CachedMessages,
    HandleEnded,
    HandlerCall,
    HandlerOutcome,
    Observed,
    Observer,
    OutgoingMessages,
    SendEnded,
    SendOutcome,
    TransactionEnd,
)
from steelyard.client.producer.send_result import SendResult
from steelyard.metrics.exposition import Exposition, flat_samples, format_exposition
from steelyard.metrics.families import Histogram, MetricCatalog, MetricFamily, MetricSpec, MetricType, Sample
from steelyard.version import __version__

if TYPE_CHECKING:
    from prometheus_client import Metric

    from steelyard.model import Queue

_TOPIC_LABELS = ("topic", "client_id")
_GROUP_LABELS = ("topic", "consumer_group", "client_id")
_MEMBER_LABELS = ("consumer_group", "client_id")
_LATENCY_BOUNDS_MS = (1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0)
_AWAIT_BOUNDS_MS = (1.0, 5.0, 20.0, 100.0, 1_000.0, 5_000.0, 10_000.0)
_PROCESS_BOUNDS_MS = (1.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0, 60_000.0)
"""The bounds of RocketMQ 5's own clients."""

_catalog = MetricCatalog()

_SEND_TIME = _catalog.histogram(
    "rocketmq_send_cost_time", "Milliseconds that a send takes.", (*_TOPIC_LABELS, "invocation_status")
)
_DELIVERY_LATENCY = _catalog.histogram(
    "rocketmq_delivery_latency", "Milliseconds from a message's store to its arrival here.", _GROUP_LABELS
)
_AWAIT_TIME = _catalog.histogram(
    "rocketmq_await_time", "Milliseconds from a message's arrival here to its handler.", _GROUP_LABELS
)
_PROCESS_TIME = _catalog.histogram(
    "rocketmq_process_time",
    "Milliseconds that a handler took for a message or a batch.",
    (*_GROUP_LABELS, "invocation_status"),
)
_CACHED_MESSAGES = _catalog.gauge(
    "rocketmq_consumer_cached_messages", "Messages fetched and not handled yet.", _GROUP_LABELS
)
_CACHED_BYTES = _catalog.gauge(
    "rocketmq_consumer_cached_bytes", "Bytes of the bodies of those messages.", _GROUP_LABELS
)
_SECONDS_SINCE_PROGRESS = _catalog.gauge(
    "steelyard_client_seconds_since_progress",
    "Seconds for which a member finished nothing in its queue that is stuck longest, though messages wait in it.",
    _GROUP_LABELS,
)
_SENT = _catalog.counter("steelyard_client_sent_total", "Messages stored by a broker.", _TOPIC_LABELS)
_SENT_LATE = _catalog.counter(
    "steelyard_client_sent_late_total", "Messages stored with a late flush or replica.", _TOPIC_LABELS
)
_SEND_FAILURES = _catalog.counter(
    "steelyard_client_send_failures_total", "Messages not stored.", (*_TOPIC_LABELS, "error")
)
_SEND_RETRIES = _catalog.counter(
    "steelyard_client_send_retries_total",
    "Failed attempts of messages that were stored later, by broker.",
    (*_TOPIC_LABELS, "broker"),
)
_TRANSACTIONS = _catalog.counter("steelyard_client_transactions_total", "Transactions ended.", (*_TOPIC_LABELS, "how"))
_RECEIVED = _catalog.counter("steelyard_client_received_total", "Messages received.", _GROUP_LABELS)
_HANDLED = _catalog.counter(
    "steelyard_client_handled_total",
    "Messages given to handlers: done, failed, later (redelivered) or left.",
    (*_GROUP_LABELS, "became"),
)
_REBALANCES = _catalog.counter("steelyard_client_rebalances_total", "Rebalances of a member.", _MEMBER_LABELS)
_QUEUE_MOVES = _catalog.counter(
    "steelyard_client_moves_total", "Queues acquired, released in order, or lost.", (*_MEMBER_LABELS, "how")
)
_OWNED_QUEUES = _catalog.gauge("steelyard_client_queues", "Queues that a member owns.", _MEMBER_LABELS)
_DUPLICATES_AVOIDED = _catalog.counter(
    "steelyard_client_duplicates_avoided_total",
    "Messages in flight when their queue was released, and handled and committed before that.",
    _MEMBER_LABELS,
)

_BUILD_INFO = _catalog.gauge(
    "steelyard_client_build_info", "1; the labels say the version of Steelyard, and of Python.", ("version", "python")
)

_HISTOGRAMS = {
    _SEND_TIME: _LATENCY_BOUNDS_MS,
    _DELIVERY_LATENCY: _LATENCY_BOUNDS_MS,
    _AWAIT_TIME: _AWAIT_BOUNDS_MS,
    _PROCESS_TIME: _PROCESS_BOUNDS_MS,
}
_COUNTERS, _GAUGES = (
    tuple(each for each in _catalog.specs if each.kind is kind) for kind in (MetricType.COUNTER, MetricType.GAUGE)
)

CLIENT_METRICS: tuple[MetricSpec, ...] = (*_HISTOGRAMS, *_COUNTERS, *_GAUGES)

_MAX_FETCHES = 64
"""Fetches of a queue whose time is kept until their messages are handled."""

_MAX_SAMPLES = 5_000
"""Samples of a family; what is beyond is counted together, under labels that say so."""
_OTHER, _ENDED = "other", ""

_LabelValues = tuple[str, ...]
_N = TypeVar("_N", int, Histogram)


class ClientMetrics(Observer):
    """Counts what clients do, from any thread.

    >>> from steelyard import Message, Producer
    >>> from steelyard.serve.embedded import Cluster
    >>> metrics = ClientMetrics()
    >>> with Cluster() as cluster, Producer(cluster.namesrv, observers=[metrics]) as producer:
    ...     for number in range(3):
    ...         sent = producer.send(Message("orders", b"{}"))
    >>> metrics.total("steelyard_client_sent_total", topic="orders")
    3.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histograms: dict[MetricSpec, defaultdict[_LabelValues, Histogram]] = {
            each: defaultdict(partial(Histogram, bounds)) for each, bounds in _HISTOGRAMS.items()
        }
        self._counters: dict[MetricSpec, defaultdict[_LabelValues, int]] = {
            each: defaultdict(int) for each in _COUNTERS
        }
        self._gauges: dict[MetricSpec, dict[_LabelValues, float]] = {each: {} for each in _GAUGES}
        self._gauges[_BUILD_INFO][__version__, platform.python_version()] = 1
        self._fetches: dict[tuple[str, Queue], deque[tuple[int, int]]] = {}
        """The last fetches of each queue of a client: last offset and time of each."""
        self._clients: dict[str, Observed] = {}

    def families(self) -> list[MetricFamily]:
        """Return all samples so far."""
        with self._lock:
            return [
                *(each.family(rows.items()) for each, rows in self._histograms.items()),
                *(each.family(rows.items()) for each, rows in self._counters.items()),
                *(each.family(rows.items()) for each, rows in self._gauges.items()),
            ]

    def text(self, way: Exposition = Exposition.PLAIN) -> str:
        """Return them as text for Prometheus."""
        return format_exposition(self.families(), way)

    def collect(self) -> "Iterator[Metric]":
        """Yield all samples, as a collector of `prometheus_client` does: ``registry.register(metrics)``."""
        from prometheus_client import Metric  # a registry is asking, so it is there

        for family in self.families():
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for name, labels, value in flat_samples(family):
                metric.add_sample(name, labels, value)
            yield metric

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with these labels; of a histogram, the number of values."""
        samples = [sample for family in self.families() if family.name == name for sample in family.samples]
        wanted = [sample for sample in samples if labels.items() <= sample.labels.items()]
        return float(sum(sample.value if isinstance(sample, Sample) else sample.total for sample in wanted))

    def opened(self, client: Observed) -> None:
        """Remember an open client."""
        with self._lock:
            self._clients[client.id] = client

    def closed(self, client: Observed) -> None:
        """Remove the gauges of a client, and let what it counted go on under no id."""
        with self._lock:
            self._clients.pop(client.id, None)
            for spec, spread in self._histograms.items():
                _fold_ended(spec, spread, client.id)
            for spec, counts in self._counters.items():
                _fold_ended(spec, counts, client.id)
            for rows in self._gauges.values():
                for labels in [labels for labels in rows if labels[-1] == client.id]:
                    del rows[labels]
            for key in [key for key in self._fetches if key[0] == client.id]:
                del self._fetches[key]

    def sending(self, client: Observed, outgoing: OutgoingMessages) -> SendEnded | None:
        """Count sends, and how long they take."""

        def ended(outcome: SendOutcome) -> None:
            took_ms = outcome.took_ns / 1e6
            with self._lock:
                for message, result in zip(outgoing.messages, outcome.results, strict=False):
                    labels = (message.topic, self._id_of(client))
                    if isinstance(result, SendResult):
                        self._count_sent(labels, result)
                        self._measure(_SEND_TIME, took_ms, *labels, "success")
                    else:
                        self._count(_SEND_FAILURES, *labels, type(result).__name__)
                        self._measure(_SEND_TIME, took_ms, *labels, "failure")

        return ended

    def _id_of(self, client: Observed) -> str:
        return client.id if client.id in self._clients else _ENDED

    def _count(self, spec: MetricSpec, *labels: str, count: int = 1) -> None:
        rows = self._counters[spec]
        rows[_bounded(rows, labels)] += count

    def _measure(self, spec: MetricSpec, value: float, *labels: str) -> None:
        rows = self._histograms[spec]
        rows[_bounded(rows, labels)].add(value)

    def _count_sent(self, labels: _LabelValues, sent: SendResult) -> None:
        self._count(_SENT, *labels)
        if sent.late:
            self._count(_SENT_LATE, *labels)
        for broker, _, _ in sent.attempts:
            self._count(_SEND_RETRIES, *labels, broker)

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Count the ends of transactions."""
        with self._lock:
            self._count(_TRANSACTIONS, end.topic, self._id_of(client), "commit" if end.commits else "rollback")

    def received(self, client: Observed, messages: Sequence[ReceivedMessage]) -> None:
        """Count received messages, and their age."""
        at_ms, at_ns = time_ns() // 1_000_000, monotonic_ns()
        with self._lock:
            for message in messages:
                labels = (message.topic, client.group, self._id_of(client))
                self._count(_RECEIVED, *labels)
                self._measure(_DELIVERY_LATENCY, max(0, at_ms - message.stored_ms), *labels)
            if client.kind == "consumer":
                last = messages[-1]
                fetches = self._fetches.setdefault((client.id, last.queue), deque(maxlen=_MAX_FETCHES))
                fetches.append((last.offset, at_ns))

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Count handled messages, how long they waited, and how long they take."""
        first = incoming.messages[0]
        with self._lock:
            fetches = self._fetches.get((client.id, incoming.queue), ())
            came_ns = next((at_ns for last, at_ns in fetches if first.offset <= last), None)
            if came_ns is not None:
                waited_ms = (monotonic_ns() - came_ns) / 1e6
                self._measure(_AWAIT_TIME, waited_ms, first.topic, client.group, self._id_of(client))

        def ended(outcome: HandlerOutcome) -> None:
            status = "success" if outcome.became == "done" else "failure"
            with self._lock:
                labels = (first.topic, client.group, self._id_of(client))
                self._count(_HANDLED, *labels, outcome.became, count=len(incoming.messages))
                self._measure(_PROCESS_TIME, outcome.took_ns / 1e6, *labels, status)

        return ended

    def rebalanced(self, client: Observed, event: Rebalanced, *, avoided: int) -> None:
        """Count rebalances and moved queues."""
        with self._lock:
            labels = (client.group, self._id_of(client))
            self._count(_REBALANCES, *labels)
            for how, queues in (("taken", event.taken), ("released", event.released), ("lost", event.lost)):
                if queues:
                    self._count(_QUEUE_MOVES, *labels, how, count=len(queues))
            if client.id in self._clients:
                self._gauges[_OWNED_QUEUES][labels] = len(event.queues)
                if avoided:  # a total of the member's own, since it started
                    self._counters[_DUPLICATES_AVOIDED][labels] = avoided
            for queue in (*event.released, *event.lost):
                self._fetches.pop((client.id, queue), None)

    def cached(self, client: Observed, by_topic: Mapping[str, CachedMessages]) -> None:
        """Set the gauges of fetched messages."""
        with self._lock:
            if client.id not in self._clients:
                return
            for topic, cached in by_topic.items():
                labels = (topic, client.group, client.id)
                self._gauges[_CACHED_MESSAGES][labels] = cached.messages
                self._gauges[_CACHED_BYTES][labels] = cached.body_bytes
                self._gauges[_SECONDS_SINCE_PROGRESS][labels] = cached.still_s


def _bounded(rows: Mapping[_LabelValues, object], labels: _LabelValues) -> _LabelValues:
    return labels if labels in rows or len(rows) < _MAX_SAMPLES else (_OTHER,) * len(labels)


def _fold_ended(spec: MetricSpec, rows: defaultdict[_LabelValues, _N], client_id: str) -> None:
    """Add the rows of a client that has ended to those of all that have."""
    at = spec.labels.index("client_id")
    for labels in [each for each in rows if each[at] == client_id]:
        rows[_without_client(labels, at)] += rows.pop(labels)


def _without_client(labels: _LabelValues, at: int) -> _LabelValues:
    return (*labels[:at], _ENDED, *labels[at + 1 :])
