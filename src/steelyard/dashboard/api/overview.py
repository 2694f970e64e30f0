"""The overview of the cluster: rates, lag, brokers and warnings; and what every view must know of the dashboard itself.

All of it comes from the cluster poller. It is short however large the cluster is.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable

from msgspec import Struct

from steelyard.dashboard.api_routing import ApiRequest, copy_fields, query_route, stream_route
from steelyard.dashboard.cluster_poller import cluster_poller
from steelyard.dashboard.cluster_snapshot import DashboardSnapshot, RatePoint, ServerRow, WarningRow
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.polling import PollFailure
from steelyard.version import __version__

_MAX_ROWS = 8
_MAX_PER_KIND = 4
_MAX_WARNINGS = 40


class _LaggingGroupRow(Struct, frozen=True):
    """A group with lag."""

    name: str
    lag: int
    out_rate: float | None
    members: int | None


class _BusyTopicRow(Struct, frozen=True):
    """A topic with traffic."""

    name: str
    in_rate: float
    groups: int


class Overview(Struct, frozen=True, kw_only=True):
    """The cluster at a glance."""

    at_ms: int
    groups_seen_ms: int | None  # when the oldest row was polled; None while some groups were not polled at all
    in_rate: float | None
    out_rate: float | None
    lag: int | None
    topics: int  # how many user topics there are
    groups: int
    groups_seen: int
    members: int
    brokers: tuple[ServerRow, ...]
    lagging_groups: tuple[_LaggingGroupRow, ...]
    busiest_topics: tuple[_BusyTopicRow, ...]
    warnings: tuple[WarningRow, ...]
    more_warnings: int  # how many warnings are not among them
    notes: tuple[str, ...]
    first_steps: tuple[str, ...]  # command lines for an empty cluster: to send something, and to consume it
    command: str
    is_full: bool  # whether ``points`` are all there are; else those since the last event
    points: tuple[RatePoint, ...]


def make_overview(
    snapshot: DashboardSnapshot, command: str, since_ms: int | None = None, *, first_steps: tuple[str, ...] = ()
) -> Overview:
    """Summarise a snapshot, with the points after a time."""
    topics = sum(row.kind == "users" for row in snapshot.topics.values())
    last = snapshot.points[-1] if snapshot.points else RatePoint(snapshot.at_ms, None, None, None)
    polled = [row for row in snapshot.groups.values() if row.at_ms is not None]
    lagging = sorted((row for row in polled if row.lag), key=lambda row: -(row.lag or 0))
    busy = sorted(
        (row for row in snapshot.topics.values() if row.in_rate and row.kind == "users"),
        key=lambda row: -(row.in_rate or 0),
    )
    shown = _first_of_each_kind(snapshot.warnings)
    return Overview(
        at_ms=snapshot.at_ms,
        groups_seen_ms=snapshot.groups_seen_ms,
        in_rate=last.in_rate,
        out_rate=last.out_rate,
        lag=sum(row.lag or 0 for row in polled) if polled or not snapshot.groups else None,
        topics=topics,
        groups=len(snapshot.groups),
        groups_seen=len(polled),
        members=sum(row.members or 0 for row in polled),
        brokers=snapshot.brokers,
        lagging_groups=tuple(copy_fields(_LaggingGroupRow, row) for row in lagging[:_MAX_ROWS]),
        busiest_topics=tuple(_BusyTopicRow(row.name, row.in_rate or 0.0, len(row.groups)) for row in busy[:_MAX_ROWS]),
        warnings=shown,
        more_warnings=len(snapshot.warnings) - len(shown),
        notes=snapshot.notes,
        first_steps=() if topics or snapshot.groups or snapshot.topics_seen_ms is None else first_steps,
        command=command,
        is_full=since_ms is None,
        points=tuple(each for each in snapshot.points if since_ms is None or each.at_ms > since_ms),
    )


def _first_of_each_kind(warnings: Iterable[WarningRow]) -> tuple[WarningRow, ...]:
    """Keep the first few of each kind: what a hundred groups have in common would hide all else."""
    counts: Counter[str] = Counter()
    shown: list[WarningRow] = []
    for each in warnings:
        counts[each.kind] += 1
        if counts[each.kind] <= _MAX_PER_KIND and len(shown) < _MAX_WARNINGS:
            shown.append(each)
    return tuple(shown)


def _first_steps(context: DashboardContext) -> tuple[str, ...]:
    return (
        context.command("send", "orders", "--body", "hello"),
        context.command("consume", "orders", "--group", "billing", "--from", "first"),
    )


@query_route("/api/overview")
async def _overview(context: DashboardContext, _: ApiRequest) -> Overview:
    return make_overview(
        await cluster_poller(context).snapshot(), context.command("cluster", "stats"), first_steps=_first_steps(context)
    )


@stream_route("/api/overview/live")
async def _live(context: DashboardContext, _: ApiRequest) -> AsyncIterator[Overview | PollFailure]:
    since_ms: int | None = None
    command, first_steps = context.command("cluster", "stats"), _first_steps(context)
    async for snapshot in cluster_poller(context).subscribe():
        if isinstance(snapshot, PollFailure):
            yield snapshot
        else:
            yield make_overview(snapshot, command, since_ms, first_steps=first_steps)
            since_ms = snapshot.points[-1].at_ms if snapshot.points else since_ms


@query_route("/api/about")
async def _about(context: DashboardContext, _: ApiRequest) -> dict[str, object]:
    """Return what every view must know."""
    config = context.client_config
    return {
        "version": __version__,
        "namesrv": str(config),
        "namespace": config.namespace,
        "read_only": context.options.read_only,
    }


ROUTES = (_about, _live, _overview)
