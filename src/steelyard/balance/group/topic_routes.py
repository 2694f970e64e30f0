"""Topic routes of one member: the readable queues of its topics, and when to query the name server again.

A topic that the name server no longer knows keeps its last route. A queue that appears after the first answer for its
topic, even the answer that there is no such topic, stays *new*, because no member has read it before. Routes are
queried often until everything has settled, then seldom; and at once when a broker reports another number of queues, or
when a peer waits for a queue that we hold.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from zlib import crc32

from steelyard.balance.group.actions import Action, QueryRoute
from steelyard.balance.group.events import RouteReceived
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.timers import NEVER_MS, BackOff, next_poll_ms
from steelyard.model import Queue, sort_queues


@dataclass(slots=True)
class _TopicRoute:
    """The last route of one topic."""

    no_answer_retry: BackOff
    """While there is no answer."""
    mismatch_retry: BackOff
    """While the route differs from what brokers report."""
    queues: tuple[Queue, ...] = ()
    queue_counts: Counter[str] = field(default_factory=Counter)
    is_answered: bool = False
    """Whether there was an answer or a failure."""
    was_reported: bool = False
    """Whether a name server answered, even that the topic does not exist."""
    is_query_pending: bool = False
    queried_ms: int = -NEVER_MS
    ever_seen: set[Queue] = field(default_factory=set)
    counts_by_broker: dict[str, int] = field(default_factory=dict)
    """The number of queues that brokers report."""


class SubscribedRoutes:
    """The routes of all topics that a member reads."""

    def __init__(self, options: MemberOptions) -> None:
        times = options.times
        self._options = options
        self._times = times
        self._topics = {
            name: _TopicRoute(
                BackOff(times.query_retry_ms, times.query_retry_max_ms),
                BackOff(times.route_mismatch_retry_ms, times.route_interval_ms),
            )
            for name in options.all_topics
        }
        self._retry_at_ms: dict[str, int] = {}
        """Topics without an answer, or with a doubtful one, and when to query them again."""
        self._all_queried_ms: int | None = None
        self._new_queues: set[Queue] = set()
        self._removed_ms: dict[Queue, int] = {}
        self._brokers_since_ms: dict[str, int] = {}
        self._readable_queues: frozenset[Queue] = frozenset()
        self._member_list_brokers: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every topic was answered at least once, even that it does not exist."""
        return all(topic.is_answered for topic in self._topics.values())

    @property
    def readable_queues(self) -> frozenset[Queue]:
        """Every queue of the last routes."""
        return self._readable_queues

    def missing_topics(self) -> set[str]:
        """Return the topics that do not exist; one that no name server was heard about yet may."""
        return {name for name, topic in self._topics.items() if topic.was_reported and not topic.queues}

    def queues_by_topic(self) -> Mapping[str, Sequence[Queue]]:
        """Return the queues of each topic that has any, in the agreed order."""
        return {name: topic.queues for name, topic in self._topics.items() if topic.queues}

    def brokers(self) -> Mapping[str, int]:
        """Return the brokers that have queues of the group, and since when that is known."""
        return self._brokers_since_ms

    def member_list_brokers(self) -> tuple[str, ...]:
        """Return the brokers to query for members: all, or as many as every member chooses alike."""
        return self._member_list_brokers

    def is_new(self, queue: Queue) -> bool:
        """Say whether a queue appeared after its topic was first answered; retries always count as new."""
        return queue.topic == self._options.retry_topic or queue in self._new_queues

    def removed_ms(self, queue: Queue) -> int | None:
        """Return since when a queue is no longer in its route."""
        return self._removed_ms.get(queue)

    def due_ms(self, settled_at_ms: int) -> int:
        """Return when a route has to be queried."""
        return min(self._query_all_due_ms(settled_at_ms), min(self._retry_at_ms.values(), default=NEVER_MS))

    def query_due(self, now_ms: int, settled_at_ms: int) -> list[Action]:
        """Query the topics that are due."""
        if now_ms >= self._query_all_due_ms(settled_at_ms):
            self._all_queried_ms = now_ms
            return self._query(list(self._topics), now_ms)
        return self._query([name for name, at_ms in self._retry_at_ms.items() if at_ms <= now_ms], now_ms)

    def compare_queue_counts(self, broker: str, counts: Mapping[str, int], now_ms: int) -> list[Action]:
        """Query each topic of which a broker has another number of queues than its route.

        A broker may report it before the name server knows: it is queried until both agree, at growing intervals.
        """
        at_once: list[str] = []
        for name, topic in self._topics.items():
            if name not in counts:
                topic.counts_by_broker.pop(broker, None)
            elif topic.counts_by_broker.get(broker) != counts[name]:
                topic.counts_by_broker[broker] = counts[name]
                topic.mismatch_retry.reset()
            if not self._has_mismatch(topic):
                continue
            if now_ms - topic.queried_ms >= self._times.query_retry_ms:
                at_once.append(name)
            elif not topic.is_query_pending:
                self._retry_at_ms.setdefault(name, topic.mismatch_retry.after(now_ms))
        return self._query(at_once, now_ms)

    def refresh(self, names: Iterable[str], now_ms: int) -> None:
        """Query topics again of which a peer seems to have another route, unless that was just done."""
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and now_ms - topic.queried_ms >= self._times.query_retry_ms:
                self._retry_at_ms[name] = now_ms

    def update(self, received: RouteReceived, now_ms: int) -> bool:
        """Store the route of a topic; say whether it changed."""
        topic = self._topics.get(received.topic)
        if topic is None:
            return False
        is_first, was_seen = self._mark_answered(topic), topic.was_reported
        topic.was_reported = True
        if not received.queues:
            if not topic.queues:
                self._retry_at_ms[received.topic] = topic.no_answer_retry.after(now_ms)
            return is_first
        topic.no_answer_retry.reset()
        self._retry_at_ms.pop(received.topic, None)
        queues = tuple(sort_queues(dict.fromkeys(received.queues)))
        is_other = queues != topic.queues
        if is_other:
            self._replace_queues(topic, queues, now_ms, was_reported=was_seen)
        if self._has_mismatch(topic):
            self._retry_at_ms[received.topic] = topic.mismatch_retry.after(now_ms)
        else:
            topic.mismatch_retry.reset()
        return is_first or is_other

    def query_failed(self, name: str, now_ms: int) -> bool:
        """Record that no name server answered; say whether that is the first outcome for a topic."""
        topic = self._topics.get(name)
        if topic is None:
            return False
        self._retry_at_ms[name] = topic.no_answer_retry.after(now_ms)
        return self._mark_answered(topic)

    def _has_mismatch(self, topic: _TopicRoute) -> bool:
        """Say whether a broker reports another number of queues than the route has."""
        return any(
            topic.queue_counts[broker] != count
            for broker, count in topic.counts_by_broker.items()
            if broker in self._brokers_since_ms
        )

    def _mark_answered(self, topic: _TopicRoute) -> bool:
        is_first = not topic.is_answered
        topic.is_query_pending = False
        topic.is_answered = True
        return is_first

    def _query_all_due_ms(self, settled_at_ms: int) -> int:
        if self._all_queried_ms is None:
            return 0
        return next_poll_ms(
            self._all_queried_ms, self._times.route_unsettled_interval_ms, self._times.route_interval_ms, settled_at_ms
        )

    def _query(self, names: Sequence[str], now_ms: int) -> list[Action]:
        actions: list[Action] = []
        for name in names:
            self._retry_at_ms.pop(name, None)
            topic = self._topics[name]
            if not topic.is_query_pending:
                topic.is_query_pending = True
                topic.queried_ms = now_ms
                actions.append(QueryRoute(name))
        return actions

    def _replace_queues(
        self, topic: _TopicRoute, queues: tuple[Queue, ...], now_ms: int, *, was_reported: bool
    ) -> None:
        now_there = frozenset(queues)
        for queue in topic.queues:
            if queue not in now_there:
                self._removed_ms.setdefault(queue, now_ms)
        for queue in queues:
            self._removed_ms.pop(queue, None)
            if queue not in topic.ever_seen:
                topic.ever_seen.add(queue)
                if was_reported:
                    self._new_queues.add(queue)
        topic.queues = queues
        topic.queue_counts = Counter(queue.broker for queue in queues)
        self._readable_queues = frozenset(chain.from_iterable(each.queues for each in self._topics.values()))
        brokers = sorted({queue.broker for queue in self._readable_queues})
        self._brokers_since_ms = {broker: self._brokers_since_ms.get(broker, now_ms) for broker in brokers}
        self._member_list_brokers = self._choose_brokers(brokers)

    def _choose_brokers(self, brokers: Sequence[str]) -> tuple[str, ...]:
        def place(broker: str) -> int:
            return crc32(f"{self._options.group}@{broker}".encode("utf-8", "surrogatepass"))

        return tuple(sorted(sorted(brokers, key=place)[: self._options.max_member_list_brokers]))
