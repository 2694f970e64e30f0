"""A member does not wait long for a queue whose owner does not even know that it should give it up.

A lock that is denied leads to a poke after half a second, and a poke to a fresh look: so a queue is not WANTED by one
member and quietly OWNED by another for long, lost notices or not. Judged where nothing at all went wrong for a while,
with any broker or member, since plans need the view of every broker; and from the last time that somebody came or went.
Groups with a Java member and broadcasting are not judged; a drain may take as long as it takes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.lives import Lives
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, Moved

__all__ = ["WaitsAreShort"]

_SHORT_MS = 4_500
"""A poke after 0.5 s, two more 2 s apart: all three without effect."""


class _Wait(NamedTuple):
    """A member that waits for another one."""

    since_ms: int
    owner: str


class WaitsAreShort(Checker):
    """A poke is heard."""

    name = "waits are short"
    wants = (*SCENE, Moved)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._waits: dict[tuple[str, Queue, str], _Wait] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who waits for whom."""
        late = list(self._late(fact.at_ms)) if self._waits else []
        if isinstance(fact, Moved):
            self._lives.note(fact)
            self._look(fact.group, fact.queue, fact.at_ms)
            return late
        self._scene.note(fact)
        if isinstance(fact, Gone | Joined):
            self._lives.note(fact)
            # A change of members makes new plans: whoever waits now is given the whole time again.
            self._waits = {key: wait._replace(since_ms=fact.at_ms) for key, wait in self._waits.items()}
            for key, wait in list(self._waits.items()):
                if self._lives.state(key[0], key[1], wait.owner) != "OWNED":
                    del self._waits[key]
        return late

    def finish(self, end: End) -> Iterator[Finding]:
        """Look at who waits in the end."""
        yield from self._late(end.at_ms)

    def _look(self, group: str, queue: Queue, now_ms: int) -> None:
        states = self._lives.of(group, queue)
        owner = next((member for member, state in states.items() if state == "OWNED"), None)
        for member in [key[2] for key in self._waits if key[:2] == (group, queue)]:
            if states.get(member) != "WANTED" or self._waits[group, queue, member].owner != owner:
                del self._waits[group, queue, member]
        if owner is None or self._scene.mode(group) == "broadcast":
            return
        for member, state in states.items():
            if state == "WANTED":
                self._waits.setdefault((group, queue, member), _Wait(now_ms, owner))

    def _late(self, now_ms: int) -> Iterator[Finding]:
        for (group, queue, member), wait in list(self._waits.items()):
            if now_ms - wait.since_ms <= _SHORT_MS:
                continue
            del self._waits[group, queue, member]
            both = (member, wait.owner)
            if self._scene.is_excused(group, both, queue, wait.since_ms, now_ms):
                continue
            if self._scene.last_ms >= wait.since_ms - LASTING_MS:
                continue  # plans need every broker's view
            sentence = (
                f"{member} waited for {queue} of {group} from {wait.since_ms} ms to {now_ms} ms, and {wait.owner} "
                f"owned it all the time"
            )
            yield self.finding("liveness", "balance", now_ms, sentence)
