"""Whoever loses its line is given its grace: it is not counted out at once, and its handlers get time to end.

On our broker a member of ours whose line closed is listed for a while longer, and what it held in order stays locked
for longer still. Judged where it is known when the line was lost, that is, by the only cut or death that the member had
for a while. Excused: goodbyes, restarts of the broker, clocks that jump.
"""

from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import LEASE
from steelyard.sim.checkers.scene import LASTING_MS, NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Freed, Gone, LineLost, Unregistered

__all__ = ["GraceKept"]

_LISTED_MS = 280
_LOCKED_MS = 2_200
"""300 ms, and 2 s after those, less what clocks that run fast may take off."""


class GraceKept(Checker):
    """A line that blips costs nothing."""

    name = "grace kept"
    wants = (*SCENE, Unregistered, Freed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lost: dict[tuple[str, str], tuple[int, int]] = {}
        """Of a member and a broker, or of a member and everybody: when the line was lost, and when before that."""
        self._goodbyes: set[tuple[str, str]] = set()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow losses, and judge how soon they have an effect."""
        if isinstance(fact, Unregistered):
            if fact.how == "goodbye":
                self._goodbyes.add((fact.broker, fact.member))
            elif fact.how == "closed":
                return self._judge(fact, fact.member, fact.broker, "counted out", _LISTED_MS)
        elif isinstance(fact, Freed):
            if fact.how in ("gone", "expired") and not fact.lock_group.endswith(LEASE):
                return self._judge(fact, fact.member, fact.broker, f"without {fact.queue}", _LOCKED_MS)
        else:
            self._scene.note(fact)
            if isinstance(fact, LineLost):
                self._lose(fact.one, fact.other, fact.at_ms)
                self._lose(fact.other, fact.one, fact.at_ms)
            elif isinstance(fact, Gone) and fact.how != "left":
                self._lose(fact.name, "", fact.at_ms)
        return ()

    def _lose(self, member: str, broker: str, at_ms: int) -> None:
        before_ms = self._lost.get((member, broker), (NEVER_MS, NEVER_MS))[0]
        self._lost[member, broker] = (at_ms, before_ms)

    def _judge(self, fact: Fact, member: str, broker: str, what: str, grace_ms: int) -> Iterable[Finding]:
        joined = self._scene.members.get(member)
        if joined is None or joined.kind != "ours" or not self.terms.is_ours(broker) or self.terms.clock_faults:
            return ()
        if (broker, member) in self._goodbyes:
            return ()
        never = (NEVER_MS, NEVER_MS)
        times = sorted((*self._lost.get((member, broker), never), *self._lost.get((member, ""), never)), reverse=True)
        lost_ms, before_ms = times[0], times[1]
        troubled_ms = self._scene.broker_troubled_ms(broker)
        is_clear = lost_ms > NEVER_MS and max(before_ms, troubled_ms) < lost_ms - LASTING_MS
        if not is_clear or fact.at_ms - lost_ms >= grace_ms:
            return ()
        sentence = (
            f"{member} lost its line to {broker} at {lost_ms} ms at the earliest, and was {what} at {fact.at_ms} ms "
            f"already"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
