"""Coverage: which situations came up in a history, and the seeds of histories that once failed.

The counter reads the same facts as the checkers and recognises situations in them. A fact `Situation` counts under its
own name, for what only its process can know. Nothing is judged here: a run that never meets a situation has not tested
it, and its table shows that.
"""

from collections import Counter
from typing import TYPE_CHECKING

from simulator.checkers.checker import HistoryEnd
from simulator.facts import (
    AssignmentPlanned,
    CommitRejected,
    ConnectionDisturbed,
    Fact,
    HandlerEnded,
    HandlerStarted,
    LockFreed,
    LockGranted,
    MemberRegistered,
    MemberReported,
    MemberUnregistered,
    MessageSent,
    ProcessGone,
    ProcessPaused,
    ProcessResumed,
    ProcessStarted,
    QueueStateChanged,
    Situation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.model import Queue

SITUATIONS = (
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
    # members and their connections
    "a member was killed with messages in hand",
    "a member was killed while it took a queue",
    "a member vanished",
    "a member was paused past its fence",
    "a whole group was killed",
    "a connection was cut and back within the grace",
    "a connection was cut past the grace",
    "a connection was dead one way",
    "a jammed connection was released",
    "a connection was half open",
    "a connection was replaced while requests were in flight on it",
    "a connection was slow",
    "a silent member expired",
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
"""Every situation that ought to come up in a long run."""

_FENCE_MS = 9_000
_STORM_MS, _STORM_JOINS = 500, 4
_DISTURBANCES = {
    "one way": "a connection was dead one way",
    "jammed": "a jammed connection was released",
    "slow": "a connection was slow",
}
_CUT_SHORT_MS, _CUT_LONG_MS = 2_000, 15_000


class CoverageCounter:
    """Counts the situations that came up."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._started_processes: dict[str, ProcessStarted] = {}
        self._alive: dict[str, set[str]] = {}
        self._states: dict[tuple[str, Queue], str] = {}
        self._draining: dict[tuple[str, Queue], bool] = {}
        """Queues that a member gives up, and whether they are assigned to it again."""
        self._waiting: set[tuple[str, Queue]] = set()
        self._running: Counter[tuple[str, Queue]] = Counter()
        self._paused_ms: dict[str, int] = {}
        self._gone_ms: dict[str, int] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._joins: list[int] = []
        self._handled: set[tuple[str, Queue, int, str]] = set()
        self._last_handler: dict[tuple[str, Queue], str] = {}
        self._member_lists: dict[str, dict[str, tuple[str, ...]]] = {}
        self._sent: dict[str, MessageSent] = {}
        self._apache: set[str] = set()
        self._handlers: dict[type[Fact], Callable[[Fact], None]] = {
            Situation: self._situation,
            ProcessStarted: self._process_started,
            ProcessGone: self._process_gone,
            ProcessPaused: self._process_paused,
            ProcessResumed: self._process_resumed,
            ConnectionDisturbed: self._connection_disturbed,
            MemberRegistered: self._member_registered,
            MemberUnregistered: self._member_unregistered,
            LockGranted: self._lock_granted,
            LockFreed: self._lock_freed,
            QueueStateChanged: self._queue_state_changed,
            AssignmentPlanned: self._assignment_planned,
            MemberReported: self._member_reported,
            CommitRejected: self._commit_rejected,
            MessageSent: self._message_sent,
            HandlerStarted: self._handler_started,
            HandlerEnded: self._handler_ended,
        }

    def observe(self, fact: Fact) -> None:
        """Recognise situations in a fact."""
        handler = self._handlers.get(type(fact))
        if handler is not None:
            handler(fact)

    def check_end(self, end: HistoryEnd) -> None:
        """Count what only the end shows."""
        places: Counter[str] = Counter()
        for logged in end.logged:
            topic = logged.queue.topic
            if topic.startswith("%DLQ%"):
                self._count("a message rests in the dead letters")
            sent = self._sent.get(logged.uid)
            if sent is not None and topic == sent.topic:
                places[logged.uid] += 1
        self._count("a send was stored more than once", sum(count > 1 for count in places.values()))
        self._count("a queue was added", len(end.added_queues))
        if end.added_queues and self._joins and max(self._joins) > min(end.added_queues.values()):
            self._count("members and queues grew together")

    def _count(self, name: str, times: int = 1) -> None:
        if times:
            self.counts[name] += times

    def _situation(self, fact: Fact) -> None:
        if isinstance(fact, Situation):
            self._count(fact.name)

    # -- processes ----------------------------------------------------------------------------------------------------

    def _process_started(self, fact: Fact) -> None:
        if not isinstance(fact, ProcessStarted):
            return
        if fact.kind in ("broker", "nameserver"):
            gone_ms = self._gone_ms.pop(fact.member, None)
            if gone_ms is not None and fact.kind == "broker":
                self._count("a broker was restarted under its members", int(any(self._alive.values())))
                self._count("a broker came back within a second", int(fact.at_ms - gone_ms <= 1_000))
            return
        self._started_processes[fact.member] = fact
        group = self._alive.setdefault(fact.group, set())
        group.add(fact.member)
        if len({self._started_processes[member].kind for member in group}) > 1:
            self._count("Java and ours shared a group")
        self._joins = [at_ms for at_ms in self._joins if at_ms > fact.at_ms - _STORM_MS] + [fact.at_ms]
        if len(self._joins) == _STORM_JOINS:
            self._count("a storm of joins")

    def _process_gone(self, fact: Fact) -> None:
        if not isinstance(fact, ProcessGone):
            return
        self._gone_ms[fact.name] = fact.at_ms
        self._paused_ms.pop(fact.name, None)
        started = self._started_processes.get(fact.name)
        if started is None:
            if fact.how == "power":
                self._count("a broker lost power")
            elif fact.name.startswith("ns"):
                self._count("a name server was down")
            return
        busy_queues = [queue for (member, queue), count in self._running.items() if member == fact.name and count > 0]
        if fact.how == "left":
            self._count("a member left with messages in hand", int(bool(busy_queues)))
        elif busy_queues:
            self._count("a member was killed with messages in hand")
        if fact.how == "vanished":
            self._count("a member vanished")
        for key in [key for key in self._states if key[0] == fact.name]:
            if self._states.pop(key) in ("ASKING", "STARTING") and fact.how != "left":
                self._count("a member was killed while it took a queue")
        for key in [key for key in self._running if key[0] == fact.name]:
            del self._running[key]
        alive = self._alive.get(started.group, set())
        alive.discard(fact.name)
        if not alive and fact.how != "left":
            self._count("a whole group was killed")

    def _process_paused(self, fact: Fact) -> None:
        if isinstance(fact, ProcessPaused):
            self._paused_ms[fact.name] = fact.at_ms
            if fact.name not in self._started_processes:
                self._count("a broker stood still")

    def _process_resumed(self, fact: Fact) -> None:
        if isinstance(fact, ProcessResumed):
            paused_ms = self._paused_ms.pop(fact.name, None)
            if paused_ms is not None and fact.name in self._started_processes and fact.at_ms - paused_ms > _FENCE_MS:
                self._count("a member was paused past its fence")

    # -- connections --------------------------------------------------------------------------------------------------

    def _connection_disturbed(self, fact: Fact) -> None:
        if not isinstance(fact, ConnectionDisturbed):
            return
        if fact.how in _DISTURBANCES:
            self._count(_DISTURBANCES[fact.how])
            return
        if fact.how == "half open":
            self._count("a connection was half open")
        elif fact.how == "stuck":
            self._count("a connection was replaced while requests were in flight on it")
        for member, broker in ((fact.one, fact.other), (fact.other, fact.one)):
            if member in self._started_processes:
                self._cuts[member, broker] = fact.at_ms

    def _member_registered(self, fact: Fact) -> None:
        # A member that registers anew after a cut had expired: it was past the grace.
        if isinstance(fact, MemberRegistered):
            self._cuts.pop((fact.member, fact.broker), None)

    def _member_unregistered(self, fact: Fact) -> None:
        if not isinstance(fact, MemberUnregistered):
            return
        if fact.how == "silent":
            self._count("a silent member expired")
        cut_ms = self._cuts.pop((fact.member, fact.broker), None)
        if cut_ms is not None and fact.how in ("closed", "silent") and fact.at_ms - cut_ms <= _CUT_LONG_MS:
            self._count("a connection was cut past the grace")

    # -- locks --------------------------------------------------------------------------------------------------------

    def _lock_granted(self, fact: Fact) -> None:
        if not isinstance(fact, LockGranted) or fact.again:
            return
        if fact.epoch is None:
            self._apache.add(fact.broker)
        if (fact.member, fact.queue) in self._waiting:
            self._waiting.discard((fact.member, fact.queue))
            self._count("a lock was denied and granted later")

    def _lock_freed(self, fact: Fact) -> None:
        if (
            isinstance(fact, LockFreed)
            and fact.how in ("gone", "expired")
            and self._running[fact.member, fact.queue] > 0
        ):
            self._count("a lock was freed under handlers")

    # -- queue states -------------------------------------------------------------------------------------------------

    def _queue_state_changed(self, fact: Fact) -> None:
        if not isinstance(fact, QueueStateChanged):
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
            self._count("a taker asked its peers")
        elif fact.after == "DRAINING" and self._running[key] > 0:
            self._count("a queue was handed over while handlers ran")
        if fact.before == "UNSURE":
            self._unsure_resolved(fact)
        if fact.before in ("DRAINING", "COMMITTING", "RELEASING") and fact.after == "WANTED":
            self._count("a member wanted a queue again that it was giving up")

    def _unsure_resolved(self, fact: QueueStateChanged) -> None:
        if fact.after in ("OWNED", "DRAINING"):
            self._count("an unsure owner proved itself")
            cut_ms = self._cuts.pop((fact.member, fact.queue.broker), None)
            if cut_ms is not None and fact.at_ms - cut_ms <= _CUT_SHORT_MS:
                self._count("a connection was cut and back within the grace")
        elif fact.after in ("absent", "WANTED"):
            self._count("an unsure owner gave way")

    def _group(self, member: str) -> str:
        started = self._started_processes.get(member)
        return started.group if started is not None else ""

    # -- assignments --------------------------------------------------------------------------------------------------

    def _assignment_planned(self, fact: Fact) -> None:
        if not isinstance(fact, AssignmentPlanned):
            return
        lists = self._member_lists.setdefault(fact.group, {})
        lists[fact.member] = fact.members
        alive = self._alive.get(fact.group, set())
        if (
            fact.members
            and len({members_seen for member, members_seen in lists.items() if member in alive and members_seen}) > 1
        ):
            self._count("two members saw the group differently")
        if fact.strategy.upper() == "STICKY" and any(queue.broker in self._apache for queue in fact.queues):
            self._count("a sticky plan on an Apache broker")

    def _member_reported(self, fact: Fact) -> None:
        if not isinstance(fact, MemberReported):
            return
        if fact.kind == "drain-timeout":
            self._count("a handler outlived its drain")
        elif fact.kind == "lost":
            self._count("a member found that it had lost a queue")
        elif fact.kind == "degraded":
            self._count("the strategy fell back to Java's")

    def _commit_rejected(self, fact: Fact) -> None:
        if isinstance(fact, CommitRejected):
            self._count("a commit was refused")

    # -- messages -----------------------------------------------------------------------------------------------------

    def _message_sent(self, fact: Fact) -> None:
        if isinstance(fact, MessageSent):
            self._sent[fact.uid] = fact

    def _handler_started(self, fact: Fact) -> None:
        if not isinstance(fact, HandlerStarted):
            return
        place = (fact.member, fact.queue)
        self._running[place] += 1
        record = (fact.group, fact.queue, fact.offset, fact.uid)
        if fact.attempt > 0:
            self._count("an orderly message was tried again in place")
        elif record in self._handled:
            self._count("a message was handled twice")
        self._handled.add(record)
        before = self._last_handler.get((fact.group, fact.queue))
        if before != fact.member:
            self._last_handler[fact.group, fact.queue] = fact.member
            if before is not None and before in self._started_processes and fact.member in self._started_processes:
                kinds = (self._started_processes[before].kind, self._started_processes[fact.member].kind)
                if kinds == ("ours", "java"):
                    self._count("Java took a queue over from ours")
                elif kinds == ("java", "ours"):
                    self._count("ours took a queue over from Java")

    def _handler_ended(self, fact: Fact) -> None:
        if not isinstance(fact, HandlerEnded):
            return
        place = (fact.member, fact.queue)
        if self._running[place] > 0:
            self._running[place] -= 1
        if fact.ok and fact.queue.topic.startswith("%RETRY%"):
            self._count("a message came back and was handled")
        sent = self._sent.get(fact.uid)
        if fact.ok and sent is not None and sent.due_ms is not None:
            self._count("a delayed message was delivered")


CORPUS: tuple[tuple[str, int, str], ...] = (
    ("retry", 843, "a queue that moved skipped the rest of a batch, and what was handled after it was handled again"),
    ("power", 453, "a log that lost its end assigned offsets again, and a member that was ahead skipped them"),
    ("power", 961, "it committed beyond the end of such a log before it had checked"),
    ("power", 1088, "the same with a sync flush: members read what is not durable yet"),
    ("storm", 2877, "a member waited for a queue of an old assignment and did not rebalance itself"),
    ("restart", 1507, "the world counted as at rest while a member had no assignment"),
    ("power", 330152, "a queue was given up before the member had checked that the log is still the one it read"),
    ("wild", 303008, "a late commit of a dead connection went backwards while no member held the queue"),
    ("mixed", 303110, "our members assigned rooms over all topics at once, Java's members topic by topic"),
    ("hung", 1503, "a member that hung and came back was probed seldom, and its queues did not move for 10 s"),
)
"""Histories that once failed, by kind and seed, and what was wrong. Every test run repeats them.

The parts that shrinking removed are in them: the whole history shows the bug too, and more that could fail."""
