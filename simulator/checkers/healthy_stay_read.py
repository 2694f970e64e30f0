"""A member that hangs, or whose machine vanished, costs the others nothing: they keep their queues.

Judged if all was calm before the member stopped, and as long as nothing else happens: no member joins, leaves or
returns, no connection and no broker fails. Then no other member of its group has a reason to give up a queue, neither
while the broker still lists the silent one nor when it expires. Only groups of our members with the sticky strategy are
judged: others move queues with every change of the list.
"""

from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import NEVER_MS, TRACKED_FACTS, FaultTracker
from simulator.facts import (
    ConnectionDisturbed,
    Fact,
    ProcessGone,
    ProcessPaused,
    ProcessResumed,
    ProcessStarted,
    QueueStateChanged,
    Situation,
)

_CALM_MS = 3_000
"""Nothing may have happened for this time before."""


class HealthyStayRead(Checker):
    """A hanging member affects no other."""

    name = "healthy stay read"
    fact_types = (*TRACKED_FACTS, QueueStateChanged)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._changed_ms = NEVER_MS
        self._stopped: dict[str, Fact] = {}
        """By group: how its first member stopped, if nothing else has happened since."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who stopped, and check every queue that is given up."""
        if isinstance(fact, QueueStateChanged):
            return self._state_changed(fact)
        self._tracker.observe(fact)
        stopped = self._stopped_member(fact)
        started = None if stopped is None else self._tracker.members.get(stopped)
        if started is not None:
            if fact.at_ms - self._changed_ms >= _CALM_MS:
                self._stopped.setdefault(started.group, fact)
        elif isinstance(
            fact, ProcessStarted | ProcessGone | ProcessPaused | ProcessResumed | ConnectionDisturbed | Situation
        ):
            self._changed_ms = fact.at_ms
            self._stopped.clear()
        return ()

    def _stopped_member(self, fact: Fact) -> str | None:
        if isinstance(fact, ProcessPaused) or (isinstance(fact, ProcessGone) and fact.how == "vanished"):
            return fact.name
        return None

    def _state_changed(self, fact: QueueStateChanged) -> Iterable[CheckerFinding]:
        stopped = self._stopped.get(fact.group)
        if stopped is None or fact.before != "OWNED" or not self._tracker.is_healthy(fact.member):
            return ()
        conditions = self.conditions.group(fact.group)
        if not conditions.sticky or conditions.mode == "broadcast" or not self._tracker.is_steelyard_only(fact.group):
            return ()
        who = stopped.name if isinstance(stopped, ProcessPaused | ProcessGone) else ""
        sentence = (
            f"{fact.member} owned {fact.queue} of {fact.group} until {fact.at_ms} ms, and then it was {fact.after}, "
            f"though nothing had happened but that {who} stopped at {stopped.at_ms} ms"
        )
        return (self.finding("liveness", "balance", fact.at_ms, sentence, stopped, fact),)
