"""A member that comes knows soon what is to be its own, be it nothing.

For that it finds a name server, its brokers and its group. Judged of ours from the moment that it comes, or from the
last trouble of anybody. Where anything ever went wrong, the bound is as long as a broker may wait before it registers
with its name server again.
"""

from collections.abc import Iterable, Iterator

from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.scene import NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, Planned

__all__ = ["NewcomersPlan"]

_BOUND_MS, _TROUBLED_MS = 6_000, 45_000


class NewcomersPlan(Checker):
    """Nobody is left standing at the door."""

    name = "newcomers plan"
    wants = (*SCENE, Planned)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._waiting: dict[str, Joined] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who came and has no plan yet."""
        late = list(self._late(fact.at_ms)) if self._waiting else []
        if isinstance(fact, Planned):
            self._waiting.pop(fact.member, None)
            return late
        self._scene.note(fact)
        if isinstance(fact, Joined) and fact.kind == "ours":
            self._waiting[fact.member] = fact
        elif isinstance(fact, Gone):
            self._waiting.pop(fact.name, None)
        return late

    def finish(self, end: End) -> Iterator[Finding]:
        """Look at who waits in the end."""
        yield from self._late(end.at_ms)

    def _late(self, now_ms: int) -> Iterator[Finding]:
        last_ms = self._scene.last_ms
        bound_ms = _BOUND_MS if last_ms == NEVER_MS else _TROUBLED_MS
        for joined in list(self._waiting.values()):
            if now_ms - max(joined.at_ms, last_ms) > bound_ms:
                del self._waiting[joined.member]
                sentence = f"{joined.member} of {joined.group} came at {joined.at_ms} ms and has no plan at {now_ms} ms"
                yield self.finding("liveness", "balance", now_ms, sentence, joined)
