"""A failed handling leads to one copy at most: into the retries, or into the dead letters.

Counted in the end for each message, group and number of the try: copies in the logs against handlings that failed while
their member still had the queue in hand, under the generation that started them. A failure that comes back later is
discarded, so it may not leave a copy. What waits for its time counts once on the way and once where it arrived; and a
delayed message arrives once for each time that it was stored to wait.

Excused: an Apache broker that died (it delivers what waited again); members of Java count with every failure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, Lives
from steelyard.sim.checkers.scene import NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Ended, Fact, Gone, Joined, Logged, Moved, Sent, Started

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["RetriesDoNotMultiply"]

_SCHEDULE = "SCHEDULE_TOPIC_XXXX"
_RETRY, _DLQ = "%RETRY%", "%DLQ%"


class RetriesDoNotMultiply(Checker):
    """One failure, one copy."""

    name = "retries do not multiply"
    wants = (*SCENE, Moved, Sent, Started, Ended)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._tries: dict[tuple[str, Queue, int], Started] = {}
        self._generation: dict[tuple[str, Queue], int] = {}
        self._delayed: dict[str, str] = {}
        """The topics of messages that wait first."""
        self._failures: Counter[tuple[str, str, int]] = Counter()
        self._all_failures: Counter[tuple[str, int]] = Counter()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Count the failures that may leave a copy."""
        if isinstance(fact, Started):
            self._tries[fact.member, fact.queue, fact.offset] = fact
            self._generation[fact.member, fact.queue] = fact.generation
        elif isinstance(fact, Ended):
            if not fact.ok:
                self._failed(fact)
        elif isinstance(fact, Sent):
            if fact.due_ms is not None:
                self._delayed[fact.uid] = fact.topic
        elif isinstance(fact, Moved):
            self._lives.note(fact)
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
        return ()

    def _failed(self, fact: Ended) -> None:
        started = self._tries.get((fact.member, fact.queue, fact.offset))
        times = started.reconsume_times if started is not None else 0
        joined = self._scene.members.get(fact.member)
        if joined is None or joined.kind == "ours":
            if self._lives.state(fact.group, fact.queue, fact.member) not in HOLDING:
                return
            if fact.generation < self._generation.get((fact.member, fact.queue), 0):
                return
        self._failures[fact.group, fact.uid, times] += 1
        self._all_failures[fact.uid, times] += 1

    def finish(self, end: End) -> Iterator[Finding]:
        """Count the copies."""
        copies: dict[tuple[str, str, int], list[Logged]] = {}
        waiting: dict[tuple[str, int], list[Logged]] = {}
        for logged in end.logged:
            topic, times = logged.queue.topic, logged.reconsume_times
            if not times or self._may_repeat(logged.queue.broker):
                continue
            if topic == _SCHEDULE:
                waiting.setdefault((logged.uid, times), []).append(logged)
            elif topic.startswith((_RETRY, _DLQ)):
                group = topic.removeprefix(_RETRY).removeprefix(_DLQ)
                copies.setdefault((group, logged.uid, times), []).append(logged)
        yield from self._arrived_twice(end)
        for (group, uid, times), places in copies.items():
            yield from self._compare(end, uid, times, places, self._failures[group, uid, times - 1], f"for {group}")
        for (uid, times), places in waiting.items():
            yield from self._compare(end, uid, times, places, self._all_failures[uid, times - 1], "on their way")

    def _arrived_twice(self, end: End) -> Iterator[Finding]:
        waited: Counter[tuple[str, str]] = Counter()
        arrived: Counter[tuple[str, str]] = Counter()
        for logged in end.logged:
            if logged.uid in self._delayed and not logged.reconsume_times and self.terms.is_ours(logged.queue.broker):
                place = (logged.uid, logged.queue.broker)
                waited[place] += logged.queue.topic == _SCHEDULE
                arrived[place] += logged.queue.topic == self._delayed[logged.uid]
        for (uid, broker), count in arrived.items():
            if count > waited[uid, broker]:
                sentence = f"{uid} waited {waited[uid, broker]} times at {broker} and arrived {count} times"
                yield self.finding("safety", "delivery", end.at_ms, sentence)

    def _may_repeat(self, broker: str) -> bool:
        return not self.terms.is_ours(broker) and self._scene.broker_troubled_ms(broker) > NEVER_MS

    def _compare(
        self, end: End, uid: str, times: int, places: list[Logged], failures: int, whose: str
    ) -> Iterator[Finding]:
        if len(places) > failures:
            where = ", ".join(f"{place.queue} {place.offset}" for place in places[:4])
            sentence = (
                f"{uid} has {len(places)} copies {whose} for try {times} ({where}), and failed {failures} times before "
                f"in hands that may give it back"
            )
            yield self.finding("safety", "delivery", end.at_ms, sentence, *places[:4])
