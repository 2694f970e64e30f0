"""A member that is asked to leave ends soon after its last handler returned.

It gives up what it holds and what it waits for, and needs no other member for that. Judged for our members if there was
no fault since some seconds before. A handler may be slow, so the bound is the longest handler and a few seconds more.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import FAULT_EFFECT_MS, TRACKED_FACTS, FaultTracker
from simulator.facts import Fact, ProcessGone, Situation

_SOON_MS = 5_000


class LeaversLeave(Checker):
    """Leaving does not take forever."""

    name = "leavers leave"
    fact_types = TRACKED_FACTS

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._asked: dict[str, Situation] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who is asked to leave, and when it does."""
        self._tracker.observe(fact)
        if isinstance(fact, Situation) and fact.name == "a member is asked to leave":
            self._asked.setdefault(fact.about["process"], fact)
        elif isinstance(fact, ProcessGone) and fact.name in self._asked:
            asked = self._asked.pop(fact.name)
            if fact.how == "left":
                return list(self._check(fact.name, asked, fact.at_ms))
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Check who has not left."""
        for member, asked in self._asked.items():
            yield from self._check(member, asked, end.at_ms)

    def _check(self, member: str, asked: Situation, now_ms: int) -> Iterator[CheckerFinding]:
        took_ms = now_ms - asked.at_ms
        if (
            took_ms <= self.conditions.longest_handler_ms + _SOON_MS
            or self._tracker.last_fault_ms >= asked.at_ms - FAULT_EFFECT_MS
        ):
            return
        sentence = f"{member} was asked to leave at {asked.at_ms} ms and took {took_ms} ms or more to do so"
        yield self.finding("liveness", "balance", now_ms, sentence, asked)
