"""A delayed message is not handled before it is due.

A clock may run a little fast, which is allowed for. Not judged if wall clocks jump.
"""

from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.facts import Fact, HandlerStarted, MessageSent

_MARGIN_MS = 20
_CLOCK_MARGIN_PARTS = 200
"""A clock gains less than one part in this many."""


class DelayedNeverEarly(Checker):
    """Nothing is delivered early."""

    name = "delayed never early"
    fact_types = (MessageSent, HandlerStarted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._sent: dict[str, MessageSent] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember when each message is due, and check each start."""
        if isinstance(fact, MessageSent):
            if fact.due_ms is not None and not self.conditions.clock_faults:
                self._sent[fact.uid] = fact
        elif isinstance(fact, HandlerStarted) and fact.uid in self._sent:
            sent = self._sent[fact.uid]
            due_ms = sent.due_ms or 0
            if fact.at_ms < due_ms - _MARGIN_MS - (due_ms - sent.at_ms) // _CLOCK_MARGIN_PARTS:
                sentence = f"{fact.uid} was due at {due_ms} ms and {fact.member} started it at {fact.at_ms} ms"
                return (self.finding("safety", "delivery", fact.at_ms, sentence, sent, fact),)
        return ()
