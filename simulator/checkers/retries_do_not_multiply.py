"""A failed attempt leads to at most one copy: a retry, or a dead letter.

Counted at the end for each message, group and attempt: copies in the logs against failures in a member that still held
the queue, in the generation that started the handler. A later failure is dropped, so it may not leave a copy. A delayed
copy counts once in the schedule topic and once where it was delivered; and a delayed message is delivered once for each
time that it was scheduled. Excused: an Apache broker that died (it delivers delayed messages again); Java's members
count with every failure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import HOLDING_STATES, NEVER_MS, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import (
    Fact,
    HandlerEnded,
    HandlerStarted,
    MessageLogged,
    MessageSent,
    ProcessGone,
    ProcessStarted,
    QueueStateChanged,
)

if TYPE_CHECKING:
    from steelyard.model import Queue

_SCHEDULE = "SCHEDULE_TOPIC_XXXX"
_RETRY, _DLQ = "%RETRY%", "%DLQ%"


class RetriesDoNotMultiply(Checker):
    """One failure, one copy."""

    name = "retries do not multiply"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, MessageSent, HandlerStarted, HandlerEnded)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._tries: dict[tuple[str, Queue, int], HandlerStarted] = {}
        self._generation: dict[tuple[str, Queue], int] = {}
        self._delayed: dict[str, str] = {}
        """The topics of delayed messages."""
        self._failures: Counter[tuple[str, str, int]] = Counter()
        self._all_failures: Counter[tuple[str, int]] = Counter()

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Count the failures that may leave a copy."""
        if isinstance(fact, HandlerStarted):
            self._tries[fact.member, fact.queue, fact.offset] = fact
            self._generation[fact.member, fact.queue] = fact.generation
        elif isinstance(fact, HandlerEnded):
            if not fact.ok:
                self._failed(fact)
        elif isinstance(fact, MessageSent):
            if fact.due_ms is not None:
                self._delayed[fact.uid] = fact.topic
        elif isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
        return ()

    def _failed(self, fact: HandlerEnded) -> None:
        started = self._tries.get((fact.member, fact.queue, fact.offset))
        times = started.reconsume_times if started is not None else 0
        joined = self._tracker.members.get(fact.member)
        if joined is None or joined.kind == "ours":
            if self._queue_states.state(fact.group, fact.queue, fact.member) not in HOLDING_STATES:
                return
            if fact.generation < self._generation.get((fact.member, fact.queue), 0):
                return
        self._failures[fact.group, fact.uid, times] += 1
        self._all_failures[fact.uid, times] += 1

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Count the copies."""
        copies: dict[tuple[str, str, int], list[MessageLogged]] = {}
        waiting: dict[tuple[str, int], list[MessageLogged]] = {}
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

    def _arrived_twice(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        waited: Counter[tuple[str, str]] = Counter()
        arrived: Counter[tuple[str, str]] = Counter()
        for logged in end.logged:
            if (
                logged.uid in self._delayed
                and not logged.reconsume_times
                and self.conditions.is_steelyard(logged.queue.broker)
            ):
                place = (logged.uid, logged.queue.broker)
                waited[place] += logged.queue.topic == _SCHEDULE
                arrived[place] += logged.queue.topic == self._delayed[logged.uid]
        for (uid, broker), count in arrived.items():
            if count > waited[uid, broker]:
                sentence = f"{uid} was scheduled {waited[uid, broker]} times at {broker} and delivered {count} times"
                yield self.finding("safety", "delivery", end.at_ms, sentence)

    def _may_repeat(self, broker: str) -> bool:
        return not self.conditions.is_steelyard(broker) and self._tracker.broker_fault_ms(broker) > NEVER_MS

    def _compare(
        self, end: HistoryEnd, uid: str, times: int, copies: list[MessageLogged], failures: int, whose: str
    ) -> Iterator[CheckerFinding]:
        if len(copies) > failures:
            where = ", ".join(f"{place.queue} {place.offset}" for place in copies[:4])
            sentence = (
                f"{uid} has {len(copies)} copies {whose} for attempt {times} ({where}), and failed {failures} times "
                f"before in members that may send it back"
            )
            yield self.finding("safety", "delivery", end.at_ms, sentence, *copies[:4])
