"""Whatever happens to brokers, name servers and the query itself: each message is in one batch, and no group is ahead.

A made-up cluster stands behind a stream, which is driven as Spark drives it. Brokers fall silent, leave the routes, are
spoken for by replicas that are late, and get more queues; the query is killed in the middle of batches and begun anew.
"""

import json
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from steelyard.errors import CannotConnect, NoNameServer, SteelyardError
from steelyard.model import Queue
from steelyard.spark.cluster_client import ClusterClient, QueueBounds, QueueLayout
from steelyard.spark.options import ReadOptions
from steelyard.spark.queue_monitor import QueueMonitor
from steelyard.spark.schema import COLUMNS
from steelyard.spark.stream_offset import StreamOffset
from steelyard.spark.stream_reader import AdmissionControl, StreamReader
from tests.spark.stream_driver import StreamDriver

_BROKERS = ("a", "b")
_FIRST = [Queue("t", broker, number) for broker in _BROKERS for number in range(2)]

_doing = some.sampled_from(
    ["send", "send", "silent", "unrouted", "late", "grow", "names", "kill", "step", "step", "crash"]
)
_actions = some.lists(some.tuples(_doing, some.integers(0, 3), some.integers(1, 40)), max_size=50)
_limits = some.sampled_from(
    [{}, {"maxoffsetspertrigger": "3"}, {"maxbytespertrigger": "900"}, {"minoffsetspertrigger": "5"}]
)


class World:
    """What there is: ends of queues, who is away, how late a replica is, and what was written."""

    def __init__(self) -> None:
        self.ends = dict.fromkeys(_FIRST, 4)
        self.silent: set[str] = set()
        self.unrouted: set[str] = set()
        self.late: dict[str, int] = {}
        self.has_names = True
        self.written: Mapping[Queue, int] = {}

    def heal(self) -> None:
        """Let everybody answer."""
        self.silent, self.unrouted, self.late, self.has_names = set(), set(), {}, True


class FakeCluster(ClusterClient):
    """Answers as the world is."""

    def __init__(self, options: ReadOptions, world: World) -> None:
        super().__init__(options)
        self._world = world
        self._reported: set[str] = set()

    def layout(self) -> QueueLayout:
        """Tell which queues there are."""
        if not self._world.has_names:
            raise NoNameServer("no name server answers")
        here = sorted(queue for queue in self._world.ends if queue.broker not in self._world.unrouted)
        brokers = frozenset(queue.broker for queue in here)
        self._reported |= brokers
        return QueueLayout(tuple(here), {"t": brokers}, {})

    def bounds(self, queues: Iterable[Queue]) -> QueueBounds:
        """Tell where queues end, as far as the one who speaks knows."""
        spans, world = QueueBounds(), self._world
        for queue in queues:
            if queue.broker in world.silent or queue.broker not in self._reported:
                spans.unreachable[queue.broker] = CannotConnect("it is away")
                continue
            if queue.broker in world.late:
                spans.replicas.add(queue.broker)
            spans.known[queue] = 0, max(0, world.ends[queue] - world.late.get(queue.broker, 0))
        return spans

    def commit(self, offsets: Mapping[Queue, int]) -> dict[str, SteelyardError]:
        """Take a group's progress, which must not be ahead of what is written."""
        assert all(offset <= self._world.written.get(queue, 0) for queue, offset in offsets.items())
        return {}

    def sample_messages(self, positions: Mapping[Queue, int]) -> tuple[int, int]:
        """Say that messages have a hundred bytes."""
        return len(positions), 100 * len(positions)

    def broker_addresses(self) -> dict[str, str]:
        """Tell addresses, which nobody dials."""
        return dict.fromkeys(_BROKERS, "127.0.0.1:1")


class Query:
    """A query in a world: killed and begun anew, with one checkpoint."""

    def __init__(self, world: World, given: Mapping[str, str]) -> None:
        self._world, self._given = world, given
        self._source: StreamReader | None = None
        self.driver = StreamDriver()
        self.first: Mapping[Queue, int] = {}

    def kill(self) -> None:
        """End it at once."""
        self._source = None

    def step(self, *, crash: bool = False) -> bool:
        """Run a batch, after the one that was not finished; say whether there was one."""
        source = self._source or self._begin()
        ran = self.driver.step(source, crash=crash)
        self.first = self.first or StreamOffset.decode(source.initialOffset()).positions
        self._record_batches()
        if crash:
            self._source = None
        return ran is not None

    def _begin(self) -> StreamReader:
        world = self._world
        world.has_names, world.unrouted = True, world.unrouted if len(world.unrouted) < len(_BROKERS) else set()
        if len(self.driver.offsets) < 2:
            world.heal()  # where it began is asked for again, and for that all have to be there
        options = ReadOptions.of(
            {"namesrv": "mq:9876", "subscribe": "t", "group": "g", "offsetpollms": "0", **self._given}, streaming=True
        )
        self._source = source = StreamReader(options, COLUMNS)
        source._client = cluster = FakeCluster(options, world)
        source._monitor, source._admission_control = (
            QueueMonitor(cluster, 0),
            AdmissionControl(options, cluster.sample_messages),
        )
        self.driver.start(source, available_now=len(self.driver.offsets) % 3 == 2)
        self._record_batches()
        return source

    def _record_batches(self) -> None:
        if self.driver.done:
            self._world.written = StreamOffset.decode(json.loads(self.driver.offsets[self.driver.done - 1])).positions


def act(query: Query, world: World, what: str, which: int, much: int) -> None:
    """Let one thing happen."""
    broker = _BROKERS[which % 2]
    has_begun = bool(query.driver.offsets)
    if what == "send":
        queue = sorted(world.ends)[which]
        if queue.broker not in world.silent and queue.broker not in world.late:
            world.ends[queue] += much
    elif what == "grow":
        world.ends.setdefault(Queue("t", broker, 2 + which), 0)
    elif what == "kill":
        query.kill()
    elif what in ("step", "crash"):
        query.step(crash=what == "crash")
    elif has_begun and what == "silent":
        world.silent ^= {broker}
    elif has_begun and what == "unrouted":
        world.unrouted ^= {broker}
    elif has_begun and what == "late":
        world.late = {other: by for other, by in world.late.items() if other != broker} | (
            {} if broker in world.late else {broker: much}
        )
    elif has_begun and what == "names":
        world.has_names = not world.has_names


@pytest.fixture(autouse=True, scope="module")
def without_pauses() -> Iterable[None]:
    """Look at everything every time, and wait for nobody."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("_LAYOUT_INTERVAL_MS", 0),
            ("_BACKOFF_MS", 0),
            ("_MAX_BACKOFF_MS", 0),
            ("RETRY_PAUSES_S", (0.0,)),
        ):
            patch.setattr(f"steelyard.spark.queue_monitor.{name}", value)
        yield


@given(_actions, _limits, some.sampled_from(["earliest", "latest"]))
@settings(max_examples=150)
def test_each_message_is_in_exactly_one_batch_whatever_happens(
    actions: list[tuple[str, int, int]], limits: dict[str, str], start: str
) -> None:
    world = World()
    query = Query(world, {"startingoffsets": start, **limits})
    for what, which, much in actions:
        act(query, world, what, which, much)
    world.heal()
    query.kill()
    while query.step():
        pass
    places = dict(query.first)
    for batch in query.driver.read:
        for each in batch:
            assert each.start == places.get(each.queue, 0)
            places[each.queue] = each.end
    assert places == {queue: end for queue, end in world.ends.items() if end or queue in places}
