"""Rebalances of a whole group, put together from what each of its brokers wrote down.

A broker knows its own queues alone: how many moved there says little, since which broker's queues move is a choice. All
brokers together know how many moved, how many had to, and how long it took. What one broker calls a rebalance belongs
together with what the others do if they began within a second of each other, or one before the other had ended.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from steelyard.balance.explain import explain
from steelyard.client.admin.moves import GroupMoves, Move

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["GroupRebalance", "rebalances"]

_TOGETHER = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """A group that came to rest after members or queues had changed."""

    group: str
    began: datetime
    ended: datetime
    """When the last queue changed hands."""
    moved: int
    """How often a queue went from one member to another."""
    least: int | None
    """How many queues had to, if all are to be shared evenly; None if the history does not go back so far."""
    longest_gap_ms: int | None
    """For how long nobody had the queue that waited longest; None if none moved."""
    reasons: tuple[str, ...]
    """Why queues moved, in the order of the moves."""

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return round((self.ended - self.began).total_seconds() * 1000)


def rebalances(history: Iterable[GroupMoves]) -> list[GroupRebalance]:
    """Return the rebalances of each group that a history tells of, in the order of their ends."""
    groups: dict[str, list[GroupMoves]] = {}
    for record in sorted(history, key=lambda record: record.at):
        groups.setdefault(record.group, []).append(record)
    found = [
        _told(records, part)
        for records in groups.values()
        for part in _parts([each for each in records if each.rebalance])
    ]
    return sorted(found, key=lambda each: each.ended)


def _parts(rested: Sequence[GroupMoves]) -> Iterator[list[GroupMoves]]:
    """Put together what belongs together."""
    part: list[GroupMoves] = []
    for record in sorted(rested, key=_began):
        if part and _began(record) > max(map(_ended, part)) + _TOGETHER:
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def _began(record: GroupMoves) -> datetime:
    return record.at if record.rebalance is None else record.rebalance.began


def _ended(record: GroupMoves) -> datetime:
    return record.at if record.rebalance is None else record.rebalance.ended


def _told(records: Sequence[GroupMoves], part: Sequence[GroupMoves]) -> GroupRebalance:
    began, ended, closed = _began(part[0]), max(map(_ended, part)), max(record.at for record in part)
    moves = [move for record in records for move in record.moves if began <= move.at <= ended]
    before: dict[str, GroupMoves] = {}
    after: dict[str, GroupMoves] = {}
    for record in records:
        if record.at <= began:
            before[record.broker] = record
        if record.at <= closed:
            after[record.broker] = record
    gaps = [move.gap_ms for move in moves if move.moved and move.gap_ms is not None]
    return GroupRebalance(
        group=part[0].group,
        began=began,
        ended=ended,
        moved=sum(move.moved for move in moves),
        least=_least(before, after, moves),
        longest_gap_ms=max(gaps, default=None),
        reasons=tuple(dict.fromkeys(move.why for move in moves)),
    )


def _least(before: Mapping[str, GroupMoves], after: Mapping[str, GroupMoves], moves: Iterable[Move]) -> int | None:
    if any(move.before is not None and move.queue.broker not in before for move in moves):
        return None
    members = max((record for record in after.values()), key=lambda record: record.at).members
    queues = {queue: owner for record in after.values() for queue, owner in record.owners.items()}
    had = {queue: owner for record in before.values() for queue, owner in record.owners.items()}
    plan: dict[str, list[Queue]] = {member: [] for member in members}
    for queue, owner in queues.items():
        if owner in plan:
            plan[owner].append(queue)
    previous: dict[str, list[Queue]] = {}
    for queue, owner in had.items():
        if owner is not None:
            previous.setdefault(owner, []).append(queue)
    return explain(previous, plan, queues).least
