"""A live group as one value: who is in it, who has which queue, how far behind it is, and what looks wrong.

`Facts` is what was gathered (client/admin/viewing.py), `look_at` makes the view of it, `tell` says it in sentences and
`plan_change` tries out what a change of members would move: all without asking anybody.

Who has a queue: on a broker of ours its lock says so. Elsewhere, and for members that are not ours, members say it
themselves: then a queue may be claimed by two, or by none, and both are shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steelyard.balance.allocate import Plan, Rule, Strategy, find_strategy, plan
from steelyard.balance.allocate.strategy import remembers
from steelyard.balance.explain import Explanation, explain
from steelyard.balance.hazards import (
    Hazard,
    Progress,
    duplicate_ids,
    idle_members,
    not_progressing,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, in_order, names_in_order

__all__ = ["Facts", "GroupView", "Member", "QueueInGroup", "look_at", "plan_change", "tell"]

_JAVA_STRATEGY = "AVG"
_RETRY = "%RETRY%"
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
    """What it subscribes to; None where only the group's is known."""
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
        far = facts.progress.get(queue)
        rows.append(
            QueueInGroup(
                queue,
                owners.get(queue, ()),
                None if far is None else far.committed,
                None if far is None else far.end,
                facts.consumed.get(queue),
            )
        )
    samples = {
        queue: _samples(() if earlier is None else earlier.samples.get(queue, ()), now)
        for queue, now in facts.progress.items()
    }
    members = tuple(sorted(facts.members, key=lambda member: names_in_order([member.id])))
    view = GroupView(
        group=facts.group,
        at_ms=facts.at_ms,
        broadcast=facts.broadcast,
        kind=facts.kind,
        strategy=_strategy(members),
        members=members,
        queues=tuple(rows),
        hazards=(),
        notes=facts.notes,
        samples=samples,
    )
    return _with_hazards(view, tuple(_hazards(facts, view)))


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


def _strategy(members: Iterable[Member]) -> str | None:
    staying = [member for member in members if not member.leaving]
    if any(not member.ours for member in staying):
        return _JAVA_STRATEGY
    said = Counter(member.strategy for member in staying if member.strategy)
    return said.most_common(1)[0][0] if said else None


def _with_hazards(view: GroupView, hazards: tuple[Hazard, ...]) -> GroupView:
    return GroupView(
        group=view.group,
        at_ms=view.at_ms,
        broadcast=view.broadcast,
        kind=view.kind,
        strategy=view.strategy,
        members=view.members,
        queues=view.queues,
        hazards=hazards,
        notes=view.notes,
        samples=view.samples,
    )


def _hazards(facts: Facts, view: GroupView) -> Iterable[Hazard]:
    """Find what looks wrong. What a broker of ours says, it says for its own part and better: it sees the lines."""
    said: dict[str, None] = {}
    for sentences in facts.told.values():
        said |= dict.fromkeys(sentences)
    yield from (Hazard(sentence, sentence) for sentence in said)
    if not view.members or view.broadcast:
        return
    for broker, ids in facts.listed.items():
        if broker not in facts.our_brokers:
            yield from duplicate_ids(facts.group, ids)
    topics = {member.id: member.topics for member in view.members}
    known = {name: wanted for name, wanted in topics.items() if wanted is not None}
    if len(known) == len(view.members) and not said:
        yield from unequal_subscriptions(facts.group, known)
    yield from unequal_strategies(facts.group, {member.id: member.strategy for member in view.members if member.strategy})
    yield from _foreign(view)
    if facts.claimed or facts.locked:
        yield from idle_members(facts.group, view.owned())
        yield from unowned_queues(
            facts.group, [each.queue for each in view.queues], [each.queue for each in view.queues if each.owners]
        )
    yield from _claimed_twice(view)
    owner = {each.queue: each.owner for each in view.queues if each.owner is not None}
    yield from not_progressing(facts.group, view.samples, owner)


def _foreign(view: GroupView) -> Iterable[Hazard]:
    foreign = [member.id for member in view.members if not member.ours]
    if foreign and len(foreign) < len(view.members):
        yield Hazard(
            "foreign members",
            f"group {view.group} has members of other clients ({_some(foreign)}), so all of them share queues as Java "
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
    topics = [topic for topic in view.topics if not topic.startswith(_RETRY)] or list(view.topics)
    queues = _count(len(view.queues), "queue") + (f" of {_some(topics)}" if topics else "")
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
        what.append(f" with {_count(waiting, 'message')}: {_some([each.queue for each in mine])}")
    if member.started_at is not None:
        what.append(f"; there since {member.started_at:%Y-%m-%d %H:%M:%S} UTC")
    return "".join(what)


def _rest(view: GroupView) -> list[str]:
    return [*(hazard.sentence for hazard in view.hazards), *view.notes]


def plan_change(
    view: GroupView,
    *,
    join: Iterable[str] = (),
    leave: Iterable[str] = (),
    strategy: str | Strategy | Rule | None = None,
) -> Explanation:
    """Try out what members that join or leave, or another strategy, would move; nothing is asked or changed.

    Who joins counts as one of ours that subscribes to all topics. Members that are not ours, if any stay, make all
    share as Java does, unless a strategy is given.
    """
    joining, leaving = list(dict.fromkeys(join)), set(leave)
    there = {member.id: member for member in view.members}
    unknown = [name for name in leaving if name not in there]
    if unknown:
        raise ConfigurationError(
            f"{', '.join(sorted(unknown))} cannot leave group {view.group}: no member has that id",
            next_step=f"its members are {_some(list(there)) or 'none'}",
        )
    if twice := [name for name in joining if name in there]:
        raise ConfigurationError(
            f"{', '.join(twice)} cannot join group {view.group}: it is there already", next_step="give another id"
        )
    staying = [member for member in view.members if member.id not in leaving and not member.leaving]
    members = [*staying, *(Member(name, ours=True) for name in joining)]
    chosen = _chosen(view, members, strategy)
    previous = view.owned()
    after: Plan = {member.id: [] for member in members}
    for sharers, queues in _shared(view, members, chosen):
        for name, mine in plan(chosen, view.group, queues, sharers, previous=previous).items():
            after[name] += mine
    return explain(previous, after, [each.queue for each in view.queues])


def _chosen(view: GroupView, members: list[Member], strategy: str | Strategy | Rule | None) -> Strategy:
    if strategy is not None:
        return find_strategy(strategy)
    said = _strategy(member for member in members if member.id in {each.id for each in view.members})
    if said is None:
        raise ConfigurationError(
            f"nobody in group {view.group} says by which strategy it shares", next_step="give strategy, such as sticky"
        )
    try:
        return find_strategy(said)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"group {view.group} shares by {said}, which cannot be tried out here ({error.what})",
            next_step="give the strategy itself, or another one",
        ) from None


def _shared(view: GroupView, members: list[Member], strategy: Strategy) -> Iterable[tuple[list[str], list[Queue]]]:
    """Go through the topics with who shares each, as members do it (balance/planning.py)."""
    has_foreign = any(not member.ours for member in members)
    together: dict[tuple[str, ...], list[Queue]] = {}
    for topic in names_in_order(view.topics):
        sharers = tuple(
            member.id
            for member in members
            if has_foreign or member.topics is None or topic in member.topics or topic.startswith(_RETRY)
        )
        queues = [each.queue for each in view.queues if each.queue.topic == topic]
        if remembers(strategy) and not has_foreign:
            together.setdefault(sharers, []).extend(queues)
        else:
            yield list(sharers), queues
    for sharers, queues in together.items():
        yield list(sharers), queues


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _some(things: "list[Queue] | list[str]") -> str:
    more = len(things) - _NAMED
    return ", ".join(map(str, things[:_NAMED])) + (f" and {more} more" if more > 0 else "")
