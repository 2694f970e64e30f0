"""After a restart of a broker the holders of its queues come first: no other member gets a queue while they may return.

For the settling time after a start, a queue that a living member still holds is granted to no other. Our broker keeps
this rule by itself; on Apache's the members do, which then lock only what they have to prove. A member that was back in
time, on our broker's list, keeps what it held, unless another got it. Excused: a holder that was paused, or whose
connection was lost since the restart; a broker whose clock jumped; groups with a Java member; groups that joined so
shortly before the broker died that it does not know them; a queue that was being given up, or whose broker lost power.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import (
    FAULT_EFFECT_MS,
    HOLDING_STATES,
    LEASE_SUFFIX,
    TRACKED_FACTS,
    FaultTracker,
    ObservedQueueStates,
)
from simulator.facts import Fact, LockGranted, MemberRegistered, ProcessGone, ProcessStarted, QueueStateChanged

if TYPE_CHECKING:
    from steelyard.model import Queue

_MARGIN_MS = 200
"""Clocks run a little fast, and a request at the end of the time is answered."""
_KNOWN_MS = 2_000
"""A group is saved within this time."""


class HoldersFirst(Checker):
    """A restarted broker does not grant everything to the first client."""

    name = "holders first"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, LockGranted, MemberRegistered)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._held_ms: dict[tuple[str, Queue, str], int] = {}
        self._first_ms: dict[str, int] = {}
        self._back_ms: dict[tuple[str, str], int] = {}
        self._given_ms: dict[tuple[str, Queue], tuple[str, int]] = {}
        self._draining: set[tuple[str, Queue, str]] = set()

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who holds what, and check what is granted after a start."""
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            key = (fact.group, fact.queue, fact.member)
            if fact.after in ("DRAINING", "COMMITTING"):
                self._draining.add(key)
            elif fact.after not in HOLDING_STATES:
                lost = self._lost(fact) if fact.before == "UNSURE" and fact.after in ("absent", "WANTED") else ()
                self._draining.discard(key)
                return lost
            if fact.after in HOLDING_STATES and fact.before not in HOLDING_STATES:
                self._held_ms[fact.group, fact.queue, fact.member] = fact.at_ms
                self._first_ms.setdefault(fact.group, fact.at_ms)
        elif isinstance(fact, MemberRegistered):
            self._back_ms[fact.broker, fact.member] = fact.at_ms
        elif isinstance(fact, LockGranted):
            self._given_ms[fact.lock_group.removesuffix(LEASE_SUFFIX), fact.queue] = (fact.member, fact.at_ms)
            return self._granted(fact)
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
        return ()

    def _granted(self, fact: LockGranted) -> Iterable[CheckerFinding]:
        tracker, group = self._tracker, fact.lock_group.removesuffix(LEASE_SUFFIX)
        started_ms = tracker.broker_started_ms.get(fact.broker)
        if started_ms is None or fact.again or fact.at_ms >= started_ms + self.conditions.settle_ms - _MARGIN_MS:
            return ()
        if not tracker.is_steelyard_only(group) or self.conditions.clock_faults:
            return ()
        if self._queue_states.state(group, fact.queue, fact.member) in HOLDING_STATES:
            return ()
        for other in self._queue_states.holders(group, fact.queue):
            held_ms = self._held_ms.get((group, fact.queue, other), fact.at_ms)
            is_known = self._first_ms.get(group, fact.at_ms) < started_ms - _KNOWN_MS and held_ms < started_ms
            is_well = tracker.is_healthy(other) and tracker.connection_fault_ms(other, fact.broker) < started_ms
            if other == fact.member or not is_known or not is_well:
                continue
            sentence = (
                f"{fact.broker} started at {started_ms} ms and granted {fact.queue} of {group} to {fact.member} at "
                f"{fact.at_ms} ms, though {other} holds it since {held_ms} ms and is alive"
            )
            return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
        return ()

    def _lost(self, fact: QueueStateChanged) -> Iterable[CheckerFinding]:
        """Check a queue that a member lost after a restart."""
        tracker, broker = self._tracker, fact.queue.broker
        started_ms = tracker.broker_started_ms.get(broker)
        if (
            started_ms is None
            or not self.conditions.is_steelyard(broker)
            or broker in tracker.gone_ms
            or broker in tracker.power_loss_ms
        ):
            return ()
        if (
            not tracker.is_steelyard_only(fact.group)
            or self.conditions.clock_faults
            or not tracker.is_healthy(fact.member)
        ):
            return ()
        held_ms = self._held_ms.get((fact.group, fact.queue, fact.member), fact.at_ms)
        back_ms = self._back_ms.get((broker, fact.member), fact.at_ms)
        taker, given_ms = self._given_ms.get((fact.group, fact.queue), ("", 0))
        is_promised = (
            self._first_ms.get(fact.group, fact.at_ms) < started_ms - _KNOWN_MS
            and held_ms < started_ms - _KNOWN_MS
            and started_ms <= back_ms < started_ms + self.conditions.settle_ms - _MARGIN_MS
            and fact.at_ms < started_ms + FAULT_EFFECT_MS
            and not (taker != fact.member and given_ms >= held_ms)
            and tracker.member_fault_ms(fact.member) < held_ms
            and tracker.connection_fault_ms(fact.member, broker) < held_ms
            and (fact.group, fact.queue, fact.member) not in self._draining
        )
        if not is_promised:
            return ()
        sentence = (
            f"{broker} started at {started_ms} ms, {fact.member} was back at {back_ms} ms, and lost {fact.queue} of "
            f"{fact.group} all the same at {fact.at_ms} ms, though no other member got it"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
