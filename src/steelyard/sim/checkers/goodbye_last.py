"""R11: whoever leaves says goodbye to a broker only when it has let go of everything there.

When a broker takes the goodbye of one of our members, no lock of that broker is its own any more, no queue of that
broker is in a state at it in which it may hold one, and what was freed at the same moment counts as not let go. After
the goodbye it starts nothing there. Excused: handlers that outlived the last drain, which may end later; on Apache's
broker a lock that was asked for on a line which was lost since, for it may be given long after its line was replaced.
"""

from collections.abc import Iterable, Iterator

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.lives import HOLDING, LEASE, Holders, Lives
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact, Freed, Gone, Granted, Joined, Moved, Started, Unregistered

__all__ = ["GoodbyeLast"]


class GoodbyeLast(Checker):
    """Goodbye is the last word."""

    name = "goodbye last"
    wants = (*SCENE, Moved, Granted, Freed, Started, Unregistered)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._holders = Holders()
        self._goodbyes: dict[tuple[str, str, str], Unregistered] = {}
        self._freed_with: dict[tuple[str, Queue], Freed] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow locks and states, and judge each goodbye."""
        if isinstance(fact, Started):
            goodbye = self._goodbyes.get((fact.queue.broker, fact.group, fact.member)) if self._goodbyes else None
            return self._after(goodbye, fact)
        if isinstance(fact, Moved):
            self._lives.note(fact)
        elif isinstance(fact, Unregistered):
            return list(self._left(fact))
        elif isinstance(fact, Granted | Freed):
            self._holders.note(fact)
            if isinstance(fact, Freed) and fact.how == "gone":
                self._freed_with[fact.lock_group.removesuffix(LEASE), fact.queue] = fact
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
            if isinstance(fact, Gone):
                self._holders.note(fact)
        return ()

    def _left(self, fact: Unregistered) -> Iterator[Finding]:
        joined = self._scene.members.get(fact.member)
        if fact.how != "goodbye" or joined is None or joined.kind != "ours" or joined.mode == "broadcast":
            return
        self._goodbyes[fact.broker, fact.group, fact.member] = fact
        shown: set[Queue] = set()
        for (group, queue), granted in self._holders.granted.items():
            if group == fact.group and queue.broker == fact.broker and granted.member == fact.member:
                if self._may_be_late(granted):
                    continue
                shown.add(queue)
                yield self._holds(fact, queue, "still held its lock", granted)
        for (group, queue), freed in self._freed_with.items():
            whose = (group, freed.member, freed.broker, freed.at_ms)
            if whose == (fact.group, fact.member, fact.broker, fact.at_ms) and queue not in shown:
                shown.add(queue)
                yield self._holds(fact, queue, "still held its lock", freed)
        for group, queue, state in self._lives.of_member(fact.member):
            if group == fact.group and queue.broker == fact.broker and state in HOLDING and queue not in shown:
                yield self._holds(fact, queue, f"had it {state}")

    def _may_be_late(self, granted: Granted) -> bool:
        broker = granted.broker
        lost_ms = self._scene.line_lost_ms(granted.member, broker)
        return not self.terms.is_ours(broker) and 0 <= granted.at_ms - lost_ms < self._scene.lasting_ms(broker)

    def _holds(self, fact: Unregistered, queue: Queue, how: str, *facts: Fact) -> Finding:
        sentence = f"{fact.member} said goodbye to {fact.broker} at {fact.at_ms} ms and, of {queue}, {how}"
        return self.finding("safety", "balance", fact.at_ms, sentence, *facts, fact)

    def _after(self, goodbye: Unregistered | None, fact: Started) -> Iterable[Finding]:
        if goodbye is None:
            return ()
        sentence = (
            f"{fact.member} started {fact.uid} ({fact.queue}, offset {fact.offset}) at {fact.at_ms} ms, after its "
            f"goodbye at {goodbye.at_ms} ms"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, goodbye, fact),)
