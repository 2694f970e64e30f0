"""A lease stays with a healthy owner, has a growing epoch, and is granted only on request.

Judged on our brokers:

- nothing is freed under a living member that holds the queue; ``unlocked`` has no excuse, because members unlock only
  what they released; for a lease to be freed or to expire, the member or its broker must have had a fault;
- a queue is not granted anew to a member that holds it already: it did not request it, so a renewal acquired it; the
  same epoch again, after a restart, is its own;
- the epoch of a new grant is higher than every one before; the same for the same member after a restart. If wall
  clocks jump, a broker that starts again may count from an earlier time.

Groups with a Java member are not judged, except for epochs.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import HOLDING_STATES, LEASE_SUFFIX, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import Fact, LockFreed, LockGranted, ProcessGone, ProcessStarted, QueueStateChanged

if TYPE_CHECKING:
    from steelyard.model import Queue


class LeasesKept(Checker):
    """Leases do not change without their owner."""

    name = "leases kept"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, LockGranted, LockFreed)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._highest: dict[tuple[str, Queue], LockGranted] = {}
        self._own: dict[tuple[str, Queue, str], int | None] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track states, and check each grant and each loss."""
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
        elif isinstance(fact, LockGranted):
            return self._granted(fact) if self.conditions.is_steelyard(fact.broker) else ()
        elif isinstance(fact, LockFreed):
            return self._freed(fact) if self.conditions.is_steelyard(fact.broker) else ()
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
        return ()

    def _granted(self, fact: LockGranted) -> Iterable[CheckerFinding]:
        group = fact.lock_group.removesuffix(LEASE_SUFFIX)
        key, own = (group, fact.queue), (group, fact.queue, fact.member)
        known, mine = self._highest.get(key), self._own.get(own)
        is_mine = fact.epoch is not None and fact.epoch == mine
        found = []
        if known is None or (known.epoch or 0) <= (fact.epoch or 0):
            self._highest[key] = fact
        self._own[own] = fact.epoch
        if fact.again or is_mine:
            return ()
        state = self._queue_states.state(group, fact.queue, fact.member)
        if (
            state in HOLDING_STATES
            and mine is not None
            and self._tracker.is_steelyard_only(group)
            and not self.conditions.offset_resets
        ):
            sentence = (
                f"{fact.broker} granted {fact.queue} anew (epoch {fact.epoch}) to {fact.member} at {fact.at_ms} ms, "
                f"which had it {state} under epoch {mine} and did not request it"
            )
            found.append(self.finding("safety", "balance", fact.at_ms, sentence, fact))
        has_epochs = known is not None and known.epoch is not None and fact.epoch is not None
        if (
            known is not None
            and has_epochs
            and not self.conditions.clock_faults
            and (fact.epoch or 0) <= (known.epoch or 0)
        ):
            sentence = (
                f"{fact.broker} granted {fact.queue} to {fact.member} under epoch {fact.epoch} at {fact.at_ms} ms, and "
                f"{known.member} had it under {known.epoch} at {known.at_ms} ms"
            )
            found.append(self.finding("safety", "balance", fact.at_ms, sentence, known, fact))
        return found

    def _freed(self, fact: LockFreed) -> Iterable[CheckerFinding]:
        group = fact.lock_group.removesuffix(LEASE_SUFFIX)
        state = self._queue_states.state(group, fact.queue, fact.member)
        if (
            state not in HOLDING_STATES
            or fact.how in ("restart", "claimed")
            or not self._tracker.is_steelyard_only(group)
        ):
            return ()
        is_unlocked = fact.how == "unlocked"
        if not is_unlocked and self._tracker.is_excused(group, (fact.member,), fact.queue, fact.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.broker} freed {fact.queue} ({fact.how}) under {fact.member} at {fact.at_ms} ms, which had it "
            f"{state} and had no fault"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
