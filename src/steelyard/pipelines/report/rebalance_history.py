"""Who handed which queue to whom, and when: hand-overs with their gaps, overlaps, and changes of the group. Pure.

- A *hand-over* is two consecutive holdings of a queue. Its *gap* had no owner. It is a *move* if the owner is another
  member.
- An *overlap* is a time with two owners: both handle the queue's messages.
- A *change* is a burst of events between quiet times. Its moves are compared with the minimum of any even plan
  (balance/assignors/explain.py). A queue without an owner counts for its last one, so that it is not taken for new.

A member is *silent* if another acquires a queue that it never released, after its last event: it was killed, or its
file ends there. Such a hand-over has no known gap, and is no overlap. The work is proportional to the queues in the
events; of a very long history only the first changes are explained.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

from steelyard.balance.assignors.explain import Explanation, explain
from steelyard.model import Queue, sort_names
from steelyard.pipelines.report.ownership import OwnershipEvent, QueueHolding, queue_holdings

SETTLED_AFTER_MS = 1_000
"""A change is over when there was no event for this time; hand-overs of a planned change take less.

Rather too short than too long: two changes that count as one seem to move more than necessary, while one that is split
only shows its queues in two rows.
"""

_MAX_WORK = 5_000_000  # queues and members, summed over changes, up to which changes are explained


@dataclass(frozen=True, slots=True)
class Handover:
    """A queue between two consecutive holdings."""

    before: QueueHolding
    after: QueueHolding

    @property
    def is_move(self) -> bool:
        """Whether the owner is another member; else a member reacquired a queue."""
        return self.before.member != self.after.member

    @property
    def gap_ms(self) -> int | None:
        """How long it had no owner; None if the previous owner never released it."""
        return max(0, self.after.acquired_ms - self.before.ended_ms) if self.before.released else None


@dataclass(frozen=True, slots=True)
class OwnershipOverlap:
    """A time with two owners of a queue, from when the second one acquired it."""

    before: QueueHolding
    after: QueueHolding

    @property
    def span_ms(self) -> int:
        """Its duration."""
        return min(self.before.ended_ms, self.after.ended_ms) - self.after.acquired_ms


@dataclass(frozen=True, slots=True)
class OwnershipChange:
    """One change of a group: who joined and left, which queues moved, and the minimum of moves."""

    start_ms: int
    end_ms: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    lost: tuple[str, ...]  # members that became silent
    moves: tuple[Handover, ...]
    explanation: Explanation
    members: int = 0  # the number of members after it

    @property
    def minimum_moves(self) -> int:
        """The minimum of moves of any even plan."""
        return self.explanation.least

    @property
    def cause(self) -> str:
        """Who joined and left, as text.

        >>> OwnershipChange(0, 9, ("c3",), ("c1",), (), (), explain({}, {})).cause
        'c3 joined, c1 left'
        """
        parts = [("joined", self.joined), ("left", self.left), ("became silent", self.lost)]
        return ", ".join(f"{', '.join(who)} {verb}" for verb, who in parts if who) or "no member joined or left"


@dataclass(frozen=True, slots=True)
class OwnershipHistory:
    """The ownership of a topic's queues in a group; empty if no event has one of them."""

    members: tuple[str, ...] = ()  # in the order of their first events
    holdings: tuple[QueueHolding, ...] = ()  # by queue and time
    handovers: tuple[Handover, ...] = ()  # by time
    overlaps: tuple[OwnershipOverlap, ...] = ()
    changes: tuple[OwnershipChange, ...] = ()

    @property
    def gaps_ms(self) -> tuple[int, ...]:
        """The known gaps, in ascending order."""
        return tuple(sorted(each.gap_ms for each in self.handovers if each.gap_ms is not None))

    @property
    def necessary_moves(self) -> int:
        """How many of the moves were necessary; an unfinished change has made fewer than the minimum."""
        return sum(min(len(change.moves), change.minimum_moves) for change in self.changes)


def build_history(events: Iterable[OwnershipEvent], topic: str) -> OwnershipHistory:
    """Build the history of a topic's queues.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> events = [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(5_000, "c1", ())]
    >>> history = build_history([*events, OwnershipEvent(5_120, "c2", (queue,))], "orders")
    >>> [(each.before.member, each.after.member, each.gap_ms) for each in history.handovers]
    [('c1', 'c2', 120)]
    """
    in_time = sorted(events, key=attrgetter("at_ms"))
    holdings = queue_holdings(in_time, topic)
    if not holdings:
        return OwnershipHistory()
    overs: list[Handover] = []
    overlaps: list[OwnershipOverlap] = []
    silent: dict[str, int] = {}  # when silent members lost a queue
    for _, same in groupby(holdings, key=attrgetter("queue")):
        held = list(same)
        overs += (Handover(one, then) for one, then in pairwise(held))
        longest = held[0]
        for each in held[1:]:
            # Each is compared with the one before it that lasted longest.
            both = OwnershipOverlap(longest, each)
            overlaps += [both] if both.span_ms > 0 else []
            longest = max(longest, each, key=lambda one: one.ended_ms)
        times = [each.acquired_ms for each in held]
        for each in held:
            if not each.released and each.ended_ms < times[-1]:
                lost_ms = times[bisect_right(times, each.ended_ms)]
                silent[each.member] = min(lost_ms, silent.get(each.member, lost_ms))
    overs.sort(key=attrgetter("after.acquired_ms"))
    return OwnershipHistory(
        members=tuple(dict.fromkeys(event.id for event in in_time)),
        holdings=tuple(holdings),
        handovers=tuple(overs),
        overlaps=tuple(overlaps),
        changes=tuple(_find_changes(in_time, topic, silent, [over for over in overs if over.is_move])),
    )


def _find_changes(
    events: Iterable[OwnershipEvent], topic: str, silent: Mapping[str, int], moves: Sequence[Handover]
) -> Iterator[OwnershipChange]:
    """Split events into changes; ``events`` and ``moves`` are by time."""
    owned: dict[str, frozenset[Queue]] = {}
    last_owner: dict[Queue, str] = {}
    moved_ms = [over.after.acquired_ms for over in moves]
    work = 0
    for burst in _bursts(events):
        work += len(owned) + len(last_owner)
        if work > _MAX_WORK:
            return
        start_ms, end_ms = burst[0].at_ms, burst[-1].at_ms
        before = {name: list(mine) for name, mine in owned.items()}
        for queue in last_owner.keys() - {queue for mine in owned.values() for queue in mine}:
            before.setdefault(last_owner[queue], []).append(queue)
        present = set(owned)
        lost = sort_names(name for name in owned if silent.get(name, end_ms + 1) <= end_ms)
        for event in burst:
            owned[event.id] = frozenset(queue for queue in event.queues if queue.topic == topic)
            last_owner.update(dict.fromkeys(owned[event.id], event.id))
            if event.is_leave:
                del owned[event.id]
        for name in lost:
            owned.pop(name, None)
        joined = sort_names(owned.keys() - present)
        left = sort_names(present - owned.keys() - set(lost))
        mine = moves[bisect_left(moved_ms, start_ms) : bisect_right(moved_ms, end_ms)]
        if joined or left or lost or mine:
            told = explain(before, {name: list(queues) for name, queues in owned.items()})
            yield OwnershipChange(
                start_ms, end_ms, tuple(joined), tuple(left), tuple(lost), tuple(mine), told, len(owned)
            )


def _bursts(events: Iterable[OwnershipEvent]) -> Iterator[list[OwnershipEvent]]:
    burst: list[OwnershipEvent] = []
    for event in events:
        if burst and event.at_ms - burst[-1].at_ms > SETTLED_AFTER_MS:
            yield burst
            burst = []
        burst.append(event)
    if burst:
        yield burst
