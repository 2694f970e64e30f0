"""A lease stays with an owner that is well, comes with a growing epoch, and only to one who asked for it.

Judged on our brokers:

- nothing is freed under a living member that has the queue in its hands; ``unlocked`` has no excuse, for members unlock
  only what they let go; to be counted out or expired, the member or its broker must have been in trouble;
- a queue is not newly given to a member that has it in its hands already: it did not ask, so a renewal acquired;
  the same epoch again, after a restart, is its own;
- the epoch of a queue that is newly given is higher than every one before; the same for the same member after a
  restart. Where clocks on walls jump, a broker that starts again may count from an earlier time.

Groups with a Java member are not judged, but for epochs.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, LEASE, Lives
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact, Freed, Gone, Granted, Joined, Moved

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["LeasesKept"]


class LeasesKept(Checker):
    """Leases do not come and go behind their owner's back."""

    name = "leases kept"
    wants = (*SCENE, Moved, Granted, Freed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._highest: dict[tuple[str, Queue], Granted] = {}
        self._own: dict[tuple[str, Queue, str], int | None] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow states, and judge each grant and each loss."""
        if isinstance(fact, Moved):
            self._lives.note(fact)
        elif isinstance(fact, Granted):
            return self._granted(fact) if self.terms.is_ours(fact.broker) else ()
        elif isinstance(fact, Freed):
            return self._freed(fact) if self.terms.is_ours(fact.broker) else ()
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
        return ()

    def _granted(self, fact: Granted) -> Iterable[Finding]:
        group = fact.lock_group.removesuffix(LEASE)
        key, own = (group, fact.queue), (group, fact.queue, fact.member)
        known, mine = self._highest.get(key), self._own.get(own)
        is_mine = fact.epoch is not None and fact.epoch == mine
        found = []
        if known is None or (known.epoch or 0) <= (fact.epoch or 0):
            self._highest[key] = fact
        self._own[own] = fact.epoch
        if fact.again or is_mine:
            return ()
        state = self._lives.state(group, fact.queue, fact.member)
        if state in HOLDING and mine is not None and self._scene.is_all_ours(group) and not self.terms.resets:
            sentence = (
                f"{fact.broker} gave {fact.queue} anew (epoch {fact.epoch}) to {fact.member} at {fact.at_ms} ms, which "
                f"had it {state} under epoch {mine} and did not ask"
            )
            found.append(self.finding("safety", "balance", fact.at_ms, sentence, fact))
        has_epochs = known is not None and known.epoch is not None and fact.epoch is not None
        if known is not None and has_epochs and not self.terms.clock_faults and (fact.epoch or 0) <= (known.epoch or 0):
            sentence = (
                f"{fact.broker} gave {fact.queue} to {fact.member} under epoch {fact.epoch} at {fact.at_ms} ms, and "
                f"{known.member} had it under {known.epoch} at {known.at_ms} ms"
            )
            found.append(self.finding("safety", "balance", fact.at_ms, sentence, known, fact))
        return found

    def _freed(self, fact: Freed) -> Iterable[Finding]:
        group = fact.lock_group.removesuffix(LEASE)
        state = self._lives.state(group, fact.queue, fact.member)
        if state not in HOLDING or fact.how in ("restart", "claimed") or not self._scene.is_all_ours(group):
            return ()
        is_willing = fact.how == "unlocked"
        if not is_willing and self._scene.is_excused(group, (fact.member,), fact.queue, fact.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.broker} freed {fact.queue} ({fact.how}) under {fact.member} at {fact.at_ms} ms, which had it "
            f"{state} and was well"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
