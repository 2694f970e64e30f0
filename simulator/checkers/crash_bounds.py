"""R6: after a crash a queue is owned again soon, and nothing below its last commit is handled again.

*Soon* is judged only if the crash is the one thing that happened: from some seconds before it until the bound no other
process died, started, paused or lost a connection, and the group has another member. The bounds have room for a lost
notification, and, if the process vanished, for its expiry.

*Nothing below*: a member that starts an offset below an earlier commit began at the wrong place. Excused: the member
was paused or disconnected (it may still handle what it had), the broker died (commits of the last seconds may be lost),
offset resets, groups with a Java member, further attempts of the same member. A pause or a lost connection is no excuse
for what was committed before the member last came to own the queue: then it had just queried the offset.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import FAULT_EFFECT_MS, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import (
    ConnectionDisturbed,
    Fact,
    HandlerStarted,
    OffsetCommitted,
    ProcessGone,
    ProcessPaused,
    ProcessResumed,
    ProcessStarted,
    QueueStateChanged,
    Situation,
)
from steelyard.model import Queue

_CALM_MS = 5_000
"""Before a crash that is judged, nothing else may have happened for this time."""

_CLOSED_MS, _ORDER_MS, _SILENT_MS = 4_000, 6_000, 17_000
"""Until a queue is owned again on our broker: its holder's connections closed; the same, orderly; its holder silent."""
_ANSWERED_MS = 200
"""A commit that is older than this when a member starts was in the response to its offset query."""

_LEFT_MS, _UNNOTIFIED_MS = 3_000, 5_000
"""The same after a clean leave; and how much longer it may take if notifications are lost."""
_APACHE_CLOSED_MS, _APACHE_LOCK_MS, _APACHE_SILENT_MS = 10_000, 75_000, 160_000


class _Orphan(NamedTuple):
    """A queue whose owner crashed."""

    crash: ProcessGone
    group: str
    until_ms: int


class CrashBounds(Checker):
    """A crash costs little time and few repeats."""

    name = "crash bounds"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, OffsetCommitted, HandlerStarted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._orphans: dict[Queue, _Orphan] = {}
        self._last_owner: dict[tuple[str, Queue], str] = {}
        self._changed_ms = -_CALM_MS
        self._committed: dict[tuple[str, Queue], OffsetCommitted] = {}
        self._known_commits: dict[tuple[str, str, Queue], OffsetCommitted] = {}
        """The commit that a member knew when it came to own a queue."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track crashes, commits and owners."""
        if isinstance(fact, HandlerStarted):
            return self._started(fact)
        if isinstance(fact, OffsetCommitted):
            self._committed[fact.group, fact.queue] = fact
            return ()
        late = list(self._late(fact.at_ms)) if self._orphans else []
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            if fact.after == "OWNED":
                self._owned(fact)
                self._last_owner[fact.group, fact.queue] = fact.member
            orphan = self._orphans.get(fact.queue)
            if orphan is not None and fact.after == "OWNED" and orphan.group == fact.group:
                del self._orphans[fact.queue]
            return late
        if isinstance(fact, ProcessGone):
            self._gone(fact)
        elif isinstance(fact, ProcessStarted | ConnectionDisturbed | ProcessPaused | ProcessResumed | Situation):
            self._orphans.clear()
            # There is no fact for a connection that works again.
            self._changed_ms = fact.at_ms + (FAULT_EFFECT_MS - _CALM_MS if isinstance(fact, ConnectionDisturbed) else 0)
        self._tracker.observe(fact)
        if isinstance(fact, ProcessGone | ProcessStarted):
            self._queue_states.observe(fact)
        return late

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Check what is still without an owner."""
        yield from self._late(end.at_ms)

    def _gone(self, fact: ProcessGone) -> None:
        member = fact.name
        calm = fact.at_ms - self._changed_ms >= _CALM_MS
        self._orphans.clear()
        self._changed_ms = max(self._changed_ms, fact.at_ms)
        started = self._tracker.members.get(member)
        if started is None:
            for key in [key for key in self._committed if key[1].broker == fact.name]:
                del self._committed[key]
            self._known_commits = {
                key: known for key, known in self._known_commits.items() if key[2].broker != fact.name
            }
            return
        others = [id_ for id_ in self._tracker.alive_members(started.group) if id_ != member]
        is_idle = any(not self._tracker.is_healthy(id_) for id_ in self._tracker.alive_members(started.group))
        if not calm or is_idle or not others or started.mode == "broadcast":
            return
        if not self._tracker.is_steelyard_only(started.group):
            return
        for queue, states in self._queue_states.states_of_group(started.group):
            is_last = self._last_owner.get((started.group, queue)) == member
            # A member that left has released it before. If another member has it in any state, it is no orphan.
            is_orphan = not states if fact.how == "left" else states == {member: "OWNED"}
            if is_last and is_orphan and queue.broker not in self._tracker.gone_ms:
                until_ms = fact.at_ms + self._bound_ms(fact, started.group, queue)
                self._orphans[queue] = _Orphan(fact, started.group, until_ms)

    def _bound_ms(self, fact: ProcessGone, group: str, queue: Queue) -> int:
        in_order = self._tracker.mode(group) == "orderly"
        if fact.how == "left":
            return (
                _LEFT_MS
                if self.conditions.is_steelyard(queue.broker) and not self.conditions.lost_notifications
                else _APACHE_CLOSED_MS
            )
        if self.conditions.is_steelyard(queue.broker):
            late_ms = _UNNOTIFIED_MS if self.conditions.lost_notifications else 0
            return late_ms + (_SILENT_MS if fact.how == "vanished" else _ORDER_MS if in_order else _CLOSED_MS)
        if fact.how == "vanished":
            return _APACHE_SILENT_MS
        return _APACHE_LOCK_MS if in_order else _APACHE_CLOSED_MS

    def _late(self, now_ms: int) -> Iterator[CheckerFinding]:
        for queue, orphan in list(self._orphans.items()):
            if now_ms > orphan.until_ms:
                del self._orphans[queue]
                sentence = (
                    f"{orphan.crash.name} was {orphan.crash.how} at {orphan.crash.at_ms} ms, and {queue} of "
                    f"{orphan.group} has had no owner for {now_ms - orphan.crash.at_ms} ms"
                )
                yield self.finding("liveness", "balance", now_ms, sentence, orphan.crash)

    def _owned(self, fact: QueueStateChanged) -> None:
        committed = self._committed.get((fact.group, fact.queue))
        if committed is not None and committed.at_ms <= fact.at_ms - _ANSWERED_MS:
            self._known_commits[fact.group, fact.member, fact.queue] = committed
        else:
            self._known_commits.pop((fact.group, fact.member, fact.queue), None)

    def _started(self, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        committed = self._committed.get((fact.group, fact.queue))
        if committed is None or fact.offset >= committed.offset or fact.attempt > 0 or self.conditions.offset_resets:
            return ()
        if self._tracker.mode(fact.group) == "broadcast" or fact.queue.broker in self._tracker.power_loss_ms:
            return ()
        known = self._known_commits.get((fact.group, fact.member, fact.queue))
        is_known = known is not None and fact.offset < known.offset and self._tracker.is_steelyard_only(fact.group)
        if not is_known and self._tracker.is_excused(fact.group, (fact.member,), fact.queue, fact.at_ms, fact.at_ms):
            return ()
        sentence = (
            f"{fact.member} started offset {fact.offset} of {fact.queue} ({fact.uid}) at {fact.at_ms} ms, though "
            f"{committed.offset} was committed at {committed.at_ms} ms"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, committed, fact),)
