"""Two plans → what moved, why, and how far from the least possible. Works for the plans of any strategy.

A queue *moves* if somebody had it before and somebody else has it now, whether the first owner is still there or has
left. A queue that nobody had before does not move, it is handed out; a queue that the plan gives to nobody does not
move either, it is unowned. The least possible is counted in the same way, over all plans that give every queue to a
member and keep members within one queue of each other, in each topic and over all: a plan that is less even than that
can move fewer.

Reasons are told in the order of the queues, as if they changed hands one after the other: a member's share is what the
new plan gives it of the topic, so one that has two too many is first told to have two more than its share, then one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from steelyard.balance.allocate import Owned, cut_by_topic, least_moves, owners_before
from steelyard.model import Queue, in_order, names_in_order

__all__ = ["Change", "Explanation", "Overlap", "Why", "explain", "in_words", "tell"]


class Why(Enum):
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
    """Nobody had it before."""
    UNOWNED = "unowned"
    """The plan gives it to nobody."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one queue: its owner before and now, why, and by how many queues if it is a matter of share."""

    queue: Queue
    before: str | None
    now: str | None
    why: Why
    by: int = 0

    @property
    def moved(self) -> bool:
        """Whether somebody had it before and somebody else has it now."""
        return self.before is not None and self.now is not None and self.before != self.now


@dataclass(frozen=True, slots=True)
class Overlap:
    """A queue that the plan gives to several members: each would handle its messages."""

    queue: Queue
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a plan changes. ``moved`` can be held against ``least``; ``most`` and ``fewest`` are queues of a member."""

    changes: tuple[Change, ...]
    moved: int
    least: int
    most: int
    fewest: int
    idle: tuple[str, ...]
    """Members that get nothing."""
    overlaps: tuple[Overlap, ...]
    gone: tuple[Queue, ...]
    """Queues that somebody had before and that are not there any more."""

    def count(self, why: Why) -> int:
        """Return how many queues are where they are for that reason."""
        return sum(change.why is why for change in self.changes)


def explain(previous: Owned, plan: Owned, queues: Iterable[Queue] | None = None) -> Explanation:
    """Explain a plan against the owners before it. ``queues`` are all there are; without them, all that are planned.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> told = explain({"c1": queues[:2], "c2": queues[2:]}, {"c1": queues[:2], "c2": queues[2:3], "c3": queues[3:]})
    >>> told.moved, told.least, told.most, told.fewest
    (1, 1, 2, 1)
    >>> in_words(told.changes[3])
    'orders@broker-a:3 goes from c2 to c3: c2 had one more than its share'
    """
    lists = {member: list(plan[member]) for member in names_in_order(plan)}
    listed = in_order(dict.fromkeys(chain.from_iterable(lists.values()) if queues is None else queues))
    # The members first, then those who left: so a queue claimed by both counts for the one that is still there.
    everybody = [*lists, *names_in_order(set(previous).difference(plan))]
    owner = owners_before(previous, listed, everybody)
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
        least=least_moves(cut_by_topic(listed)[1], len(lists), owner) if lists else 0,
        most=max(sizes, default=0),
        fewest=min(sizes, default=0),
        idle=tuple(member for member, mine in lists.items() if not mine),
        overlaps=tuple(
            Overlap(queue, tuple(owners_now[queue])) for queue in listed if len(owners_now.get(queue, ())) > 1
        ),
        gone=tuple(in_order({queue for had in previous.values() for queue in had if queue not in there})),
    )


def _changes(
    queues: Sequence[Queue],
    names_before: Sequence[str | None],
    owners_now: dict[Queue, list[str]],
    *,
    members: frozenset[str],
) -> list[Change]:
    # What each member still lacks of each topic to have its share; less than nothing: how much it has too many.
    lacks = Counter((queue.topic, member) for queue in queues for member in owners_now.get(queue, ()))
    lacks.subtract((queue.topic, name) for queue, name in zip(queues, names_before, strict=True) if name in members)
    changes: list[Change] = []
    for queue, before in zip(queues, names_before, strict=True):
        owners = owners_now.get(queue, [])
        now = before if before in owners else next(iter(owners), None)
        why, by = _reason(queue.topic, before, now, lacks, members)
        changes.append(Change(queue, before, now, why, by))
        if before != now:
            for member, units in ((before, 1), (now, -1)):
                if member in members:
                    lacks[queue.topic, member] += units
    return changes


def _reason(
    topic: str, before: str | None, now: str | None, lacks: Counter[tuple[str, str]], members: frozenset[str]
) -> tuple[Why, int]:
    if now is None:
        return Why.UNOWNED, 0
    if before is None:
        return Why.NEW_QUEUE, 0
    if before == now:
        return Why.KEPT, 0
    if before not in members:
        return Why.OWNER_LEFT, 0
    if (surplus := -lacks[topic, before]) > 0:
        return Why.SURPLUS, surplus
    if (room := lacks[topic, now]) > 0:
        return Why.ROOM, room
    return Why.REARRANGED, 0


def in_words(change: Change) -> str:
    """Tell one change as a sentence.

    >>> in_words(Change(Queue("orders", "broker-a", 3), "c1", "c3", Why.OWNER_LEFT))
    'orders@broker-a:3 goes from c1 to c3: c1 left'
    """
    queue, before, now = change.queue, change.before, change.now
    more = "one more" if change.by == 1 else f"{change.by} more"
    match change.why:
        case Why.KEPT:
            return f"{queue} stays with {now}"
        case Why.NEW_QUEUE:
            return f"{queue} goes to {now}: nobody had it before"
        case Why.UNOWNED:
            return f"{queue} goes {f'from {before} ' if before else ''}to nobody: the plan leaves it out"
        case Why.OWNER_LEFT:
            reason = f"{before} left"
        case Why.SURPLUS:
            reason = f"{before} had {more} than its share"
        case Why.ROOM:
            reason = f"{now} had room for {more}"
        case Why.REARRANGED:
            reason = "the strategy places it there, though neither had to change"
    return f"{queue} goes from {before} to {now}: {reason}"


def tell(explanation: Explanation) -> list[str]:
    """Tell a plan in sentences: the sum first, then everything that is not as it was, then what looks wrong.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(2)]
    >>> for line in tell(explain({"c1": queues}, {"c1": queues[:1], "c2": queues})):
    ...     print(line)
    1 of 2 queues moves, and 1 is the least possible; a member has 1 to 2 queues
    orders@broker-a:1 goes from c1 to c2: c1 had one more than its share
    orders@broker-a:0 is given to c1 and c2: each would handle its messages
    """
    e = explanation
    share = f"{e.most}" if e.most == e.fewest else f"{e.fewest} to {e.most}"
    moves, queues = "moves" if e.moved == 1 else "move", "queue" if e.most == 1 else "queues"
    total = f"{e.moved} of {len(e.changes)} queues {moves}, and {e.least} is the least possible"
    lines = [f"{total}; a member has {share} {queues}"]
    lines += (in_words(change) for change in e.changes if change.why is not Why.KEPT)
    lines += (
        f"{overlap.queue} is given to {', '.join(overlap.members[:-1])} and {overlap.members[-1]}: "
        "each would handle its messages"
        for overlap in e.overlaps
    )
    lines += (f"{member} gets nothing" for member in e.idle)
    lines += (f"{queue} is not there any more" for queue in e.gone)
    return lines
