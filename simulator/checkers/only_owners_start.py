"""A member that starts a message owns its queue at that moment, as it believes.

Nothing starts while a queue is WANTED, ASKING or UNSURE, nor after it was released. A handler may finish the batch that
it was given before a drain. There is no excuse: a member knows its own states. Java's members record none.
"""

from collections.abc import Iterable

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import FaultTracker, ObservedQueueStates
from simulator.facts import Fact, HandlerStarted, ProcessGone, ProcessStarted, QueueStateChanged

_MAY_START = frozenset({"OWNED", "DRAINING"})


class OnlyOwnersStart(Checker):
    """Members handle only what they own."""

    name = "only owners start"
    fact_types = (ProcessStarted, ProcessGone, QueueStateChanged, HandlerStarted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._queue_states = ObservedQueueStates(FaultTracker(conditions))
        self._ours: set[str] = set()

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track queue states, and check each start."""
        if not isinstance(fact, HandlerStarted):
            self._queue_states.observe(fact)
            if isinstance(fact, ProcessStarted) and fact.kind == "ours":
                self._ours.add(fact.member)
            return ()
        state = self._queue_states.state(fact.group, fact.queue, fact.member)
        if state in _MAY_START or fact.member not in self._ours:
            return ()
        sentence = (
            f"{fact.member} started {fact.uid} ({fact.queue}, offset {fact.offset}) for {fact.group} at {fact.at_ms} "
            f"ms and had the queue {state}"
        )
        return (self.finding("safety", "balance", fact.at_ms, sentence, fact),)
