"""R11: a member that leaves unregisters at a broker only after it has released everything there.

When a broker unregisters one of our members on its request, the member has no lock of that broker any more and no queue
of that broker in a state in which it may hold one; what was freed at the same moment counts as not released. After that
it starts nothing there. Excused: handlers that outlived the last drain, which may end later; on Apache's broker a lock
that was requested on a connection which was lost since, because it may be granted long after.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import (
    HOLDING_STATES,
    LEASE_SUFFIX,
    TRACKED_FACTS,
    FaultTracker,
    LockHolders,
    ObservedQueueStates,
)
from simulator.facts import (
    Fact,
    HandlerStarted,
    LockFreed,
    LockGranted,
    MemberUnregistered,
    ProcessGone,
    ProcessStarted,
    QueueStateChanged,
)
from steelyard.model import Queue


class UnregisterLast(Checker):
    """Unregistering is the last request."""

    name = "unregister last"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, LockGranted, LockFreed, HandlerStarted, MemberUnregistered)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._holders = LockHolders()
        self._unregistrations: dict[tuple[str, str, str], MemberUnregistered] = {}
        self._freed_with: dict[tuple[str, Queue], LockFreed] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track locks and states, and check each unregistration."""
        if isinstance(fact, HandlerStarted):
            unregistration = (
                self._unregistrations.get((fact.queue.broker, fact.group, fact.member))
                if self._unregistrations
                else None
            )
            return self._after(unregistration, fact)
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
        elif isinstance(fact, MemberUnregistered):
            return list(self._left(fact))
        elif isinstance(fact, LockGranted | LockFreed):
            self._holders.observe(fact)
            if isinstance(fact, LockFreed) and fact.how == "gone":
                self._freed_with[fact.lock_group.removesuffix(LEASE_SUFFIX), fact.queue] = fact
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
            if isinstance(fact, ProcessGone):
                self._holders.observe(fact)
        return ()

    def _left(self, fact: MemberUnregistered) -> Iterator[CheckerFinding]:
        started = self._tracker.members.get(fact.member)
        if fact.how != "goodbye" or started is None or started.kind != "ours" or started.mode == "broadcast":
            return
        self._unregistrations[fact.broker, fact.group, fact.member] = fact
        shown: set[Queue] = set()
        for (group, queue), granted in self._holders.granted.items():
            if group == fact.group and queue.broker == fact.broker and granted.member == fact.member:
                if self._may_be_late(granted):
                    continue
                shown.add(queue)
                yield self._holds(fact, queue, "still held its lock", granted)
        for (group, queue), freed in self._freed_with.items():
            whose = (group, freed.member, freed.broker, freed.at_ms)
            if whose == (fact.group, fact.member, fact.broker, fact.at_ms) and queue not in shown:
                shown.add(queue)
                yield self._holds(fact, queue, "still held its lock", freed)
        for group, queue, state in self._queue_states.states_of_member(fact.member):
            if group == fact.group and queue.broker == fact.broker and state in HOLDING_STATES and queue not in shown:
                yield self._holds(fact, queue, f"had it {state}")

    def _may_be_late(self, granted: LockGranted) -> bool:
        broker = granted.broker
        lost_ms = self._tracker.connection_fault_ms(granted.member, broker)
        return not self.conditions.is_steelyard(
            broker
        ) and 0 <= granted.at_ms - lost_ms < self._tracker.fault_effect_ms(broker)

    def _holds(self, fact: MemberUnregistered, queue: Queue, how: str, *facts: Fact) -> CheckerFinding:
        sentence = f"{fact.member} unregistered at {fact.broker} at {fact.at_ms} ms and, of {queue}, {how}"
        return self.finding("safety", "balance", fact.at_ms, sentence, *facts, fact)

    def _after(self, unregistration: MemberUnregistered | None, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        if unregistration is None:
            return ()
        sentence = (
            f"{fact.member} started {fact.uid} ({fact.queue}, offset {fact.offset}) at {fact.at_ms} ms, after its "
            f"unregistration at {unregistration.at_ms} ms"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, unregistration, fact),)
