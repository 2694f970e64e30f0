"""R5: when the world has been quiet, every queue is owned by exactly the member whose plan has it.

Looked at in the end, group by group: each readable queue of the group's topics, retries too, is in one plan; the member
of that plan owns it; nobody else has it in any state; no topic has members whose shares differ by more than one, and
neither has the whole, where all is sticky. Of a Java member its plan is believed. Broadcasting: everybody owns all.

Excused: groups without a living member; members that subscribe to different topics and plan as Java does, which leaves
queues unread; the evenness of groups that plan by another strategy than sticky or average, or whose members came or
went only just now.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from steelyard.model import Queue, in_order
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Fact

__all__ = ["SettledAsPlanned"]

_QUIET_MS, _JAVA_QUIET_MS = 5_000, 45_000
"""After a change, until shares must be even; Java's members look every 20 s where a notice is lost."""


class SettledAsPlanned(Checker):
    """In the end plans agree, cover everything and are carried out."""

    name = "settled as planned"
    wants = SCENE

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Learn who is there."""
        self._scene.note(fact)
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Look at each group that has members."""
        for group in sorted(end.alive):
            members = end.alive[group]
            if not members:
                continue
            topics = {member: self._topics(group, member) for member in members}
            queues = in_order(queue for topic in sorted(set().union(*topics.values())) for queue in _of(end, topic))
            if self._scene.mode(group) == "broadcast":
                yield from self._everybody(end, group, members, topics)
                continue
            is_plain = len(set(topics.values())) == 1
            if is_plain or self._is_sticky(group, queues):
                yield from self._each(end, group, members, queues)
            if is_plain and self._is_even(group) and self._is_quiet(end, group):
                yield from self._even(end, group, members, queues)

    def _topics(self, group: str, member: str) -> frozenset[str]:
        joined = self._scene.members.get(member)
        topics = joined.topics if joined is not None else self.terms.group(group).topics
        retries = () if self._scene.mode(group) == "broadcast" else (f"%RETRY%{group}",)
        return frozenset((*topics, *retries))

    def _is_sticky(self, group: str, queues: list[Queue]) -> bool:
        ours = all(self.terms.is_ours(queue.broker) for queue in queues)
        return ours and self.terms.group(group).sticky and self._scene.is_all_ours(group)

    def _is_quiet(self, end: End, group: str) -> bool:
        """Say whether nobody came or went for so long that everybody has noticed."""
        scene = self._scene
        times = [joined.at_ms for joined in scene.members.values() if joined.group == group]
        times += [scene.gone_ms[id_] for id_ in scene.gone_ms if id_ in scene.members]
        return end.at_ms - max(times, default=0) >= (_QUIET_MS if scene.is_all_ours(group) else _JAVA_QUIET_MS)

    def _is_even(self, group: str) -> bool:
        return all(
            joined.strategy.upper() in ("", "STICKY", "AVG", "AVG_BY_CIRCLE")
            for joined in self._scene.members.values()
            if joined.group == group
        )

    def _owner_state(self, end: End, member: str, queue: Queue) -> str:
        if member in end.states:
            return end.states[member].get(queue, "absent")
        return "OWNED" if queue in end.plans.get(member, ()) else "absent"

    def _each(self, end: End, group: str, members: tuple[str, ...], queues: list[Queue]) -> Iterator[Finding]:
        for queue in queues:
            states = {member: self._owner_state(end, member, queue) for member in members}
            planned = [member for member in members if queue in end.plans.get(member, ())]
            owners = [member for member, state in states.items() if state == "OWNED"]
            if len(owners) == 1 and planned == owners and all(s in ("OWNED", "absent") for s in states.values()):
                continue
            told = ", ".join(f"{member} {state}" for member, state in states.items() if state != "absent") or "nobody"
            sentence = (
                f"after {end.at_ms - end.healed_ms} ms of quiet {queue} of {group} is planned by "
                f"{', '.join(planned) or 'nobody'} and held by {told}"
            )
            kind = "safety" if len(owners) > 1 and self._scene.is_all_ours(group) else "liveness"
            yield self.finding("safety" if kind == "safety" else "liveness", "balance", end.at_ms, sentence)

    def _even(self, end: End, group: str, members: tuple[str, ...], queues: list[Queue]) -> Iterator[Finding]:
        shares: dict[str, Counter[str]] = {}
        for member in members:
            for queue in end.plans.get(member, ()):
                shares.setdefault(queue.topic, Counter())[member] += 1
                if self._is_sticky(group, queues):
                    shares.setdefault("all topics together", Counter())[member] += 1
        for what, counts in sorted(shares.items()):
            most, least = max(counts[member] for member in members), min(counts[member] for member in members)
            if most - least > 1:
                told = ", ".join(f"{member} {counts[member]}" for member in members)
                sentence = f"the plans of {group} for {what} are uneven in the end: {told}"
                yield self.finding("liveness", "balance", end.at_ms, sentence)

    def _everybody(
        self, end: End, group: str, members: tuple[str, ...], topics: dict[str, frozenset[str]]
    ) -> Iterator[Finding]:
        for member in members:
            for queue in (queue for topic in sorted(topics[member]) for queue in _of(end, topic)):
                state = self._owner_state(end, member, queue)
                if state != "OWNED":
                    sentence = f"{member} of {group} has {queue} in state {state} in the end, and should own it"
                    yield self.finding("liveness", "balance", end.at_ms, sentence)


def _of(end: End, topic: str) -> Iterable[Queue]:
    return end.queues.get(topic, ())
