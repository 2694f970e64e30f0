"""On Apache's broker no member takes a queue from another that holds it and is on the broker's list.

There are no leases: a member that acquires a queue asks the others, and one that is listed and silent counts as a
holder. So it is no excuse that the holder is paused or cut off, as long as the broker lists it on an open connection.
Judged if the other member has held the queue for some seconds and was listed all that time. Excused: a holder that gave
up a queue whose handlers still ran; groups with a Java member; orderly groups, whose lock expires, and broadcast
groups.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import HOLDING_STATES, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import Fact, MemberRegistered, MemberUnregistered, ProcessGone, ProcessStarted, QueueStateChanged

if TYPE_CHECKING:
    from steelyard.model import Queue

_KNOWN_MS = 5_000
"""Longer than it takes to ask all members, silent ones included."""


class OwnersProbed(Checker):
    """A silent holder keeps its queue."""

    name = "owners probed"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, MemberRegistered, MemberUnregistered)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._held: dict[tuple[str, str, Queue], QueueStateChanged] = {}
        self._listed_ms: dict[tuple[str, str, str], int] = {}
        """By broker, group and member: since when."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who is listed and who holds what, and check each acquisition."""
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            if fact.after in HOLDING_STATES and fact.before not in HOLDING_STATES:
                self._held[fact.group, fact.member, fact.queue] = fact
                return list(self._began(fact))
        elif isinstance(fact, MemberRegistered):
            self._listed_ms.setdefault((fact.broker, fact.group, fact.member), fact.at_ms)
        elif isinstance(fact, MemberUnregistered):
            self._listed_ms.pop((fact.broker, fact.group, fact.member), None)
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
                name = fact.name if isinstance(fact, ProcessGone) else fact.member
                for place in [place for place in self._listed_ms if place[0] == name]:
                    del self._listed_ms[place]
        return ()

    def _began(self, fact: QueueStateChanged) -> Iterator[CheckerFinding]:
        tracker, broker = self._tracker, fact.queue.broker
        if (
            self.conditions.is_steelyard(broker)
            or tracker.mode(fact.group) != "concurrent"
            or not tracker.is_steelyard_only(fact.group)
        ):
            return
        known_ms = fact.at_ms - _KNOWN_MS
        for other in self._queue_states.holders(fact.group, fact.queue):
            held = self._held[fact.group, other, fact.queue]
            listed_ms = self._listed_ms.get((broker, fact.group, other), fact.at_ms)
            if other == fact.member or max(held.at_ms, listed_ms) > known_ms:
                continue
            if tracker.abandoned_ms(other, fact.queue) >= held.at_ms:
                continue
            sentence = (
                f"{fact.member} began to hold {fact.queue} for {fact.group} at {fact.at_ms} ms, which {other} holds "
                f"since {held.at_ms} ms and could have been asked about: {broker} lists it since {listed_ms} ms"
            )
            yield self.finding("safety", "balance", fact.at_ms, sentence, held, fact)
