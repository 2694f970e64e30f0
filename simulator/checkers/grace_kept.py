"""A member that loses its connection gets its grace: it is not removed at once, and its handlers get time to end.

Our broker lists a member of ours for a while after its connection closed, and keeps its orderly locks for longer still.
Judged if it is known when the connection was lost, that is, by the only cut or death of the member for a while.
Excused: members that unregistered, restarts of the broker, clocks that jump.
"""

from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import FAULT_EFFECT_MS, LEASE_SUFFIX, NEVER_MS, TRACKED_FACTS, FaultTracker
from simulator.facts import ConnectionDisturbed, Fact, LockFreed, MemberUnregistered, ProcessGone

_LISTED_MS = 280
_LOCKED_MS = 2_200
"""300 ms, and 2 s after those, less what fast clocks may gain."""


class GraceKept(Checker):
    """A short disconnect costs nothing."""

    name = "grace kept"
    fact_types = (*TRACKED_FACTS, MemberUnregistered, LockFreed)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._lost: dict[tuple[str, str], tuple[int, int]] = {}
        """By member and broker (empty: all): when the connection was last lost, and when before that."""
        self._goodbyes: set[tuple[str, str]] = set()

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track lost connections, and check how soon they have an effect."""
        if isinstance(fact, MemberUnregistered):
            if fact.how == "goodbye":
                self._goodbyes.add((fact.broker, fact.member))
            elif fact.how == "closed":
                return self._check(fact, fact.member, fact.broker, "removed", _LISTED_MS)
        elif isinstance(fact, LockFreed):
            if fact.how in ("gone", "expired") and not fact.lock_group.endswith(LEASE_SUFFIX):
                return self._check(fact, fact.member, fact.broker, f"without {fact.queue}", _LOCKED_MS)
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ConnectionDisturbed):
                self._lose(fact.one, fact.other, fact.at_ms)
                self._lose(fact.other, fact.one, fact.at_ms)
            elif isinstance(fact, ProcessGone) and fact.how != "left":
                self._lose(fact.name, "", fact.at_ms)
        return ()

    def _lose(self, member: str, broker: str, at_ms: int) -> None:
        before_ms = self._lost.get((member, broker), (NEVER_MS, NEVER_MS))[0]
        self._lost[member, broker] = (at_ms, before_ms)

    def _check(self, fact: Fact, member: str, broker: str, what: str, grace_ms: int) -> Iterable[CheckerFinding]:
        started = self._tracker.members.get(member)
        if (
            started is None
            or started.kind != "ours"
            or not self.conditions.is_steelyard(broker)
            or self.conditions.clock_faults
        ):
            return ()
        if (broker, member) in self._goodbyes:
            return ()
        never = (NEVER_MS, NEVER_MS)
        times = sorted((*self._lost.get((member, broker), never), *self._lost.get((member, ""), never)), reverse=True)
        lost_ms, before_ms = times[0], times[1]
        fault_ms = self._tracker.broker_fault_ms(broker)
        is_clear = lost_ms > NEVER_MS and max(before_ms, fault_ms) < lost_ms - FAULT_EFFECT_MS
        if not is_clear or fact.at_ms - lost_ms >= grace_ms:
            return ()
        sentence = (
            f"{member} lost its connection to {broker} at {lost_ms} ms at the earliest, and was {what} already at "
            f"{fact.at_ms} ms"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
