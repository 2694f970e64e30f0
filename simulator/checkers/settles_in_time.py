"""A change of members is over soon: every queue is owned, and no member waits for one.

Each kind of change has its bound, a little more than the longest that was seen in thousands of histories; a member that
acts on an outdated list, or waits for its next periodic rebalance, is far beyond it. A member that hangs or vanished
first has to expire at its broker. Judged if the change is the one thing that happened: for some seconds before it and
until the bound no other process started, ended, paused or lost a connection, no other member is paused or listed
although it vanished, no notification is lost, and no broker ever had a fault. Groups with a Java member and broadcast
groups are not judged. Orderly groups have other bounds after all but a join and a clean leave (crash_bounds.py).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import NEVER_MS, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import (
    Fact,
    MemberReported,
    ProcessGone,
    ProcessPaused,
    ProcessResumed,
    ProcessStarted,
    QueueStateChanged,
)

_CALM_MS = 5_000
_BOUNDS_MS = {"joined": 2_500, "left": 2_000, "killed": 3_000, "vanished": 17_000, "paused": 17_000, "resumed": 3_000}
"""By what happened to a member. One that vanished, or hangs, first has to expire at its broker. If it was killed, its
broker notices the broken connection after up to 2 s (Network), and waits 0.3 s whether it comes back."""
_APACHE_MS = 1_000
"""Without leases: a confirming read, and all members are asked."""
_APACHE_MISSED_MS = 160_000
"""Apache's broker expires a member after two minutes."""
_MISSED = ("vanished", "paused")


class _Change(NamedTuple):
    """A change of a group, and when it has to be over."""

    how: str
    who: str
    group: str
    fact: Fact
    until_ms: int


class SettlesInTime(Checker):
    """Changes are over in time."""

    name = "settles in time"
    fact_types = (*TRACKED_FACTS, QueueStateChanged)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._changed_ms = NEVER_MS
        self._change: _Change | None = None
        self._missed_ms = NEVER_MS
        """By then all vanished members have expired."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track changes and what follows."""
        found = list(self._check(fact.at_ms))
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            return found
        self._tracker.observe(fact)
        if isinstance(fact, MemberReported):
            return found
        is_calm = fact.at_ms - self._changed_ms >= _CALM_MS and self._tracker.last_fault_ms in (NEVER_MS, fact.at_ms)
        self._changed_ms = fact.at_ms
        self._change = self._begin(fact) if is_calm and fact.at_ms > self._missed_ms else None
        if isinstance(fact, ProcessGone) and fact.how == "vanished":
            self._missed_ms = fact.at_ms + self._bound_ms("vanished")
        if isinstance(fact, ProcessGone | ProcessStarted):
            self._queue_states.observe(fact)
        return found

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Judge the last change."""
        yield from self._check(end.at_ms)

    def _begin(self, fact: Fact) -> _Change | None:
        if isinstance(fact, ProcessStarted) and fact.member in self._tracker.members:
            how, who = "joined", fact.member
        elif isinstance(fact, ProcessGone) and fact.name in self._tracker.members:
            how, who = fact.how, fact.name
        elif isinstance(fact, ProcessPaused | ProcessResumed) and fact.name in self._tracker.members:
            how, who = fact.label.lower(), fact.name
        else:
            return None
        group = self._tracker.members[who].group
        if how not in _BOUNDS_MS or self.conditions.lost_notifications or not self._is_checked(group, how, who):
            return None
        return _Change(how, who, group, fact, fact.at_ms + self._bound_ms(how))

    def _bound_ms(self, how: str) -> int:
        bound_ms = _BOUNDS_MS[how]
        if self.conditions.apache_brokers:
            bound_ms = _APACHE_MISSED_MS if how in _MISSED else bound_ms + _APACHE_MS
        return bound_ms + self.conditions.longest_handler_ms

    def _is_checked(self, group: str, how: str, who: str) -> bool:
        mode = self._tracker.mode(group)
        if mode == "broadcast" or (mode == "orderly" and how not in ("joined", "left")):
            return False
        alive = self._tracker.alive_members(group)
        others = [self._tracker.is_healthy(member) for member in alive if member != who]
        return self._tracker.is_steelyard_only(group) and all(others) and any(map(self._tracker.is_healthy, alive))

    def _check(self, now_ms: int) -> Iterator[CheckerFinding]:
        change = self._change
        if change is None or now_ms <= change.until_ms:
            return
        self._change = None
        for queue, every in self._queue_states.states_of_group(change.group):
            states = {member: state for member, state in every.items() if self._tracker.is_healthy(member)}
            if list(states.values()) == ["OWNED"]:
                continue
            how = ", ".join(f"{state} at {member}" for member, state in states.items()) or "without an owner"
            sentence = (
                f"{change.who} of {change.group} {change.how} at {change.fact.at_ms} ms, nothing else happened, and "
                f"{queue} is still {how} at {change.until_ms} ms"
            )
            yield self.finding("liveness", "balance", now_ms, sentence, change.fact)
