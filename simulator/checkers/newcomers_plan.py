"""A new member soon has an assignment, even an empty one.

For that it has to find a name server, its brokers and its group. Judged for our members from when they start, or from
the last fault of any process. After any fault the bound is as long as a broker may wait before it registers again.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import NEVER_MS, TRACKED_FACTS, FaultTracker
from simulator.facts import AssignmentPlanned, Fact, ProcessGone, ProcessStarted

_BOUND_MS, _FAULT_BOUND_MS = 6_000, 45_000


class NewcomersPlan(Checker):
    """New members get an assignment."""

    name = "newcomers plan"
    fact_types = (*TRACKED_FACTS, AssignmentPlanned)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._waiting: dict[str, ProcessStarted] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track members without an assignment."""
        late = list(self._late(fact.at_ms)) if self._waiting else []
        if isinstance(fact, AssignmentPlanned):
            self._waiting.pop(fact.member, None)
            return late
        self._tracker.observe(fact)
        if isinstance(fact, ProcessStarted) and fact.kind == "ours":
            self._waiting[fact.member] = fact
        elif isinstance(fact, ProcessGone):
            self._waiting.pop(fact.name, None)
        return late

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Check who waits at the end."""
        yield from self._late(end.at_ms)

    def _late(self, now_ms: int) -> Iterator[CheckerFinding]:
        last_ms = self._tracker.last_fault_ms
        bound_ms = _BOUND_MS if last_ms == NEVER_MS else _FAULT_BOUND_MS
        for started in list(self._waiting.values()):
            if now_ms - max(started.at_ms, last_ms) > bound_ms:
                del self._waiting[started.member]
                sentence = (
                    f"{started.member} of {started.group} started at {started.at_ms} ms and has no assignment at "
                    f"{now_ms} ms"
                )
                yield self.finding("liveness", "balance", now_ms, sentence, started)
