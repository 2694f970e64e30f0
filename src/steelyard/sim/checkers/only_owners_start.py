"""Whoever starts a message owns its queue at that moment, by its own belief.

Nothing starts while a queue is wanted, asked for or in doubt, nor after it was let go. What a handler was given before
a drain began it may finish. There is no excuse: a member knows its own states. Java's members tell none.
"""

from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import Lives
from steelyard.sim.checkers.scene import Scene
from steelyard.sim.facts import Fact, Gone, Joined, Moved, Started

__all__ = ["OnlyOwnersStart"]

_MAY_START = frozenset({"OWNED", "DRAINING"})


class OnlyOwnersStart(Checker):
    """Nobody works on what it does not own."""

    name = "only owners start"
    wants = (Joined, Gone, Moved, Started)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._lives = Lives(Scene(terms))
        self._ours: set[str] = set()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow the states of queues, and judge each start."""
        if not isinstance(fact, Started):
            self._lives.note(fact)
            if isinstance(fact, Joined) and fact.kind == "ours":
                self._ours.add(fact.member)
            return ()
        state = self._lives.state(fact.group, fact.queue, fact.member)
        if state in _MAY_START or fact.member not in self._ours:
            return ()
        sentence = (
            f"{fact.member} started {fact.uid} ({fact.queue}, offset {fact.offset}) for {fact.group} at {fact.at_ms} "
            f"ms and had the queue {state}"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
