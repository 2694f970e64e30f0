"""Where the topics of a group are: their readable queues by the last routes, and when to ask for routes again.

The rules: a topic that the name server no longer knows keeps its last route; a queue that appears in a topic after a
name server first told of it, be it that there is no such topic, is new for ever, since nothing in it was ever seen.
Routes are asked for soon while something is not settled, else seldom, and at once when a broker says that it has
another number of queues, or when somebody waits for a queue that we take for ours.

Left out: who reads which queue.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from zlib import crc32

from steelyard.balance.actions import Action, AskRoute
from steelyard.balance.events import RouteSeen
from steelyard.balance.member_options import MemberOptions
from steelyard.balance.rounds import NEVER_MS, BackOff, next_look_ms
from steelyard.model import Queue, in_order

__all__ = ["Routes"]


@dataclass(slots=True)
class _Topic:
    """The last route of one topic."""

    wait: BackOff
    """While there is no answer."""
    doubt: BackOff
    """While the answers are not what brokers say."""
    queues: tuple[Queue, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    """How many of them each broker has."""
    is_answered: bool = False
    """Whether there was any answer, be it that no name server could be asked."""
    is_seen: bool = False
    """Whether a name server has told of the topic, be it that it does not exist."""
    is_asked: bool = False
    asked_ms: int = -NEVER_MS
    ever: set[Queue] = field(default_factory=set)
    """Every queue that the topic ever had."""
    told: dict[str, int] = field(default_factory=dict)
    """How many queues of it brokers say that they have, those that say so."""


class Routes:
    """The routes of every topic that a member reads."""

    def __init__(self, options: MemberOptions) -> None:
        times = options.times
        self._options = options
        self._times = times
        self._topics = {
            name: _Topic(
                BackOff(times.ask_again_ms, times.ask_again_most_ms), BackOff(times.route_doubt_ms, times.route_ms)
            )
            for name in options.all_topics
        }
        self._again: dict[str, int] = {}
        """Topics without an answer, or with one that is in doubt, and when to ask for them."""
        self._swept_ms: int | None = None
        self._new: set[Queue] = set()
        self._gone: dict[Queue, int] = {}
        self._since: dict[str, int] = {}
        self._readable: frozenset[Queue] = frozenset()
        self._asked_brokers: tuple[str, ...] = ()

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether every topic was answered for at least once, be it that nobody knows it."""
        return all(topic.is_answered for topic in self._topics.values())

    @property
    def readable(self) -> frozenset[Queue]:
        """Every queue of the last routes."""
        return self._readable

    def by_topic(self) -> Mapping[str, Sequence[Queue]]:
        """Return the queues of each topic that has any, in the agreed order."""
        return {name: topic.queues for name, topic in self._topics.items() if topic.queues}

    def brokers(self) -> Mapping[str, int]:
        """Return the brokers that have queues of the group, and since when that is known."""
        return self._since

    def brokers_asked(self) -> tuple[str, ...]:
        """Return the brokers to ask who is in the group: all, or as many as every member chooses alike."""
        return self._asked_brokers

    def is_new(self, queue: Queue) -> bool:
        """Say whether a queue appeared after its topic was first looked at; what failed is never passed over."""
        return queue.topic == self._options.retry_topic or queue in self._new

    def gone_ms(self, queue: Queue) -> int | None:
        """Return since when a queue is not in the route any more."""
        return self._gone.get(queue)

    def due_ms(self, calm_ms: int) -> int:
        """Return when a route is to be asked for: soon until the group is calm, then seldom."""
        return min(self._sweep_ms(calm_ms), min(self._again.values(), default=NEVER_MS))

    # -- noting --------------------------------------------------------------------------------------------------------

    def ask_where_due(self, now_ms: int, calm_ms: int) -> list[Action]:
        """Ask for what is due."""
        if now_ms >= self._sweep_ms(calm_ms):
            self._swept_ms = now_ms
            return self._ask(list(self._topics), now_ms)
        return self._ask([name for name, at_ms in self._again.items() if at_ms <= now_ms], now_ms)

    def doubt(self, broker: str, counts: Mapping[str, int], now_ms: int) -> list[Action]:
        """Ask again for each topic of which a broker has another number of queues than its route says.

        A broker may say so before the name server knows, and several may one after the other: it is asked until both
        say the same, at longer and longer intervals.
        """
        at_once: list[str] = []
        for name, topic in self._topics.items():
            if name not in counts:
                topic.told.pop(broker, None)
            elif topic.told.get(broker) != counts[name]:
                topic.told[broker] = counts[name]
                topic.doubt.reset()
            if not self._is_doubtful(topic):
                continue
            if now_ms - topic.asked_ms >= self._times.ask_again_ms:
                at_once.append(name)
            elif not topic.is_asked:
                self._again.setdefault(name, topic.doubt.after(now_ms))
        return self._ask(at_once, now_ms)

    def suspect(self, names: Iterable[str], now_ms: int) -> None:
        """Let topics be asked for again that somebody else seems to see otherwise, unless that was just done."""
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and now_ms - topic.asked_ms >= self._times.ask_again_ms:
                self._again[name] = now_ms

    def note(self, seen: RouteSeen, now_ms: int) -> bool:
        """Take the route of a topic; say whether it differs from what was known."""
        topic = self._topics.get(seen.topic)
        if topic is None:
            return False
        is_first, was_seen = self._answered(topic), topic.is_seen
        topic.is_seen = True
        if not seen.queues:
            if not topic.queues:
                self._again[seen.topic] = topic.wait.after(now_ms)
            return is_first
        topic.wait.reset()
        self._again.pop(seen.topic, None)
        queues = tuple(in_order(dict.fromkeys(seen.queues)))
        is_other = queues != topic.queues
        if is_other:
            self._replace(topic, queues, now_ms, was_seen=was_seen)
        if self._is_doubtful(topic):
            self._again[seen.topic] = topic.doubt.after(now_ms)
        else:
            topic.doubt.reset()
        return is_first or is_other

    def failed(self, name: str, now_ms: int) -> bool:
        """Take note that nobody told of a topic; say whether that is the first word about it."""
        topic = self._topics.get(name)
        if topic is None:
            return False
        self._again[name] = topic.wait.after(now_ms)
        return self._answered(topic)

    def _is_doubtful(self, topic: _Topic) -> bool:
        """Say whether a broker that the group reads from has another number of queues than the route says."""
        return any(topic.counts[broker] != count for broker, count in topic.told.items() if broker in self._since)

    def _answered(self, topic: _Topic) -> bool:
        is_first = not topic.is_answered
        topic.is_asked = False
        topic.is_answered = True
        return is_first

    def _sweep_ms(self, calm_ms: int) -> int:
        if self._swept_ms is None:
            return 0
        return next_look_ms(self._swept_ms, self._times.route_soon_ms, self._times.route_ms, calm_ms)

    def _ask(self, names: Sequence[str], now_ms: int) -> list[Action]:
        actions: list[Action] = []
        for name in names:
            self._again.pop(name, None)
            topic = self._topics[name]
            if not topic.is_asked:
                topic.is_asked = True
                topic.asked_ms = now_ms
                actions.append(AskRoute(name))
        return actions

    def _replace(self, topic: _Topic, queues: tuple[Queue, ...], now_ms: int, *, was_seen: bool) -> None:
        now_there = frozenset(queues)
        for queue in topic.queues:
            if queue not in now_there:
                self._gone.setdefault(queue, now_ms)
        for queue in queues:
            self._gone.pop(queue, None)
            if queue not in topic.ever:
                topic.ever.add(queue)
                if was_seen:
                    self._new.add(queue)
        topic.queues = queues
        topic.counts = Counter(queue.broker for queue in queues)
        self._readable = frozenset(chain.from_iterable(each.queues for each in self._topics.values()))
        brokers = sorted({queue.broker for queue in self._readable})
        self._since = {broker: self._since.get(broker, now_ms) for broker in brokers}
        self._asked_brokers = self._choose(brokers)

    def _choose(self, brokers: Sequence[str]) -> tuple[str, ...]:
        most = self._options.brokers_asked
        if len(brokers) <= most:
            return tuple(brokers)
        group = self._options.group

        def place(broker: str) -> int:
            return crc32(f"{group}@{broker}".encode("utf-8", "surrogatepass"))

        return tuple(sorted(sorted(brokers, key=place)[:most]))
