"""From a sight of the group to the queues of one member: which strategy, from which owners, for which topics.

The rule is that members which see the same make plans that fit together. So

- with a foreign member in the group everybody shares as Java does: each topic by itself, among all ids of the list;
- otherwise the strategy that the group was set up with, unless it needs to know owners and there are too many members
  to ask: then the Java strategy too, chosen from the list of ids alone, so that all members change together;
- a member that does not answer may be hung, slow or cut off from us, and nobody can take a queue from it. What it last
  reported stays with it, and what others hold stays with them: a queue that is given up now, its next owner could not
  be sure of. Only queues that nobody holds find new owners, among the members that answer;
- where it is known what each member subscribes to, a topic is shared among its subscribers only, and no queue stays
  unread. A strategy that remembers owners is given all topics at once that have the same subscribers. Those topics are
  in the plan of each of these members, whatever else it reads, and so their plans are made from the same facts;
- a strategy that raises skips its topics: what was planned there stays planned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.balance.allocate.strategy import Owned, Remembering, Strategy, remembers
from steelyard.balance.member_options import MemberOptions
from steelyard.model import Queue, in_order, names_in_order

__all__ = ["Group", "Outcome", "choose_strategy", "owned_by", "plan_for"]


@dataclass(frozen=True, slots=True)
class Group:
    """What a plan is made from."""

    members: Sequence[str]
    """In the agreed order, without those about to leave."""
    queues: Mapping[str, Sequence[Queue]]
    """By topic, in the agreed order."""
    owners: Owned | None = None
    """What each member has, or last reported; None if that cannot be known."""
    topics: Mapping[str, frozenset[str]] | None = None
    """What each member subscribes to; None if that is not known of all."""
    has_foreign: bool = False
    unheard: frozenset[str] = frozenset()
    """Members that do not answer what they have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The plan of one member."""

    queues: tuple[Queue, ...]
    strategy_name: str
    skipped: Mapping[str, str]
    """Topics for which the strategy failed, and why."""


def choose_strategy(options: MemberOptions, group: Group) -> Strategy:
    """Return the strategy by which all members share at this moment."""
    if group.has_foreign or (remembers(options.strategy) and group.owners is None):
        return options.java_strategy
    return options.strategy


def plan_for(options: MemberOptions, group: Group, before: Sequence[Queue]) -> Outcome:
    """Plan the queues of this member; ``before`` is its last plan, which stays where the strategy fails.

    >>> from steelyard.balance.allocate import Average
    >>> from steelyard.model import Subscription
    >>> options = MemberOptions("billing", "c2@sy1", {"t": Subscription("t")}, strategy=Average())
    >>> queues = {"t": [Queue("t", "broker-a", number) for number in range(4)]}
    >>> outcome = plan_for(options, Group(["c1@sy1", "c2@sy1"], queues), before=())
    >>> print(*outcome.queues, outcome.strategy_name)
    t@broker-a:2 t@broker-a:3 AVG
    """
    strategy = choose_strategy(options, group)
    if group.owners is not None and isinstance(strategy, Remembering):
        strategy = strategy.after(group.owners)
    if remembers(strategy) and not group.has_foreign:
        parts = _by_sharers(options, group)
    else:
        parts = ((members, [topic]) for members, topics in _by_sharers(options, group) for topic in topics)
    stays = _stays(options, group)
    mine: list[Queue] = []
    skipped: dict[str, str] = {}
    for members, topics in parts:
        queues = [queue for topic in topics for queue in group.queues[topic]]
        if stays:
            members = [member for member in members if member not in group.unheard]
            mine += [queue for queue in queues if stays.get(queue) == options.id]
            queues = [queue for queue in queues if stays.get(queue) not in group.unheard]
        try:
            chosen = _of_these(queues, strategy(options.group, options.id, queues, members)) if queues else ()
        # A strategy may be the user's own, and fail in any way: whatever it is, nothing changes hands for it.
        except Exception as error:
            skipped.update(dict.fromkeys(topics, str(error) or repr(error)))
            there = frozenset(queues)
            chosen = [queue for queue in before if queue in there]
        mine += [queue for queue in chosen if queue not in stays]
    return Outcome(tuple(in_order(mine)), strategy.name, skipped)


def owned_by(owners: Mapping[Queue, str]) -> dict[str, list[Queue]]:
    """Turn the owner of each queue into the queues of each owner.

    >>> owned_by({Queue("t", "a", 0): "c1"})
    {'c1': [Queue(topic='t', broker='a', queue_id=0)]}
    """
    owned: dict[str, list[Queue]] = {}
    for queue, member in owners.items():
        owned.setdefault(member, []).append(queue)
    return owned


def _stays(options: MemberOptions, group: Group) -> Mapping[Queue, str]:
    """Return the owner of each queue that stays where it is since a member does not answer: of all that are held."""
    if not group.unheard or group.owners is None or not remembers(options.strategy):
        return {}
    there = frozenset(group.members)
    return {queue: member for member, queues in group.owners.items() if member in there for queue in queues}


def _of_these(queues: Sequence[Queue], chosen: Sequence[Queue]) -> Sequence[Queue]:
    """Drop what a strategy gives besides what it was asked for: fixed lists name the queues of every topic."""
    there = frozenset(queues)
    return [queue for queue in dict.fromkeys(chosen) if queue in there]


def _by_sharers(options: MemberOptions, group: Group) -> Iterator[tuple[Sequence[str], list[str]]]:
    """Go through the topics, those with the same subscribers together, with the members that share them."""
    names = names_in_order(group.queues)
    if group.topics is None or group.has_foreign:
        if names:
            yield group.members, names
        return
    together: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        together.setdefault(_sharers(options, group.members, group.topics, name), []).append(name)
    yield from together.items()


def _sharers(
    options: MemberOptions, members: Sequence[str], topics: Mapping[str, frozenset[str]], name: str
) -> tuple[str, ...]:
    if name == options.retry_topic:
        return tuple(members)
    # Nobody knows better than we do what we subscribe to.
    return tuple(member for member in members if member == options.id or name in topics.get(member, ()))
