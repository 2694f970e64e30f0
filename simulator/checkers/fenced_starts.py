"""R9: no member starts a message of a queue that was granted to another member since.

On our broker this is judged for orderly locks and for leases, on Apache's for orderly locks, which alone are kept
there. It holds through pauses: a member that resumes has to prove its ownership before it starts anything. The only
excuse is a member that cannot know yet: its connection was lost, the broker died or the broker's clock jumped, and its
last proof is not older than the fence. In groups with a Java member only orderly ones are judged, and there only our
members.
"""

from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker, LockHolders
from simulator.facts import Fact, HandlerStarted, LockFreed, LockGranted, ProcessGone

_LATE_MS = 3_000
"""How long after the fence a fault may still have effects: requests time out after this."""


class FencedStarts(Checker):
    """A member that lost a queue starts nothing of it."""

    name = "fenced starts"
    fact_types = (*TRACKED_FACTS, LockGranted, LockFreed, HandlerStarted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._holders = LockHolders()

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who holds what, and check each start."""
        if isinstance(fact, HandlerStarted):
            return self._started(fact)
        if isinstance(fact, LockGranted | LockFreed):
            self._holders.observe(fact)
            return ()
        self._tracker.observe(fact)
        if isinstance(fact, ProcessGone):
            self._holders.observe(fact)
        return ()

    def _started(self, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        holder = self._holders.grant_of(fact.group, fact.queue)
        if holder is None or holder.member == fact.member or holder.at_ms >= fact.at_ms:
            return ()
        tracker, broker = self._tracker, fact.queue.broker
        in_order = tracker.mode(fact.group) == "orderly"
        started = tracker.members.get(fact.member)
        if (started is not None and started.kind == "java") or not (in_order or tracker.is_steelyard_only(fact.group)):
            return ()
        if not in_order and not self.conditions.is_steelyard(broker):
            return ()
        fence_ms = self.conditions.fence_ms if self.conditions.is_steelyard(broker) else self.conditions.fence_order_ms
        fault_ms = max(tracker.connection_fault_ms(fact.member, broker), tracker.broker_fault_ms(broker))
        if fault_ms >= fact.at_ms - fence_ms - _LATE_MS:
            return ()
        sentence = (
            f"{fact.member} started {fact.uid} ({fact.queue}, offset {fact.offset}) for {fact.group} at {fact.at_ms} "
            f"ms, though {holder.member} was granted the queue at {holder.at_ms} ms"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, holder, fact),)
