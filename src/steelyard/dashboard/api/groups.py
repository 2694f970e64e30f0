"""Groups: all of them in a list, and one with its grid, live."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.group.grid import GroupNow
from steelyard.dashboard.group.looking import look_at_group, watch_group
from steelyard.dashboard.group.records import HistoryRecord
from steelyard.dashboard.routes import reads, streams
from steelyard.dashboard.survey.survey import survey_of
from steelyard.dashboard.survey.values import GroupRow, Seen
from steelyard.dashboard.watching import Trouble
from steelyard.net.clock import now_ms

__all__ = ["ROUTES", "GroupCommands", "GroupList", "GroupLive"]

_STILL_SAME_MS = 3_000
"""After so long a group is sent although nothing changed: its time goes on."""


class GroupList(Struct, frozen=True):
    """All groups, as they were seen last; of one that was not seen yet there is just the name."""

    groups: tuple[GroupRow, ...]
    command: str


class GroupCommands(Struct, frozen=True):
    """The command lines that show the same as the page of a group."""

    show: str
    explain: str
    watch: str
    moves: str


class GroupLive(Struct, frozen=True):
    """A group as it is, and what is new in its history since it was sent before; at first that is all of it."""

    now: GroupNow
    moves: tuple[HistoryRecord, ...]
    is_first: bool
    is_kept: bool
    """Whether brokers keep the history; otherwise the page saw it."""
    commands: GroupCommands


@reads("/api/groups")
async def _groups(desk: Desk, ask: Ask) -> GroupList:
    del ask
    return _listed(desk, await survey_of(desk).seen())


@streams("/api/live/groups")
async def _groups_live(desk: Desk, ask: Ask) -> AsyncIterator[object]:
    del ask
    async for each in survey_of(desk).watch():
        yield each if isinstance(each, Trouble) else _listed(desk, each)


@reads("/api/groups/{group}")
async def _group(desk: Desk, ask: Ask) -> GroupNow:
    return (await look_at_group(desk, ask.path("group"))).now


@streams("/api/groups/{group}/live")
async def _group_live(desk: Desk, ask: Ask) -> AsyncIterator[object]:
    group = ask.path("group")
    commands = GroupCommands(*(desk.command("group", verb, group) for verb in ("show", "explain", "watch", "moves")))
    sent, sent_ms, count = b"", 0, 0
    async for look in watch_group(desk, group):
        if isinstance(look, Trouble):
            yield look
            continue
        shown = msgspec.json.encode(msgspec.structs.replace(look.now, at_ms=0))
        at_ms = now_ms()
        if shown == sent and look.history.count == count and at_ms - sent_ms < _STILL_SAME_MS:
            continue
        new = look.history.since(count)
        yield GroupLive(look.now, tuple(new), not sent, bool(look.history.is_kept), commands)
        sent, sent_ms, count = shown, at_ms, look.history.count


def _listed(desk: Desk, seen: Seen) -> GroupList:
    return GroupList(tuple(seen.groups.values()), desk.command("group", "ls"))


ROUTES = (_groups, _groups_live, _group, _group_live)
