"""R10: a storm of changes costs a member few rounds: two at once, then one per gap.

So of any n rounds in a row the first and the last lie at least n - 3 gaps apart: one more than the strict rule allows,
since a clock may run a little fast. There is no excuse: timers that were late because of a pause come as one round.
Java's members have no gap and are not judged.
"""

from collections import deque
from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.facts import Fact, Joined, RoundBegan

__all__ = ["FewRounds"]

_ROUNDS = 8


class FewRounds(Checker):
    """Nobody asks who is there faster than the gap between rounds."""

    name = "few rounds"
    wants = (Joined, RoundBegan)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._began: dict[str, deque[RoundBegan]] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Count the rounds of each member."""
        if isinstance(fact, Joined) and fact.kind == "ours":
            self._began[fact.member] = deque(maxlen=_ROUNDS)
        if not isinstance(fact, RoundBegan) or fact.member not in self._began:
            return ()
        began = self._began[fact.member]
        began.append(fact)
        took_ms = fact.at_ms - began[0].at_ms
        if len(began) < _ROUNDS or took_ms >= (_ROUNDS - 3) * self.terms.round_gap_ms:
            return ()
        sentence = f"{fact.member} of {fact.group} began {_ROUNDS} rounds within {took_ms} ms, up to {fact.at_ms} ms"
        first = began[0]
        began.clear()
        return (self.finding("safety", "balance", fact.at_ms, sentence, first, fact),)
