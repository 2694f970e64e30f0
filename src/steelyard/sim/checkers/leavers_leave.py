"""Whoever is asked to leave is gone soon after its last handler ended.

What it holds it gives up, what it wants it wants no more, and neither needs anybody else. Judged for our members where
nothing went wrong since some seconds before. A handler may take its time, so the bound is what the longest one takes
and a few seconds more.
"""

from collections.abc import Iterable, Iterator

from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Situation

__all__ = ["LeaversLeave"]

_SOON_MS = 5_000


class LeaversLeave(Checker):
    """A goodbye does not wait for ever."""

    name = "leavers leave"
    wants = SCENE

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._asked: dict[str, Situation] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow who is asked to leave, and when it does."""
        self._scene.note(fact)
        if isinstance(fact, Situation) and fact.name == "a member is asked to leave":
            self._asked.setdefault(fact.about["process"], fact)
        elif isinstance(fact, Gone) and fact.name in self._asked:
            asked = self._asked.pop(fact.name)
            if fact.how == "left":
                return list(self._judge(fact.name, asked, fact.at_ms))
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Look at who is still there."""
        for member, asked in self._asked.items():
            yield from self._judge(member, asked, end.at_ms)

    def _judge(self, member: str, asked: Situation, now_ms: int) -> Iterator[Finding]:
        took_ms = now_ms - asked.at_ms
        if took_ms <= self.terms.longest_handler_ms + _SOON_MS or self._scene.last_ms >= asked.at_ms - LASTING_MS:
            return
        sentence = f"{member} was asked to leave at {asked.at_ms} ms and took {took_ms} ms or more to do so"
        yield self.finding("liveness", "balance", now_ms, sentence, asked)
