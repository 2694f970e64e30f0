"""R3: what is committed never goes back, and on our broker only the owner commits.

Excused, going back: offsets moved by hand; groups with a Java member; a broker that lost power or whose disk failed (it
corrects its members downwards); on Apache's broker, which fences nobody, any trouble in the group. That a broker comes
back with older offsets after it died is no commit and is not looked at here.

Excused, a commit of another than the owner: groups with a Java member, which holds no lock. There is no other excuse:
whoever lost a queue is refused.
"""

from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import Holders
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Committed, Fact, Freed, Gone, Granted

__all__ = ["CommitsGoForward"]


class CommitsGoForward(Checker):
    """Nobody undoes a commit, and nobody commits in another's queue."""

    name = "commits go forward"
    wants = (*SCENE, Committed, Granted, Freed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._holders = Holders()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who holds what, and judge each commit."""
        if isinstance(fact, Committed):
            return self._committed(fact)
        if isinstance(fact, Granted | Freed):
            self._holders.note(fact)
            return ()
        self._scene.note(fact)
        if isinstance(fact, Gone):
            self._holders.note(fact)
        return ()

    def _committed(self, fact: Committed) -> Iterable[Finding]:
        if self.terms.resets or not self._scene.is_all_ours(fact.group):
            return ()
        if fact.before is not None and fact.offset < fact.before and not self._may_go_back(fact):
            sentence = (
                f"{fact.member or 'somebody unknown'} took the commit of {fact.group} in {fact.queue} back from "
                f"{fact.before} to {fact.offset} at {fact.at_ms} ms"
            )
            return (self.finding("safety", "commit", fact.at_ms, sentence, fact),)
        holder = self._holders.of(fact.group, fact.queue) if self.terms.is_ours(fact.queue.broker) else None
        if holder is None or fact.member is None:
            return ()
        if holder.member != fact.member:
            why = f"{holder.member} holds it since {holder.at_ms} ms"
        elif fact.epoch is not None and holder.epoch is not None and fact.epoch != holder.epoch:
            why = f"it holds it under epoch {holder.epoch} since {holder.at_ms} ms, and named {fact.epoch}"
        else:
            return ()
        sentence = (
            f"the broker took a commit of {fact.offset} in {fact.queue} for {fact.group} from {fact.member} at "
            f"{fact.at_ms} ms, and {why}"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, holder, fact),)

    def _may_go_back(self, fact: Committed) -> bool:
        broker = fact.queue.broker
        if broker in self._scene.power_ms or self.terms.disk_faults:
            return True
        if self.terms.is_ours(broker):
            return False
        return self._scene.group_troubled_ms(fact.group, broker, fact.at_ms) >= fact.at_ms - self._scene.lasting_ms(
            broker
        )
