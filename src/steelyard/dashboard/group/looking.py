"""Looking at a group with its moves, again and again and once for all who do.

Where brokers of ours tell by their locks who has what, a group is looked at twice a second and no member is asked. On
Apache's each look asks every member, so there are fewer of them.
"""

from collections.abc import AsyncIterator

from msgspec import Struct

from steelyard.client.admin.group_view import GroupView
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.group.grid import GroupNow, grid_of
from steelyard.dashboard.group.history import GroupHistory, history_of
from steelyard.dashboard.watching import Trouble

__all__ = ["GroupLook", "look_at_group", "watch_group"]

_TOLD_MS, _ASKED_MS = 500, 2_000
"""How often a group is looked at: where locks tell who has what, and where members have to be asked."""
_SETTLES_MS = 1_500


class GroupLook(Struct, frozen=True):
    """A group at a moment, with its history up to it."""

    view: GroupView
    now: GroupNow
    history: GroupHistory


async def look_at_group(desk: Desk, group: str, before: GroupLook | None = None) -> GroupLook:
    """Look at a group once."""
    earlier = None if before is None else before.view
    view = await desk.admin.group(group, earlier, is_known=before is not None, ask_members=False)
    history = history_of(desk, group)
    await history.look(desk.admin, view)
    is_moving = history.moved_within(_SETTLES_MS, view.at_ms)
    return GroupLook(view, grid_of(view, is_moving=is_moving, notes=history.notes()), history)


async def watch_group(desk: Desk, group: str) -> AsyncIterator[GroupLook | Trouble]:
    """Look at a group again and again."""
    period_ms = _TOLD_MS if await desk.admin.keeps_moves() else _ASKED_MS
    watch = desk.watches.watch(("group", group), period_ms, lambda before: look_at_group(desk, group, before))
    async for each in watch:
        yield each
