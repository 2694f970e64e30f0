"""A message with a time of its own is not handled before it.

A clock may run a little fast, which is allowed for. Not judged where the clocks on walls jump.
"""

from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.facts import Fact, Sent, Started

__all__ = ["DelayedNeverEarly"]

_ROOM_MS = 20
_ROOM_PART = 200
"""A clock gains less than one part in so many."""


class DelayedNeverEarly(Checker):
    """Nothing comes before its time."""

    name = "delayed never early"
    wants = (Sent, Started)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._sent: dict[str, Sent] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember when each message is due, and compare."""
        if isinstance(fact, Sent):
            if fact.due_ms is not None and not self.terms.clock_faults:
                self._sent[fact.uid] = fact
        elif isinstance(fact, Started) and fact.uid in self._sent:
            sent = self._sent[fact.uid]
            due_ms = sent.due_ms or 0
            if fact.at_ms < due_ms - _ROOM_MS - (due_ms - sent.at_ms) // _ROOM_PART:
                sentence = f"{fact.uid} was due at {due_ms} ms and {fact.member} started it at {fact.at_ms} ms"
                return (self.finding("safety", "delivery", fact.at_ms, sentence, sent, fact),)
        return ()
