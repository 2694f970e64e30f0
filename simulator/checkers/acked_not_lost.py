"""Every acknowledged message is stored, and every subscribed group handles it.

Checked at the end. *The log*: each acknowledged uid is in some log. Excused: the broker lost power afterwards, and had
acknowledged before the message was durable (``durable`` is false, or the broker flushes asynchronously).

*The delivery*: if the history was drained, a subscribed group has handled the message successfully, or it is one of the
group's dead letters, or waits for its next attempt. Excused: groups without a living member; records before the group's
first commit in that queue, unless the group starts at the first message or the queue is younger than the group; what
the log was allowed to lose. In a broadcast group each living member has to handle what was sent after it first owned
the queue, and may fail. Java's members may repeat but never lose: they are judged like ours.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker
from simulator.facts import (
    Fact,
    HandlerEnded,
    MessageAcked,
    MessageLogged,
    MessageSent,
    OffsetCommitted,
    ProcessGone,
    QueueStateChanged,
)

if TYPE_CHECKING:
    from steelyard.model import Queue

_SCHEDULE = "SCHEDULE_TOPIC_XXXX"
_SYSTEM_TOPICS = (_SCHEDULE, "%DLQ%", "RMQ_SYS_TRANS_")


class AckedNotLost(Checker):
    """Nothing that was acknowledged is lost."""

    name = "acked not lost"
    fact_types = (*TRACKED_FACTS, MessageSent, MessageAcked, HandlerEnded, OffsetCommitted, QueueStateChanged)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._sent: dict[str, MessageSent] = {}
        self._acked: dict[str, MessageAcked] = {}
        self._power_ms: dict[str, int] = {}
        self._done: dict[str, set[str]] = {}
        self._tried: dict[tuple[str, str], set[str]] = {}
        """By group and member: uids whose handler returned, successfully or not."""
        self._first_commit: dict[tuple[str, Queue], int] = {}
        self._owned_ms: dict[tuple[str, Queue], int] = {}
        self._first_owner: dict[tuple[str, Queue], QueueStateChanged] = {}
        self._topic_seen_ms: dict[tuple[str, str], int] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember what was sent, stored, handled and committed."""
        if isinstance(fact, HandlerEnded):
            if fact.ok:
                self._done.setdefault(fact.group, set()).add(fact.uid)
            self._tried.setdefault((fact.group, fact.member), set()).add(fact.uid)
        elif isinstance(fact, MessageSent):
            self._sent[fact.uid] = fact
        elif isinstance(fact, MessageAcked):
            self._acked[fact.uid] = fact
        elif isinstance(fact, OffsetCommitted):
            self._first_commit.setdefault((fact.group, fact.queue), fact.offset)
        elif isinstance(fact, QueueStateChanged):
            if fact.after == "OWNED":
                self._owned_ms.setdefault((fact.member, fact.queue), fact.at_ms)
                self._first_owner.setdefault((fact.group, fact.queue), fact)
                self._topic_seen_ms.setdefault((fact.member, fact.queue.topic), fact.at_ms)
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone) and fact.how == "power":
                self._power_ms[fact.name] = fact.at_ms
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Search every acknowledged message: in the logs, then in every group."""
        copies: dict[str, list[MessageLogged]] = {}
        for logged in end.logged:
            copies.setdefault(logged.uid, []).append(logged)
        for uid, acked in self._acked.items():
            if uid not in copies and not self._may_be_lost(acked):
                where = f" at offset {acked.offset} of {acked.queue}" if acked.queue is not None else ""
                sentence = f"{uid} was acknowledged at {acked.at_ms} ms{where}, and no log has it"
                yield self.finding("safety", "log", end.at_ms, sentence, *self._facts_about(uid))
        if end.drained:
            yield from self._delivered(end, copies)

    def _may_be_lost(self, acked: MessageAcked) -> bool:
        """Return whether a power loss was allowed to take it: of its broker, or of any if that is unknown."""
        if acked.queue is None:
            lost_ms = max(self._power_ms.values(), default=None)
            is_late = not acked.durable or bool(self.conditions.async_brokers)
        else:
            lost_ms = self._power_ms.get(acked.queue.broker)
            is_late = not acked.durable or acked.queue.broker in self.conditions.async_brokers
        sent = self._sent.get(acked.uid)
        return lost_ms is not None and is_late and lost_ms >= (acked.at_ms if sent is None else sent.at_ms)

    def _delivered(self, end: HistoryEnd, copies: dict[str, list[MessageLogged]]) -> Iterator[CheckerFinding]:
        groups = {
            group: self.conditions.group(group).topics or self._joined_topics(group) for group in sorted(end.alive)
        }
        for uid in self._acked:
            sent = self._sent.get(uid)
            if sent is None or uid not in copies:
                continue
            for group, topics in groups.items():
                if sent.topic not in topics or not end.alive[group]:
                    continue
                if self._tracker.mode(group) == "broadcast":
                    yield from self._broadcast(end, group, sent, copies[uid])
                elif uid not in self._done.get(group, ()) and not self._is_on_its_way(end, group, copies[uid]):
                    owed = [place for place in copies[uid] if self._is_owed(end, group, place, sent.topic)]
                    if owed or self._was_tried(group, uid):
                        yield self._undelivered(end, group, uid, owed or copies[uid])

    def _joined_topics(self, group: str) -> frozenset[str]:
        members = self._tracker.members.values()
        return frozenset(topic for started in members if started.group == group for topic in started.topics)

    def _was_tried(self, group: str, uid: str) -> bool:
        return any(uid in uids for (name, _), uids in self._tried.items() if name == group)

    def _is_owed(self, end: HistoryEnd, group: str, place: MessageLogged, topic: str) -> bool:
        if place.queue.topic != topic:
            return False
        if self.conditions.group(group).from_first:
            return True
        first = self._first_commit.get((group, place.queue))
        if first is not None and place.offset >= first:
            return True
        # A queue that was added while its first owner ran is read from its first message.
        added_ms, owner = end.added_queues.get(place.queue), self._first_owner.get((group, place.queue))
        if added_ms is None or owner is None:
            return False
        return self._topic_seen_ms.get((owner.member, topic), added_ms) < added_ms

    def _is_on_its_way(self, end: HistoryEnd, group: str, copies: list[MessageLogged]) -> bool:
        topics = {place.queue.topic for place in copies}
        if f"%DLQ%{group}" in topics or copies[0].uid in end.waiting_uids:
            return True
        # A delayed message stays in the schedule topic after delivery: compare with where it was delivered.
        waits = Counter(place.reconsume_times for place in copies if place.queue.topic == _SCHEDULE)
        came = Counter(place.reconsume_times for place in copies if not place.queue.topic.startswith(_SYSTEM_TOPICS))
        return any(count > came[times] for times, count in waits.items())

    def _broadcast(
        self, end: HistoryEnd, group: str, sent: MessageSent, copies: list[MessageLogged]
    ) -> Iterator[CheckerFinding]:
        for member in end.alive[group]:
            owed = [
                place
                for place in copies
                if place.queue.topic == sent.topic
                and self._owned_ms.get((member, place.queue), end.at_ms) < sent.at_ms
                and self._tracker.members[member].kind == "ours"
            ]
            if owed and sent.uid not in self._tried.get((group, member), ()):
                yield self._undelivered(end, f"{group} (its member {member})", sent.uid, owed)

    def _undelivered(self, end: HistoryEnd, group: str, uid: str, copies: list[MessageLogged]) -> CheckerFinding:
        where = " and ".join(f"offset {place.offset} of {place.queue}" for place in copies[:3])
        sentence = (
            f"{uid} is stored at {where}, and group {group} never handled it successfully, nor is it waiting or a dead "
            f"letter"
        )
        return self.finding("safety", "delivery", end.at_ms, sentence, *self._facts_about(uid), *copies[:3])

    def _facts_about(self, uid: str) -> tuple[Fact, ...]:
        sent, acked = self._sent.get(uid), self._acked.get(uid)
        return tuple(fact for fact in (sent, acked) if fact is not None)
