"""R6: after a crash a queue is owned again soon, and nothing below its last commit is handled again.

*Soon* is judged only where the crash is the one thing that happened: from some seconds before it until the bound no
other process died, came, paused or lost a line, and somebody of the group is left. The bounds have room for a notice
that was lost, and those of a process that vanished for its silence to be noticed.

*Nothing below*: whoever starts an offset below what was committed before began somewhere it should not. Excused: the
member was paused or lost its line (it may still go through what it had), the broker died (commits of the last seconds
may be lost), offsets moved by hand, groups with a Java member, tries of what the same member started before. A pause
or a lost line is no excuse for what was committed before the member came to own the queue, the last time: then it had
just asked.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.lives import Lives
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Committed, Fact, Gone, Joined, LineLost, Moved, Paused, Resumed, Situation, Started

__all__ = ["CrashBounds"]

_CALM_MS = 5_000
"""For this long nothing else may have happened before a crash that is timed."""

_CLOSED_MS, _ORDER_MS, _SILENT_MS = 4_000, 6_000, 17_000
"""Until a queue is owned again on our broker: its holder's lines closed; the same in order; its holder only silent."""
_ANSWERED_MS = 200
"""A commit that is older than this when a member begins was in the answer to its question."""

_LEFT_MS, _UNTOLD_MS = 3_000, 5_000
"""The same after a goodbye; and how much later it may be where notices are lost."""
_APACHE_CLOSED_MS, _APACHE_LOCK_MS, _APACHE_SILENT_MS = 10_000, 75_000, 160_000


class _Orphan(NamedTuple):
    """A queue whose owner crashed."""

    crash: Gone
    group: str
    until_ms: int


class CrashBounds(Checker):
    """A crash costs little time and few repeats."""

    name = "crash bounds"
    wants = (*SCENE, Moved, Committed, Started)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._lives = Lives(self._scene)
        self._orphans: dict[Queue, _Orphan] = {}
        self._last_owner: dict[tuple[str, Queue], str] = {}
        self._changed_ms = -_CALM_MS
        self._committed: dict[tuple[str, Queue], Committed] = {}
        self._told: dict[tuple[str, str, Queue], Committed] = {}
        """What was committed when a member came to own a queue."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow crashes, commits and who owns what."""
        if isinstance(fact, Started):
            return self._started(fact)
        if isinstance(fact, Committed):
            self._committed[fact.group, fact.queue] = fact
            return ()
        late = list(self._late(fact.at_ms)) if self._orphans else []
        if isinstance(fact, Moved):
            self._lives.note(fact)
            if fact.after == "OWNED":
                self._owned(fact)
                self._last_owner[fact.group, fact.queue] = fact.member
            orphan = self._orphans.get(fact.queue)
            if orphan is not None and fact.after == "OWNED" and orphan.group == fact.group:
                del self._orphans[fact.queue]
            return late
        if isinstance(fact, Gone):
            self._gone(fact)
        elif isinstance(fact, Joined | LineLost | Paused | Resumed | Situation):
            self._orphans.clear()
            # When a line is well again nobody says.
            self._changed_ms = fact.at_ms + (LASTING_MS - _CALM_MS if isinstance(fact, LineLost) else 0)
        self._scene.note(fact)
        if isinstance(fact, Gone | Joined):
            self._lives.note(fact)
        return late

    def finish(self, end: End) -> Iterator[Finding]:
        """Look at what is still without an owner."""
        yield from self._late(end.at_ms)

    def _gone(self, fact: Gone) -> None:
        member = fact.name
        calm = fact.at_ms - self._changed_ms >= _CALM_MS
        self._orphans.clear()
        self._changed_ms = max(self._changed_ms, fact.at_ms)
        joined = self._scene.members.get(member)
        if joined is None:
            for key in [key for key in self._committed if key[1].broker == fact.name]:
                del self._committed[key]
            self._told = {key: told for key, told in self._told.items() if key[2].broker != fact.name}
            return
        others = [id_ for id_ in self._scene.alive(joined.group) if id_ != member]
        is_idle = any(not self._scene.is_well(id_) for id_ in self._scene.alive(joined.group))
        if not calm or is_idle or not others or joined.mode == "broadcast":
            return
        if not self._scene.is_all_ours(joined.group):
            return
        for queue, states in self._lives.of_group(joined.group):
            is_last = self._last_owner.get((joined.group, queue)) == member
            # Who left has let go before; whoever else has the queue in any state makes it another story.
            is_orphan = not states if fact.how == "left" else states == {member: "OWNED"}
            if is_last and is_orphan and queue.broker not in self._scene.gone_ms:
                until_ms = fact.at_ms + self._bound_ms(fact, joined.group, queue)
                self._orphans[queue] = _Orphan(fact, joined.group, until_ms)

    def _bound_ms(self, fact: Gone, group: str, queue: Queue) -> int:
        in_order = self._scene.mode(group) == "orderly"
        if fact.how == "left":
            return _LEFT_MS if self.terms.is_ours(queue.broker) and not self.terms.lost_notices else _APACHE_CLOSED_MS
        if self.terms.is_ours(queue.broker):
            late_ms = _UNTOLD_MS if self.terms.lost_notices else 0
            return late_ms + (_SILENT_MS if fact.how == "vanished" else _ORDER_MS if in_order else _CLOSED_MS)
        if fact.how == "vanished":
            return _APACHE_SILENT_MS
        return _APACHE_LOCK_MS if in_order else _APACHE_CLOSED_MS

    def _late(self, now_ms: int) -> Iterator[Finding]:
        for queue, orphan in list(self._orphans.items()):
            if now_ms > orphan.until_ms:
                del self._orphans[queue]
                sentence = (
                    f"{orphan.crash.name} was {orphan.crash.how} at {orphan.crash.at_ms} ms, and {queue} of "
                    f"{orphan.group} has had no owner for {now_ms - orphan.crash.at_ms} ms"
                )
                yield self.finding("liveness", "balance", now_ms, sentence, orphan.crash)

    def _owned(self, fact: Moved) -> None:
        committed = self._committed.get((fact.group, fact.queue))
        if committed is not None and committed.at_ms <= fact.at_ms - _ANSWERED_MS:
            self._told[fact.group, fact.member, fact.queue] = committed
        else:
            self._told.pop((fact.group, fact.member, fact.queue), None)

    def _started(self, fact: Started) -> Iterable[Finding]:
        committed = self._committed.get((fact.group, fact.queue))
        if committed is None or fact.offset >= committed.offset or fact.attempt > 0 or self.terms.resets:
            return ()
        if self._scene.mode(fact.group) == "broadcast" or fact.queue.broker in self._scene.power_ms:
            return ()
        told = self._told.get((fact.group, fact.member, fact.queue))
        is_told = told is not None and fact.offset < told.offset and self._scene.is_all_ours(fact.group)
        if not is_told and self._scene.is_excused(fact.group, (fact.member,), fact.queue, fact.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.member} started offset {fact.offset} of {fact.queue} ({fact.uid}) at {fact.at_ms} ms, though "
            f"{committed.offset} was committed at {committed.at_ms} ms"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, committed, fact),)
