"""The history of moves of groups that somebody looks at: what brokers kept, and what the page saw where they do not.

Brokers of ours keep it, so it is there after a restart of everything. Apache's keep none, and neither is it known what
members of other clients do who take no locks: then the page remembers what it saw, for as long as it runs, and says
since when. Everything has an end: so many groups, so many records of each.
"""

import asyncio
from collections import deque
from datetime import UTC, datetime

from steelyard.client.admin.admin import Admin
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.moves import GroupMoves, Move
from steelyard.client.moments import since_1970_ms
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.group.records import ChangedMember, HistoryRecord, MovedQueue, SettledLine, owner_rows
from steelyard.dashboard.group.seen_moves import SeenMoves

__all__ = ["GroupHistory", "history_of"]

_KEPT = "histories of moves"
_MOST_GROUPS = 64
_MOST_RECORDS, _MOST_CELLS = 1_000, 200_000
_MOST_MOVES = 500
"""Moves of one record that are listed; the others are counted."""


class GroupHistory:
    """The history of one group, the oldest record first."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.records: deque[HistoryRecord] = deque()
        self.count = 0
        """How many records there ever were: whoever saw some of them knows which are new."""
        self.is_kept: bool | None = None
        """Whether brokers keep it; None before they were asked."""
        self._cursor: str | None = None
        self._cells = 0
        self._seen = SeenMoves()
        self._looking = asyncio.Lock()

    async def look(self, admin: Admin, view: GroupView) -> None:
        """Take note of what is new: what brokers wrote, and what this view shows if they do not."""
        async with self._looking:
            if not self.is_kept:
                self.is_kept = await admin.keeps_moves()
            if self.is_kept:
                found, self._cursor = await admin.moves_since(self._cursor, group=self.group, limit=_MOST_RECORDS)
                for each in found:
                    self._add(_record_of(each))
        if self._is_to_be_seen(view):
            seen = self._seen.look(view)
            if seen is not None:
                self._add(seen)

    def _is_to_be_seen(self, view: GroupView) -> bool:
        """Whether brokers do not tell all: they keep nothing, or members take no locks."""
        return not self.is_kept or any(not member.ours for member in view.members)

    def since(self, count: int) -> list[HistoryRecord]:
        """Return the records that are newer than the first so many there ever were."""
        new = min(len(self.records), self.count - count)
        return list(self.records)[len(self.records) - new :] if new > 0 else []

    def moved_within(self, span_ms: int, now_ms: int) -> bool:
        """Whether queues changed hands, or members came and went, just now."""
        return any(
            now_ms - each.at_ms <= span_ms
            for each in list(self.records)[-8:]
            if each.moves or (each.changed and each.rebalance is None)
        )

    def notes(self) -> list[str]:
        """Say what is not known of the history, and since when."""
        since_ms = self._seen.since_ms
        if since_ms is None:
            return []
        since = f"{datetime.fromtimestamp(since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if self.is_kept:
            why = "members of other clients take no locks, so brokers do not know all moves"
        else:
            why = "no broker of this cluster keeps a history of moves"
        how = f"those shown here this page saw itself, since {since} and while somebody watched"
        return [f"{why}: {how}; for how long a queue had no owner it cannot tell"]

    def _add(self, record: HistoryRecord) -> None:
        if any(each.key == record.key for each in list(self.records)[-50:]):
            return
        self.records.append(record)
        self.count += 1
        self._cells += record.cells
        while len(self.records) > _MOST_RECORDS or (self._cells > _MOST_CELLS and len(self.records) > 1):
            self._cells -= self.records.popleft().cells


def history_of(desk: Desk, group: str) -> GroupHistory:
    """Return the history of a group; of too many groups, the one is forgotten that was not asked for longest."""
    histories: dict[str, GroupHistory] = desk.kept.setdefault(_KEPT, {})
    found = histories.pop(group, None) or GroupHistory(group)
    histories[group] = found
    while len(histories) > _MOST_GROUPS:
        del histories[next(iter(histories))]
    return found


def _record_of(told: GroupMoves) -> HistoryRecord:
    at_ms, rebalance = since_1970_ms(told.at), told.rebalance
    names, rows = owner_rows(
        {queue: () if owner is None else (owner,) for queue, owner in told.owners.items()}, told.members
    )
    return HistoryRecord(
        key=f"{told.broker}@{at_ms}",
        at_ms=at_ms,
        broker=told.broker,
        members=told.members,
        names=names,
        changed=tuple(ChangedMember(each.member, each.what) for each in told.changed),
        owners=rows,
        moves=tuple(map(_moved, told.moves[:_MOST_MOVES])),
        moved=len(told.moves) + told.left_out,
        rebalance=None
        if rebalance is None
        else SettledLine(
            since_1970_ms(rebalance.began), since_1970_ms(rebalance.ended), rebalance.moved, rebalance.least
        ),
    )


def _moved(move: Move) -> MovedQueue:
    queue = move.queue
    return MovedQueue(
        topic=queue.topic,
        broker=queue.broker,
        queue=queue.queue_id,
        before=move.before,
        after=move.after,
        gap_ms=move.gap_ms,
        why=move.why,
        at_ms=since_1970_ms(move.at),
    )
