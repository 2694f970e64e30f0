"""Whoever has let go of a queue commits no more in it: its last word is heard before somebody else may begin.

A member lets go once its last commit is answered, so no broker takes a commit of a member that does not have the queue
in its hands. Excused: a member that lost the queue instead of giving it up, and whoever is excused for other things: it
died, was paused or lost its line, or the broker did. Groups with a Java member are not judged, nor broadcasting ones.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, Lives
from steelyard.sim.checkers.scene import NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Committed, Fact, Gone, Joined, Moved, Reported

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["CommitsEnd"]


class CommitsEnd(Checker):
    """A commit does not come after its queue was let go."""

    name = "commits end"
    wants = (*SCENE, Moved, Committed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._held: dict[tuple[str, str, Queue], Moved] = {}
        """How a member began to hold a queue, or let go of it, the last time."""
        self._lost_ms: dict[tuple[str, Queue], int] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who has what in hand, and judge each commit."""
        if isinstance(fact, Committed):
            return self._committed(fact)
        if isinstance(fact, Moved):
            self._lives.note(fact)
            if (fact.after in HOLDING) != (fact.before in HOLDING):
                self._held[fact.group, fact.member, fact.queue] = fact
            return ()
        self._scene.note(fact)
        if isinstance(fact, Gone | Joined):
            self._lives.note(fact)
        elif isinstance(fact, Reported) and fact.kind == "lost":
            for queue in fact.queues:
                self._lost_ms[fact.member, queue] = fact.at_ms
        return ()

    def _committed(self, fact: Committed) -> Iterable[Finding]:
        if fact.member is None or self._lives.state(fact.group, fact.queue, fact.member) in HOLDING:
            return ()
        gone = self._held.get((fact.group, fact.member, fact.queue))
        if gone is None or self._lost_ms.get((fact.member, fact.queue), NEVER_MS) >= gone.at_ms:
            return ()
        if self._scene.is_excused(fact.group, (fact.member,), fact.queue, gone.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.member} let go of {fact.queue} of {fact.group} at {gone.at_ms} ms, and its commit of {fact.offset} "
            f"was taken at {fact.at_ms} ms"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, gone, fact),)
