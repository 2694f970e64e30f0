"""A live group as one value: who is in it, who has which queue, how far behind it is, and what looks wrong.

`Facts` is what was gathered (client/admin/viewing.py), `look_at` makes the view of it and `tell` says it in sentences.
What a change of members would move is tried out in client/group_plan.py.

Who has a queue: on a broker of ours its lock says so. Elsewhere, and for members that are not ours, members say it
themselves: then a queue may be claimed by two, or by none, and both are shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from steelyard.balance.allocate import Plan
from steelyard.balance.hazards import (
    Hazard,
    Progress,
    duplicate_ids,
    idle_members,
    not_progressing,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.model import Queue, in_order, names_in_order, utf16_units
from steelyard.model.names import RETRY

__all__ = ["Facts", "GroupView", "Member", "QueueInGroup", "look_at", "shared_by", "some", "tell"]

_JAVA_STRATEGY = "AVG"
_NAMED = 12


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as its brokers know it; what they do not tell is None or empty."""

    id: str
    address: str = ""
    language: str = ""
    release: str = ""
    ours: bool = False
    """Whether it is one of Steelyard's."""
    strategy: str | None = None
    topics: tuple[str, ...] | None = None
    """What it subscribes to, without its group's retries; None where that is not known."""
    filters: Mapping[str, str] | None = None
    """What it wants of each of them, tags or an expression; None where that is not known."""
    leaving: bool = False
    brokers: tuple[str, ...] = ()
    """Where it is registered."""
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueInGroup:
    """A queue that the group reads: who has it, and how far that is."""

    queue: Queue
    owners: tuple[str, ...] = ()
    """One, if all is well."""
    committed: int | None = None
    end: int | None = None
    consumed_at: datetime | None = None
    owned_at: datetime | None = None
    """Since when its owner has it, where that tells; only members of ours do."""

    @property
    def owner(self) -> str | None:
        """Who has it; None if nobody or several have."""
        return self.owners[0] if len(self.owners) == 1 else None

    @property
    def lag(self) -> int | None:
        """How many messages wait; None where that is not known."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was gathered of a group."""

    group: str
    at_ms: int
    members: tuple[Member, ...] = ()
    broadcast: bool = False
    kind: str | None = None
    """How it gets its messages: push, pull or pop."""
    topics: frozenset[str] = frozenset()
    """What the group subscribes to."""
    queues: tuple[Queue, ...] = ()
    """What can be read of its topics."""
    locked: Mapping[Queue, str] = field(default_factory=dict)
    """Who has a queue, by brokers of ours."""
    our_brokers: frozenset[str] = frozenset()
    claimed: Mapping[str, frozenset[Queue]] = field(default_factory=dict)
    """What members say that they have."""
    owned_at: Mapping[tuple[str, Queue], datetime] = field(default_factory=dict)
    """Since when members have what they have, as they say."""
    progress: Mapping[Queue, Progress] = field(default_factory=dict)
    consumed: Mapping[Queue, datetime] = field(default_factory=dict)
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids that each broker lists, as it lists them."""
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each broker of ours finds wrong."""
    notes: tuple[str, ...] = ()
    """What could not be found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group as it was at a moment. ``print`` it, or take it apart."""

    group: str
    at_ms: int
    broadcast: bool
    kind: str | None
    strategy: str | None
    """By which its members share their queues; None where they do not say."""
    members: tuple[Member, ...]
    queues: tuple[QueueInGroup, ...]
    hazards: tuple[Hazard, ...]
    notes: tuple[str, ...]
    samples: Mapping[Queue, tuple[Progress, ...]] = field(repr=False)
    """Since when each queue is where it is: grows from view to view."""

    @property
    def lag(self) -> int:
        """How many messages wait in all."""
        return sum(each.lag or 0 for each in self.queues)

    @property
    def topics(self) -> tuple[str, ...]:
        """What it reads."""
        return tuple(dict.fromkeys(each.queue.topic for each in self.queues))

    def owned(self) -> Plan:
        """Return the queues of each member."""
        mine: Plan = {member.id: [] for member in self.members}
        for each in self.queues:
            for owner in each.owners:
                mine.setdefault(owner, []).append(each.queue)
        return mine

    def __str__(self) -> str:
        """Return it in sentences, one a line."""
        return "\n".join(tell(self))


def look_at(facts: Facts, earlier: GroupView | None = None) -> GroupView:
    """Make a view of what was gathered; with an ``earlier`` one it is seen what does not move."""
    owners = _owners(facts)
    rows = []
    for queue in in_order(facts.queues):
        far, mine = facts.progress.get(queue), owners.get(queue, ())
        rows.append(
            QueueInGroup(
                queue,
                mine,
                None if far is None else far.committed,
                None if far is None else far.end,
                facts.consumed.get(queue),
                facts.owned_at.get((mine[0], queue)) if len(mine) == 1 else None,
            )
        )
    samples = {
        queue: _samples(() if earlier is None else earlier.samples.get(queue, ()), now)
        for queue, now in facts.progress.items()
    }
    members = tuple(sorted(facts.members, key=lambda member: utf16_units(member.id)))
    view = GroupView(
        group=facts.group,
        at_ms=facts.at_ms,
        broadcast=facts.broadcast,
        kind=facts.kind,
        strategy=shared_by(members),
        members=members,
        queues=tuple(rows),
        hazards=(),
        notes=facts.notes,
        samples=samples,
    )
    return replace(view, hazards=tuple(_hazards(facts, view)))


def _owners(facts: Facts) -> dict[Queue, tuple[str, ...]]:
    """Return who has each queue: the lock's word of ours, the members' own of all others."""
    ours = {member.id for member in facts.members if member.ours}
    found: dict[Queue, list[str]] = {queue: [owner] for queue, owner in facts.locked.items()}
    for member in names_in_order(facts.claimed):
        for queue in facts.claimed[member]:
            believed = member not in ours or queue.broker not in facts.our_brokers
            if believed and member not in found.get(queue, ()):
                found.setdefault(queue, []).append(member)
    return {queue: tuple(members) for queue, members in found.items()}


def _samples(before: tuple[Progress, ...], now: Progress) -> tuple[Progress, ...]:
    """Return since when a queue is where it is, and now: two samples at most, however long somebody watches."""
    if before and before[0].committed == now.committed and before[0].end > before[0].committed:
        return before[0], now
    return (now,)


def shared_by(members: Iterable[Member]) -> str | None:
    """Return the strategy of these members: one that is not ours makes all share as Java does."""
    staying = [member for member in members if not member.leaving]
    if any(not member.ours for member in staying):
        return _JAVA_STRATEGY
    said = Counter(member.strategy for member in staying if member.strategy)
    return said.most_common(1)[0][0] if said else None


def _hazards(facts: Facts, view: GroupView) -> Iterable[Hazard]:
    """Find what looks wrong. What a broker of ours says, it says for its own part and better: it sees the lines."""
    said: dict[str, None] = {}
    for sentences in facts.told.values():
        said |= dict.fromkeys(sentences)
    yield from (Hazard(sentence, sentence) for sentence in said)
    if not view.members or view.broadcast:
        return
    listed = [ids for broker, ids in facts.listed.items() if broker not in facts.our_brokers]
    # Every broker of the group lists the same, and it is told once.
    yield from dict.fromkeys(each for ids in listed for each in duplicate_ids(facts.group, ids))
    topics = {member.id: member.topics for member in view.members if member.topics is not None}
    if len(topics) == len(view.members):
        if not facts.our_brokers:
            yield from unequal_subscriptions(facts.group, topics)
            yield from unequal_filters(
                facts.group, {member.id: member.filters for member in view.members if member.filters is not None}
            )
        elif all(member.ours for member in view.members):
            yield from unequal_subscriptions(facts.group, topics, by_subscribers=True)
    yield from unequal_strategies(
        facts.group, {member.id: member.strategy for member in view.members if member.strategy}
    )
    yield from _foreign(view)
    if facts.claimed or facts.locked:
        yield from _idle(view)
        owned = [each.queue for each in view.queues if each.owners]
        yield from unowned_queues(facts.group, facts.queues, owned)
    yield from _claimed_twice(view)
    owner = {each.queue: each.owner for each in view.queues if each.owner is not None}
    yield from not_progressing(facts.group, view.samples, owner)


def _idle(view: GroupView) -> Iterable[Hazard]:
    """Find members for whom there is no queue; while there are enough, one without has just come, or is going."""
    staying = {member.id for member in view.members if not member.leaving}
    users = [each for each in view.queues if not each.queue.topic.startswith(RETRY)]
    if len(staying) > len(users):
        shares = {name: [each.queue for each in users if name in each.owners] for name in staying}
        yield from idle_members(view.group, shares)


def _foreign(view: GroupView) -> Iterable[Hazard]:
    foreign = [member.id for member in view.members if not member.ours]
    if foreign and len(foreign) < len(view.members):
        yield Hazard(
            "foreign members",
            f"group {view.group} has members of other clients ({some(foreign)}), so all of them share queues as Java "
            f"does, by {_JAVA_STRATEGY}, and more queues move than need to",
        )


def _claimed_twice(view: GroupView) -> Iterable[Hazard]:
    for each in view.queues:
        if len(each.owners) > 1:
            yield Hazard(
                f"claimed twice {each.queue}",
                f"{each.queue} is read by {' and '.join(each.owners)} in group {view.group}: its messages are handled "
                "twice; wait for a hand-over to end, then look for members with unequal ids, strategies or views",
            )


def tell(view: GroupView) -> list[str]:
    """Tell a group in sentences: the sum, its members, the queues that nobody has, what looks wrong.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> member = Member("c1@sy1", "10.0.0.1:5000", ours=True, strategy="STICKY")
    >>> facts = Facts(group="billing", at_ms=0, members=(member,), queues=(queue,), locked={queue: "c1@sy1"},
    ...               our_brokers=frozenset({"broker-a"}), progress={queue: Progress(0, 5, 9)})
    >>> print(look_at(facts))
    group billing has 1 member and 1 queue of orders, shared by STICKY; 4 messages wait
    c1@sy1 at 10.0.0.1:5000 has 1 queue with 4 messages: orders@broker-a:0
    """
    return [_sum(view), *(_of_member(view, member) for member in view.members), *_rest(view)]


def _sum(view: GroupView) -> str:
    members = _count(len(view.members), "member")
    topics = [topic for topic in view.topics if not topic.startswith(RETRY)]
    retries = sum(each.queue.topic.startswith(RETRY) for each in view.queues)
    queues = _count(len(view.queues) - retries, "queue") + (f" of {some(topics)}" if topics else "")
    queues += f" (and {retries} of retries)" if retries else ""
    how = ", each member reads all" if view.broadcast else f", shared by {view.strategy}" if view.strategy else ""
    return f"group {view.group} has {members} and {queues}{how}; {_count(view.lag, 'message')} wait" + (
        "s" if view.lag == 1 else ""
    )


def _of_member(view: GroupView, member: Member) -> str:
    mine = [each for each in view.queues if member.id in each.owners]
    what = [f"{member.id}{f' at {member.address}' if member.address else ''}"]
    if not member.ours:
        what.append(f" ({' '.join(filter(None, ('not ours', member.language, member.release)))})")
    if member.leaving:
        what.append(", which is about to leave,")
    waiting = sum(each.lag or 0 for each in mine)
    what.append(f" has {_count(len(mine), 'queue')}")
    if mine:
        what.append(f" with {_count(waiting, 'message')}: {some([each.queue for each in mine])}")
    if member.started_at is not None:
        what.append(f"; there since {member.started_at:%Y-%m-%d %H:%M:%S} UTC")
    return "".join(what)


def _rest(view: GroupView) -> list[str]:
    return [*(hazard.sentence for hazard in view.hazards), *view.notes]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(things: Sequence[object]) -> str:
    """Name the first of some things, and count the rest."""
    more = len(things) - _NAMED
    return ", ".join(map(str, things[:_NAMED])) + (f" and {more} more" if more > 0 else "")
