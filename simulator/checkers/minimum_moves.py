"""R8: when members join or leave, no more queues move than necessary.

Judged for sticky groups on our brokers, between two moments at which the group was settled (each queue owned by one
member, and in no other state anywhere) with one change of members between them: at most as many queues have another
owner as the minimal assignment moves. With one topic no queue may take a detour either. Excused: any fault between the
two moments; queues that were added; members with different subscriptions; a second change before the first was settled,
which starts anew.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import FAULT_EFFECT_MS, TRACKED_FACTS, FaultTracker, ObservedQueueStates
from simulator.facts import Fact, FaultsHealed, ProcessGone, ProcessStarted, QueueStateChanged
from steelyard.balance.assignors.sticky import sticky_plan, topic_bounds
from steelyard.model import Queue, sort_names, sort_queues

_SETTLED_MS = 1_000
"""A group that did not change for this time is settled."""


class _Settled:
    """A settled group, and what happened since."""

    __slots__ = ("at_ms", "changes", "members", "owners", "taken")

    def __init__(self, at_ms: int, members: list[str], owners: dict[Queue, str]) -> None:
        self.at_ms, self.members, self.owners = at_ms, members, owners
        self.changes: list[Fact] = []
        self.taken = 0


class MinimumMoves(Checker):
    """A change of members moves only what is necessary."""

    name = "minimum moves"
    fact_types = (*TRACKED_FACTS, QueueStateChanged, FaultsHealed)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._queue_states = ObservedQueueStates(self._tracker)
        self._settled: dict[str, _Settled] = {}
        self._changed_ms: dict[str, int] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track changes; a group that is settled again at the next one is judged."""
        if isinstance(fact, QueueStateChanged):
            return self._state_changed(fact)
        found: list[CheckerFinding] = []
        group = self._group_of(fact)
        if group is not None:
            found += self._check(group, fact.at_ms)
            if group in self._settled:
                self._settled[group].changes.append(fact)
        elif isinstance(fact, ProcessGone | ProcessStarted):
            self._settled.clear()
        self._tracker.observe(fact)
        if isinstance(fact, ProcessGone | ProcessStarted):
            self._queue_states.observe(fact)
        if group is not None:
            self._changed_ms[group] = fact.at_ms
        return found

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Judge the last change."""
        for group in sorted(self._settled):
            yield from self._check(group, end.at_ms)

    def _group_of(self, fact: Fact) -> str | None:
        if isinstance(fact, ProcessGone):
            started = self._tracker.members.get(fact.name)
            return started.group if started is not None else None
        if isinstance(fact, ProcessStarted) and fact.kind in ("ours", "java"):
            return fact.group
        return None

    def _state_changed(self, fact: QueueStateChanged) -> Iterable[CheckerFinding]:
        # A group that did not change until now was settled: that is the moment to compare with.
        found = [*self._check(fact.group, fact.at_ms)]
        self._queue_states.observe(fact)
        self._changed_ms[fact.group] = fact.at_ms
        settled = self._settled.get(fact.group)
        if settled is not None and fact.after == "STARTING":
            settled.taken += 1
        return found

    def _check(self, group: str, now_ms: int) -> Iterator[CheckerFinding]:
        if now_ms - self._changed_ms.get(group, now_ms) < _SETTLED_MS:
            return
        owners = self._owners(group)
        if owners is None:
            return
        before, members = self._settled.get(group), self._tracker.alive_members(group)
        self._settled[group] = _Settled(now_ms, members, owners)
        if before is None or len(before.changes) != 1 or before.owners.keys() != owners.keys():
            return
        if not self._is_checked(group, before, owners):
            return
        moved = [queue for queue in owners if before.owners[queue] != owners[queue]]
        minimum = _minimum_moves(before.owners, members)
        is_one_topic = len({queue.topic for queue in owners}) == 1
        if len(moved) > minimum or (is_one_topic and before.taken > minimum):
            sentence = (
                f"of {len(owners)} queues of {group} {len(moved)} moved, with {before.taken} acquisitions, after the "
                f"one change at {before.changes[0].at_ms} ms, and {minimum} would have sufficed"
            )
            yield self.finding("safety", "balance", now_ms, sentence, *before.changes)

    def _is_checked(self, group: str, before: _Settled, owners: dict[Queue, str]) -> bool:
        tracker = self._tracker
        change = before.changes[0]
        calm_from_ms = before.at_ms - FAULT_EFFECT_MS
        crash = isinstance(change, ProcessGone) and change.how != "left"
        is_calm = tracker.last_fault_ms < calm_from_ms or (crash and tracker.last_fault_ms == change.at_ms)
        members = [
            tracker.members[id_] for id_ in {*before.members, *tracker.alive_members(group)} if id_ in tracker.members
        ]
        return (
            is_calm
            and self.conditions.group(group).sticky
            and tracker.is_steelyard_only(group)
            and tracker.mode(group) != "broadcast"
            and all(self.conditions.is_steelyard(queue.broker) for queue in owners)
            # A member that owns nothing although there are enough queues may be leaving.
            and len(set(owners.values())) == min(len(owners), len(tracker.alive_members(group)))
            and len({tuple(sorted(started.topics)) for started in members}) == 1
            and all(started.strategy.upper() in ("", "STICKY") for started in members)
        )

    def _owners(self, group: str) -> dict[Queue, str] | None:
        """Return the owner of each queue, or None if a queue has none, or another state at any member."""
        owners: dict[Queue, str] = {}
        for queue, states in self._queue_states.states_of_group(group):
            if len(states) != 1:
                return None
            ((member, state),) = states.items()
            if state != "OWNED":
                return None
            owners[queue] = member
        return owners or None


def _minimum_moves(owners: dict[Queue, str], members: list[str]) -> int:
    """Return how many queues the minimal assignment moves."""
    queues, ids = sort_queues(owners), sort_names(members)
    positions = {id_: place for place, id_ in enumerate(ids)}
    before = [positions.get(owners[queue], -1) for queue in queues]
    after = sticky_plan(topic_bounds(queues)[1], len(ids), before)
    return sum(was != now for was, now in zip(before, after, strict=True))
