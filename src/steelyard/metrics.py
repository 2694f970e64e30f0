"""What clients of this process do, in numbers: an observer that counts, read as values or as Prometheus text.

    metrics = ClientMetrics()
    Producer("localhost:9876", observers=[metrics])
    Consumer("localhost:9876", group="billing", observers=[metrics])
    print(metrics.text())                   # serve this at /metrics, or add it to what you serve

Names and labels are those of RocketMQ 5's own clients where they have such a thing, ours begin with ``steelyard_``.
Times are in milliseconds, as there. One `ClientMetrics` may watch any number of clients, which differ by the label
``client_id``; a client that has ended keeps its counters, and its gauges go.

Two of RocketMQ's mean something else here. Brokers do not say when they hand a message out, so
``rocketmq_delivery_latency`` begins with its store; and of a batch only the first message has a
``rocketmq_await_time``.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from steelyard.client.consuming.news import Moved
from steelyard.client.consuming.received import Received
from steelyard.client.observing.observer import (
    Cached,
    Delivered,
    HandleEnded,
    Incoming,
    Observed,
    Observer,
    Outcome,
    Outgoing,
    SendEnded,
    TransactionEnd,
)
from steelyard.client.producing.sent import Sent
from steelyard.model.buckets import Buckets
from steelyard.model.exposition import Exposition, exposition
from steelyard.model.measures import Family, Kind, Measure, Sample

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["MEASURES", "ClientMetrics"]

_BY_TOPIC = ("topic", "client_id")
_BY_GROUP = ("topic", "consumer_group", "client_id")
_BY_MEMBER = ("consumer_group", "client_id")
_QUICK = (1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0)
_WAITING = (1.0, 5.0, 20.0, 100.0, 1_000.0, 5_000.0, 10_000.0)
_HANDLING = (1.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0, 60_000.0)
"""The bounds of RocketMQ 5's own clients."""

_SEND_TIME = Measure(
    "rocketmq_send_cost_time",
    Kind.HISTOGRAM,
    "Milliseconds from a call of send to its end.",
    (*_BY_TOPIC, "invocation_status"),
)
_DELIVERY = Measure(
    "rocketmq_delivery_latency", Kind.HISTOGRAM, "Milliseconds from a message's store to its arrival here.", _BY_GROUP
)
_AWAIT = Measure(
    "rocketmq_await_time", Kind.HISTOGRAM, "Milliseconds from a message's arrival here to its handler.", _BY_GROUP
)
_PROCESS = Measure(
    "rocketmq_process_time",
    Kind.HISTOGRAM,
    "Milliseconds that a handler took for a message or a batch.",
    (*_BY_GROUP, "invocation_status"),
)
_CACHED = Measure(
    "rocketmq_consumer_cached_messages", Kind.GAUGE, "Messages that were fetched and are not finished.", _BY_GROUP
)
_CACHED_BYTES = Measure("rocketmq_consumer_cached_bytes", Kind.GAUGE, "The bytes of their bodies.", _BY_GROUP)
_SENT = Measure("steelyard_client_sent_total", Kind.COUNTER, "Messages that a broker has stored.", _BY_TOPIC)
_SENT_LATE = Measure(
    "steelyard_client_sent_late_total", Kind.COUNTER, "Of those, whose flush or replica was late.", _BY_TOPIC
)
_UNSENT = Measure(
    "steelyard_client_send_failures_total", Kind.COUNTER, "Messages that were not stored.", (*_BY_TOPIC, "error")
)
_RETRIES = Measure(
    "steelyard_client_send_retries_total",
    Kind.COUNTER,
    "Attempts that failed before a message was stored, by broker.",
    (*_BY_TOPIC, "broker"),
)
_TRANSACTIONS = Measure(
    "steelyard_client_transactions_total", Kind.COUNTER, "Transactions that were ended.", (*_BY_TOPIC, "how")
)
_RECEIVED = Measure("steelyard_client_received_total", Kind.COUNTER, "Messages that came.", _BY_GROUP)
_HANDLED = Measure(
    "steelyard_client_handled_total",
    Kind.COUNTER,
    "Messages that handlers were given: done, failed, later (asked for again) or left.",
    (*_BY_GROUP, "became"),
)
_REBALANCES = Measure(
    "steelyard_client_rebalances_total", Kind.COUNTER, "How often the queues of a member changed.", _BY_MEMBER
)
_MOVES = Measure(
    "steelyard_client_moves_total",
    Kind.COUNTER,
    "Queues that were taken, released in order, or lost.",
    (*_BY_MEMBER, "how"),
)
_QUEUES = Measure("steelyard_client_queues", Kind.GAUGE, "Queues that a member owns.", _BY_MEMBER)
_AVOIDED = Measure(
    "steelyard_client_duplicates_avoided_total",
    Kind.COUNTER,
    "Messages in hand when their queue was given up that were finished and committed before that.",
    _BY_MEMBER,
)

_HISTOGRAMS = {_SEND_TIME: _QUICK, _DELIVERY: _QUICK, _AWAIT: _WAITING, _PROCESS: _HANDLING}
_COUNTERS = (_SENT, _SENT_LATE, _UNSENT, _RETRIES, _TRANSACTIONS, _RECEIVED, _HANDLED, _REBALANCES, _MOVES, _AVOIDED)
_GAUGES = (_CACHED, _CACHED_BYTES, _QUEUES)

MEASURES: tuple[Measure, ...] = (*_HISTOGRAMS, *_COUNTERS, *_GAUGES)
"""All that can be told."""

_MOST_FETCHES = 64
"""Fetches of a queue whose time is remembered until their messages are handled."""

_Labels = tuple[str, ...]


class ClientMetrics(Observer):
    """Counts what clients do; from any thread.

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
        self._histograms: dict[Measure, dict[_Labels, Buckets]] = {measure: {} for measure in _HISTOGRAMS}
        self._counters: dict[Measure, defaultdict[_Labels, int]] = {each: defaultdict(int) for each in _COUNTERS}
        self._gauges: dict[Measure, dict[_Labels, float]] = {measure: {} for measure in _GAUGES}
        self._fetches: dict[tuple[str, Queue], deque[tuple[int, int]]] = {}
        """The last fetches of each queue of a client: the last offset of each, and when it came."""
        self._clients: dict[str, Observed] = {}
        """Those that are open, by id."""

    # -- reading ------------------------------------------------------------------------------------------------------

    def families(self) -> list[Family]:
        """Return everything that was counted so far; what never happened is not there."""
        with self._lock:
            return [
                *(measure.family(rows.items()) for measure, rows in self._histograms.items()),
                *(measure.family(rows.items()) for measure, rows in self._counters.items()),
                *(measure.family(rows.items()) for measure, rows in self._gauges.items()),
            ]

    def text(self, way: Exposition = Exposition.PLAIN) -> str:
        """Return it as text that Prometheus reads."""
        return exposition(self.families(), way)

    def total(self, name: str, **labels: str) -> float:
        """Add up the samples of a counter or a gauge that have these labels; of a histogram, how many there were."""
        samples = [sample for family in self.families() if family.name == name for sample in family.samples]
        wanted = [sample for sample in samples if labels.items() <= sample.labels.items()]
        return float(sum(sample.value if isinstance(sample, Sample) else sample.total for sample in wanted))

    # -- counting -----------------------------------------------------------------------------------------------------

    def opened(self, client: Observed) -> None:
        """Take note of who is there."""
        with self._lock:
            self._clients[client.id] = client

    def closed(self, client: Observed) -> None:
        """Forget what only counts while a client is there."""
        with self._lock:
            self._clients.pop(client.id, None)
            for rows in self._gauges.values():
                for labels in [labels for labels in rows if labels[-1] == client.id]:
                    del rows[labels]
            for key in [key for key in self._fetches if key[0] == client.id]:
                del self._fetches[key]

    def sending(self, client: Observed, outgoing: Outgoing) -> SendEnded | None:
        """Count what is sent, and how long it takes."""

        def ended(delivered: Delivered) -> None:
            took_ms = delivered.took_ns / 1e6
            with self._lock:
                for message, result in zip(outgoing.messages, delivered.results, strict=False):
                    labels = (message.topic, client.id)
                    if isinstance(result, Sent):
                        self._count_sent(labels, result)
                        self._spread(_SEND_TIME, (*labels, "success"), took_ms)
                    else:
                        self._counters[_UNSENT][*labels, type(result).__name__] += 1
                        self._spread(_SEND_TIME, (*labels, "failure"), took_ms)

        return ended

    def _count_sent(self, labels: _Labels, sent: Sent) -> None:
        self._counters[_SENT][labels] += 1
        if sent.late:
            self._counters[_SENT_LATE][labels] += 1
        for broker, _, _ in sent.attempts:
            self._counters[_RETRIES][*labels, broker] += 1

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Count the ends of transactions."""
        with self._lock:
            self._counters[_TRANSACTIONS][end.topic, client.id, "commit" if end.commits else "rollback"] += 1

    def received(self, client: Observed, messages: Sequence[Received]) -> None:
        """Count what came, and how old it is."""
        at_ms, at_ns = time_ns() // 1_000_000, monotonic_ns()
        with self._lock:
            for message in messages:
                labels = (message.topic, client.group, client.id)
                self._counters[_RECEIVED][labels] += 1
                self._spread(_DELIVERY, labels, max(0, at_ms - message.stored_ms))
            if client.kind == "consumer":
                last = messages[-1]
                fetches = self._fetches.setdefault((client.id, last.queue), deque(maxlen=_MOST_FETCHES))
                fetches.append((last.offset, at_ns))

    def handling(self, client: Observed, incoming: Incoming) -> HandleEnded | None:
        """Count what is handled, how long it waited for that, and how long it takes."""
        first = incoming.messages[0]
        labels = (first.topic, client.group, client.id)
        with self._lock:
            fetches = self._fetches.get((client.id, incoming.queue), ())
            came_ns = next((at_ns for last, at_ns in fetches if first.offset <= last), None)
            if came_ns is not None:
                self._spread(_AWAIT, labels, (monotonic_ns() - came_ns) / 1e6)

        def ended(outcome: Outcome) -> None:
            status = "success" if outcome.became == "done" else "failure"
            with self._lock:
                self._counters[_HANDLED][*labels, outcome.became] += len(incoming.messages)
                self._spread(_PROCESS, (*labels, status), outcome.took_ns / 1e6)

        return ended

    def moved(self, client: Observed, moved: Moved, *, avoided: int) -> None:
        """Count queues that came and went."""
        labels = (client.group, client.id)
        with self._lock:
            self._counters[_REBALANCES][labels] += 1
            for how, queues in (("taken", moved.taken), ("released", moved.released), ("lost", moved.lost)):
                if queues:
                    self._counters[_MOVES][*labels, how] += len(queues)
            self._gauges[_QUEUES][labels] = len(moved.queues)
            if avoided:
                self._counters[_AVOIDED][labels] = avoided
            for queue in (*moved.released, *moved.lost):
                self._fetches.pop((client.id, queue), None)

    def cached(self, client: Observed, by_topic: Mapping[str, Cached]) -> None:
        """Take note of what a consumer has in hand."""
        with self._lock:
            if client.id not in self._clients:
                return
            for topic, cached in by_topic.items():
                labels = (topic, client.group, client.id)
                self._gauges[_CACHED][labels] = cached.messages
                self._gauges[_CACHED_BYTES][labels] = cached.body_bytes

    def _spread(self, measure: Measure, labels: _Labels, value: float) -> None:
        rows = self._histograms[measure]
        buckets = rows.get(labels)
        if buckets is None:
            buckets = rows[labels] = Buckets(_HISTOGRAMS[measure])
        buckets.add(value)
