"""Dry run of a rebalance: what joining or leaving members, or another strategy, would move. Nothing is changed.

All strategies that need no options are tried. Owners are indexes into one list of members, -1 for none.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from steelyard.balance.assignors import BUILT_IN_STRATEGIES
from steelyard.balance.assignors.explain import ChangeReason, Explanation
from steelyard.client.admin.group_description import GroupDescription, dry_run_rebalance, effective_strategy
from steelyard.dashboard.api_routing import ApiRequest, query_route
from steelyard.dashboard.context import DashboardContext
from steelyard.errors import ConfigurationError
from steelyard.model.formatting import short_names

_POLL_MS = 1_500
_MAX_QUEUES = 2_000
_MAX_JOINING = 64
_MAX_NAME_LENGTH = 255
_NO_OWNER = -1


class _PlannedMember(Struct, frozen=True):
    """A member of the group, now or in the plan."""

    id: str
    name: str  # its short name, as used in the URL and on the command line
    is_steelyard: bool
    change: str  # ``stays``, ``leaves`` or ``joins``
    queues_now: int  # how many queues it owns now


class _PlannedQueue(Struct, frozen=True):
    """A queue that the group reads."""

    topic: str
    broker: str
    queue_id: int
    lag: int | None
    owner: int  # its owner now


class _PlannedChange(Struct, frozen=True):
    """A queue that would move, and why."""

    queue: int
    before: int
    after: int
    why: str
    by: int


class _StrategyResult(Struct, frozen=True):
    """The result of one strategy."""

    name: str
    java_name: str | None  # its name in Java
    is_current: bool  # whether the group uses it
    unavailable_reason: str | None = None  # why it cannot be tried; all else is empty then
    moved: int = 0
    min_moves: int = 0
    max_queues: int = 0
    min_queues: int = 0
    owners: tuple[int, ...] = ()  # the owner of each queue
    counts: tuple[int, ...] = ()  # the number of queues of each member
    changes: tuple[_PlannedChange, ...] = ()
    overlaps: tuple[tuple[int, tuple[int, ...]], ...] = ()  # queues that would have several owners
    idle: tuple[int, ...] = ()


class _PlanResponse(Struct, frozen=True):
    """A group, and the result of each strategy."""

    group: str
    command: str
    at_ms: int
    chosen: str  # the requested strategy, or that of the group
    broadcast: bool
    members: tuple[_PlannedMember, ...]
    queues: tuple[_PlannedQueue, ...]
    strategies: tuple[_StrategyResult, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


class _PlanRequest(Struct, frozen=True):
    """The requested changes, as far as they fit the group."""

    join: tuple[str, ...]
    leave: tuple[str, ...]
    strategy: str | None
    notes: tuple[str, ...]


@query_route("/api/groups/{group}/plan")
async def _plan(context: DashboardContext, request: ApiRequest) -> _PlanResponse:
    group = request.path("group")

    view = await context.polls.latest(
        ("plan", group),
        _POLL_MS,
        lambda earlier: context.admin.groups.describe(group, earlier, is_known=earlier is not None, ask_members=False),
    )
    if len(view.queues) > _MAX_QUEUES:
        raise ConfigurationError(
            f"group {group} reads {len(view.queues)} queues, too many to show",
            next_step=f"plan it on the command line: {context.command('plan', '--group', group)}",
        )
    wanted = _plan_request(
        view, _split_names(request.text("join")), _split_names(request.text("leave")), request.text("strategy")
    )
    # In a thread: it may take a while for many queues, and must not block other requests.
    return await asyncio.to_thread(_plan_response, view, wanted, context.command)


def _split_names(text: str | None) -> list[str]:
    """Parse names between commas; a comma in a name is written as ``%2C``, and ``%`` as ``%25``.

    >>> _split_names("till-1,a%2Cb,,100%25")
    ['till-1', 'a,b', '100%']
    """
    parts = (part.replace("%2C", ",").replace("%25", "%") for part in (text or "").split(","))
    return list(dict.fromkeys(filter(None, parts)))


def _plan_request(view: GroupDescription, join: list[str], leave: list[str], strategy: str | None) -> _PlanRequest:
    """Check the requested changes against the group: the URL may be older than its members."""
    if len(join) > _MAX_JOINING or any(len(name) > _MAX_NAME_LENGTH for name in join):
        raise ConfigurationError(
            f"{len(join)} members would join",
            next_step=f"give {_MAX_JOINING} at most, of {_MAX_NAME_LENGTH} characters",
        )
    ids = [member.id for member in view.members]
    ids_by_name = {**{short: id_ for id_, short in short_names(ids).items()}, **{id_: id_ for id_ in ids}}
    notes = [f"{name} is not a member any more, so it cannot leave" for name in leave if name not in ids_by_name]
    notes += (f"{name} is a member already, so it cannot join" for name in join if name in ids_by_name)
    if strategy is not None and BUILT_IN_STRATEGIES.get(strategy) is None:
        notes.append(f"there is no strategy called {strategy}")
        strategy = None
    return _PlanRequest(
        tuple(name for name in join if name not in ids_by_name),
        tuple(ids_by_name[name] for name in leave if name in ids_by_name),
        strategy,
        tuple(notes),
    )


def _plan_response(view: GroupDescription, request: _PlanRequest, command: Callable[..., str]) -> _PlanResponse:
    members = _planned_members(view, request)
    places = {member.id: place for place, member in enumerate(members)}
    own = effective_strategy(member for member in view.members if member.id not in request.leave) or view.strategy
    own_known = None if own is None else BUILT_IN_STRATEGIES.get(own)
    # If the strategy of the group is unknown, sticky shows the minimum of moves.
    named = request.strategy or (None if own_known is not None else "sticky")
    chosen = BUILT_IN_STRATEGIES.get(named or own or "")
    names = {member.id: member.name for member in members}
    words = [word for name in request.join for word in ("--join", name)]
    words += (word for id_ in request.leave for word in ("--leave", names[id_]))
    return _PlanResponse(
        view.group,
        command("plan", "--group", view.group, *words, "--strategy", named),
        view.at_ms,
        "" if chosen is None else chosen.name,
        view.broadcast,
        members,
        tuple(
            _PlannedQueue(*each.queue, each.lag, places.get(each.owners[0], _NO_OWNER) if each.owners else _NO_OWNER)
            for each in view.queues
        ),
        () if view.broadcast else tuple(_try_strategies(view, request, own, places)),
        tuple(finding.message for finding in view.findings),
        (*request.notes, *_remarks(view, own, own_known is not None), *view.notes),
    )


def _planned_members(view: GroupDescription, request: _PlanRequest) -> tuple[_PlannedMember, ...]:
    owned = view.owned()
    names = short_names([*owned, *request.join])
    there = {member.id: member for member in view.members}
    found = [
        _PlannedMember(
            id_,
            names[id_],
            id_ in there and there[id_].ours,
            # An owner that is no member any more, or is leaving, leaves in every plan.
            "leaves" if id_ in request.leave or id_ not in there or there[id_].leaving else "stays",
            len(queues),
        )
        for id_, queues in owned.items()
    ]
    return (*found, *(_PlannedMember(name, names[name], True, "joins", 0) for name in request.join))


def _try_strategies(
    view: GroupDescription, request: _PlanRequest, own: str | None, places: dict[str, int]
) -> Iterable[_StrategyResult]:
    own_known = None if own is None else BUILT_IN_STRATEGIES.get(own)
    for known in BUILT_IN_STRATEGIES.known:
        is_current = known is own_known
        try:
            explanation = dry_run_rebalance(view, join=request.join, leave=request.leave, strategy=known.name)
        except ConfigurationError as error:
            yield _StrategyResult(known.name, known.java, is_current, error.what)
        else:
            yield _strategy_result(_StrategyResult(known.name, known.java, is_current), explanation, view, places)
    if own is not None and own_known is None:
        yield _StrategyResult(own, None, is_current=True, unavailable_reason=f"the strategy {own} is not known here")


def _strategy_result(
    blank: _StrategyResult, explanation: Explanation, view: GroupDescription, places: dict[str, int]
) -> _StrategyResult:
    numbers = {each.queue: number for number, each in enumerate(view.queues)}

    def place(name: str | None) -> int:
        return _NO_OWNER if name is None else places.get(name, _NO_OWNER)

    owners = [_NO_OWNER] * len(numbers)
    counts = [0] * len(places)
    for change in explanation.changes:
        owners[numbers[change.queue]] = place(change.now)
        if change.now is not None:
            counts[place(change.now)] += 1
    overlaps = tuple((numbers[each.queue], tuple(map(place, each.members))) for each in explanation.overlaps)
    for number, several in overlaps:
        for member in several:
            counts[member] += member != owners[number]
    return replace(
        blank,
        moved=explanation.moved,
        min_moves=explanation.least,
        max_queues=explanation.most,
        min_queues=explanation.fewest,
        owners=tuple(owners),
        counts=tuple(counts),
        changes=tuple(
            _PlannedChange(numbers[each.queue], place(each.before), place(each.now), each.why.name.lower(), each.by)
            for each in explanation.changes
            if each.why is not ChangeReason.KEPT
        ),
        overlaps=overlaps,
        idle=tuple(map(place, explanation.idle)),
    )


def _remarks(view: GroupDescription, own: str | None, is_known: bool) -> Sequence[str]:
    """Describe how the real group may differ from the plan."""
    if view.broadcast:
        return ["every member of this broadcast group reads all queues, so there is nothing to allocate"]
    found = []
    if view.kind == "pop":
        found.append("this group pops messages: its brokers hand out messages and not queues")
    if view.members and own is None:
        found.append("no member of the group reports its strategy")
    elif view.members and not is_known:
        found.append(f"the group uses {own}, which cannot be tried here")
    if any(not member.ours for member in view.members):
        found.append("members of other clients do not report their strategy: Java's default, AVG, is assumed")
    return found


ROUTES = (_plan,)
