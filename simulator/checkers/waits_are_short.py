"""A member does not wait long for a queue whose owner does not know that it should give it up.

A denied lock leads to a handover request after half a second, and that to a rebalance of the owner: so a queue is not
WANTED by one member and OWNED by another for long, even if notifications are lost. Judged if there was no fault of any
broker or member for a while, because assignments need the list of every broker; and from the last join or leave. Groups
with a Java member and broadcast groups are not judged; a drain may take its time.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import FAULT_EFFECT_MS, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import Fact, ProcessGone, ProcessStarted, QueueStateChanged
from steelyard.model import Queue

_SHORT_MS = 4_500
"""A handover request after 0.5 s, two more 2 s apart: all three without effect."""


class _Wait(NamedTuple):
    """A member that waits for an owner."""

    since_ms: int
    owner: str


class WaitsAreShort(Checker):
    """Handover requests have an effect."""

    name = "waits are short"
    fact_types = (*TRACKED_FACTS, QueueStateChanged)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._waits: dict[tuple[str, Queue, str], _Wait] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who waits for whom."""
        late = list(self._late(fact.at_ms)) if self._waits else []
        if isinstance(fact, QueueStateChanged):
            self._queue_states.observe(fact)
            self._update_waits(fact.group, fact.queue, fact.at_ms)
            return late
        self._tracker.observe(fact)
        if isinstance(fact, ProcessGone | ProcessStarted):
            self._queue_states.observe(fact)
            # A change of members changes assignments: the time starts anew for all that wait.
            self._waits = {key: wait._replace(since_ms=fact.at_ms) for key, wait in self._waits.items()}
            for key, wait in list(self._waits.items()):
                if self._queue_states.state(key[0], key[1], wait.owner) != "OWNED":
                    del self._waits[key]
        return late

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Check who waits at the end."""
        yield from self._late(end.at_ms)

    def _update_waits(self, group: str, queue: Queue, now_ms: int) -> None:
        states = self._queue_states.states_of(group, queue)
        owner = next((member for member, state in states.items() if state == "OWNED"), None)
        for member in [key[2] for key in self._waits if key[:2] == (group, queue)]:
            if states.get(member) != "WANTED" or self._waits[group, queue, member].owner != owner:
                del self._waits[group, queue, member]
        if owner is None or self._tracker.mode(group) == "broadcast":
            return
        for member, state in states.items():
            if state == "WANTED":
                self._waits.setdefault((group, queue, member), _Wait(now_ms, owner))

    def _late(self, now_ms: int) -> Iterator[CheckerFinding]:
        for (group, queue, member), wait in list(self._waits.items()):
            if now_ms - wait.since_ms <= _SHORT_MS:
                continue
            del self._waits[group, queue, member]
            both = (member, wait.owner)
            if self._tracker.is_excused(group, both, queue, wait.since_ms, now_ms):
                continue
            if self._tracker.last_fault_ms >= wait.since_ms - FAULT_EFFECT_MS:
                continue  # assignments need the list of every broker
            sentence = (
                f"{member} waited for {queue} of {group} from {wait.since_ms} ms to {now_ms} ms, and {wait.owner} "
                f"owned it all the time"
            )
            yield self.finding("liveness", "balance", now_ms, sentence)
