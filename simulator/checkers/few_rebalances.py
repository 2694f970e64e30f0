"""R10: a storm of changes costs a member few rebalances: two at once, then one per gap.

So of any n rebalances in a row the first and the last are at least n - 3 gaps apart: one more than the strict rule
allows, because a clock may run a little fast. There is no excuse: timers that were late because of a pause cause one
rebalance. Java's members have no gap and are not judged.
"""

from collections import deque
from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.facts import Fact, ProcessStarted, RebalanceBegan

_REBALANCES = 8


class FewRebalances(Checker):
    """Members rebalance no faster than the gap allows."""

    name = "few rebalances"
    fact_types = (ProcessStarted, RebalanceBegan)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._began: dict[str, deque[RebalanceBegan]] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Count the rebalances of each member."""
        if isinstance(fact, ProcessStarted) and fact.kind == "ours":
            self._began[fact.member] = deque(maxlen=_REBALANCES)
        if not isinstance(fact, RebalanceBegan) or fact.member not in self._began:
            return ()
        began = self._began[fact.member]
        began.append(fact)
        took_ms = fact.at_ms - began[0].at_ms
        if len(began) < _REBALANCES or took_ms >= (_REBALANCES - 3) * self.conditions.rebalance_gap_ms:
            return ()
        sentence = (
            f"{fact.member} of {fact.group} began {_REBALANCES} rebalances within {took_ms} ms, up to {fact.at_ms} ms"
        )
        first = began[0]
        began.clear()
        return (self.finding("safety", "balance", fact.at_ms, sentence, first, fact),)
