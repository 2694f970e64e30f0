"""R9: nobody starts a message of a queue that was given to somebody else since.

On our broker this is judged for locks of the order and for leases, on Apache's for locks of the order, which alone are
kept there. It holds through pauses: whoever wakes up has to prove itself before it starts anything. Excused is only a
member that cannot know yet: its line was lost, the broker died or the broker's clock jumped, and its last proof is not
older than the fence. Groups with a Java member are judged for the order only, and there for our members alone.
"""

from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import Holders
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact, Freed, Gone, Granted, Started

__all__ = ["FencedStarts"]

_LATE_MS = 3_000
"""How much later than the fence says a trouble may still be felt: requests time out after this."""


class FencedStarts(Checker):
    """Whoever lost a queue starts nothing more of it."""

    name = "fenced starts"
    wants = (*SCENE, Granted, Freed, Started)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._holders = Holders()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who holds what, and judge each start."""
        if isinstance(fact, Started):
            return self._started(fact)
        if isinstance(fact, Granted | Freed):
            self._holders.note(fact)
            return ()
        self._scene.note(fact)
        if isinstance(fact, Gone):
            self._holders.note(fact)
        return ()

    def _started(self, fact: Started) -> Iterable[Finding]:
        holder = self._holders.of(fact.group, fact.queue)
        if holder is None or holder.member == fact.member or holder.at_ms >= fact.at_ms:
            return ()
        scene, broker = self._scene, fact.queue.broker
        in_order = scene.mode(fact.group) == "orderly"
        joined = scene.members.get(fact.member)
        if (joined is not None and joined.kind == "java") or not (in_order or scene.is_all_ours(fact.group)):
            return ()
        if not in_order and not self.terms.is_ours(broker):
            return ()
        fence_ms = self.terms.fence_ms if self.terms.is_ours(broker) else self.terms.fence_order_ms
        troubled_ms = max(scene.line_lost_ms(fact.member, broker), scene.broker_troubled_ms(broker))
        if troubled_ms >= fact.at_ms - fence_ms - _LATE_MS:
            return ()
        sentence = (
            f"{fact.member} started {fact.uid} ({fact.queue}, offset {fact.offset}) for {fact.group} at {fact.at_ms} "
            f"ms, though {holder.member} was given the queue at {holder.at_ms} ms"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, holder, fact),)
