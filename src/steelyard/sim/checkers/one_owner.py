"""R4: a queue is in the hands of one member of a group at a time.

In hands means: from STARTING to COMMITTING, by the member's own belief. Looked at whenever a member begins to hold a
queue while another does. Excused: the other one, or the newcomer, was paused, lost its line, or let go of a queue whose
handlers went on; the broker died, stood still or its clock jumped; on Apache's broker the trouble of any member; groups
with a Java member; broadcasting, where everybody has everything.

And a drain is never undone: whoever began to give a queue up has forgotten what it had not started, so it must let go
before it may own the queue again. That has no excuse.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, Lives
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, Moved

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["OneOwner"]

_GIVING_UP = frozenset({"DRAINING", "COMMITTING"})
_STARTS_ANEW = frozenset({"absent", "WANTED", "ASKING", "STARTING", "RELEASING"})


class OneOwner(Checker):
    """Two members never hold a queue, and a drain ends in letting go."""

    name = "one owner"
    wants = (*SCENE, Moved)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._entered_ms: dict[tuple[str, str, Queue], int] = {}
        self._since: dict[tuple[str, str, Queue], Moved] = {}
        self._draining: dict[tuple[str, str, Queue], Moved] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow the lives of queues, and judge each beginning."""
        if not isinstance(fact, Moved):
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
            return ()
        self._lives.note(fact)
        self._entered_ms[fact.group, fact.member, fact.queue] = fact.at_ms
        found = [*self._undone(fact)]
        if fact.after in HOLDING and fact.before not in HOLDING:
            self._since[fact.group, fact.member, fact.queue] = fact
            found += self._began(fact)
        return found

    def _undone(self, fact: Moved) -> Iterable[Finding]:
        key = (fact.group, fact.member, fact.queue)
        if fact.after in _GIVING_UP:
            self._draining.setdefault(key, fact)
        elif fact.after in _STARTS_ANEW:
            self._draining.pop(key, None)
        elif fact.after == "OWNED" and key in self._draining:
            drained = self._draining.pop(key)
            sentence = (
                f"{fact.member} began to give {fact.queue} up at {drained.at_ms} ms and owned it again at "
                f"{fact.at_ms} ms without having let go"
            )
            yield self.finding("safety", "balance", fact.at_ms, sentence, drained, fact)

    def _began(self, fact: Moved) -> Iterable[Finding]:
        scene = self._scene
        if scene.mode(fact.group) == "broadcast":
            return
        for other in self._lives.holding(fact.group, fact.queue):
            # Whoever is unsure had its trouble before it became so, and may be cut off ever since.
            unsure = self._lives.state(fact.group, fact.queue, other) == "UNSURE"
            since_ms = self._entered_ms[fact.group, other, fact.queue] if unsure else fact.at_ms
            if other == fact.member or scene.is_excused(
                fact.group, (other, fact.member), fact.queue, since_ms, fact.at_ms
            ):
                continue
            state = self._lives.state(fact.group, fact.queue, other)
            since = self._since.get((fact.group, other, fact.queue))
            sentence = (
                f"{fact.member} began to hold {fact.queue} for {fact.group} at {fact.at_ms} ms ({fact.after}) while "
                f"{other} held it ({state}{f', since {since.at_ms} ms' if since else ''})"
            )
            yield self.finding("safety", "balance", fact.at_ms, sentence, *((since,) if since else ()), fact)
