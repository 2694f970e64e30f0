"""R1: while members only join and leave, each message is started once.

More than that: a second start of a record needs an excuse in a fault of a member that started it, or of the broker.
Excused are a member that died, was paused or lost its connection; a broker that died (it may have lost the last seconds
of commits) or was paused; handlers that outlived their drain; and offset resets. On Apache's broker, which does not
fence, a fault of any member of the group is an excuse. A group with a Java member promises nothing. A further attempt
of the same member, because the message could not be sent back, is not a second start; nor is, in an orderly group, an
attempt of any member after a failure.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import TRACKED_FACTS, FaultTracker
from simulator.facts import Fact, HandlerEnded, HandlerStarted

if TYPE_CHECKING:
    from steelyard.model import Queue


class StartsOnce(Checker):
    """No record is started twice without an excuse."""

    name = "starts once"
    fact_types = (*TRACKED_FACTS, HandlerStarted, HandlerEnded)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._failed: set[tuple[str, Queue, int, str]] = set()
        self._first: dict[tuple[str, Queue, int, str, str], HandlerStarted] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember who started what first, and check every further start."""
        if isinstance(fact, HandlerEnded):
            if not fact.ok and self._tracker.mode(fact.group) == "orderly":
                self._failed.add((fact.group, fact.queue, fact.offset, fact.uid))
            return ()
        if not isinstance(fact, HandlerStarted):
            self._tracker.observe(fact)
            return ()
        alone = fact.member if self._tracker.mode(fact.group) == "broadcast" else ""
        key = (fact.group, fact.queue, fact.offset, fact.uid, alone)
        first = self._first.setdefault(key, fact)
        if first is fact or (fact.attempt > 0 and fact.member == first.member):
            return ()
        self._first[key] = fact
        if key[:4] in self._failed:
            self._failed.discard(key[:4])
            return ()
        both = (first.member, fact.member)
        if self.conditions.offset_resets or self._tracker.is_excused(
            fact.group, both, fact.queue, first.at_ms, fact.at_ms
        ):
            return ()
        sentence = (
            f"{fact.uid} ({fact.queue}, offset {fact.offset}) was started by {first.member} at {first.at_ms} ms and "
            f"again by {fact.member} at {fact.at_ms} ms, and neither had a fault"
        )
        return (self.finding("safety", "delivery", fact.at_ms, sentence, first, fact),)
