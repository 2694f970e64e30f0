"""The page `offsets`: how far a group is in each queue, and moving it, with everything shown before it is done.

Moves are planned and applied as `steelyard offset reset` does it (client/admin/resets.py). A time such as "2 hours ago"
is told back as the time that it was when the preview was made: what is done then is what was shown.
"""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from steelyard.client.admin.group_view import Member
from steelyard.client.admin.offsets import GroupOffset
from steelyard.client.admin.resets import Reset
from steelyard.client.admin.targets import target_of
from steelyard.client.short_names import short_names
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import changes, streams, tries
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, in_order
from steelyard.model.names import RETRY
from steelyard.model.times_in_words import HOW_TO_WRITE

__all__ = ["ROUTES", "MoveRow", "OffsetRow", "OffsetsAnswer", "ResetAnswer", "ResetWish"]

_LOOK_MS = 1_000
_MOST_TOPICS = 100
_MOST_QUEUES = 2_000


class OffsetRow(Struct, frozen=True):
    """How far a group is in a queue."""

    topic: str
    broker: str
    queue_id: int
    committed: int
    end: int
    lag: int
    consumed_at: datetime | None
    """When the last message was stored that the group is through with."""


class OffsetsAnswer(Struct, frozen=True):
    """How far a group is."""

    group: str
    rows: tuple[OffsetRow, ...]
    left_out: int
    """How many queues are not shown."""
    lag: int
    topics: tuple[str, ...]
    """What it reads, without its retries."""
    members: tuple[str, ...]
    """Who is online, by short names."""
    notes: tuple[str, ...]


class ResetWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to move a group."""

    to: str
    topics: Annotated[list[str], Meta(max_length=_MOST_TOPICS)] = []
    """All that it reads, if none is named."""
    queues: Annotated[list[str], Meta(max_length=_MOST_QUEUES)] = []
    """Some queues of one topic, as ``broker:3``."""


class MoveRow(Struct, frozen=True):
    """What a reset does in one queue."""

    topic: str
    broker: str
    queue_id: int
    before: int
    to: int
    skipped: int
    repeated: int


class ResetAnswer(Struct, frozen=True):
    """What a reset does, or did."""

    to: str
    """Where to, with the time that was meant."""
    moves: tuple[MoveRow, ...]
    skipped: int
    repeated: int
    members: int
    """How many were online when it was planned."""


@streams("/api/groups/{group}/offsets/live")
async def _offsets(desk: Desk, ask: Ask) -> AsyncIterator[object]:
    group = ask.path("group")

    async def look(_: OffsetsAnswer | None) -> OffsetsAnswer:
        return _answer(group, await desk.admin.offsets(group), await desk.admin.members(group))

    async for value in desk.watches.watch(("offsets", group), _LOOK_MS, look):
        yield value


def _answer(group: str, offsets: list[GroupOffset], members: list[Member]) -> OffsetsAnswer:
    rows = sorted(offsets, key=lambda row: (row.queue.topic.startswith(RETRY), row.queue))
    topics = {row.queue.topic for row in rows}
    topics.update(topic for member in members for topic in member.topics or ())
    notes = []
    if not rows:
        notes.append("the group has not committed anything yet")
    if any(row.committed and row.lag and row.consumed_at is None for row in rows):
        notes.append("brokers tell up to when a group has handled messages only while they keep what it handled last")
    return OffsetsAnswer(
        group,
        tuple(OffsetRow(*row.queue, row.committed, row.end, row.lag, row.consumed_at) for row in rows[:_MOST_QUEUES]),
        max(0, len(rows) - _MOST_QUEUES),
        sum(row.lag for row in rows),
        tuple(sorted(topic for topic in topics if not topic.startswith(RETRY))),
        tuple(short_names(member.id for member in members).values()),
        tuple(notes),
    )


@tries("/api/groups/{group}/offsets/preview")
async def _preview(desk: Desk, ask: Ask) -> ResetAnswer:
    return _shown(*await _planned(desk, ask))


@changes("/api/groups/{group}/offsets/reset")
async def _reset(desk: Desk, ask: Ask) -> ResetAnswer:
    to, resets = await _planned(desk, ask)
    for reset in resets:
        await desk.admin.apply(reset)
    return _shown(to, resets)


async def _planned(desk: Desk, ask: Ask) -> tuple[str, list[Reset]]:
    """Plan what was posted, and say which command line does the same."""
    group, wish = ask.path("group"), await ask.body(ResetWish)
    to = _written(wish.to)
    words = [word for topic in wish.topics for word in ("--topic", topic)]
    words += (word for queue in wish.queues for word in ("--queue", queue))
    ask.means(desk.command("offset", "reset", group, "--to", to, *words, "--yes"))
    # Read again from what is told back, so that the preview and the deed mean the same millisecond.
    target = target_of(to, datetime.now(UTC))
    if not wish.queues:
        return to, await desk.admin.plan_resets(group, target, wish.topics or None)
    if len(wish.topics) != 1:
        raise ConfigurationError("queues are those of a topic", next_step="choose one topic")
    queues = [_queue_of(wish.topics[0], each) for each in wish.queues]
    return to, [await desk.admin.plan_reset(group, wish.topics[0], target, queues=in_order(queues))]


def _written(to: str) -> str:
    """Return where to go as it is written on the command line; a time with the millisecond that it means by now."""
    target = target_of(to, datetime.now(UTC))
    if not isinstance(target, datetime):
        return to.strip()
    try:
        return target.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        raise ConfigurationError(f"{to!r} is out of all time", next_step=HOW_TO_WRITE) from None


def _queue_of(topic: str, text: str) -> Queue:
    """Read a queue, such as ``broker-0:3``.

    >>> _queue_of("orders", "broker-0:3")
    Queue(topic='orders', broker='broker-0', queue_id=3)
    """
    broker, _, number = text.rpartition(":")
    if not broker or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise ConfigurationError(f"{text[:80]!r} is no queue", next_step="write it as BROKER:ID, such as broker-0:3")
    return Queue(topic, broker, int(number))


def _shown(to: str, resets: Iterable[Reset]) -> ResetAnswer:
    planned = list(resets)
    return ResetAnswer(
        to,
        tuple(
            MoveRow(*move.queue, move.before, move.to, move.skipped, move.repeated)
            for reset in planned
            for move in reset.moves
        ),
        sum(reset.skipped for reset in planned),
        sum(reset.repeated for reset in planned),
        max((reset.members for reset in planned), default=0),
    )


ROUTES = (_offsets, _preview, _reset)
