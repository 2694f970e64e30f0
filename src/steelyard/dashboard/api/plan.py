"""The page `plan`: what members that come or go, or another strategy, would move. Everything is only worked out.

The group is asked how it is, as any look at it does; the rest is arithmetic (client/admin/group_plan.py), done for all
strategies that need no settings, so that they can be held against each other. Members are told as places in one list,
owners of queues as such places, and nobody as -1.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from steelyard.balance.allocate import BUILT_IN
from steelyard.balance.explain import Explanation, Why
from steelyard.client.admin.group_plan import plan_change
from steelyard.client.admin.group_view import GroupView, shared_by
from steelyard.client.short_names import short_names
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import reads
from steelyard.errors import ConfigurationError

__all__ = ["ROUTES", "PlanAnswer", "PlannedChange", "PlannedMember", "PlannedQueue", "StrategyTried"]

_LOOK_MS = 1_500
_MOST_QUEUES = 2_000
_MOST_JOINING = 64
_LONGEST_NAME = 255
_NOBODY = -1


class PlannedMember(Struct, frozen=True):
    """A member that is in the group, or would be."""

    id: str
    name: str
    """Its short name, by which the address of the page and the command line call it."""
    ours: bool
    wish: str
    """``stays``, ``leaves`` or ``joins``."""
    now: int
    """How many queues it has now."""


class PlannedQueue(Struct, frozen=True):
    """A queue that the group reads."""

    topic: str
    broker: str
    queue_id: int
    lag: int | None
    owner: int
    """Who has it now."""


class PlannedChange(Struct, frozen=True):
    """A queue that is not where it was, and why."""

    queue: int
    before: int
    now: int
    why: str
    by: int


class StrategyTried(Struct, frozen=True):
    """What one strategy would do."""

    name: str
    java: str | None
    """Java's name for it."""
    is_own: bool
    """Whether the group shares by it."""
    why_not: str | None = None
    """Set if it cannot be tried; all else is empty then."""
    moved: int = 0
    least: int = 0
    most: int = 0
    fewest: int = 0
    owners: tuple[int, ...] = ()
    """Who would have each queue."""
    counts: tuple[int, ...] = ()
    """How many queues each member would have."""
    changes: tuple[PlannedChange, ...] = ()
    overlaps: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Queues that several members would get."""
    idle: tuple[int, ...] = ()


class PlanAnswer(Struct, frozen=True):
    """A group, a wish, and what each strategy makes of it."""

    group: str
    command: str
    at_ms: int
    chosen: str
    """The strategy that was asked for, or the group's own."""
    broadcast: bool
    members: tuple[PlannedMember, ...]
    queues: tuple[PlannedQueue, ...]
    strategies: tuple[StrategyTried, ...]
    hazards: tuple[str, ...]
    notes: tuple[str, ...]


class _Wish(Struct, frozen=True):
    """What was asked for, as far as it fits the group."""

    join: tuple[str, ...]
    leave: tuple[str, ...]
    strategy: str | None
    notes: tuple[str, ...]


@reads("/api/groups/{group}/plan")
async def _plan(desk: Desk, ask: Ask) -> PlanAnswer:
    group = ask.path("group")

    async def look(earlier: GroupView | None) -> GroupView:
        return await desk.admin.group(group, earlier, is_known=earlier is not None, ask_members=False)

    view = await desk.watches.latest(("plan", group), _LOOK_MS, look)
    if len(view.queues) > _MOST_QUEUES:
        raise ConfigurationError(
            f"group {group} reads {len(view.queues)} queues, too many to be drawn",
            next_step=f"plan it on the command line: {desk.command('plan', '--group', group)}",
        )
    wish = _wish(view, _listed(ask.text("join")), _listed(ask.text("leave")), ask.text("strategy"))
    # Aside, since it may take a while for many queues, and others ask meanwhile.
    return await asyncio.to_thread(_answer, view, wish, desk.command)


def _listed(text: str | None) -> list[str]:
    """Read names between commas; a comma that belongs to a name is written as ``%2C``, and ``%`` as ``%25``.

    >>> _listed("till-1,a%2Cb,,100%25")
    ['till-1', 'a,b', '100%']
    """
    parts = (part.replace("%2C", ",").replace("%25", "%") for part in (text or "").split(","))
    return list(dict.fromkeys(filter(None, parts)))


def _wish(view: GroupView, join: list[str], leave: list[str], strategy: str | None) -> _Wish:
    """Hold a wish against the group as it is: an address may be older than what it asks for."""
    if len(join) > _MOST_JOINING or any(len(name) > _LONGEST_NAME for name in join):
        raise ConfigurationError(
            f"{len(join)} members would join", next_step=f"give {_MOST_JOINING} at most, of {_LONGEST_NAME} letters"
        )
    ids = [member.id for member in view.members]
    meant = {**{short: id_ for id_, short in short_names(ids).items()}, **{id_: id_ for id_ in ids}}
    notes = [f"{name} is not in the group any more, so it cannot leave" for name in leave if name not in meant]
    notes += (f"{name} is in the group already, so it cannot join" for name in join if name in meant)
    if strategy is not None and BUILT_IN.get(strategy) is None:
        notes.append(f"there is no strategy called {strategy}")
        strategy = None
    return _Wish(
        tuple(name for name in join if name not in meant),
        tuple(meant[name] for name in leave if name in meant),
        strategy,
        tuple(notes),
    )


def _answer(view: GroupView, wish: _Wish, command: Callable[..., str]) -> PlanAnswer:
    members = _members(view, wish)
    places = {member.id: place for place, member in enumerate(members)}
    own = shared_by(member for member in view.members if member.id not in wish.leave) or view.strategy
    own_known = None if own is None else BUILT_IN.get(own)
    # Who cannot be asked by which strategy it shares is best told what the least possible would be.
    said = wish.strategy or (None if own_known is not None else "sticky")
    chosen = BUILT_IN.get(said or own or "")
    names = {member.id: member.name for member in members}
    words = [word for name in wish.join for word in ("--join", name)]
    words += (word for id_ in wish.leave for word in ("--leave", names[id_]))
    return PlanAnswer(
        view.group,
        command("plan", "--group", view.group, *words, "--strategy", said),
        view.at_ms,
        "" if chosen is None else chosen.name,
        view.broadcast,
        members,
        tuple(
            PlannedQueue(*each.queue, each.lag, places.get(each.owners[0], _NOBODY) if each.owners else _NOBODY)
            for each in view.queues
        ),
        () if view.broadcast else tuple(_tried(view, wish, own, places)),
        tuple(hazard.sentence for hazard in view.hazards),
        (*wish.notes, *_remarks(view, own, own_known is not None), *view.notes),
    )


def _members(view: GroupView, wish: _Wish) -> tuple[PlannedMember, ...]:
    owned = view.owned()
    names = short_names([*owned, *wish.join])
    there = {member.id: member for member in view.members}
    found = [
        PlannedMember(
            id_,
            names[id_],
            id_ in there and there[id_].ours,
            # Who is listed by a lock alone, or is about to go, is gone in every plan.
            "leaves" if id_ in wish.leave or id_ not in there or there[id_].leaving else "stays",
            len(queues),
        )
        for id_, queues in owned.items()
    ]
    return (*found, *(PlannedMember(name, names[name], True, "joins", 0) for name in wish.join))


def _tried(view: GroupView, wish: _Wish, own: str | None, places: dict[str, int]) -> Iterable[StrategyTried]:
    own_known = None if own is None else BUILT_IN.get(own)
    for known in BUILT_IN.known:
        is_own = known is own_known
        try:
            told = plan_change(view, join=wish.join, leave=wish.leave, strategy=known.name)
        except ConfigurationError as error:
            yield StrategyTried(known.name, known.java, is_own, error.what)
        else:
            yield _told(StrategyTried(known.name, known.java, is_own), told, view, places)
    if own is not None and own_known is None:
        yield StrategyTried(own, None, is_own=True, why_not=f"the strategy {own} is not known here")


def _told(blank: StrategyTried, told: Explanation, view: GroupView, places: dict[str, int]) -> StrategyTried:
    numbers = {each.queue: number for number, each in enumerate(view.queues)}

    def place(name: str | None) -> int:
        return _NOBODY if name is None else places.get(name, _NOBODY)

    owners = [_NOBODY] * len(numbers)
    counts = [0] * len(places)
    for change in told.changes:
        owners[numbers[change.queue]] = place(change.now)
        if change.now is not None:
            counts[place(change.now)] += 1
    overlaps = tuple((numbers[each.queue], tuple(map(place, each.members))) for each in told.overlaps)
    for number, several in overlaps:
        for member in several:
            counts[member] += member != owners[number]
    return StrategyTried(
        blank.name,
        blank.java,
        blank.is_own,
        moved=told.moved,
        least=told.least,
        most=told.most,
        fewest=told.fewest,
        owners=tuple(owners),
        counts=tuple(counts),
        changes=tuple(
            PlannedChange(numbers[each.queue], place(each.before), place(each.now), each.why.name.lower(), each.by)
            for each in told.changes
            if each.why is not Why.KEPT
        ),
        overlaps=overlaps,
        idle=tuple(map(place, told.idle)),
    )


def _remarks(view: GroupView, own: str | None, is_known: bool) -> Sequence[str]:
    """Say what makes the real group differ from the plan."""
    if view.broadcast:
        return ["every member of this group reads all queues, so there is nothing to share"]
    found = []
    if view.kind == "pop":
        found.append("this group pops messages: its brokers hand out messages and not queues")
    if view.members and own is None:
        found.append("nobody in the group says by which strategy it shares")
    elif view.members and not is_known:
        found.append(f"the group shares by {own}, which cannot be tried out here")
    if any(not member.ours for member in view.members):
        found.append(
            "members of other clients do not say by which strategy they share: Java's own, AVG, is taken for it"
        )
    return found


ROUTES = (_plan,)
