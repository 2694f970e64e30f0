"""Once all faults are over, everything is handled, committed to the end of the log, and owned.

Checked at the end; the history runs for as long as the bounds of the design say. For each group with living members and
each queue of its topics, the committed offset is the end of the log. A queue that is behind says whether messages were
not handled (delivery) or handled and not committed (commit). Excused: queues in which the group never committed or
started anything, unless it starts at the first message; broadcast groups, which commit elsewhere; commits above the end
of a log whose broker lost power; offset resets.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker
from simulator.facts import Fact, HandlerEnded
from steelyard.model import Queue, sort_queues


class DrainedAndSettled(Checker):
    """A healed world comes to rest."""

    name = "drained and settled"
    fact_types = (*TRACKED_FACTS, HandlerEnded)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._ended: dict[tuple[str, Queue], set[int]] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember what was handled."""
        if isinstance(fact, HandlerEnded):
            self._ended.setdefault((fact.group, fact.queue), set()).add(fact.offset)
        else:
            self._tracker.observe(fact)
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Compare commits with the ends of logs; the rest is up to the history."""
        found = [finding for group in sorted(end.alive) if end.alive[group] for finding in self._behind(end, group)]
        yield from found
        waited_ms = end.at_ms - end.healed_ms
        if not end.drained and not found:
            sentence = f"not everything was handled and committed {waited_ms} ms after healing"
            yield self.finding("liveness", "delivery", end.at_ms, sentence)
        if not end.settled:
            sentence = f"not every queue had its owner {waited_ms} ms after healing"
            yield self.finding("liveness", "balance", end.at_ms, sentence)

    def _behind(self, end: HistoryEnd, group: str) -> Iterator[CheckerFinding]:
        if self._tracker.mode(group) == "broadcast" or self.conditions.offset_resets:
            return
        ends: dict[Queue, int] = {}
        for logged in end.logged:
            ends[logged.queue] = max(ends.get(logged.queue, 0), logged.offset + 1)
        topics = {topic for member in end.alive[group] for topic in self._topics(group, member)}
        for queue in sort_queues(queue for topic in sorted(topics) for queue in end.queues.get(topic, ())):
            log_end, committed = ends.get(queue, 0), end.committed.get((group, queue))
            handled = self._ended.get((group, queue), set())
            if committed is None and not handled and not self.conditions.group(group).from_first:
                continue
            missing = [offset for offset in range(committed or 0, log_end) if offset not in handled]
            state = f"{group} committed {committed} in {queue}, whose log ends at {log_end}"
            if missing:
                sentence = f"{state}, and offset {missing[0]} was never finished"
                yield self.finding("liveness", "delivery", end.at_ms, sentence)
            elif (committed or 0) < log_end:
                yield self.finding("liveness", "commit", end.at_ms, f"{state}, and all of it was handled")
            elif (committed or 0) > log_end and queue.broker not in self._tracker.power_loss_ms:
                yield self.finding("safety", "commit", end.at_ms, state)

    def _topics(self, group: str, member: str) -> tuple[str, ...]:
        started = self._tracker.members.get(member)
        return (*(started.topics if started is not None else self.conditions.group(group).topics), f"%RETRY%{group}")
