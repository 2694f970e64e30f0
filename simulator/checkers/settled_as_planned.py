"""R5: when the world has been quiet, every queue is owned by exactly the member whose assignment has it.

Checked at the end, group by group: each readable queue of the group's topics, retry topic too, is in one assignment;
that member owns it; no other member has it in any state; the shares of a topic differ by at most one, and so do the
total shares of sticky groups. A Java member is believed to hold its assignment. In a broadcast group every member owns
all queues.

Excused: groups without a living member; members with different subscriptions and a Java strategy, which leaves queues
unread; uneven shares of groups with another strategy than sticky or average, or whose members changed just now.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker
from simulator.facts import Fact
from steelyard.model import Queue, sort_queues

_QUIET_MS, _JAVA_QUIET_MS = 5_000, 45_000
"""After a change, until shares must be even; Java's members rebalance every 20 s if a notification is lost."""


class SettledAsPlanned(Checker):
    """At the end assignments agree, cover everything and are carried out."""

    name = "settled as planned"
    fact_types = TRACKED_FACTS

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track members and faults."""
        self._tracker.observe(fact)
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Check each group that has members."""
        for group in sorted(end.alive):
            members = end.alive[group]
            if not members:
                continue
            topics = {member: self._topics(group, member) for member in members}
            queues = sort_queues(queue for topic in sorted(set().union(*topics.values())) for queue in _of(end, topic))
            if self._tracker.mode(group) == "broadcast":
                yield from self._everybody(end, group, members, topics)
                continue
            is_plain = len(set(topics.values())) == 1
            if is_plain or self._is_sticky(group, queues):
                yield from self._each(end, group, members, queues)
            if is_plain and self._is_even(group) and self._is_quiet(end, group):
                yield from self._even(end, group, members, queues)

    def _topics(self, group: str, member: str) -> frozenset[str]:
        started = self._tracker.members.get(member)
        topics = started.topics if started is not None else self.conditions.group(group).topics
        retries = () if self._tracker.mode(group) == "broadcast" else (f"%RETRY%{group}",)
        return frozenset((*topics, *retries))

    def _is_sticky(self, group: str, queues: list[Queue]) -> bool:
        ours = all(self.conditions.is_steelyard(queue.broker) for queue in queues)
        return ours and self.conditions.group(group).sticky and self._tracker.is_steelyard_only(group)

    def _is_quiet(self, end: HistoryEnd, group: str) -> bool:
        """Return whether members changed so long ago that all have noticed."""
        tracker = self._tracker
        times = [started.at_ms for started in tracker.members.values() if started.group == group]
        times += [tracker.gone_ms[id_] for id_ in tracker.gone_ms if id_ in tracker.members]
        return end.at_ms - max(times, default=0) >= (_QUIET_MS if tracker.is_steelyard_only(group) else _JAVA_QUIET_MS)

    def _is_even(self, group: str) -> bool:
        return all(
            started.strategy.upper() in ("", "STICKY", "AVG", "AVG_BY_CIRCLE")
            for started in self._tracker.members.values()
            if started.group == group
        )

    def _owner_state(self, end: HistoryEnd, member: str, queue: Queue) -> str:
        if member in end.states:
            return end.states[member].get(queue, "absent")
        return "OWNED" if queue in end.plans.get(member, ()) else "absent"

    def _each(
        self, end: HistoryEnd, group: str, members: tuple[str, ...], queues: list[Queue]
    ) -> Iterator[CheckerFinding]:
        for queue in queues:
            states = {member: self._owner_state(end, member, queue) for member in members}
            planned = [member for member in members if queue in end.plans.get(member, ())]
            owners = [member for member, state in states.items() if state == "OWNED"]
            if len(owners) == 1 and planned == owners and all(s in ("OWNED", "absent") for s in states.values()):
                continue
            holders = ", ".join(f"{member} {state}" for member, state in states.items() if state != "absent") or "none"
            sentence = (
                f"after {end.at_ms - end.healed_ms} ms of quiet {queue} of {group} is assigned to "
                f"{', '.join(planned) or 'none'} and held by {holders}"
            )
            kind = "safety" if len(owners) > 1 and self._tracker.is_steelyard_only(group) else "liveness"
            yield self.finding("safety" if kind == "safety" else "liveness", "balance", end.at_ms, sentence)

    def _even(
        self, end: HistoryEnd, group: str, members: tuple[str, ...], queues: list[Queue]
    ) -> Iterator[CheckerFinding]:
        shares: dict[str, Counter[str]] = {}
        for member in members:
            for queue in end.plans.get(member, ()):
                shares.setdefault(queue.topic, Counter())[member] += 1
                if self._is_sticky(group, queues):
                    shares.setdefault("all topics together", Counter())[member] += 1
        for what, counts in sorted(shares.items()):
            most, least = max(counts[member] for member in members), min(counts[member] for member in members)
            if most - least > 1:
                listed = ", ".join(f"{member} {counts[member]}" for member in members)
                sentence = f"the assignments of {group} for {what} are uneven at the end: {listed}"
                yield self.finding("liveness", "balance", end.at_ms, sentence)

    def _everybody(
        self, end: HistoryEnd, group: str, members: tuple[str, ...], topics: dict[str, frozenset[str]]
    ) -> Iterator[CheckerFinding]:
        for member in members:
            for queue in (queue for topic in sorted(topics[member]) for queue in _of(end, topic)):
                state = self._owner_state(end, member, queue)
                if state != "OWNED":
                    sentence = f"{member} of {group} has {queue} in state {state} at the end, and should own it"
                    yield self.finding("liveness", "balance", end.at_ms, sentence)


def _of(end: HistoryEnd, topic: str) -> Iterable[Queue]:
    return end.queues.get(topic, ())
