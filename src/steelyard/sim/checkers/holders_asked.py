"""On Apache's broker nobody takes a queue from a member that holds it and is on the broker's list.

There no lease says whose a queue is: takers ask, and who is listed and silent counts as a holder. So it is no excuse
that the holder is paused or cut off, as long as the broker lists it on a line that is open there. Judged where the
other one has held the queue for some seconds and was listed all that time. Excused: a holder that let go of a queue
whose handlers still ran; groups with a Java member; groups that need order, which keep a lock that runs out, and
broadcasting ones.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, Lives
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, Moved, Registered, Unregistered

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["HoldersAsked"]

_KNOWN_MS = 5_000
"""Longer than it takes to ask everybody, silent ones included."""


class HoldersAsked(Checker):
    """Silence is no answer."""

    name = "holders asked"
    wants = (*SCENE, Moved, Registered, Unregistered)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._held: dict[tuple[str, str, Queue], Moved] = {}
        self._listed_ms: dict[tuple[str, str, str], int] = {}
        """By broker, group and member: since when."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who is listed and who holds what, and judge each beginning."""
        if isinstance(fact, Moved):
            self._lives.note(fact)
            if fact.after in HOLDING and fact.before not in HOLDING:
                self._held[fact.group, fact.member, fact.queue] = fact
                return list(self._began(fact))
        elif isinstance(fact, Registered):
            self._listed_ms.setdefault((fact.broker, fact.group, fact.member), fact.at_ms)
        elif isinstance(fact, Unregistered):
            self._listed_ms.pop((fact.broker, fact.group, fact.member), None)
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
                name = fact.name if isinstance(fact, Gone) else fact.member
                for place in [place for place in self._listed_ms if place[0] == name]:
                    del self._listed_ms[place]
        return ()

    def _began(self, fact: Moved) -> Iterator[Finding]:
        scene, broker = self._scene, fact.queue.broker
        if self.terms.is_ours(broker) or scene.mode(fact.group) != "concurrent" or not scene.is_all_ours(fact.group):
            return
        known_ms = fact.at_ms - _KNOWN_MS
        for other in self._lives.holding(fact.group, fact.queue):
            held = self._held[fact.group, other, fact.queue]
            listed_ms = self._listed_ms.get((broker, fact.group, other), fact.at_ms)
            if other == fact.member or max(held.at_ms, listed_ms) > known_ms:
                continue
            if scene.let_go_ms(other, fact.queue) >= held.at_ms:
                continue
            sentence = (
                f"{fact.member} began to hold {fact.queue} for {fact.group} at {fact.at_ms} ms, which {other} holds "
                f"since {held.at_ms} ms and could have been asked about: {broker} lists it since {listed_ms} ms"
            )
            yield self.finding("safety", "balance", fact.at_ms, sentence, held, fact)
