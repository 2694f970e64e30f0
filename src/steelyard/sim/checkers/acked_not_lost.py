"""What a sender was told to be stored is stored, and every group that wants it handles it.

Looked at in the end. *The log*: each acknowledged uid is in some log. Excused: the broker lost power afterwards, and
had answered before the message was safe (``durable`` is false, or the broker flushes later).

*The delivery*: if the history was drained, a group that wants the topic has finished the message well, or it rests in
the group's dead letters, or waits for its next try. Excused: groups without a living member; records before the
group's first commit in that queue, unless the group starts at the first message or the queue is younger than the
group; what the log was allowed to lose. In broadcasting each living member is owed what was sent after it first owned
the queue, and may fail. Java members may repeat, and never lose: they are judged like ours.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Acked, Committed, Ended, Fact, Gone, Logged, Moved, Sent

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["AckedNotLost"]

_SCHEDULE = "SCHEDULE_TOPIC_XXXX"
_ASIDE = (_SCHEDULE, "%DLQ%", "RMQ_SYS_TRANS_")


class AckedNotLost(Checker):
    """Nothing that was acknowledged is lost."""

    name = "acked not lost"
    wants = (*SCENE, Sent, Acked, Ended, Committed, Moved)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._sent: dict[str, Sent] = {}
        self._acked: dict[str, Acked] = {}
        self._power_ms: dict[str, int] = {}
        self._done: dict[str, set[str]] = {}
        self._tried: dict[tuple[str, str], set[str]] = {}
        """Uids that each member's code returned from, well or not, by group and member."""
        self._first_commit: dict[tuple[str, Queue], int] = {}
        self._owned_ms: dict[tuple[str, Queue], int] = {}
        self._first_owner: dict[tuple[str, Queue], Moved] = {}
        self._topic_seen_ms: dict[tuple[str, str], int] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what was sent, stored, handled and committed."""
        if isinstance(fact, Ended):
            if fact.ok:
                self._done.setdefault(fact.group, set()).add(fact.uid)
            self._tried.setdefault((fact.group, fact.member), set()).add(fact.uid)
        elif isinstance(fact, Sent):
            self._sent[fact.uid] = fact
        elif isinstance(fact, Acked):
            self._acked[fact.uid] = fact
        elif isinstance(fact, Committed):
            self._first_commit.setdefault((fact.group, fact.queue), fact.offset)
        elif isinstance(fact, Moved):
            if fact.after == "OWNED":
                self._owned_ms.setdefault((fact.member, fact.queue), fact.at_ms)
                self._first_owner.setdefault((fact.group, fact.queue), fact)
                self._topic_seen_ms.setdefault((fact.member, fact.queue.topic), fact.at_ms)
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone) and fact.how == "power":
                self._power_ms[fact.name] = fact.at_ms
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Look for every acknowledged message: in the logs, then with every group."""
        places: dict[str, list[Logged]] = {}
        for logged in end.logged:
            places.setdefault(logged.uid, []).append(logged)
        for uid, acked in self._acked.items():
            if uid not in places and not self._may_be_lost(acked):
                where = f" at offset {acked.offset} of {acked.queue}" if acked.queue is not None else ""
                sentence = f"{uid} was acknowledged at {acked.at_ms} ms{where}, and no log has it"
                yield self.finding("safety", "log", end.at_ms, sentence, *self._story(uid))
        if end.drained:
            yield from self._delivered(end, places)

    def _may_be_lost(self, acked: Acked) -> bool:
        """Say whether a loss of power was allowed to take it: of one of its broker, or of any if that is unknown."""
        if acked.queue is None:
            lost_ms = max(self._power_ms.values(), default=None)
            is_late = not acked.durable or bool(self.terms.async_brokers)
        else:
            lost_ms = self._power_ms.get(acked.queue.broker)
            is_late = not acked.durable or acked.queue.broker in self.terms.async_brokers
        sent = self._sent.get(acked.uid)
        return lost_ms is not None and is_late and lost_ms >= (acked.at_ms if sent is None else sent.at_ms)

    def _delivered(self, end: End, places: dict[str, list[Logged]]) -> Iterator[Finding]:
        groups = {group: self.terms.group(group).topics or self._joined_topics(group) for group in sorted(end.alive)}
        for uid in self._acked:
            sent = self._sent.get(uid)
            if sent is None or uid not in places:
                continue
            for group, topics in groups.items():
                if sent.topic not in topics or not end.alive[group]:
                    continue
                if self._scene.mode(group) == "broadcast":
                    yield from self._broadcast(end, group, sent, places[uid])
                elif uid not in self._done.get(group, ()) and not self._is_on_its_way(end, group, places[uid]):
                    owed = [place for place in places[uid] if self._is_owed(end, group, place, sent.topic)]
                    if owed or self._was_tried(group, uid):
                        yield self._undelivered(end, group, uid, owed or places[uid])

    def _joined_topics(self, group: str) -> frozenset[str]:
        members = self._scene.members.values()
        return frozenset(topic for joined in members if joined.group == group for topic in joined.topics)

    def _was_tried(self, group: str, uid: str) -> bool:
        return any(uid in uids for (name, _), uids in self._tried.items() if name == group)

    def _is_owed(self, end: End, group: str, place: Logged, topic: str) -> bool:
        if place.queue.topic != topic:
            return False
        if self.terms.group(group).from_first:
            return True
        first = self._first_commit.get((group, place.queue))
        if first is not None and place.offset >= first:
            return True
        # A queue that its first owner saw come is read from its first message.
        added_ms, owner = end.added.get(place.queue), self._first_owner.get((group, place.queue))
        if added_ms is None or owner is None:
            return False
        return self._topic_seen_ms.get((owner.member, topic), added_ms) < added_ms

    def _is_on_its_way(self, end: End, group: str, places: list[Logged]) -> bool:
        topics = {place.queue.topic for place in places}
        if f"%DLQ%{group}" in topics or places[0].uid in end.waiting:
            return True
        # What waited and was delivered is in the log of what waits for ever: it counts against where it arrived.
        waits = Counter(place.reconsume_times for place in places if place.queue.topic == _SCHEDULE)
        came = Counter(place.reconsume_times for place in places if not place.queue.topic.startswith(_ASIDE))
        return any(count > came[times] for times, count in waits.items())

    def _broadcast(self, end: End, group: str, sent: Sent, places: list[Logged]) -> Iterator[Finding]:
        for member in end.alive[group]:
            owed = [
                place
                for place in places
                if place.queue.topic == sent.topic
                and self._owned_ms.get((member, place.queue), end.at_ms) < sent.at_ms
                and self._scene.members[member].kind == "ours"
            ]
            if owed and sent.uid not in self._tried.get((group, member), ()):
                yield self._undelivered(end, f"{group} (its member {member})", sent.uid, owed)

    def _undelivered(self, end: End, group: str, uid: str, places: list[Logged]) -> Finding:
        where = " and ".join(f"offset {place.offset} of {place.queue}" for place in places[:3])
        sentence = f"{uid} is stored at {where}, and group {group} never finished it well, nor is it among its failures"
        return self.finding("safety", "delivery", end.at_ms, sentence, *self._story(uid), *places[:3])

    def _story(self, uid: str) -> tuple[Fact, ...]:
        sent, acked = self._sent.get(uid), self._acked.get(uid)
        return tuple(fact for fact in (sent, acked) if fact is not None)
