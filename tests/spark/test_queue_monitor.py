"""The watch over queues: what brokers said is kept while they are away, and asked again in good time."""

from collections.abc import Iterable, Mapping

import pytest

from steelyard.errors import CannotConnect, NoNameServer, TopicNotFound
from steelyard.model import Queue
from steelyard.spark.cluster_client import ClusterClient, OffsetBounds, QueueBounds, QueueLayout
from steelyard.spark.options import ReadOptions
from steelyard.spark.queue_monitor import QueueMonitor

_A0, _A1, _B0 = Queue("t", "a", 0), Queue("t", "a", 1), Queue("t", "b", 0)


class FakeCluster(ClusterClient):
    """Answers as it is told to."""

    def __init__(self, ends: Mapping[Queue, OffsetBounds]) -> None:
        super().__init__(ReadOptions.of({"namesrv": "mq:9876", "subscribe": "t"}, streaming=True))
        self.ends = dict(ends)
        self.away: set[str] = set()
        self.replicas: set[str] = set()
        self.has_names = True
        self.asked: list[str] = []

    def layout(self) -> QueueLayout:
        """Tell which queues there are."""
        if not self.has_names:
            raise NoNameServer("no name server answers")
        here = tuple(sorted(queue for queue in self.ends if queue.broker not in self.away))
        topics = {queue.topic for queue in here}
        brokers = {topic: frozenset(queue.broker for queue in here if queue.topic == topic) for topic in topics}
        missing = {} if here else {"t": TopicNotFound("no topic t", code=17)}
        return QueueLayout(here, brokers, missing)

    def bounds(self, queues: Iterable[Queue]) -> QueueBounds:
        """Tell where queues begin and end."""
        spans = QueueBounds(replicas=self.replicas)
        for queue in queues:
            self.asked.append(queue.broker)
            if queue.broker in self.away:
                spans.unreachable[queue.broker] = CannotConnect("it is away")
            elif queue in self.ends:
                spans.known[queue] = self.ends[queue]
            else:
                spans.missing.add(queue)
        return spans


class Clock:
    """A clock that is set."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the clock by hand, and wait for nothing."""
    made = Clock()
    monkeypatch.setattr("steelyard.spark.queue_monitor._now_ms", made)
    monkeypatch.setattr("steelyard.spark.queue_monitor.RETRY_PAUSES_S", (0.0, 0.0))
    return made


def test_what_brokers_said_counts_for_a_moment(clock: Clock) -> None:
    cluster = FakeCluster({_A0: (0, 5)})
    watch = QueueMonitor(cluster, 300)
    seen = watch.start((), must_exist=True)
    cluster.ends[_A0] = (0, 9)
    clock.now_ms += 299
    assert watch.refresh() is seen
    clock.now_ms += 1
    assert watch.refresh().bounds == {_A0: (0, 9)}
    assert watch.refresh().version > seen.version


def test_a_broker_that_is_away_keeps_its_ends_and_is_asked_less_and_less(clock: Clock) -> None:
    cluster = FakeCluster({_A0: (0, 5), _B0: (0, 7)})
    watch = QueueMonitor(cluster, 100)
    watch.start((), must_exist=True)
    cluster.away.add("b")
    cluster.asked.clear()
    for _ in range(600):
        clock.now_ms += 100
        assert watch.refresh().bounds == {_A0: (0, 5), _B0: (0, 7)}
        assert not watch.refresh().gone
    assert cluster.asked.count("a") == 600
    assert 5 < cluster.asked.count("b") < 12
    cluster.away.clear()
    cluster.ends[_B0] = (0, 8)
    clock.now_ms += 20_000
    assert watch.refresh().bounds[_B0] == (0, 8)


def test_queues_that_came_are_seen_and_those_that_went_are_gone(clock: Clock) -> None:
    cluster = FakeCluster({_A0: (0, 5), _B0: (0, 7)})
    watch = QueueMonitor(cluster, 100)
    watch.start((), must_exist=True)
    cluster.ends = {_A0: (0, 5), _A1: (0, 1), Queue("t", "b", 1): (0, 2)}
    clock.now_ms += 10_000
    seen = watch.refresh()
    assert seen.bounds.keys() == {_A0, _A1, _B0, Queue("t", "b", 1)}
    assert seen.gone == {_B0}
    # It may come back, by the same name.
    cluster.ends[_B0] = (0, 1)
    clock.now_ms += 10_000
    assert not watch.refresh().gone


def test_a_broker_that_a_replica_speaks_for_may_be_late(clock: Clock) -> None:
    cluster = FakeCluster({_A0: (0, 5), _B0: (0, 7)})
    watch = QueueMonitor(cluster, 100)
    assert not watch.start((), must_exist=True).stale_brokers
    cluster.ends[_A0] = (0, 3)
    cluster.replicas = {"a"}
    clock.now_ms += 100
    seen = watch.refresh()
    assert seen.bounds[_A0] == (0, 3)
    assert seen.stale_brokers == {"a"}
    # A broker that does not answer now counts as before.
    cluster.away.add("a")
    clock.now_ms += 100
    assert watch.refresh().stale_brokers == {"a"}
    cluster.away.clear()
    cluster.replicas = set()
    clock.now_ms += 1_000
    assert not watch.refresh().stale_brokers
    assert watch.refresh().version > seen.version


def test_name_servers_that_are_away_change_nothing(clock: Clock) -> None:
    cluster = FakeCluster({_A0: (0, 5)})
    watch = QueueMonitor(cluster, 100)
    watch.start((), must_exist=True)
    cluster.has_names = False
    cluster.ends[_A0] = (0, 6)
    clock.now_ms += 10_000
    assert watch.refresh().bounds == {_A0: (0, 6)}


def test_at_the_start_everything_has_to_be_there(clock: Clock) -> None:
    cluster = FakeCluster({})
    with pytest.raises(TopicNotFound, match="no topic t"):
        QueueMonitor(cluster, 100).start((), must_exist=False)
    with pytest.raises(TopicNotFound, match="no topic t"):
        QueueMonitor(cluster, 100).start((_A0,), must_exist=True)
    assert not QueueMonitor(cluster, 100).start((_A0,), must_exist=False).bounds
    assert clock() == 1_000_000
