"""Once nothing goes wrong any more, everything is handled, committed to the end of the log, and owned.

Judged in the end; the history gives the world as long as the design's bounds say. For each group with living members
and each queue of its topics: what is committed is the end of the log. A queue that is behind says whether messages were
not handled (delivery) or handled and not committed (commit). Excused: queues in which the group never committed and
never started anything, unless it starts at the first message; broadcasting, which commits elsewhere; commits above the
log's end at a broker that lost power; offsets moved by hand.
"""

from collections.abc import Iterable, Iterator

from steelyard.model import Queue, in_order
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Ended, Fact

__all__ = ["DrainedAndSettled"]


class DrainedAndSettled(Checker):
    """A healed world comes to rest."""

    name = "drained and settled"
    wants = (*SCENE, Ended)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._ended: dict[tuple[str, Queue], set[int]] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what was handled."""
        if isinstance(fact, Ended):
            self._ended.setdefault((fact.group, fact.queue), set()).add(fact.offset)
        else:
            self._scene.note(fact)
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Compare commits with the ends of logs, and believe the history about the rest."""
        found = [finding for group in sorted(end.alive) if end.alive[group] for finding in self._behind(end, group)]
        yield from found
        waited_ms = end.at_ms - end.healed_ms
        if not end.drained and not found:
            sentence = f"not everything was handled and committed {waited_ms} ms after all was well again"
            yield self.finding("liveness", "delivery", end.at_ms, sentence)
        if not end.settled:
            sentence = f"not every queue had come to its owner {waited_ms} ms after all was well again"
            yield self.finding("liveness", "balance", end.at_ms, sentence)

    def _behind(self, end: End, group: str) -> Iterator[Finding]:
        if self._scene.mode(group) == "broadcast" or self.terms.resets:
            return
        ends: dict[Queue, int] = {}
        for logged in end.logged:
            ends[logged.queue] = max(ends.get(logged.queue, 0), logged.offset + 1)
        topics = {topic for member in end.alive[group] for topic in self._topics(group, member)}
        for queue in in_order(queue for topic in sorted(topics) for queue in end.queues.get(topic, ())):
            log_end, committed = ends.get(queue, 0), end.committed.get((group, queue))
            handled = self._ended.get((group, queue), set())
            if committed is None and not handled and not self.terms.group(group).from_first:
                continue
            missing = [offset for offset in range(committed or 0, log_end) if offset not in handled]
            told = f"{group} committed {committed} in {queue}, whose log ends at {log_end}"
            if missing:
                sentence = f"{told}, and offset {missing[0]} was never finished"
                yield self.finding("liveness", "delivery", end.at_ms, sentence)
            elif (committed or 0) < log_end:
                yield self.finding("liveness", "commit", end.at_ms, f"{told}, and all of it was handled")
            elif (committed or 0) > log_end and queue.broker not in self._scene.power_ms:
                yield self.finding("safety", "commit", end.at_ms, told)

    def _topics(self, group: str, member: str) -> tuple[str, ...]:
        joined = self._scene.members.get(member)
        return (*(joined.topics if joined is not None else self.terms.group(group).topics), f"%RETRY%{group}")
