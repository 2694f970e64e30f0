"""A member that hangs, or whose machine vanished, costs the others nothing: what they read they go on reading.

Judged where all was calm before the member stopped, and as long as nothing else happens: nobody comes, goes or returns,
no line and no broker fails. Then no other member of its group has a reason to give up a queue, neither while the broker
still lists the silent one nor when it drops it. Only groups that plan by the sticky strategy, with members of ours
alone, are judged: others share anew with every change of the list.
"""

from collections.abc import Iterable

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.scene import NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, LineLost, Moved, Paused, Resumed, Situation

__all__ = ["HealthyStayRead"]

_CALM_MS = 3_000
"""For so long nothing may have happened before."""


class HealthyStayRead(Checker):
    """Whoever hangs, hangs alone."""

    name = "healthy stay read"
    wants = (*SCENE, Moved)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._changed_ms = NEVER_MS
        self._stopped: dict[str, Fact] = {}
        """How the first member of each group stopped, if nothing else has happened since."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who stands still, and judge every queue that is given up."""
        if isinstance(fact, Moved):
            return self._moved(fact)
        self._scene.note(fact)
        stopped = self._stopped_member(fact)
        joined = None if stopped is None else self._scene.members.get(stopped)
        if joined is not None:
            if fact.at_ms - self._changed_ms >= _CALM_MS:
                self._stopped.setdefault(joined.group, fact)
        elif isinstance(fact, Joined | Gone | Paused | Resumed | LineLost | Situation):
            self._changed_ms = fact.at_ms
            self._stopped.clear()
        return ()

    def _stopped_member(self, fact: Fact) -> str | None:
        if isinstance(fact, Paused) or (isinstance(fact, Gone) and fact.how == "vanished"):
            return fact.name
        return None

    def _moved(self, fact: Moved) -> Iterable[Finding]:
        stopped = self._stopped.get(fact.group)
        if stopped is None or fact.before != "OWNED" or not self._scene.is_well(fact.member):
            return ()
        terms = self.terms.group(fact.group)
        if not terms.sticky or terms.mode == "broadcast" or not self._scene.is_all_ours(fact.group):
            return ()
        who = stopped.name if isinstance(stopped, Paused | Gone) else ""
        sentence = (
            f"{fact.member} owned {fact.queue} of {fact.group} until {fact.at_ms} ms, and then it was {fact.after}, "
            f"though nothing had happened but that {who} stood still at {stopped.at_ms} ms"
        )
        return (self.finding("liveness", "balance", fact.at_ms, sentence, stopped, fact),)
