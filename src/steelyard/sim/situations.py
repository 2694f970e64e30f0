"""What came up in a history, counted by name: the proof that histories go where it is hard.

A watcher reads the same facts as the checkers and recognises situations in them. A fact `Situation` counts under its
own name, for what only its teller can know. Nothing is judged here; a run that never meets a situation has not tested
it, and its table says so: `NAMES` lists every one that ought to come up.
"""

from collections import Counter
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import End
from steelyard.sim.facts import (
    Ended,
    Fact,
    Freed,
    Gone,
    Granted,
    Joined,
    LineLost,
    Moved,
    Paused,
    Planned,
    Refused,
    Registered,
    Reported,
    Resumed,
    Sent,
    Situation,
    Started,
    Unregistered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.model import Queue

__all__ = ["NAMES", "Watcher"]

NAMES = (
    # who owns what
    "a lock was denied and granted later",
    "a lock was freed under handlers",
    "a queue was handed over while handlers ran",
    "a handler outlived its drain",
    "a member wanted a queue again that it was giving up",
    "a member left with messages in hand",
    "a member found that it had lost a queue",
    "an unsure owner proved itself",
    "an unsure owner gave way",
    "two members saw the group differently",
    "a storm of joins",
    "members and queues grew together",
    "a commit was refused",
    "a message was handled twice",
    # members and their lines
    "a member was killed with messages in hand",
    "a member was killed while it took a queue",
    "a member vanished",
    "a member was paused past its fence",
    "a whole group was killed",
    "a line was cut and back within the grace",
    "a line was cut past the grace",
    "a line was deaf one way",
    "a jammed line was released",
    "a line was half open",
    "a line was replaced while words were under way on it",
    "a line was slow",
    "a silent member was counted out",
    # servers
    "a broker was restarted under its members",
    "a broker came back within a second",
    "a broker stood still",
    "a broker lost power",
    "a name server was down",
    "a queue was added",
    "a disk fails",
    "a disk is full",
    "a broker refuses writes",
    "recovery cut a tail",
    "a start found less than was written",
    "offsets were beyond the end of their queues",
    "a clock jumped forward",
    "a clock jumped back",
    # messages
    "a send was stored more than once",
    "a message came back and was handled",
    "a message rests in the dead letters",
    "a delayed message was delivered",
    "a half message was committed",
    "a half message was rolled back",
    "a half message was asked about",
    "an orderly message was tried again in place",
    # with Java, on Apache's broker
    "Java and ours shared a group",
    "Java took a queue over from ours",
    "ours took a queue over from Java",
    "a sticky plan on an Apache broker",
    "the strategy fell back to Java's",
    "a taker asked its peers",
)
"""Every situation that ought to come up in a long run, in plain words."""

_FENCE_MS = 9_000
_STORM_MS, _STORM = 500, 4
_LINES = {"one way": "a line was deaf one way", "jammed": "a jammed line was released", "slow": "a line was slow"}
_CUT_SHORT_MS, _CUT_LONG_MS = 2_000, 15_000


class Watcher:
    """Counts what came up. ``counts`` has only what did."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._kinds: dict[str, Joined] = {}
        self._alive: dict[str, set[str]] = {}
        self._states: dict[tuple[str, Queue], str] = {}
        self._draining: dict[tuple[str, Queue], bool] = {}
        """Queues that a member gives up, and whether it wants them again."""
        self._waiting: set[tuple[str, Queue]] = set()
        self._running: Counter[tuple[str, Queue]] = Counter()
        self._paused_ms: dict[str, int] = {}
        self._gone_ms: dict[str, int] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._joins: list[int] = []
        self._handled: set[tuple[str, Queue, int, str]] = set()
        self._last_handler: dict[tuple[str, Queue], str] = {}
        self._views: dict[str, dict[str, tuple[str, ...]]] = {}
        self._sent: dict[str, Sent] = {}
        self._apache: set[str] = set()
        self._hearing: dict[type[Fact], Callable[[Fact], None]] = {
            Situation: self._situation,
            Joined: self._joined,
            Gone: self._gone,
            Paused: self._paused,
            Resumed: self._resumed,
            LineLost: self._line_lost,
            Registered: self._registered,
            Unregistered: self._unregistered,
            Granted: self._granted,
            Freed: self._freed,
            Moved: self._moved,
            Planned: self._planned,
            Reported: self._reported,
            Refused: self._refused,
            Sent: self._was_sent,
            Started: self._started,
            Ended: self._ended,
        }

    def note(self, fact: Fact) -> None:
        """Take in a fact."""
        hear = self._hearing.get(type(fact))
        if hear is not None:
            hear(fact)

    def finish(self, end: End) -> None:
        """Count what only the end shows."""
        places: Counter[str] = Counter()
        for logged in end.logged:
            topic = logged.queue.topic
            if topic.startswith("%DLQ%"):
                self._saw("a message rests in the dead letters")
            sent = self._sent.get(logged.uid)
            if sent is not None and topic == sent.topic:
                places[logged.uid] += 1
        self._saw("a send was stored more than once", sum(count > 1 for count in places.values()))
        self._saw("a queue was added", len(end.added))
        if end.added and self._joins and max(self._joins) > min(end.added.values()):
            self._saw("members and queues grew together")

    def _saw(self, name: str, times: int = 1) -> None:
        if times:
            self.counts[name] += times

    # -- told as they are ---------------------------------------------------------------------------------------------

    def _situation(self, fact: Fact) -> None:
        if isinstance(fact, Situation):
            self._saw(fact.name)

    # -- who is there -------------------------------------------------------------------------------------------------

    def _joined(self, fact: Fact) -> None:
        if not isinstance(fact, Joined):
            return
        if fact.kind in ("broker", "nameserver"):
            gone_ms = self._gone_ms.pop(fact.member, None)
            if gone_ms is not None and fact.kind == "broker":
                self._saw("a broker was restarted under its members", int(any(self._alive.values())))
                self._saw("a broker came back within a second", int(fact.at_ms - gone_ms <= 1_000))
            return
        self._kinds[fact.member] = fact
        group = self._alive.setdefault(fact.group, set())
        group.add(fact.member)
        if len({self._kinds[member].kind for member in group}) > 1:
            self._saw("Java and ours shared a group")
        self._joins = [at_ms for at_ms in self._joins if at_ms > fact.at_ms - _STORM_MS] + [fact.at_ms]
        if len(self._joins) == _STORM:
            self._saw("a storm of joins")

    def _gone(self, fact: Fact) -> None:
        if not isinstance(fact, Gone):
            return
        self._gone_ms[fact.name] = fact.at_ms
        self._paused_ms.pop(fact.name, None)
        joined = self._kinds.get(fact.name)
        if joined is None:
            if fact.how == "power":
                self._saw("a broker lost power")
            elif fact.name.startswith("ns"):
                self._saw("a name server was down")
            return
        busy = [queue for (member, queue), count in self._running.items() if member == fact.name and count > 0]
        if fact.how == "left":
            self._saw("a member left with messages in hand", int(bool(busy)))
        elif busy:
            self._saw("a member was killed with messages in hand")
        if fact.how == "vanished":
            self._saw("a member vanished")
        for key in [key for key in self._states if key[0] == fact.name]:
            if self._states.pop(key) in ("ASKING", "STARTING") and fact.how != "left":
                self._saw("a member was killed while it took a queue")
        for key in [key for key in self._running if key[0] == fact.name]:
            del self._running[key]
        alive = self._alive.get(joined.group, set())
        alive.discard(fact.name)
        if not alive and fact.how != "left":
            self._saw("a whole group was killed")

    def _paused(self, fact: Fact) -> None:
        if isinstance(fact, Paused):
            self._paused_ms[fact.name] = fact.at_ms
            if fact.name not in self._kinds:
                self._saw("a broker stood still")

    def _resumed(self, fact: Fact) -> None:
        if isinstance(fact, Resumed):
            paused_ms = self._paused_ms.pop(fact.name, None)
            if paused_ms is not None and fact.name in self._kinds and fact.at_ms - paused_ms > _FENCE_MS:
                self._saw("a member was paused past its fence")

    # -- lines --------------------------------------------------------------------------------------------------------

    def _line_lost(self, fact: Fact) -> None:
        if not isinstance(fact, LineLost):
            return
        if fact.how in _LINES:
            self._saw(_LINES[fact.how])
            return
        if fact.how == "half open":
            self._saw("a line was half open")
        elif fact.how == "stuck":
            self._saw("a line was replaced while words were under way on it")
        for member, broker in ((fact.one, fact.other), (fact.other, fact.one)):
            if member in self._kinds:
                self._cuts[member, broker] = fact.at_ms

    def _registered(self, fact: Fact) -> None:
        # Whoever is registered anew after a cut had been counted out: it was past the grace.
        if isinstance(fact, Registered):
            self._cuts.pop((fact.member, fact.broker), None)

    def _unregistered(self, fact: Fact) -> None:
        if not isinstance(fact, Unregistered):
            return
        if fact.how == "silent":
            self._saw("a silent member was counted out")
        cut_ms = self._cuts.pop((fact.member, fact.broker), None)
        if cut_ms is not None and fact.how in ("closed", "silent") and fact.at_ms - cut_ms <= _CUT_LONG_MS:
            self._saw("a line was cut past the grace")

    # -- locks --------------------------------------------------------------------------------------------------------

    def _granted(self, fact: Fact) -> None:
        if not isinstance(fact, Granted) or fact.again:
            return
        if fact.epoch is None:
            self._apache.add(fact.broker)
        if (fact.member, fact.queue) in self._waiting:
            self._waiting.discard((fact.member, fact.queue))
            self._saw("a lock was denied and granted later")

    def _freed(self, fact: Fact) -> None:
        if isinstance(fact, Freed) and fact.how in ("gone", "expired") and self._running[fact.member, fact.queue] > 0:
            self._saw("a lock was freed under handlers")

    # -- lives of queues ----------------------------------------------------------------------------------------------

    def _moved(self, fact: Fact) -> None:
        if not isinstance(fact, Moved):
            return
        key = (fact.member, fact.queue)
        if fact.after == "absent":
            self._states.pop(key, None)
        else:
            self._states[key] = fact.after
        held = any(
            state in ("OWNED", "DRAINING", "COMMITTING", "UNSURE")
            for (member, queue), state in self._states.items()
            if queue == fact.queue and member != fact.member and self._group(member) == fact.group
        )
        if fact.after == "WANTED" and held:
            self._waiting.add(key)
        elif fact.after not in ("WANTED", "ASKING", "STARTING"):
            self._waiting.discard(key)
        if fact.after == "ASKING":
            self._saw("a taker asked its peers")
        elif fact.after == "DRAINING" and self._running[key] > 0:
            self._saw("a queue was handed over while handlers ran")
        if fact.before == "UNSURE":
            self._after_doubt(fact)
        if fact.before in ("DRAINING", "COMMITTING", "RELEASING") and fact.after == "WANTED":
            self._saw("a member wanted a queue again that it was giving up")

    def _after_doubt(self, fact: Moved) -> None:
        if fact.after in ("OWNED", "DRAINING"):
            self._saw("an unsure owner proved itself")
            cut_ms = self._cuts.pop((fact.member, fact.queue.broker), None)
            if cut_ms is not None and fact.at_ms - cut_ms <= _CUT_SHORT_MS:
                self._saw("a line was cut and back within the grace")
        elif fact.after in ("absent", "WANTED"):
            self._saw("an unsure owner gave way")

    def _group(self, member: str) -> str:
        joined = self._kinds.get(member)
        return joined.group if joined is not None else ""

    # -- plans --------------------------------------------------------------------------------------------------------

    def _planned(self, fact: Fact) -> None:
        if not isinstance(fact, Planned):
            return
        views = self._views.setdefault(fact.group, {})
        views[fact.member] = fact.members
        alive = self._alive.get(fact.group, set())
        if fact.members and len({view for member, view in views.items() if member in alive and view}) > 1:
            self._saw("two members saw the group differently")
        if fact.strategy.upper() == "STICKY" and any(queue.broker in self._apache for queue in fact.queues):
            self._saw("a sticky plan on an Apache broker")

    def _reported(self, fact: Fact) -> None:
        if not isinstance(fact, Reported):
            return
        if fact.kind == "drain-bound":
            self._saw("a handler outlived its drain")
        elif fact.kind == "lost":
            self._saw("a member found that it had lost a queue")
        elif fact.kind == "degraded":
            self._saw("the strategy fell back to Java's")

    def _refused(self, fact: Fact) -> None:
        if isinstance(fact, Refused):
            self._saw("a commit was refused")

    # -- messages -----------------------------------------------------------------------------------------------------

    def _was_sent(self, fact: Fact) -> None:
        if isinstance(fact, Sent):
            self._sent[fact.uid] = fact

    def _started(self, fact: Fact) -> None:
        if not isinstance(fact, Started):
            return
        place = (fact.member, fact.queue)
        self._running[place] += 1
        record = (fact.group, fact.queue, fact.offset, fact.uid)
        if fact.attempt > 0:
            self._saw("an orderly message was tried again in place")
        elif record in self._handled:
            self._saw("a message was handled twice")
        self._handled.add(record)
        before = self._last_handler.get((fact.group, fact.queue))
        if before != fact.member:
            self._last_handler[fact.group, fact.queue] = fact.member
            if before is not None and before in self._kinds and fact.member in self._kinds:
                kinds = (self._kinds[before].kind, self._kinds[fact.member].kind)
                if kinds == ("ours", "java"):
                    self._saw("Java took a queue over from ours")
                elif kinds == ("java", "ours"):
                    self._saw("ours took a queue over from Java")

    def _ended(self, fact: Fact) -> None:
        if not isinstance(fact, Ended):
            return
        place = (fact.member, fact.queue)
        if self._running[place] > 0:
            self._running[place] -= 1
        if fact.ok and fact.queue.topic.startswith("%RETRY%"):
            self._saw("a message came back and was handled")
        sent = self._sent.get(fact.uid)
        if fact.ok and sent is not None and sent.due_ms is not None:
            self._saw("a delayed message was delivered")
