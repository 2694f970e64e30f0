"""A member that has released a queue does not commit in it any more.

Its last commit is answered before it releases the queue, and before another member starts. So no broker stores a commit
of a member that does not hold the queue. Excused: a member that lost the queue instead of giving it up, and a member
with a fault: it died, was paused or disconnected, or the broker was. Groups with a Java member and broadcast groups are
not judged.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import HOLDING_STATES, NEVER_MS, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import Fact, MemberReported, OffsetCommitted, ProcessGone, ProcessStarted, QueueStateChanged

if TYPE_CHECKING:
    from steelyard.model import Queue


class CommitsEnd(Checker):
    """No commit comes after its queue was released."""

    name = "commits end"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, OffsetCommitted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._held: dict[tuple[str, str, Queue], QueueStateChanged] = {}
        """When a member last began to hold a queue, or released it."""
        self._lost_ms: dict[tuple[str, Queue], int] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who holds what, and check each commit."""
        if isinstance(fact, OffsetCommitted):
            return self._committed(fact)
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            if (fact.after in HOLDING_STATES) != (fact.before in HOLDING_STATES):
                self._held[fact.group, fact.member, fact.queue] = fact
            return ()
        self._tracker.observe(fact)
        if isinstance(fact, ProcessGone | ProcessStarted):
            self._queue_states.observe(fact)
        elif isinstance(fact, MemberReported) and fact.kind == "lost":
            for queue in fact.queues:
                self._lost_ms[fact.member, queue] = fact.at_ms
        return ()

    def _committed(self, fact: OffsetCommitted) -> Iterable[CheckerFinding]:
        if fact.member is None or self._queue_states.state(fact.group, fact.queue, fact.member) in HOLDING_STATES:
            return ()
        gone = self._held.get((fact.group, fact.member, fact.queue))
        if gone is None or self._lost_ms.get((fact.member, fact.queue), NEVER_MS) >= gone.at_ms:
            return ()
        if self._tracker.is_excused(fact.group, (fact.member,), fact.queue, gone.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.member} released {fact.queue} of {fact.group} at {gone.at_ms} ms, and its commit of {fact.offset} "
            f"was stored at {fact.at_ms} ms"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, gone, fact),)
