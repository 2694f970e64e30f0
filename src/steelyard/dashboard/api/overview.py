"""The first page: how much passes, who is behind, how brokers are, and what looks wrong, of the whole cluster.

All of it comes from the survey, so an answer costs the cluster nothing. It is short however large the cluster is: the
groups furthest behind, the busiest topics, and of each kind of hazard the first few.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable

from msgspec import Struct

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import reads, streams
from steelyard.dashboard.survey.survey import survey_of
from steelyard.dashboard.survey.values import BrokerRow, HazardRow, Point, Seen
from steelyard.dashboard.watching import Trouble

__all__ = ["ROUTES", "BehindRow", "BusyRow", "Overview", "overview_of"]

_MOST_ROWS = 8
_MOST_OF_A_KIND = 4
_MOST_HAZARDS = 40


class BehindRow(Struct, frozen=True):
    """A group that is behind."""

    name: str
    lag: int
    out_rate: float | None
    members: int | None


class BusyRow(Struct, frozen=True):
    """A topic that is busy."""

    name: str
    in_rate: float
    groups: int


class Overview(Struct, frozen=True, kw_only=True):
    """The cluster at a glance."""

    at_ms: int
    groups_seen_ms: int | None
    """When the group was seen that was not looked at for longest; None while some were not seen at all."""
    in_rate: float | None
    out_rate: float | None
    lag: int | None
    topics: int
    """How many the users have."""
    groups: int
    groups_seen: int
    members: int
    brokers: tuple[BrokerRow, ...]
    behind: tuple[BehindRow, ...]
    busiest: tuple[BusyRow, ...]
    hazards: tuple[HazardRow, ...]
    hazards_more: int
    """How many hazards are not among them."""
    notes: tuple[str, ...]
    first_steps: tuple[str, ...]
    """Command lines for whoever has an empty cluster: to send something, and to read it."""
    command: str
    is_whole: bool
    """Whether ``points`` are all there are; else those that came since the last answer."""
    points: tuple[Point, ...]


def overview_of(
    seen: Seen, command: str, since_ms: int | None = None, *, first_steps: tuple[str, ...] = ()
) -> Overview:
    """Make the short answer of a whole survey, with the points after a time."""
    topics = sum(row.kind == "users" for row in seen.topics.values())
    last = seen.points[-1] if seen.points else Point(seen.at_ms, None, None, None)
    looked_at = [row for row in seen.groups.values() if row.at_ms is not None]
    behind = sorted((row for row in looked_at if row.lag), key=lambda row: -(row.lag or 0))
    busy = sorted(
        (row for row in seen.topics.values() if row.in_rate and row.kind == "users"),
        key=lambda row: -(row.in_rate or 0),
    )
    shown = _first_of_each_kind(seen.hazards)
    return Overview(
        at_ms=seen.at_ms,
        groups_seen_ms=seen.groups_seen_ms,
        in_rate=last.in_rate,
        out_rate=last.out_rate,
        lag=sum(row.lag or 0 for row in looked_at) if looked_at or not seen.groups else None,
        topics=topics,
        groups=len(seen.groups),
        groups_seen=len(looked_at),
        members=sum(row.members or 0 for row in looked_at),
        brokers=seen.brokers,
        behind=tuple(BehindRow(row.name, row.lag or 0, row.out_rate, row.members) for row in behind[:_MOST_ROWS]),
        busiest=tuple(BusyRow(row.name, row.in_rate or 0.0, len(row.groups)) for row in busy[:_MOST_ROWS]),
        hazards=shown,
        hazards_more=len(seen.hazards) - len(shown),
        notes=seen.notes,
        first_steps=() if topics or seen.groups or seen.topics_seen_ms is None else first_steps,
        command=command,
        is_whole=since_ms is None,
        points=tuple(each for each in seen.points if since_ms is None or each.at_ms > since_ms),
    )


def _first_of_each_kind(hazards: Iterable[HazardRow]) -> tuple[HazardRow, ...]:
    """Leave out what a hundred groups have in common after the first few: it would hide all else."""
    told: Counter[str] = Counter()
    shown: list[HazardRow] = []
    for each in hazards:
        # Some kinds end with the queue that they are about.
        kind = " ".join(each.kind.split()[:2])
        told[kind] += 1
        if told[kind] <= _MOST_OF_A_KIND and len(shown) < _MOST_HAZARDS:
            shown.append(each)
    return tuple(shown)


def _first_steps(desk: Desk) -> tuple[str, ...]:
    return (
        desk.command("send", "orders", "--body", "hello"),
        desk.command("consume", "orders", "--group", "billing", "--from", "first"),
    )


@reads("/api/overview")
async def _overview(desk: Desk, ask: Ask) -> Overview:
    del ask
    return overview_of(await survey_of(desk).seen(), desk.command("cluster", "stats"), first_steps=_first_steps(desk))


@streams("/api/overview/live")
async def _live(desk: Desk, ask: Ask) -> AsyncIterator[Overview | Trouble]:
    del ask
    since_ms: int | None = None
    command, first_steps = desk.command("cluster", "stats"), _first_steps(desk)
    async for seen in survey_of(desk).watch():
        if isinstance(seen, Trouble):
            yield seen
        else:
            yield overview_of(seen, command, since_ms, first_steps=first_steps)
            since_ms = seen.points[-1].at_ms if seen.points else since_ms


ROUTES = (_live, _overview)
