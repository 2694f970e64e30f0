"""Offsets of a group in each queue, and resetting them, with a preview.

A relative time is returned as the timestamp that the preview used: what is applied then is what was shown.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from steelyard.client.admin.offsets import ResetPlan, parse_reset_target
from steelyard.dashboard.api_routing import ApiRequest, action_route, live_route, preview_route
from steelyard.dashboard.context import DashboardContext
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, sort_queues
from steelyard.model.formatting import short_names
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.model.time_text import TIME_HINT

_POLL_MS = 1_000
_MAX_TOPICS = 100
_MAX_QUEUES = 2_000


class _OffsetRow(Struct, frozen=True):
    """The committed offset of a group in a queue."""

    topic: str
    broker: str
    queue_id: int
    committed: int
    end: int
    lag: int
    consumed_at: datetime | None  # when the last message that the group consumed was stored


class _OffsetsResponse(Struct, frozen=True):
    """The committed offsets of a group."""

    group: str
    rows: tuple[_OffsetRow, ...]
    omitted: int  # how many queues are not shown
    lag: int
    queues: int  # how many it reads, without those of its retry topic
    topics: tuple[str, ...]  # its topics, without its retry topic
    members: tuple[str, ...]  # members online, by short names
    notes: tuple[str, ...]


class _ResetRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to reset a group."""

    to: str
    topics: Annotated[list[str], Meta(max_length=_MAX_TOPICS)] = []  # all of its topics, if empty
    queues: Annotated[list[str], Meta(max_length=_MAX_QUEUES)] = []  # some queues of one topic, as ``broker:3``


class _ResetRow(Struct, frozen=True):
    """What a reset does in one queue."""

    topic: str
    broker: str
    queue_id: int
    before: int
    to: int
    skipped: int
    repeated: int


class _ResetResponse(Struct, frozen=True):
    """What a reset does, or did."""

    to: str  # the target, with a relative time resolved
    changes: tuple[_ResetRow, ...]
    skipped: int
    repeated: int
    members: int  # members that were online when it was planned


@live_route("/api/groups/{group}/offsets/live", lambda: _POLL_MS)
async def _offsets(context: DashboardContext, request: ApiRequest) -> _OffsetsResponse:
    group = request.path("group")
    offsets, members = await context.admin.offsets.list(group), await context.admin.groups.members(group)
    rows = sorted(offsets, key=lambda row: (row.queue.topic.startswith(RETRY_PREFIX), row.queue))
    topics = {row.queue.topic for row in rows}
    topics.update(topic for member in members for topic in member.topics or ())
    notes = []
    if not rows:
        notes.append("the group has not committed anything yet")
    if any(row.committed and row.lag and row.consumed_at is None for row in rows):
        notes.append("the time of the last consumed message is unknown once the broker has deleted that message")
    return _OffsetsResponse(
        group,
        tuple(_OffsetRow(*row.queue, row.committed, row.end, row.lag, row.consumed_at) for row in rows[:_MAX_QUEUES]),
        max(0, len(rows) - _MAX_QUEUES),
        sum(row.lag for row in rows),
        sum(not row.queue.topic.startswith(RETRY_PREFIX) for row in rows),
        tuple(sorted(topic for topic in topics if not topic.startswith(RETRY_PREFIX))),
        tuple(short_names(member.id for member in members).values()),
        tuple(notes),
    )


@preview_route("/api/groups/{group}/offsets/preview")
async def _preview(context: DashboardContext, request: ApiRequest) -> _ResetResponse:
    return _reset_response(*await _plan_resets(context, request))


@action_route("/api/groups/{group}/offsets/reset")
async def _reset(context: DashboardContext, request: ApiRequest) -> _ResetResponse:
    to, resets = await _plan_resets(context, request)
    for reset in resets:
        await context.admin.offsets.apply(reset)
    return _reset_response(to, resets)


async def _plan_resets(context: DashboardContext, request: ApiRequest) -> tuple[str, list[ResetPlan]]:
    """Plan the posted reset, and set the command line."""
    group, wanted = request.path("group"), await request.body(_ResetRequest)
    to = _target_text(wanted.to)
    words = [word for topic in wanted.topics for word in ("--topic", topic)]
    words += (word for queue in wanted.queues for word in ("--queue", queue))
    request.command = context.command("offset", "reset", group, "--to", to, *words, "--yes")
    # Parsed again from what is returned, so that preview and reset mean the same millisecond.
    target = parse_reset_target(to, datetime.now(UTC))
    if not wanted.queues:
        return to, await context.admin.offsets.plan_resets(group, target, wanted.topics or None)
    if len(wanted.topics) != 1:
        raise ConfigurationError("queues are those of a topic", next_step="choose one topic")
    queues = [_parse_queue(wanted.topics[0], each) for each in wanted.queues]
    return to, [await context.admin.offsets.plan_reset(group, wanted.topics[0], target, queues=sort_queues(queues))]


def _target_text(to: str) -> str:
    """Return the target as on the command line; a relative time as the millisecond that it means now."""
    target = parse_reset_target(to, datetime.now(UTC))
    if not isinstance(target, datetime):
        return to.strip()
    try:
        return target.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        raise ConfigurationError(f"{to!r} is out of all time", next_step=TIME_HINT) from None


def _parse_queue(topic: str, text: str) -> Queue:
    """Parse a queue, such as ``broker-0:3``.

    >>> _parse_queue("orders", "broker-0:3")
    Queue(topic='orders', broker='broker-0', queue_id=3)
    """
    broker, _, number = text.rpartition(":")
    if not broker or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise ConfigurationError(f"{text[:80]!r} is no queue", next_step="write it as BROKER:ID, such as broker-0:3")
    return Queue(topic, broker, int(number))


def _reset_response(to: str, resets: Sequence[ResetPlan]) -> _ResetResponse:
    return _ResetResponse(
        to,
        tuple(
            _ResetRow(*move.queue, move.before, move.to, move.skipped, move.repeated)
            for reset in resets
            for move in reset.moves
        ),
        sum(reset.skipped for reset in resets),
        sum(reset.repeated for reset in resets),
        max((reset.members for reset in resets), default=0),
    )


ROUTES = (_offsets, _preview, _reset)
