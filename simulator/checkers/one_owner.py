"""R4: a queue is held by one member of a group at a time.

Held means: from STARTING to COMMITTING, as the member believes. Checked whenever a member begins to hold a queue while
another does. Excused: either of them was paused, lost its connection, or gave up a queue whose handlers went on; the
broker died, was paused or its clock jumped; on Apache's broker a fault of any member; groups with a Java member;
broadcast groups.

And a drain is never undone: a member that gives up a queue has dropped what it had not started, so it must release the
queue before it may own it again. That has no excuse.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import HOLDING_STATES, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import Fact, ProcessGone, ProcessStarted, QueueStateChanged

if TYPE_CHECKING:
    from steelyard.model import Queue

_GIVING_UP = frozenset({"DRAINING", "COMMITTING"})
_STARTS_ANEW = frozenset({"absent", "WANTED", "ASKING", "STARTING", "RELEASING"})


class OneOwner(Checker):
    """Two members never hold a queue, and a drain ends in a release."""

    name = "one owner"
    fact_types = (*TRACKED_FACTS, QueueStateChanged)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._entered_ms: dict[tuple[str, str, Queue], int] = {}
        self._since: dict[tuple[str, str, Queue], QueueStateChanged] = {}
        self._draining: dict[tuple[str, str, Queue], QueueStateChanged] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track queue states, and check each acquisition."""
        if not isinstance(fact, QueueStateChanged):
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted):
                self._queue_states.observe(fact)
            return ()
        self._queue_states.observe(fact)
        self._entered_ms[fact.group, fact.member, fact.queue] = fact.at_ms
        found = [*self._undone(fact)]
        if fact.after in HOLDING_STATES and fact.before not in HOLDING_STATES:
            self._since[fact.group, fact.member, fact.queue] = fact
            found += self._began(fact)
        return found

    def _undone(self, fact: QueueStateChanged) -> Iterable[CheckerFinding]:
        key = (fact.group, fact.member, fact.queue)
        if fact.after in _GIVING_UP:
            self._draining.setdefault(key, fact)
        elif fact.after in _STARTS_ANEW:
            self._draining.pop(key, None)
        elif fact.after == "OWNED" and key in self._draining:
            drained = self._draining.pop(key)
            sentence = (
                f"{fact.member} began to give {fact.queue} up at {drained.at_ms} ms and owned it again at "
                f"{fact.at_ms} ms without having released it"
            )
            yield self.finding("safety", "balance", fact.at_ms, sentence, drained, fact)

    def _began(self, fact: QueueStateChanged) -> Iterable[CheckerFinding]:
        tracker = self._tracker
        if tracker.mode(fact.group) == "broadcast":
            return
        for other in self._queue_states.holders(fact.group, fact.queue):
            # The fault of an unsure member was before it became unsure; it may be cut off ever since.
            unsure = self._queue_states.state(fact.group, fact.queue, other) == "UNSURE"
            since_ms = self._entered_ms[fact.group, other, fact.queue] if unsure else fact.at_ms
            if other == fact.member or tracker.is_excused(
                fact.group, (other, fact.member), fact.queue, since_ms, fact.at_ms
            ):
                continue
            state = self._queue_states.state(fact.group, fact.queue, other)
            since = self._since.get((fact.group, other, fact.queue))
            sentence = (
                f"{fact.member} began to hold {fact.queue} for {fact.group} at {fact.at_ms} ms ({fact.after}) while "
                f"{other} held it ({state}{f', since {since.at_ms} ms' if since else ''})"
            )
            yield self.finding("safety", "balance", fact.at_ms, sentence, *((since,) if since else ()), fact)
