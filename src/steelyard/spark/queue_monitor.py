"""The queues of a stream and their bounds: polled now and then, and kept while brokers do not answer.

An idle Spark requests the latest offset about 90 times a second, so what brokers answered is cached for a moment. A
broker that does not answer keeps its last bounds, is logged once, and is polled less and less often, because the whole
query waits for its response; a topic that no name server knows is not gone as long as none of its brokers says so. What
a replica answers while there is no master may be stale, and is marked so.

Left out: what added or deleted queues mean for a query (stream_reader.py).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic_ns, sleep

from steelyard.client.suggestions import topic_not_found
from steelyard.errors import SteelyardError, TopicNotFound
from steelyard.model import Queue, sort_queues
from steelyard.spark.cluster_client import ClusterClient, OffsetBounds, QueueBounds, QueueLayout
from steelyard.spark.planning import RETRY_PAUSES_S

_LAYOUT_INTERVAL_MS = 5_000  # how often name servers are asked for added or deleted queues
_REFRESH_REST_FACTOR = 5  # brokers rest this many times as long as the last poll took
_BACKOFF_MS = 500
_MAX_BACKOFF_MS = 15_000

_log = logging.getLogger("steelyard.spark")


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The known bounds of queues."""

    bounds: Mapping[Queue, OffsetBounds]  # as of the last answer of each broker
    gone: frozenset[Queue] = frozenset()  # deleted queues
    version: int = 0  # counts up whenever something changes
    stale_brokers: frozenset[str] = frozenset()
    """Brokers for which a replica answered: their queues may have more messages."""


@dataclass(slots=True)
class _Backoff:
    """A broker that does not answer."""

    until_ms: int
    delay_ms: int


class QueueMonitor:
    """Polls the queues of one stream."""

    def __init__(self, client: ClusterClient, poll_ms: int) -> None:
        self._client = client
        self._poll_ms = poll_ms
        self._queues: tuple[Queue, ...] = ()
        self._removed: frozenset[Queue] = frozenset()
        self._refresh_after_ms = 0
        self._layout_after_ms = 0
        self._backoffs: dict[str, _Backoff] = {}
        self._is_warned = False
        self.is_new = True  # whether `start` was not called yet
        self.snapshot = QueueSnapshot({})  # the last poll

    def add_known(self, bounds: Mapping[Queue, OffsetBounds]) -> None:
        """Add bounds that were fetched at the start of a query."""
        self._queues = tuple(sort_queues({*self._queues, *bounds}))
        self.snapshot = replace(
            self.snapshot, bounds={**self.snapshot.bounds, **bounds}, version=self.snapshot.version + 1
        )

    def refresh(self) -> QueueSnapshot:
        """Return the bounds, polled again if they are old; never raises, but keeps the last ones."""
        if _now_ms() >= self._refresh_after_ms:
            if _now_ms() >= self._layout_after_ms:
                self._refresh_layout()
            self._refresh_bounds()
        return self.snapshot

    def start(self, checkpointed: Iterable[Queue], *, must_exist: bool) -> QueueSnapshot:
        """Poll for the first time; ``checkpointed`` are the queues of the checkpoint.

        Named topics must exist, and brokers must answer, or they are retried for some seconds. A topic that is missing
        then is an error, unless the checkpoint has it and ``must_exist`` is False.
        """
        checkpointed = frozenset(checkpointed)
        for pause_s in (*RETRY_PAUSES_S, None):
            layout = self._client.layout()
            self._apply_layout(layout, {*self._queues, *checkpointed})
            self._refresh_bounds(all_brokers=True)
            missing = self._missing_topics(layout, checkpointed, must_exist=must_exist)
            if not (missing or self._backoffs) or pause_s is None:
                break
            sleep(pause_s)
        if missing:
            raise missing[0]
        self._layout_after_ms = _now_ms() + _LAYOUT_INTERVAL_MS
        self.is_new = False
        return self.snapshot

    def _missing_topics(
        self, layout: QueueLayout, checkpointed: frozenset[Queue], *, must_exist: bool
    ) -> list[TopicNotFound]:
        known = {queue.topic for queue in checkpointed}
        missing = dict(layout.missing)
        for topic in known - layout.brokers.keys() - missing.keys():
            missing[topic] = topic_not_found(topic, layout.brokers, namesrv="the name servers")
        return [error for topic, error in missing.items() if must_exist or topic not in known]

    def _refresh_layout(self) -> None:
        try:
            layout = self._client.layout()
        except SteelyardError as error:
            if not self._is_warned:
                self._is_warned = True
                _log.warning("added and deleted queues are not noticed for now: %s", error)
            self._layout_after_ms = _now_ms() + _MAX_BACKOFF_MS
            return
        self._is_warned = False
        self._layout_after_ms = _now_ms() + _LAYOUT_INTERVAL_MS
        self._apply_layout(layout, set(self._queues))

    def _apply_layout(self, layout: QueueLayout, before: set[Queue]) -> None:
        """Set the queues, and keep those whose broker or topic may be only unavailable."""
        here = set(layout.queues)
        left = before - here
        self._removed = frozenset(queue for queue in left if queue.broker in layout.brokers.get(queue.topic, ()))
        self._queues = tuple(sort_queues(here | (left - self._removed)))

    def _refresh_bounds(self, *, all_brokers: bool = False) -> None:
        began_ms = _now_ms()
        polled = [queue for queue in self._queues if all_brokers or not self._is_backing_off(queue.broker, began_ms)]
        if polled:
            self._apply_bounds(self._client.bounds(polled))
        # With very many queues a poll takes a while, and must not be all that stream and brokers do.
        took_ms = _now_ms() - began_ms
        self._refresh_after_ms = _now_ms() + max(self._poll_ms, _REFRESH_REST_FACTOR * took_ms if self._poll_ms else 0)

    def _is_backing_off(self, broker: str, now_ms: int) -> bool:
        backoff = self._backoffs.get(broker)
        return backoff is not None and now_ms < backoff.until_ms

    def _apply_bounds(self, fetched: QueueBounds) -> None:
        for broker, error in fetched.unreachable.items():
            self._back_off(broker, error)
        for broker in {queue.broker for queue in fetched.known} - fetched.unreachable.keys():
            if self._backoffs.pop(broker, None) is not None:
                _log.warning("broker %s answers again", broker)
        now = QueueSnapshot(
            {**self.snapshot.bounds, **fetched.known},
            frozenset((self.snapshot.gone | fetched.missing | self._removed) - fetched.known.keys()),
            self.snapshot.version,
            (self.snapshot.stale_brokers - {queue.broker for queue in fetched.known}) | fetched.replicas,
        )
        if now != self.snapshot:
            self.snapshot = replace(now, version=now.version + 1)

    def _back_off(self, broker: str, error: SteelyardError) -> None:
        backoff = self._backoffs.get(broker)
        if backoff is None:
            _log.warning(
                "broker %s does not answer: the query goes on with its last known offsets (%s)", broker, error.what
            )
            backoff = self._backoffs[broker] = _Backoff(0, _BACKOFF_MS // 2)
        backoff.delay_ms = min(2 * backoff.delay_ms, _MAX_BACKOFF_MS)
        backoff.until_ms = _now_ms() + backoff.delay_ms


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000
