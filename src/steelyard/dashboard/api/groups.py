"""Groups: the list, and one group with its ownership grid and rebalance history, live.

The grid is compact, since it is sent twice a second: a queue has the index of its owner in the list of members. Where
our brokers know owners by their queue locks, no member is asked. On Apache's each poll asks every member.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec
from msgspec import Struct

from steelyard.client.admin.group_description import GroupDescription, MemberDescription
from steelyard.dashboard.api_routing import ApiRequest, copy_fields, query_route, stream_route
from steelyard.dashboard.cluster_poller import cluster_poller
from steelyard.dashboard.cluster_snapshot import DashboardSnapshot
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.polling import PollFailure
from steelyard.dashboard.rate_history import KEPT_MS
from steelyard.dashboard.rebalance_history import GroupHistory, HistoryRecord, history_for
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.net.clock import now_ms

_BROADCAST_NOTE = (
    "every member of this broadcast group reads all queues and keeps its own offsets, so its lag is unknown to brokers"
)


class _MemberColumn(Struct, frozen=True):
    """A member: a column of the grid."""

    id: str
    address: str
    language: str
    release: str
    is_steelyard: bool
    strategy: str | None
    leaving: bool
    idle: bool  # whether it has no queue because there are more members than queues


class _QueueGrid(Struct, frozen=True):
    """The queues of one topic on one broker. The lists have as many entries as there are queues."""

    topic: str
    broker: str
    retry: bool  # whether this is the group's retry topic
    queues: tuple[int, ...]
    owners: tuple[tuple[int, ...], ...]  # the indexes of its owners: one, if all is well
    lags: tuple[int | None, ...]


class _GroupStatus(Struct, frozen=True):
    """A group as it is now."""

    group: str
    at_ms: int
    broadcast: bool
    kind: str | None
    strategy: str | None
    state: str  # ``stable``, ``rebalancing``, ``empty`` (no members) or ``unknown`` (no owner is known)
    lag: int | None  # None for a broadcast group
    members: tuple[_MemberColumn, ...]
    queue_grids: tuple[_QueueGrid, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def group_status(view: GroupDescription, *, is_rebalancing: bool = False, notes: Iterable[str] = ()) -> _GroupStatus:
    """Return a description as a grid; ``is_rebalancing`` says that queues moved just now."""
    places = {member.id: place for place, member in enumerate(view.members)}
    # Owners that are no members any more are shown, too.
    former = dict.fromkeys(owner for each in view.queues for owner in each.owners if owner not in places)
    places |= {name: len(places) + place for place, name in enumerate(former)}
    busy = {owner for each in view.queues if not each.queue.topic.startswith(RETRY_PREFIX) for owner in each.owners}
    # A member that just joined is not idle yet: only if there are more members than queues.
    staying = sum(not each.leaving for each in view.members)
    users = sum(not each.queue.topic.startswith(RETRY_PREFIX) for each in view.queues)
    has_idle = not view.broadcast and staying > users > 0
    columns = [
        _member_column(each, idle=has_idle and each.id not in busy and not each.leaving) for each in view.members
    ]
    columns += [_member_column(MemberDescription(name), idle=False) for name in former]
    return copy_fields(
        _GroupStatus,
        view,
        state=_group_state(view, is_rebalancing=is_rebalancing),
        lag=None if view.broadcast else view.lag,
        members=tuple(columns),
        queue_grids=tuple(_queue_grids(view, places)),
        warnings=tuple(map(str, view.findings)),
        notes=(*view.notes, *([_BROADCAST_NOTE] if view.broadcast else ()), *notes),
    )


def _member_column(member: MemberDescription, *, idle: bool) -> _MemberColumn:
    return copy_fields(_MemberColumn, member, is_steelyard=member.ours, idle=idle)


def _group_state(view: GroupDescription, *, is_rebalancing: bool) -> str:
    if not view.members:
        return "empty"
    if view.broadcast:
        return "stable"
    if not any(each.owners for each in view.queues):
        return "rebalancing" if is_rebalancing else "unknown"
    is_owned = all(len(each.owners) == 1 for each in view.queues) and not any(each.leaving for each in view.members)
    return "stable" if is_owned and not is_rebalancing else "rebalancing"


def _queue_grids(view: GroupDescription, places: dict[str, int]) -> Iterable[_QueueGrid]:
    rows: dict[tuple[str, str], list[tuple[int, tuple[int, ...], int | None]]] = {}
    all_members = tuple(range(len(view.members)))
    for each in view.queues:
        part = rows.setdefault((each.queue.topic, each.queue.broker), [])
        mine = all_members if view.broadcast else tuple(places[owner] for owner in each.owners)
        part.append((each.queue.queue_id, mine, None if view.broadcast else each.lag))
    # Retry topics come last: they are collapsed.
    for topic, broker in sorted(rows, key=lambda part: (part[0].startswith(RETRY_PREFIX), part)):
        queues, owners, lags = zip(*sorted(rows[topic, broker], key=lambda row: row[0]), strict=True)
        yield _QueueGrid(topic, broker, topic.startswith(RETRY_PREFIX), queues, owners, lags)


_LOCK_POLL_MS, _MEMBER_POLL_MS = 500, 2_000
"""How often a group is polled: where queue locks show the owners, and where members must be asked."""
_SETTLE_MS = 1_500


class _GroupPoll(Struct, frozen=True):
    """A group at a moment, with its history up to it."""

    view: GroupDescription
    status: _GroupStatus
    history: GroupHistory


async def _poll_group(context: DashboardContext, group: str, previous: _GroupPoll | None = None) -> _GroupPoll:
    """Poll a group once."""
    earlier = None if previous is None else previous.view
    view = await context.admin.groups.describe(group, earlier, is_known=previous is not None, ask_members=False)
    history = history_for(context, group)
    await history.update(context.admin, view)
    is_rebalancing = history.changed_within(_SETTLE_MS, view.at_ms)
    return _GroupPoll(view, group_status(view, is_rebalancing=is_rebalancing, notes=history.notes()), history)


_RESEND_UNCHANGED_MS = 3_000  # after this time a group is sent although nothing changed, since its clock goes on


class _GroupStreamEvent(Struct, frozen=True):
    """A group as it is now, and what is new in its history since the last event; at first all of it."""

    status: _GroupStatus
    history: tuple[HistoryRecord, ...]
    is_full: bool
    is_persisted: bool  # whether brokers record the history; otherwise the dashboard observed it
    commands: dict[str, str]  # the command lines that show the same


@query_route("/api/groups")
async def _groups(context: DashboardContext, _: ApiRequest) -> dict[str, object]:
    return _group_list(context, await cluster_poller(context).snapshot())


@stream_route("/api/live/groups")
async def _groups_live(context: DashboardContext, _: ApiRequest) -> AsyncIterator[object]:
    async for each in cluster_poller(context).subscribe():
        yield each if isinstance(each, PollFailure) else _group_list(context, each)


@query_route("/api/groups/{group}")
async def _group(context: DashboardContext, request: ApiRequest) -> _GroupStatus:
    return (await _poll_group(context, request.path("group"))).status


@stream_route("/api/groups/{group}/live")
async def _group_live(context: DashboardContext, request: ApiRequest) -> AsyncIterator[object]:
    group = request.path("group")
    verbs = {"show": "show", "explain": "explain", "watch": "watch", "history": "moves"}
    commands = {name: context.command("group", verb, group) for name, verb in verbs.items()}
    sent, sent_ms, count = b"", 0, 0
    period_ms = _LOCK_POLL_MS if await context.admin.groups.has_rebalance_history() else _MEMBER_POLL_MS
    polls = context.polls.subscribe(("group", group), period_ms, lambda before: _poll_group(context, group, before))
    async for poll in polls:
        if isinstance(poll, PollFailure):
            yield poll
            continue
        shown = msgspec.json.encode(msgspec.structs.replace(poll.status, at_ms=0))
        at_ms = now_ms()
        if shown == sent and poll.history.total_records == count and at_ms - sent_ms < _RESEND_UNCHANGED_MS:
            continue
        new = poll.history.records_since(count)
        yield _GroupStreamEvent(poll.status, tuple(new), not sent, bool(poll.history.is_persisted), commands)
        sent, sent_ms, count = shown, at_ms, poll.history.total_records


def _group_list(context: DashboardContext, snapshot: DashboardSnapshot) -> dict[str, object]:
    """Return all groups, as of the last poll; one that was not polled yet has only a name."""
    return {"groups": tuple(snapshot.groups.values()), "command": context.command("group", "ls")}


_DEFAULT_LIMIT, _MAX_LIMIT = 200, 1_000


@query_route("/api/groups/{group}/history")
async def _group_history(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    group, limit = request.path("group"), request.integer("limit", _DEFAULT_LIMIT, minimum=1, maximum=_MAX_LIMIT)
    history = (await _poll_group(context, group)).history
    return {
        "group": group,
        "is_persisted": bool(history.is_persisted),
        "records": tuple(history.records)[-limit:],
        "notes": history.notes(),
        "command": context.command("group", "moves", group, "--limit", limit),
    }


@query_route("/api/groups/{group}/rates")
async def _group_rates(context: DashboardContext, request: ApiRequest) -> dict[str, object]:
    return {"points": context.rates.of_group(request.path("group")), "kept_ms": KEPT_MS}


ROUTES = (_groups, _groups_live, _group, _group_live, _group_history, _group_rates)
