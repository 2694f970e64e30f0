"""Explain a plan: what moved, why, and how far from the minimum. Works for the plans of any strategy.

A queue *moves* if one member had it before and another has it now, whether the first is still there or has left. A
queue that had no owner is handed out, and a queue without an owner now is unowned; neither counts as moved. The minimum
is counted in the same way, over all plans that assign every queue and keep members within one queue of each other, in
each topic and over all: a plan that is less even can move fewer.

Reasons are given in the order of the queues, as if they moved one after the other: a member with two queues too many
first has two more than its share, then one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from steelyard.balance.assignors import OwnedQueues, minimum_moves, previous_owners, topic_bounds
from steelyard.model import Queue, sort_names, sort_queues
from steelyard.model.formatting import pluralize

__all__ = ["ChangeReason", "Explanation", "QueueChange", "QueueOverlap", "describe_change", "describe_plan", "explain"]


class ChangeReason(Enum):
    """Why a queue is where the new plan puts it."""

    KEPT = "kept"
    OWNER_LEFT = "owner left"
    SURPLUS = "surplus"
    """Its owner had more than its share of the topic."""
    ROOM = "room"
    """Its owner had no more than its share, but the new owner had less than its own."""
    REARRANGED = "rearranged"
    """Neither had to change: the strategy just places it elsewhere."""
    NEW_QUEUE = "new queue"
    UNOWNED = "unowned"


@dataclass(frozen=True, slots=True)
class QueueChange:
    """One queue: its owner before and now, why, and by how many queues if it is a matter of share."""

    queue: Queue
    before: str | None
    now: str | None
    why: ChangeReason
    by: int = 0

    @property
    def moved(self) -> bool:
        """Whether one member had it before and another has it now."""
        return self.before is not None and self.now is not None and self.before != self.now


@dataclass(frozen=True, slots=True)
class QueueOverlap:
    """A queue that is assigned to several members: each would handle its messages."""

    queue: Queue
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a plan changes. ``least`` is the minimum for ``moved``; ``most`` and ``fewest`` are queues of a member."""

    changes: tuple[QueueChange, ...]
    moved: int
    least: int
    most: int
    fewest: int
    idle: tuple[str, ...]
    overlaps: tuple[QueueOverlap, ...]
    gone: tuple[Queue, ...]
    """Queues that had an owner before and no longer exist."""

    def count(self, why: ChangeReason) -> int:
        """Return how many queues are where they are for that reason."""
        return sum(change.why is why for change in self.changes)


def explain(previous: OwnedQueues, plan: OwnedQueues, queues: Iterable[Queue] | None = None) -> Explanation:
    """Explain a plan against the owners before it. ``queues`` are all there are; without them, all that are planned.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> told = explain({"c1": queues[:2], "c2": queues[2:]}, {"c1": queues[:2], "c2": queues[2:3], "c3": queues[3:]})
    >>> told.moved, told.least, told.most, told.fewest
    (1, 1, 2, 1)
    >>> describe_change(told.changes[3])
    'orders@broker-a:3 goes from c2 to c3: c2 had one more than its share'
    """
    lists = {member: list(plan[member]) for member in sort_names(plan)}
    listed = sort_queues(dict.fromkeys(chain.from_iterable(lists.values()) if queues is None else queues))
    # The members first, then those that left: a queue claimed by both counts for the one that is still there.
    everybody = [*lists, *sort_names(set(previous).difference(plan))]
    owner = previous_owners(previous, listed, everybody)
    owners_now: dict[Queue, list[str]] = {}
    for member, mine in lists.items():
        for queue in dict.fromkeys(mine):
            owners_now.setdefault(queue, []).append(member)
    names_before = [None if place < 0 else everybody[place] for place in owner]
    changes = _changes(listed, names_before, owners_now, members=frozenset(lists))
    sizes = [len(mine) for mine in lists.values()]
    there = set(listed)
    return Explanation(
        changes=tuple(changes),
        moved=sum(change.moved for change in changes),
        least=minimum_moves(topic_bounds(listed)[1], len(lists), owner) if lists else 0,
        most=max(sizes, default=0),
        fewest=min(sizes, default=0),
        idle=tuple(member for member, mine in lists.items() if not mine),
        overlaps=tuple(
            QueueOverlap(queue, tuple(owners_now[queue])) for queue in listed if len(owners_now.get(queue, ())) > 1
        ),
        gone=tuple(sort_queues({queue for had in previous.values() for queue in had if queue not in there})),
    )


def _changes(
    queues: Sequence[Queue],
    names_before: Sequence[str | None],
    owners_now: dict[Queue, list[str]],
    *,
    members: frozenset[str],
) -> list[QueueChange]:
    # What each member still lacks of its share of each topic; negative: what it has too many.
    lacks = Counter((queue.topic, member) for queue in queues for member in owners_now.get(queue, ()))
    lacks.subtract((queue.topic, name) for queue, name in zip(queues, names_before, strict=True) if name in members)
    changes: list[QueueChange] = []
    for queue, before in zip(queues, names_before, strict=True):
        owners = owners_now.get(queue, [])
        now = before if before in owners else next(iter(owners), None)
        why, by = _reason(queue.topic, before, now, lacks, members)
        changes.append(QueueChange(queue, before, now, why, by))
        if before != now:
            for member, units in ((before, 1), (now, -1)):
                if member in members:
                    lacks[queue.topic, member] += units
    return changes


def _reason(
    topic: str, before: str | None, now: str | None, lacks: Counter[tuple[str, str]], members: frozenset[str]
) -> tuple[ChangeReason, int]:
    if now is None:
        return ChangeReason.UNOWNED, 0
    if before is None:
        return ChangeReason.NEW_QUEUE, 0
    if before == now:
        return ChangeReason.KEPT, 0
    if before not in members:
        return ChangeReason.OWNER_LEFT, 0
    if (surplus := -lacks[topic, before]) > 0:
        return ChangeReason.SURPLUS, surplus
    if (room := lacks[topic, now]) > 0:
        return ChangeReason.ROOM, room
    return ChangeReason.REARRANGED, 0


def describe_change(change: QueueChange) -> str:
    """Describe one change in a sentence.

    >>> describe_change(QueueChange(Queue("orders", "broker-a", 3), "c1", "c3", ChangeReason.OWNER_LEFT))
    'orders@broker-a:3 goes from c1 to c3: c1 left'
    """
    queue, before, now = change.queue, change.before, change.now
    more = "one more" if change.by == 1 else f"{change.by} more"
    match change.why:
        case ChangeReason.KEPT:
            return f"{queue} stays with {now}"
        case ChangeReason.NEW_QUEUE:
            return f"{queue} goes to {now}: it had no owner"
        case ChangeReason.UNOWNED:
            return f"{queue} gets no owner{f' after {before}' if before else ''}: the plan leaves it out"
        case ChangeReason.OWNER_LEFT:
            reason = f"{before} left"
        case ChangeReason.SURPLUS:
            reason = f"{before} had {more} than its share"
        case ChangeReason.ROOM:
            reason = f"{now} had room for {more}"
        case ChangeReason.REARRANGED:
            reason = "the strategy places it there, though neither had to change"
    return f"{queue} goes from {before} to {now}: {reason}"


def describe_plan(explanation: Explanation) -> list[str]:
    """Describe a plan in sentences: the sum first, then every change, then what looks wrong.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(2)]
    >>> for line in describe_plan(explain({"c1": queues}, {"c1": queues[:1], "c2": queues})):
    ...     print(line)
    1 of 2 queues moves, and 1 is the least possible; a member has 1 to 2 queues
    orders@broker-a:1 goes from c1 to c2: c1 had one more than its share
    orders@broker-a:0 is given to c1 and c2: each would handle its messages
    """
    e = explanation
    share = f"{e.most}" if e.most == e.fewest else f"{e.fewest} to {e.most}"
    moves, queues = "moves" if e.moved == 1 else "move", "queue" if e.most == 1 else "queues"
    total = f"{e.moved} of {pluralize(len(e.changes), 'queue')} {moves}, and {e.least} is the least possible"
    lines = [f"{total}; a member has {share} {queues}"]
    lines += (describe_change(change) for change in e.changes if change.why is not ChangeReason.KEPT)
    lines += (
        f"{overlap.queue} is given to {', '.join(overlap.members[:-1])} and {overlap.members[-1]}: "
        "each would handle its messages"
        for overlap in e.overlaps
    )
    lines += (f"{member} gets nothing" for member in e.idle)
    lines += (f"{queue} does not exist any more" for queue in e.gone)
    return lines
