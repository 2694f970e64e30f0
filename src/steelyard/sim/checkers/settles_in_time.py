"""A change of members is over soon: every queue is owned, and nobody waits for one.

Each kind of change has its bound, a little more than the longest that was seen in thousands of histories; whoever acts
on a list that is one answer old, or waits for the next regular look, is far beyond it. A member that hangs or vanished
is first to be missed by its broker, and what it held is owned by others then. Judged where the change is the one thing
that happened: for some seconds before it and until the bound nobody else came, went, paused or lost a line, nobody else
stands still or is listed although it vanished, no notice is lost, and no broker was ever in trouble. Groups with a Java
member and broadcasting are not judged. Groups that need order take their own time after all but a join and a goodbye
(crash_bounds.py).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.lives import Lives
from steelyard.sim.checkers.scene import NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Gone, Joined, Moved, Paused, Reported, Resumed

__all__ = ["SettlesInTime"]

_CALM_MS = 5_000
_BOUNDS_MS = {"joined": 2_500, "left": 2_000, "killed": 3_000, "vanished": 17_000, "paused": 17_000, "resumed": 3_000}
"""By what happened to a member. One that vanished, or hangs, is first to be missed by its broker. A process that was
killed: its broker notices the broken connection after up to 2 s (Network), and waits 0.3 s whether it comes back."""
_APACHE_MS = 1_000
"""Without leases: a second look, and everybody is asked."""
_APACHE_MISSED_MS = 160_000
"""Apache's broker misses nobody for two minutes."""
_MISSED = ("vanished", "paused")


class _Change(NamedTuple):
    """What happened to a group, and when it has to be over."""

    how: str
    who: str
    group: str
    fact: Fact
    until_ms: int


class SettlesInTime(Checker):
    """Nobody acts on old news."""

    name = "settles in time"
    wants = (*SCENE, Moved)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._changed_ms = NEVER_MS
        self._change: _Change | None = None
        self._missed_ms = NEVER_MS
        """By then nobody is on a list any more who vanished."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow changes and what comes of them."""
        found = list(self._judge(fact.at_ms))
        if isinstance(fact, Moved):
            self._lives.note(fact)
            return found
        self._scene.note(fact)
        if isinstance(fact, Reported):
            return found
        is_calm = fact.at_ms - self._changed_ms >= _CALM_MS and self._scene.last_ms in (NEVER_MS, fact.at_ms)
        self._changed_ms = fact.at_ms
        self._change = self._begin(fact) if is_calm and fact.at_ms > self._missed_ms else None
        if isinstance(fact, Gone) and fact.how == "vanished":
            self._missed_ms = fact.at_ms + self._bound_ms("vanished")
        if isinstance(fact, Gone | Joined):
            self._lives.note(fact)
        return found

    def finish(self, end: End) -> Iterator[Finding]:
        """Judge the last change."""
        yield from self._judge(end.at_ms)

    def _begin(self, fact: Fact) -> _Change | None:
        if isinstance(fact, Joined) and fact.member in self._scene.members:
            how, who = "joined", fact.member
        elif isinstance(fact, Gone) and fact.name in self._scene.members:
            how, who = fact.how, fact.name
        elif isinstance(fact, Paused | Resumed) and fact.name in self._scene.members:
            how, who = type(fact).__name__.lower(), fact.name
        else:
            return None
        group = self._scene.members[who].group
        if how not in _BOUNDS_MS or self.terms.lost_notices or not self._is_judged(group, how, who):
            return None
        return _Change(how, who, group, fact, fact.at_ms + self._bound_ms(how))

    def _bound_ms(self, how: str) -> int:
        bound_ms = _BOUNDS_MS[how]
        if self.terms.apache_brokers:
            bound_ms = _APACHE_MISSED_MS if how in _MISSED else bound_ms + _APACHE_MS
        return bound_ms + self.terms.longest_handler_ms

    def _is_judged(self, group: str, how: str, who: str) -> bool:
        mode = self._scene.mode(group)
        if mode == "broadcast" or (mode == "orderly" and how not in ("joined", "left")):
            return False
        alive = self._scene.alive(group)
        others = [self._scene.is_well(member) for member in alive if member != who]
        return self._scene.is_all_ours(group) and all(others) and any(map(self._scene.is_well, alive))

    def _judge(self, now_ms: int) -> Iterator[Finding]:
        change = self._change
        if change is None or now_ms <= change.until_ms:
            return
        self._change = None
        for queue, every in self._lives.of_group(change.group):
            states = {member: state for member, state in every.items() if self._scene.is_well(member)}
            if list(states.values()) == ["OWNED"]:
                continue
            how = ", ".join(f"{state} at {member}" for member, state in states.items()) or "nobody's"
            sentence = (
                f"{change.who} of {change.group} {change.how} at {change.fact.at_ms} ms, nothing else happened, and "
                f"{queue} is still {how} at {change.until_ms} ms"
            )
            yield self.finding("liveness", "balance", now_ms, sentence, change.fact)
