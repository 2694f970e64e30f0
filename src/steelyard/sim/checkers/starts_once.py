"""R1: while members only come and go as they wish, each message is started once.

More than that: a record that is started a second time needs an excuse in what happened to one of those who started it,
or to the broker. Excused are a member that died, was paused or lost its line; a broker that died (it may have forgotten
the last seconds of commits) or stood still; handlers that outlived their drain; and offsets that were moved by hand. On
Apache's broker, which fences nobody, the trouble of any member of the group will do. A group with a Java member
promises nothing. Tried again by the same member, because it could not be given back, is not a second start; nor is, in
order, a try after one that failed, whoever makes it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Ended, Fact, Started

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["StartsOnce"]


class StartsOnce(Checker):
    """No record is started twice without an excuse."""

    name = "starts once"
    wants = (*SCENE, Started, Ended)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._failed: set[tuple[str, Queue, int, str]] = set()
        self._first: dict[tuple[str, Queue, int, str, str], Started] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember who started what first, and judge every further start."""
        if isinstance(fact, Ended):
            if not fact.ok and self._scene.mode(fact.group) == "orderly":
                self._failed.add((fact.group, fact.queue, fact.offset, fact.uid))
            return ()
        if not isinstance(fact, Started):
            self._scene.note(fact)
            return ()
        alone = fact.member if self._scene.mode(fact.group) == "broadcast" else ""
        key = (fact.group, fact.queue, fact.offset, fact.uid, alone)
        first = self._first.setdefault(key, fact)
        if first is fact or (fact.attempt > 0 and fact.member == first.member):
            return ()
        self._first[key] = fact
        if key[:4] in self._failed:
            self._failed.discard(key[:4])
            return ()
        both = (first.member, fact.member)
        if self.terms.resets or self._scene.is_excused(fact.group, both, fact.queue, first.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.uid} ({fact.queue}, offset {fact.offset}) was started by {first.member} at {first.at_ms} ms and "
            f"again by {fact.member} at {fact.at_ms} ms, and nothing had happened to either"
        )
        return (self.finding("safety", "delivery", fact.at_ms, sentence, first, fact),)
