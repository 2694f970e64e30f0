"""After a broker's restart those who held a queue come first: nobody else is given it while they may return.

For the settling time after a start, a queue that a living member still has in its hands is given to no other. Ours
keeps this by itself; on Apache's the members do, who lock there only what they are to prove. And whoever was back in
time, in our broker's list, goes on with what it held, if nobody else got it. Excused: a holder that was
paused, or whose line was lost since the restart; a broker whose clock jumped; groups with a Java member; groups that
had not been there for some seconds before the broker died, so that it does not know of them; a queue that was being
given up, or whose broker lost power.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, LEASE, Lives
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Granted, Joined, Moved, Registered

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
    wants = (*SCENE, Moved, Granted, Registered)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._held_ms: dict[tuple[str, Queue, str], int] = {}
        self._first_ms: dict[str, int] = {}
        self._back_ms: dict[tuple[str, str], int] = {}
        self._given_ms: dict[tuple[str, Queue], tuple[str, int]] = {}
        self._draining: set[tuple[str, Queue, str]] = set()

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who holds what, and judge what is given after a start."""
        if isinstance(fact, Moved):
            self._lives.note(fact)
            key = (fact.group, fact.queue, fact.member)
            if fact.after in ("DRAINING", "COMMITTING"):
                self._draining.add(key)
            elif fact.after not in HOLDING:
                lost = self._lost(fact) if fact.before == "UNSURE" and fact.after in ("absent", "WANTED") else ()
                self._draining.discard(key)
                return lost
            if fact.after in HOLDING and fact.before not in HOLDING:
                self._held_ms[fact.group, fact.queue, fact.member] = fact.at_ms
                self._first_ms.setdefault(fact.group, fact.at_ms)
        elif isinstance(fact, Registered):
            self._back_ms[fact.broker, fact.member] = fact.at_ms
        elif isinstance(fact, Granted):
            self._given_ms[fact.lock_group.removesuffix(LEASE), fact.queue] = (fact.member, fact.at_ms)
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

    def _lost(self, fact: Moved) -> Iterable[Finding]:
        """Judge that a member lost a queue after a restart."""
        scene, broker = self._scene, fact.queue.broker
        started_ms = scene.started_ms.get(broker)
        if started_ms is None or not self.terms.is_ours(broker) or broker in scene.gone_ms or broker in scene.power_ms:
            return ()
        if not scene.is_all_ours(fact.group) or self.terms.clock_faults or not scene.is_well(fact.member):
            return ()
        held_ms = self._held_ms.get((fact.group, fact.queue, fact.member), fact.at_ms)
        back_ms = self._back_ms.get((broker, fact.member), fact.at_ms)
        taker, given_ms = self._given_ms.get((fact.group, fact.queue), ("", 0))
        is_promised = (
            self._first_ms.get(fact.group, fact.at_ms) < started_ms - _KNOWN_MS
            and held_ms < started_ms - _KNOWN_MS
            and started_ms <= back_ms < started_ms + self.terms.settle_ms - _ROOM_MS
            and fact.at_ms < started_ms + LASTING_MS
            and not (taker != fact.member and given_ms >= held_ms)
            and scene.member_troubled_ms(fact.member) < held_ms
            and scene.line_lost_ms(fact.member, broker) < held_ms
            and (fact.group, fact.queue, fact.member) not in self._draining
        )
        if not is_promised:
            return ()
        sentence = (
            f"{broker} started at {started_ms} ms, {fact.member} was back at {back_ms} ms, and lost {fact.queue} of "
            f"{fact.group} all the same at {fact.at_ms} ms, though nobody else got it"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
