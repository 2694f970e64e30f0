"""What a broker can tell of itself in numbers, at one moment: RocketMQ 5's families, and ours on top.

Everything is read from tables that are there anyway; nothing is counted for this alone where messages pass. A family
may come in several parts, a group at a time, so that whoever reads thousands of groups can let others have their turn
in between; `steelyard.model.measures.joined` puts them together. What clients can make many of has an end: topics,
pairs of group and topic, and queues that are looked at. What is beyond it is counted as left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from steelyard.broker import rates
from steelyard.broker.hazards import hazards_of
from steelyard.broker.lags import lag_of, wanted_topics
from steelyard.broker.members import MemberGroup
from steelyard.broker.names import OWN_GROUPS
from steelyard.broker.state import State
from steelyard.broker.topics import READ, WRITE, Topic
from steelyard.errors import StoreError
from steelyard.model import own_measures as own
from steelyard.model import rocketmq_measures as rocketmq
from steelyard.model.measures import Family, Node, Row
from steelyard.model.names import DEAD, HALF_TOPIC, RETRY, TIMER_TOPIC, is_system_group, is_system_topic
from steelyard.store.marks import SCHEDULE_TOPIC
from steelyard.store.recovery import CUT_OFF
from steelyard.store.starting import StartedFrom
from steelyard.version import __version__
from steelyard.wire.bodies.heartbeat import ConsumeKind
from steelyard.wire.codes import LANGUAGES
from steelyard.wire.releases import release

__all__ = ["measure", "node_of"]

T = TypeVar("T")

_MOST_ROWS = 20_000
"""Topics, and pairs of group and topic, that are told."""
_PART_ROWS = 500
"""How many of them come in one part of a family."""
_PART_LAGS = 20
"""The same for lags, each of which takes a look at some queues."""
_MOST_QUEUES = 200_000
"""Queues that are looked at, for all groups together."""

_MOST_CLIENTS = 50
"""Languages with versions that are told apart."""
_OTHER_CLIENT = ("other", "other", "remoting")

_TYPES = {SCHEDULE_TOPIC.decode(): "delay", TIMER_TOPIC: "delay", HALF_TOPIC: "transaction"}


def node_of(state: State) -> Node:
    """Return what the broker is called in labels."""
    return Node(state.options.cluster, "broker", state.options.name)


def measure(state: State, now_ms: int) -> Iterator[Family]:
    """Go through the families of a broker; it may change between two of them."""
    node, room = node_of(state), _Room()
    yield node.tell(rocketmq.BROKER_PERMISSION, [((), READ | WRITE)])
    yield node.tell(rocketmq.TOPICS, [((), len(state.topics))])
    yield node.tell(rocketmq.GROUPS, [((), len(state.groups))])
    counted = [(name, each) for name, each in state.rates.topics() if not name.startswith((RETRY, DEAD))]
    for part in _parts(room.first_of(counted)):
        yield from _incoming(node, part)
    for some in _parts(room.first_of(state.rates.pairs())):
        yield from _outgoing(node, some)
    yield node.tell(rocketmq.PRODUCERS, _producers(state))
    yield from _endings(node, state)
    yield from _storage(node, state, now_ms)
    yield from _own(node, state)
    for name in dict.fromkeys([*(settings.name for settings in state.groups), *state.members.groups()]):
        members = state.members.group(name)
        if members is not None:
            yield from _group(node, state, members, now_ms)
        topics = [topic for topic in _topics_of(state, name, now_ms) if room.takes(topic)]
        for few in _parts(topics, _PART_LAGS):
            yield from _lags(node, state, name, few, now_ms)
    yield node.tell(own.LEFT_OUT, [((), room.left_out)])


class _Room:
    """How much may still be told, and how much was left out."""

    def __init__(self) -> None:
        self._pairs, self._queues, self.left_out = _MOST_ROWS, _MOST_QUEUES, 0

    def first_of(self, rows: list[T]) -> list[T]:
        """Return as many rows as are told."""
        self.left_out += max(0, len(rows) - _MOST_ROWS)
        return rows[:_MOST_ROWS]

    def takes(self, topic: Topic) -> bool:
        """Say whether a group's lag in one more topic is told."""
        if self._pairs < 1 or self._queues < topic.read_queues:
            self.left_out += 1
            return False
        self._pairs, self._queues = self._pairs - 1, self._queues - topic.read_queues
        return True


def _parts(rows: list[T], size: int = _PART_ROWS) -> Iterator[list[T]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


# -- what comes and goes ----------------------------------------------------------------------------------------------


def _incoming(node: Node, counted: Iterable[tuple[str, rates.Counter]]) -> Iterator[Family]:
    known = [((name, _TYPES.get(name, "normal"), _word(is_system_topic(name))), each) for name, each in counted]
    yield node.tell(rocketmq.MESSAGES_IN, ((labels, each.messages) for labels, each in known))
    yield node.tell(rocketmq.THROUGHPUT_IN, ((labels, each.size) for labels, each in known))


def _outgoing(node: Node, pairs: Iterable[tuple[tuple[str, str], rates.Counter]]) -> Iterator[Family]:
    known = [((topic, group, _is_system(group, topic)), each) for (group, topic), each in pairs]
    yield node.tell(rocketmq.MESSAGES_OUT, ((labels, each.messages) for labels, each in known))
    yield node.tell(rocketmq.THROUGHPUT_OUT, ((labels, each.size) for labels, each in known))


def _producers(state: State) -> Iterator[Row]:
    lines = (each for group in state.producers.groups() for each in state.producers.of(group))
    yield from _counted(_client(each.language, each.version) for each in lines)


def _endings(node: Node, state: State) -> Iterator[Family]:
    tallies = state.tallies
    dead = (((group, topic, _is_system(group, topic)), count) for (group, topic), count in tallies.dead)
    yield node.tell(rocketmq.DEAD_LETTERS, dead)
    yield node.tell(rocketmq.COMMITTED, tallies.committed)
    yield node.tell(rocketmq.ROLLED_BACK, tallies.rolled_back)
    yield node.tell(
        rocketmq.HALVES, (((topic,), count) for topic, count in state.halves.topics.most_common(_MOST_ROWS))
    )


# -- groups -----------------------------------------------------------------------------------------------------------


def _topics_of(state: State, group: str, now_ms: int) -> list[Topic]:
    if group in OWN_GROUPS:
        return []
    members = state.members.group(group)
    names = {
        *wanted_topics(state, group, state.offsets.topics_of(group), now_ms),
        *(members.subscriptions if members else ()),
    }
    return [topic for name in sorted(names) if (topic := state.topics.get(name)) is not None]


def _lags(node: Node, state: State, group: str, topics: Iterable[Topic], now_ms: int) -> Iterator[Family]:
    found = [(_lag_labels(group, topic.name), lag_of(state, group, topic, now_ms)) for topic in topics]
    yield node.tell(rocketmq.LAG, ((labels, lag.behind) for labels, lag in found))
    yield node.tell(rocketmq.LAG_TIME, ((labels, lag.behind_ms) for labels, lag in found))
    yield node.tell(rocketmq.IN_FLIGHT, ((labels, lag.in_flight) for labels, lag in found))
    yield node.tell(rocketmq.READY, ((labels, lag.ready) for labels, lag in found))
    yield node.tell(rocketmq.QUEUEING_TIME, ((labels, lag.ready_ms) for labels, lag in found))


def _lag_labels(group: str, topic: str) -> tuple[str, ...]:
    return group, topic, _word(topic.startswith((RETRY, DEAD))), _is_system(group, topic)


def _group(node: Node, state: State, group: MemberGroup, now_ms: int) -> Iterator[Family]:
    members = list(group.members.values())
    mode, is_system = (group.kind or ConsumeKind.PUSH).name.lower(), _word(is_system_group(group.name))
    lines = _counted(_client(each.language, each.version) for each in members for _ in each.lines)
    yield node.tell(rocketmq.CONSUMERS, (((group.name, *client, mode, is_system), count) for client, count in lines))
    wrong = Counter(hazard.kind.partition(" ")[0] for hazard in hazards_of(group))
    yield node.tell(own.HAZARDS, (((group.name, kind), count) for kind, count in wrong.items()))
    if all(each.ours and not each.is_broadcasting for each in members):
        # Others work without locks: what they have would look free.
        held = sum(1 for _ in state.locks.of(group.name, now_ms))
        free = max(0, sum(group.queues.values()) - held)
        yield node.tell(own.GROUP_QUEUES, [((group.name, "held"), held), ((group.name, "free"), free)])


# -- the broker itself ------------------------------------------------------------------------------------------------


def _storage(node: Node, state: State, now_ms: int) -> Iterator[Family]:
    store, local = state.store, ("local", "disk")
    earliest_ms = store.lookup.earliest_ms()
    with suppress(StoreError):  # a disk that cannot even say that fails elsewhere, and is told of there
        free, size = state.disk.free_bytes(), state.disk.size_bytes()
        yield node.tell(rocketmq.STORAGE_SIZE, [(local, store.end - store.start if size is None else size - free)])
        yield node.tell(own.FREE, [((), free)])
    yield node.tell(rocketmq.FLUSH_BEHIND, [(local, max(0, store.end - store.durable))])
    yield node.tell(rocketmq.DISPATCH_BEHIND, [(local, 0)])
    if earliest_ms is not None:
        yield node.tell(rocketmq.RESERVED_TIME, [(local, max(0, now_ms - earliest_ms))])
    yield node.tell(own.WRITABLE, [((), int(state.trouble.refusal is None))])
    yield node.tell(own.DISK_FAILURES, [((), state.trouble.failures)])
    damaged = (damage.records or 0 for damage in store.damages if damage.what != CUT_OFF)
    yield node.tell(own.CORRUPT, [((), sum(damaged))])
    yield node.tell(own.UNCLEAN, [((), int(store.recovery.found is StartedFrom.UNCLOSED))])
    yield node.tell(own.CUT_OFF, [((), store.recovery.cut_bytes)])
    if state.opening_ms is not None:
        yield node.tell(own.RECOVERY_TIME, [((), state.opening_ms)])
    yield node.tell(own.SYNC_TIME, [((), state.sync_times)])


def _own(node: Node, state: State) -> Iterator[Family]:
    totals = sorted(state.moves.totals.items())
    yield node.tell(own.STARTED, [((__version__,), state.started_ms / 1_000)])
    yield node.tell(own.REBALANCES, (((group,), each.rebalances) for group, each in totals))
    # Each of these is many lines, so there is none before there is something to tell.
    yield node.tell(own.REBALANCE_TIME, (((group,), each.duration_ms) for group, each in totals if each.rebalances))
    yield node.tell(own.MOVES, (((group, kind), count) for group, each in totals for kind, count in each.moves.items()))
    yield node.tell(own.GAPS, (((group,), each.gap_ms) for group, each in totals if each.gap_ms.total))
    yield node.tell(own.FENCED, state.tallies.fenced)
    yield node.tell(own.LOWERED, [((), state.offsets.lowered)])
    yield node.tell(own.AVOIDED, state.tallies.avoided)
    passed = state.rates
    yield node.tell(own.PULLS, [(("found",), passed.delivered.calls), (("empty",), passed.missed_pulls)])
    yield node.tell(own.WAITING_PULLS, [((), len(state.parking))])
    levels = sum(
        max(0, state.store.bounds(SCHEDULE_TOPIC, queue_id)[1] - reached)
        for queue_id, reached in enumerate(state.schedule.reached)
    )
    yield node.tell(own.DELAYED, [(("level",), levels), (("time",), len(state.timers))])


def _counted(clients: Iterable[tuple[str, str, str]]) -> list[tuple[tuple[str, str, str], int]]:
    """Count clients by what they are; what they say of that is up to them, so the rarest are counted together."""
    counts = Counter(clients)
    common = Counter(dict(counts.most_common(_MOST_CLIENTS)))
    if len(common) < len(counts):
        common[_OTHER_CLIENT] += counts.total() - common.total()
    return list(common.items())


def _client(language: str, version: int) -> tuple[str, str, str]:
    if language not in LANGUAGES:
        return _OTHER_CLIENT
    return language.lower(), f"v{release(version)}".lower().replace(".", "_").replace("-", "_"), "remoting"


def _is_system(group: str, topic: str) -> str:
    return _word(is_system_group(group) or is_system_topic(topic))


def _word(is_so: bool) -> str:
    return "true" if is_so else "false"
