"""While an owner is well, its queues go on, whatever happens to others.

A queue stalls if a message in it was acknowledged, one member has owned the queue ever since, and the message was not
started for the bound, with that member doing nothing at all for as long. The clock starts anew with every trouble of
the member, of the broker or of the line between them: a pull whose answer was lost is given up after 30 s, so the bound
is longer than that. Where no trouble came for as long, a pull that waits is woken at once, and the bound is short. Not
judged: groups with a Java member, and messages that wait for a time of their own.
"""

from collections.abc import Iterable, Iterator

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.lives import Lives
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Acked, Ended, Fact, Gone, Joined, Moved, Sent, Started

__all__ = ["Progress"]

_BOUND_MS = 45_000
_CALM_BOUND_MS = 4_000
"""The same where there was no trouble, beside what the user's code may take."""
_LOOK_MS = 2_000


class Progress(Checker):
    """Nobody who is well sits on work."""

    name = "progress"
    wants = (*SCENE, Moved, Sent, Acked, Started, Ended)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._open: dict[Queue, list[Acked]] = {}
        """Acknowledged messages of each queue, the oldest first."""
        self._later: set[str] = set()
        """What waits or is a half: the place it was told is not the one it is read from."""
        self._begun: dict[tuple[str, Queue], int] = {}
        """The highest offset that a group started in each queue."""
        self._busy_ms: dict[str, int] = {}
        self._owned_ms: dict[tuple[str, str, Queue], int] = {}
        self._look_ms = _LOOK_MS

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow what waits and who works; look around now and then."""
        if isinstance(fact, Started):
            key = (fact.group, fact.queue)
            self._begun[key] = max(self._begun.get(key, -1), fact.offset)
            self._busy_ms[fact.member] = fact.at_ms
        elif isinstance(fact, Ended):
            self._busy_ms[fact.member] = fact.at_ms
        elif isinstance(fact, Sent):
            if fact.due_ms is not None or fact.transactional:
                self._later.add(fact.uid)
        elif isinstance(fact, Acked):
            if fact.queue is not None and fact.offset is not None and fact.uid not in self._later:
                self._open.setdefault(fact.queue, []).append(fact)
        elif isinstance(fact, Moved):
            self._lives.note(fact)
            if fact.after == "OWNED":
                self._owned_ms[fact.group, fact.member, fact.queue] = fact.at_ms
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined):
                self._lives.note(fact)
        if fact.at_ms < self._look_ms:
            return ()
        self._look_ms = fact.at_ms + _LOOK_MS
        return list(self._stalled(fact.at_ms))

    def finish(self, end: End) -> Iterator[Finding]:
        """Look a last time."""
        yield from self._stalled(end.at_ms)

    def _stalled(self, now_ms: int) -> Iterator[Finding]:
        groups = sorted({joined.group for joined in self._scene.members.values()} - self._scene.with_java)
        for group in groups:
            for queue, states in self._lives.of_group(group):
                acked = self._waiting(group, queue)
                owner = next((member for member, state in states.items() if state == "OWNED"), None)
                if acked is None or owner is None or not self._is_late(group, owner, acked, now_ms):
                    continue
                self._begun[group, queue] = max(self._begun.get((group, queue), -1), acked.offset or 0)
                sentence = (
                    f"{owner} owns {queue} of {group}, has done nothing for {now_ms - self._busy_ms.get(owner, 0)} ms, "
                    f"and has not started {acked.uid} at offset {acked.offset}, stored at {acked.at_ms} ms"
                )
                yield self.finding("liveness", "delivery", now_ms, sentence, acked)

    def _waiting(self, group: str, queue: Queue) -> Acked | None:
        """Return the oldest message above everything that the group started in the queue."""
        begun = self._begun.get((group, queue), -1)
        # What was never begun at all may lie before the group's start: only a queue at work is judged.
        if begun < 0 and not self.terms.group(group).from_first:
            return None
        return next((acked for acked in self._open.get(queue, ()) if (acked.offset or 0) > begun), None)

    def _is_late(self, group: str, owner: str, acked: Acked, now_ms: int) -> bool:
        broker = acked.queue.broker if acked.queue is not None else ""
        owned_ms = self._owned_ms.get((group, owner, acked.queue), 0) if acked.queue is not None else 0
        troubled_ms = self._scene.troubled_ms(owner, broker, now_ms)
        is_calm = troubled_ms <= now_ms - _BOUND_MS
        bound_ms = _CALM_BOUND_MS + self.terms.longest_handler_ms if is_calm else _BOUND_MS
        return max(acked.at_ms, owned_ms, troubled_ms, self._busy_ms.get(owner, 0)) <= now_ms - bound_ms
