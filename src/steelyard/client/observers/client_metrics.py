"""Metrics of the clients of this process: an observer that counts, read as values or as Prometheus text.

Names and labels are those of RocketMQ 5's own clients where they exist; ours begin with ``steelyard_``. Times are
milliseconds. Clients differ by the label ``client_id``; one that has ended keeps its counters, and its gauges are
removed. Two of RocketMQ's differ: brokers do not report when they deliver a message, so
``rocketmq_delivery_latency`` starts with its store; of a batch only the first message has a ``rocketmq_await_time``.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

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
from steelyard.metrics.exposition import Exposition, format_exposition
from steelyard.metrics.families import Histogram, MetricCatalog, MetricFamily, MetricSpec, MetricType, Sample

if TYPE_CHECKING:
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
    "Messages given to handlers: done, failed, later (reoutcome) or left.",
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

_LabelValues = tuple[str, ...]


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
        """Remove the gauges of a client."""
        with self._lock:
            self._clients.pop(client.id, None)
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
                    labels = (message.topic, client.id)
                    if isinstance(result, SendResult):
                        self._count_sent(labels, result)
                        self._histograms[_SEND_TIME][*labels, "success"].add(took_ms)
                    else:
                        self._counters[_SEND_FAILURES][*labels, type(result).__name__] += 1
                        self._histograms[_SEND_TIME][*labels, "failure"].add(took_ms)

        return ended

    def _count_sent(self, labels: _LabelValues, sent: SendResult) -> None:
        self._counters[_SENT][labels] += 1
        if sent.late:
            self._counters[_SENT_LATE][labels] += 1
        for broker, _, _ in sent.attempts:
            self._counters[_SEND_RETRIES][*labels, broker] += 1

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Count the ends of transactions."""
        with self._lock:
            self._counters[_TRANSACTIONS][end.topic, client.id, "commit" if end.commits else "rollback"] += 1

    def received(self, client: Observed, messages: Sequence[ReceivedMessage]) -> None:
        """Count received messages, and their age."""
        at_ms, at_ns = time_ns() // 1_000_000, monotonic_ns()
        with self._lock:
            for message in messages:
                labels = (message.topic, client.group, client.id)
                self._counters[_RECEIVED][labels] += 1
                self._histograms[_DELIVERY_LATENCY][labels].add(max(0, at_ms - message.stored_ms))
            if client.kind == "consumer":
                last = messages[-1]
                fetches = self._fetches.setdefault((client.id, last.queue), deque(maxlen=_MAX_FETCHES))
                fetches.append((last.offset, at_ns))

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Count handled messages, how long they waited, and how long they take."""
        first = incoming.messages[0]
        labels = (first.topic, client.group, client.id)
        with self._lock:
            fetches = self._fetches.get((client.id, incoming.queue), ())
            came_ns = next((at_ns for last, at_ns in fetches if first.offset <= last), None)
            if came_ns is not None:
                self._histograms[_AWAIT_TIME][labels].add((monotonic_ns() - came_ns) / 1e6)

        def ended(outcome: HandlerOutcome) -> None:
            status = "success" if outcome.became == "done" else "failure"
            with self._lock:
                self._counters[_HANDLED][*labels, outcome.became] += len(incoming.messages)
                self._histograms[_PROCESS_TIME][*labels, status].add(outcome.took_ns / 1e6)

        return ended

    def rebalanced(self, client: Observed, event: Rebalanced, *, avoided: int) -> None:
        """Count rebalances and moved queues."""
        labels = (client.group, client.id)
        with self._lock:
            self._counters[_REBALANCES][labels] += 1
            for how, queues in (("taken", event.taken), ("released", event.released), ("lost", event.lost)):
                if queues:
                    self._counters[_QUEUE_MOVES][*labels, how] += len(queues)
            self._gauges[_OWNED_QUEUES][labels] = len(event.queues)
            if avoided:
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
