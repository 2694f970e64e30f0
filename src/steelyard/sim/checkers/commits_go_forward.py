"""R3: what is committed never goes back and is not forgotten, and on our broker only the owner commits.

Excused, going back: offsets moved by hand; groups with a Java member; a broker that lost power or whose disk failed (it
corrects its members downwards); on Apache's broker, which fences nobody, any trouble in the group.

And a broker of ours that comes back after it died knows every commit but those of the last seconds. Excused: it lost
power, disks fail or clocks jump, or it stood still before it could save.

Excused, a commit of another than the owner: in groups with a Java member, unless somebody has a lease, which only ours
take, and which is freed the moment that it ends. There is no other excuse: whoever lost a queue is refused.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import LEASE, Holders
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Committed, Fact, Freed, Gone, Granted

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["CommitsGoForward"]

_SAVED_MS = 5_500
"""After so long a commit is saved, and outlives its broker's process."""

_UNSAVED_MS = 7_000
"""Offsets are written every 5 s, by Apache's broker too, and that takes a moment."""


class CommitsGoForward(Checker):
    """Nobody undoes a commit, and nobody commits in another's queue."""

    name = "commits go forward"
    wants = (*SCENE, Committed, Granted, Freed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._holders = Holders()
        self._commits: dict[tuple[str, Queue], list[Committed]] = {}
        """What was committed in each queue and can still be known, the oldest first."""
        self._saved: dict[tuple[str, Queue], Committed] = {}
        """What a broker that died must know once it is back; forgotten once that was looked at."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who holds what, and judge each commit."""
        if isinstance(fact, Committed):
            return self._committed(fact)
        if isinstance(fact, Granted | Freed):
            self._holders.note(fact)
            return ()
        if isinstance(fact, Gone):
            self._holders.note(fact)
            if fact.name not in self._scene.members:
                self._broker_gone(fact)
        self._scene.note(fact)
        return ()

    def _broker_gone(self, fact: Gone) -> None:
        """Look up what a broker that dies has surely saved: nothing that happened to it came between."""
        is_safe = self.terms.is_ours(fact.name) and fact.how != "power"
        is_safe = is_safe and not self.terms.disk_faults and not self.terms.clock_faults
        for key in [key for key in self._commits if key[1].broker == fact.name]:
            commits, self._commits[key] = self._commits[key], []
            saved = commits[: bisect_right(commits, fact.at_ms - _SAVED_MS, key=lambda each: each.at_ms)]
            if is_safe and saved and self._scene.broker_troubled_ms(fact.name) < saved[-1].at_ms:
                self._saved[key] = saved[-1]

    def _forgotten(self, fact: Committed) -> Iterable[Finding]:
        saved = self._saved.pop((fact.group, fact.queue), None)
        self._commits.setdefault((fact.group, fact.queue), []).append(fact)
        if saved is None or (fact.before is not None and fact.before >= saved.offset):
            return ()
        sentence = (
            f"{fact.queue.broker} took a commit of {saved.offset} in {fact.queue} for {fact.group} at {saved.at_ms} "
            f"ms, and knew of {'none' if fact.before is None else fact.before} at {fact.at_ms} ms, after a restart"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, saved, fact),)

    def _committed(self, fact: Committed) -> Iterable[Finding]:
        if self.terms.resets:
            return ()
        if not self._scene.is_all_ours(fact.group):
            return self._of_another(fact)
        return self._forgotten(fact) or self._taken_back(fact) or self._of_another(fact)

    def _taken_back(self, fact: Committed) -> Iterable[Finding]:
        if fact.before is None or fact.offset >= fact.before or self._may_go_back(fact):
            return ()
        sentence = (
            f"{fact.member or 'somebody unknown'} took the commit of {fact.group} in {fact.queue} back from "
            f"{fact.before} to {fact.offset} at {fact.at_ms} ms"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, fact),)

    def _of_another(self, fact: Committed) -> Iterable[Finding]:
        holder = self._holders.of(fact.group, fact.queue) if self.terms.is_ours(fact.queue.broker) else None
        if holder is None or fact.member is None:
            return ()
        if not self._scene.is_all_ours(fact.group) and not holder.lock_group.endswith(LEASE):
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
