"""In orderly groups the messages of a key are first started in the order in which they were stored.

Order means: the later one was sent after the earlier one was acknowledged, by the same sender with the same key, and
both are in one queue. Repeats do not count, nor delayed, half or redelivered messages. It holds through crashes and
cuts: a new owner starts at or before the first unfinished message. Besides, a member runs one handler at a time in a
queue. Excused: groups with a Java member; concurrent groups promise no order.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker
from simulator.facts import Fact, HandlerEnded, HandlerStarted, MessageAcked, MessageSent, ProcessGone

if TYPE_CHECKING:
    from steelyard.model import Queue


class OrderPerKey(Checker):
    """What was stored first is started first."""

    name = "order per key"
    fact_types = (*TRACKED_FACTS, MessageSent, MessageAcked, HandlerStarted, HandlerEnded)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._sent: dict[str, MessageSent] = {}
        self._acked: dict[str, MessageAcked] = {}
        self._first: set[tuple[str, str]] = set()
        self._latest: dict[tuple[str, str, str, Queue], tuple[MessageSent, HandlerStarted]] = {}
        self._running: dict[tuple[str, str, Queue], HandlerStarted] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember what was sent and stored, and check each first start."""
        if isinstance(fact, HandlerStarted):
            if self._tracker.mode(fact.group) != "orderly" or not self._tracker.is_steelyard_only(fact.group):
                return ()
            return [*self._alone(fact), *self._in_order(fact)]
        if isinstance(fact, HandlerEnded):
            self._running.pop((fact.member, fact.group, fact.queue), None)
        elif isinstance(fact, MessageSent):
            if fact.key is not None and fact.due_ms is None and not fact.transactional:
                self._sent[fact.uid] = fact
        elif isinstance(fact, MessageAcked):
            self._acked[fact.uid] = fact
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone):
                name = fact.name
                for key in [key for key in self._running if key[0] == name]:
                    del self._running[key]
        return ()

    def _alone(self, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        key = (fact.member, fact.group, fact.queue)
        running = self._running.get(key)
        self._running[key] = fact
        # A handler that outlived its drain may overlap with the first one of the next generation.
        if running is None or running.generation != fact.generation:
            return
        sentence = (
            f"{fact.member} started {fact.uid} (offset {fact.offset}) of {fact.queue} at {fact.at_ms} ms while it "
            f"still handled {running.uid} (offset {running.offset}), in order"
        )
        yield self.finding("safety", "delivery", fact.at_ms, sentence, running, fact)

    def _in_order(self, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        sent = self._sent.get(fact.uid)
        if sent is None or sent.key is None or fact.reconsume_times or (fact.group, fact.uid) in self._first:
            return
        self._first.add((fact.group, fact.uid))
        key = (fact.group, sent.producer, sent.key, fact.queue)
        latest = self._latest.get(key)
        if latest is None or latest[0].number < sent.number:
            self._latest[key] = (sent, fact)
            return
        acked = self._acked.get(fact.uid)
        if acked is None or acked.at_ms > latest[0].at_ms or acked.queue not in (None, fact.queue):
            return
        sentence = (
            f"{fact.member} first started {fact.uid} (number {sent.number} of {sent.producer}, key {sent.key}) at "
            f"{fact.at_ms} ms, after {latest[0].uid} (number {latest[0].number}) at {latest[1].at_ms} ms"
        )
        yield self.finding("safety", "delivery", fact.at_ms, sentence, latest[1], fact)
