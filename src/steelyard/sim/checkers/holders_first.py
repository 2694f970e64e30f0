"""After a broker's restart those who held a queue come first: nobody else is given it while they may return.

For the settling time after a start, a queue that a living member still has in its hands is given to no other. Ours
keeps this by itself; on Apache's the members do, who lock there only what they are to prove. Excused: a holder that was
paused, or whose line was lost since the restart; a broker whose clock jumped; groups with a Java member; groups that
had not been there for some seconds before the broker died, so that it does not know of them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, LEASE, Lives
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Granted, Joined, Moved

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["HoldersFirst"]

_ROOM_MS = 200
"""Clocks run a little fast, and a request that came at the end is answered."""
_KNOWN_MS = 2_000
"""A group is written down within this time."""


class HoldersFirst(Checker):
    """A restarted broker does not give everything to the first caller."""

    name = "holders first"
    wants = (*SCENE, Moved, Granted)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._held_ms: dict[tuple[str, Queue, str], int] = {}
        self._first_ms: dict[str, int] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who holds what, and judge what is given after a start."""
        if isinstance(fact, Moved):
            self._lives.note(fact)
            if fact.after in HOLDING and fact.before not in HOLDING:
                self._held_ms[fact.group, fact.queue, fact.member] = fact.at_ms
                self._first_ms.setdefault(fact.group, fact.at_ms)
        elif isinstance(fact, Granted):
            return self._granted(fact)
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
        return ()

    def _granted(self, fact: Granted) -> Iterable[Finding]:
        scene, group = self._scene, fact.lock_group.removesuffix(LEASE)
        started_ms = scene.started_ms.get(fact.broker)
        if started_ms is None or fact.again or fact.at_ms >= started_ms + self.terms.settle_ms - _ROOM_MS:
            return ()
        if not scene.is_all_ours(group) or self.terms.clock_faults:
            return ()
        if self._lives.state(group, fact.queue, fact.member) in HOLDING:
            return ()
        for other in self._lives.holding(group, fact.queue):
            held_ms = self._held_ms.get((group, fact.queue, other), fact.at_ms)
            is_known = self._first_ms.get(group, fact.at_ms) < started_ms - _KNOWN_MS and held_ms < started_ms
            is_well = scene.is_well(other) and scene.line_lost_ms(other, fact.broker) < started_ms
            if other == fact.member or not is_known or not is_well:
                continue
            sentence = (
                f"{fact.broker} started at {started_ms} ms and gave {fact.queue} of {group} to {fact.member} at "
                f"{fact.at_ms} ms, though {other} has it in hand since {held_ms} ms and lives"
            )
            return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
        return ()
