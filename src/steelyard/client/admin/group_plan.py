"""What a change would move in a live group: a dry run, from a view of it and without asking anybody."""

from collections.abc import Iterable

from steelyard.balance.allocate import Plan, Rule, Strategy, find_strategy, plan
from steelyard.balance.allocate.strategy import remembers
from steelyard.balance.explain import Explanation, explain
from steelyard.client.admin.group_view import GroupView, Member, shared_by, some
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, names_in_order
from steelyard.model.names import RETRY

__all__ = ["plan_change"]


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
            next_step=f"its members are {some(list(there)) or 'none'}",
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
    said = shared_by(members) or view.strategy
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
            if has_foreign or member.topics is None or topic in member.topics or topic.startswith(RETRY)
        )
        queues = [each.queue for each in view.queues if each.queue.topic == topic]
        if not sharers:
            continue
        if remembers(strategy) and not has_foreign:
            together.setdefault(sharers, []).extend(queues)
        else:
            yield list(sharers), queues
    for sharers, queues in together.items():
        yield list(sharers), queues
