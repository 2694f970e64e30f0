"""R3: committed offsets never go back and are not forgotten, and on our broker only the owner commits.

Going back is excused: offset resets; groups with a Java member; a broker that lost power or whose disk failed (it
corrects its members downwards); on Apache's broker, which does not fence, any fault in the group.

A broker of ours that comes back after a crash knows every commit but those of the last seconds. Excused: it lost power,
disks fail or clocks jump, or it was paused before it could save.

A commit of another member than the owner is excused in groups with a Java member, unless a member has a lease, which
only ours acquire, and which is freed the moment that it ends. There is no other excuse: a member that lost a queue is
rejected.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import LEASE_SUFFIX, TRACKED_FACTS, FaultTracker, LockHolders
from simulator.facts import Fact, LockFreed, LockGranted, OffsetCommitted, ProcessGone

if TYPE_CHECKING:
    from steelyard.model import Queue

_SAVED_MS = 5_500
"""After this time a commit is saved, and survives a crash of its broker."""

_UNSAVED_MS = 7_000
"""Offsets are written every 5 s, by Apache's broker too, and that takes a moment."""


class CommitsGoForward(Checker):
    """Commits are not undone, and come from the owner."""

    name = "commits go forward"
    fact_types = (*TRACKED_FACTS, OffsetCommitted, LockGranted, LockFreed)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._holders = LockHolders()
        self._commits: dict[tuple[str, Queue], list[OffsetCommitted]] = {}
        """The commits in each queue since its broker started, the oldest first."""
        self._saved: dict[tuple[str, Queue], OffsetCommitted] = {}
        """What a broker that died must know once it is back; removed once that is checked."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track who holds what, and check each commit."""
        if isinstance(fact, OffsetCommitted):
            return self._committed(fact)
        if isinstance(fact, LockGranted | LockFreed):
            self._holders.observe(fact)
            return ()
        if isinstance(fact, ProcessGone):
            self._holders.observe(fact)
            if fact.name not in self._tracker.members:
                self._broker_gone(fact)
        self._tracker.observe(fact)
        return ()

    def _broker_gone(self, fact: ProcessGone) -> None:
        """Find what a broker that dies has certainly saved: what it stored since its last fault."""
        is_safe = self.conditions.is_steelyard(fact.name) and fact.how != "power"
        is_safe = is_safe and not self.conditions.disk_faults and not self.conditions.clock_faults
        for key in [key for key in self._commits if key[1].broker == fact.name]:
            commits, self._commits[key] = self._commits[key], []
            saved = commits[: bisect_right(commits, fact.at_ms - _SAVED_MS, key=lambda each: each.at_ms)]
            if is_safe and saved and self._tracker.broker_fault_ms(fact.name) < saved[-1].at_ms:
                self._saved[key] = saved[-1]

    def _forgotten(self, fact: OffsetCommitted) -> Iterable[CheckerFinding]:
        saved = self._saved.pop((fact.group, fact.queue), None)
        self._commits.setdefault((fact.group, fact.queue), []).append(fact)
        if saved is None or (fact.before is not None and fact.before >= saved.offset):
            return ()
        sentence = (
            f"{fact.queue.broker} stored a commit of {saved.offset} in {fact.queue} for {fact.group} at {saved.at_ms} "
            f"ms, and knew of {'none' if fact.before is None else fact.before} at {fact.at_ms} ms, after a restart"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, saved, fact),)

    def _committed(self, fact: OffsetCommitted) -> Iterable[CheckerFinding]:
        if self.conditions.offset_resets:
            return ()
        if not self._tracker.is_steelyard_only(fact.group):
            return self._of_another(fact)
        return self._forgotten(fact) or self._taken_back(fact) or self._of_another(fact)

    def _taken_back(self, fact: OffsetCommitted) -> Iterable[CheckerFinding]:
        if fact.before is None or fact.offset >= fact.before or self._may_go_back(fact):
            return ()
        sentence = (
            f"{fact.member or 'an unknown client'} moved the commit of {fact.group} in {fact.queue} back from "
            f"{fact.before} to {fact.offset} at {fact.at_ms} ms"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, fact),)

    def _of_another(self, fact: OffsetCommitted) -> Iterable[CheckerFinding]:
        holder = (
            self._holders.grant_of(fact.group, fact.queue) if self.conditions.is_steelyard(fact.queue.broker) else None
        )
        if holder is None or fact.member is None:
            return ()
        if not self._tracker.is_steelyard_only(fact.group) and not holder.lock_group.endswith(LEASE_SUFFIX):
            return ()
        if holder.member != fact.member:
            why = f"{holder.member} holds it since {holder.at_ms} ms"
        elif fact.epoch is not None and holder.epoch is not None and fact.epoch != holder.epoch:
            why = f"it holds it under epoch {holder.epoch} since {holder.at_ms} ms, and named {fact.epoch}"
        else:
            return ()
        sentence = (
            f"the broker stored a commit of {fact.offset} in {fact.queue} for {fact.group} from {fact.member} at "
            f"{fact.at_ms} ms, and {why}"
        )
        return (self.finding("safety", "commit", fact.at_ms, sentence, holder, fact),)

    def _may_go_back(self, fact: OffsetCommitted) -> bool:
        broker = fact.queue.broker
        if broker in self._tracker.power_loss_ms or self.conditions.disk_faults:
            return True
        if self.conditions.is_steelyard(broker):
            return False
        return self._tracker.group_fault_ms(
            fact.group, broker, fact.at_ms
        ) >= fact.at_ms - self._tracker.fault_effect_ms(broker)
