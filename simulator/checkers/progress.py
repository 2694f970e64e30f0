"""A healthy owner makes progress in its queues, whatever happens to others.

A queue stalls if a message in it was acknowledged, one member has owned the queue ever since, and neither that message
nor any other was handled by that member for the bound. The time starts anew with every fault of the member, of the
broker or of their connection: a pull whose response was lost is given up after 30 s, so the bound is longer than that.
Without a fault for as long, a held pull is answered at once, and the bound is short. Not judged: groups with a Java
member, and delayed messages.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import (
    Fact,
    HandlerEnded,
    HandlerStarted,
    MessageAcked,
    MessageSent,
    ProcessGone,
    ProcessStarted,
    QueueStateChanged,
)
from steelyard.model import Queue

_BOUND_MS = 45_000
_CALM_BOUND_MS = 4_000
"""The same without a fault, plus the longest handler."""
_CHECK_INTERVAL_MS = 2_000


class ProgressIsMade(Checker):
    """Healthy owners handle their messages."""

    name = "progress"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, MessageSent, MessageAcked, HandlerStarted, HandlerEnded)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._open: dict[Queue, list[MessageAcked]] = {}
        """Acknowledged messages of each queue, the oldest first."""
        self._later: set[str] = set()
        """Delayed and half messages: they are not read from where they were acknowledged."""
        self._begun: dict[tuple[str, Queue], int] = {}
        """The highest offset that a group started in each queue."""
        self._busy_ms: dict[str, int] = {}
        self._owned_ms: dict[tuple[str, str, Queue], int] = {}
        self._next_check_ms = _CHECK_INTERVAL_MS

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track messages and handlers; check now and then."""
        if isinstance(fact, HandlerStarted):
            key = (fact.group, fact.queue)
            self._begun[key] = max(self._begun.get(key, -1), fact.offset)
            self._busy_ms[fact.member] = fact.at_ms
        elif isinstance(fact, HandlerEnded):
            self._busy_ms[fact.member] = fact.at_ms
        elif isinstance(fact, MessageSent):
            if fact.due_ms is not None or fact.transactional:
                self._later.add(fact.uid)
        elif isinstance(fact, MessageAcked):
            if fact.queue is not None and fact.offset is not None and fact.uid not in self._later:
                self._open.setdefault(fact.queue, []).append(fact)
        elif isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            if fact.after == "OWNED":
                self._owned_ms[fact.group, fact.member, fact.queue] = fact.at_ms
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
        if fact.at_ms < self._next_check_ms:
            return ()
        self._next_check_ms = fact.at_ms + _CHECK_INTERVAL_MS
        return list(self._stalled(fact.at_ms))

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Check a last time."""
        yield from self._stalled(end.at_ms)

    def _stalled(self, now_ms: int) -> Iterator[CheckerFinding]:
        groups = sorted({started.group for started in self._tracker.members.values()} - self._tracker.groups_with_java)
        for group in groups:
            for queue, states in self._queue_states.states_of_group(group):
                acked = self._waiting(group, queue)
                owner = next((member for member, state in states.items() if state == "OWNED"), None)
                if acked is None or owner is None or not self._is_late(group, owner, acked, now_ms):
                    continue
                self._begun[group, queue] = max(self._begun.get((group, queue), -1), acked.offset or 0)
                sentence = (
                    f"{owner} owns {queue} of {group}, has done nothing for {now_ms - self._busy_ms.get(owner, 0)} ms, "
                    f"and has not started {acked.uid} at offset {acked.offset}, stored at {acked.at_ms} ms"
                )
                yield self.finding("liveness", "delivery", now_ms, sentence, acked)

    def _waiting(self, group: str, queue: Queue) -> MessageAcked | None:
        """Return the oldest message above everything that the group started in the queue."""
        begun = self._begun.get((group, queue), -1)
        # A queue in which nothing was started may be before the group's start: it is not judged.
        if begun < 0 and not self.conditions.group(group).from_first:
            return None
        return next((acked for acked in self._open.get(queue, ()) if (acked.offset or 0) > begun), None)

    def _is_late(self, group: str, owner: str, acked: MessageAcked, now_ms: int) -> bool:
        broker = acked.queue.broker if acked.queue is not None else ""
        owned_ms = self._owned_ms.get((group, owner, acked.queue), 0) if acked.queue is not None else 0
        fault_ms = self._tracker.pair_fault_ms(owner, broker, now_ms)
        is_calm = fault_ms <= now_ms - _BOUND_MS
        bound_ms = _CALM_BOUND_MS + self.conditions.longest_handler_ms if is_calm else _BOUND_MS
        return max(acked.at_ms, owned_ms, fault_ms, self._busy_ms.get(owner, 0)) <= now_ms - bound_ms
