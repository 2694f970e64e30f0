"""The rebalance history of groups that are watched: what brokers recorded, or what the dashboard observed.

Apache's brokers record nothing, and members of other clients that take no locks leave no trace: there the dashboard
compares two polls of the group and says since when. A queue that moved twice between two polls moved once, the gap
without an owner is unknown, and the cause is what changed among the members just before. A queue whose owner is still a
member but did not answer keeps that owner. Each record has the whole grid of its brokers, so that any moment can be
shown without those before it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec import Struct

from steelyard.client.admin.admin import Admin
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.rebalance_history import RebalanceRecord
from steelyard.client.times import to_epoch_ms
from steelyard.dashboard.context import DashboardContext
from steelyard.model import Queue, sort_names, sort_queues
from steelyard.model.formatting import format_time

_OwnerIndex = dict[str, dict[str, list[int | tuple[int, ...]]]]
"""Broker → topic → for each queue the index of its owner in the list of names: -1 for none, a tuple for several."""


class _ChangedMember(Struct, frozen=True):
    """A member that joined, left, or changed its subscription."""

    member: str
    what: str


class _MovedQueue(Struct, frozen=True):
    """A queue that changed its owner."""

    topic: str
    broker: str
    queue: int
    before: str | None
    after: str | None
    gap_ms: int | None  # how long it had no owner; None if unknown, or if it had none before
    why: str
    at_ms: int


class _CompletedRebalance(Struct, frozen=True):
    """A rebalance that ended on a broker."""

    began_ms: int
    ended_ms: int
    moved: int
    least: int | None


class HistoryRecord(Struct, frozen=True):
    """What changed at a moment, and who owned which queue after it."""

    key: str  # stable: the same record always has the same key
    at_ms: int
    broker: str | None  # the broker that recorded it; None if the dashboard observed it
    members: tuple[str, ...]  # the members of the group
    owner_names: tuple[str, ...]  # members and other owners: what the indexes in ``owners`` refer to
    member_changes: tuple[_ChangedMember, ...]
    owners: _OwnerIndex
    moves: tuple[_MovedQueue, ...]
    moved_count: int  # how many queues moved, including those that are not listed
    rebalance: _CompletedRebalance | None = None

    @property
    def weight(self) -> int:
        """Its size: the number of queues and moves in it."""
        return len(self.moves) + sum(len(row) for topics in self.owners.values() for row in topics.values())


def _index_owners(owners: Mapping[Queue, Sequence[str]], members: Iterable[str]) -> tuple[tuple[str, ...], _OwnerIndex]:
    """Return the names, and the owners of queues as indexes into them.

    >>> _index_owners({Queue("orders", "a", 0): ["c1"], Queue("orders", "a", 2): []}, ["c1", "c2"])
    (('c1', 'c2'), {'a': {'orders': [0, -1, -1]}})
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(members))}
    rows: _OwnerIndex = {}
    for queue, names in owners.items():
        row = rows.setdefault(queue.broker, {}).setdefault(queue.topic, [])
        row += [-1] * (queue.queue_id + 1 - len(row))
        found = tuple(places.setdefault(name, len(places)) for name in names)
        row[queue.queue_id] = found if len(found) > 1 else found[0] if found else -1
    return tuple(places), rows


_RECENT_MS = 60_000
"""A change of members longer ago is not named as the cause of a move: Java's members rebalance every 20 s."""
_NAMED = 3


@dataclass(slots=True)
class ObservedMoves:
    """Moves of one group, found by comparing polls."""

    since_ms: int | None = None  # when the group was polled first
    _observed_ms: int = 0
    _members: tuple[str, ...] = ()
    _owners: dict[Queue, tuple[str, ...]] = field(default_factory=dict)
    _recent_changes: str = ""
    _changed_ms: int = 0

    def observe(self, view: GroupDescription) -> HistoryRecord | None:
        """Compare another view with the one before; return what changed, if anything did."""
        if view.at_ms < self._observed_ms:  # two polls overlapped, and the older one ended later
            return None
        self._observed_ms = view.at_ms
        is_first = self.since_ms is None
        before, members = self._owners, tuple(member.id for member in view.members)
        owners = {each.queue: self._owners_of(each.queue, each.owners, members) for each in view.queues}
        changed = () if is_first else tuple(_find_member_changes(self._members, members))
        if changed:
            self._recent_changes, self._changed_ms = _describe_changes(changed), view.at_ms
        moves = () if is_first else tuple(self._moves(before, owners, view.at_ms))
        if is_first:
            self.since_ms = view.at_ms
        self._members, self._owners = members, owners
        if not (is_first or changed or moves):
            return None
        names, rows = _index_owners(owners, members)
        return HistoryRecord(
            key=f"seen@{view.at_ms}",
            at_ms=view.at_ms,
            broker=None,
            members=members,
            owner_names=names,
            member_changes=changed,
            owners=rows,
            moves=moves,
            moved_count=len(moves),
        )

    def _owners_of(self, queue: Queue, reported: tuple[str, ...], members: tuple[str, ...]) -> tuple[str, ...]:
        return reported or tuple(owner for owner in self._owners.get(queue, ()) if owner in members)

    def _moves(
        self, before: Mapping[Queue, tuple[str, ...]], owners: Mapping[Queue, tuple[str, ...]], at_ms: int
    ) -> Iterator[_MovedQueue]:
        is_recent = self._recent_changes and at_ms - self._changed_ms <= _RECENT_MS
        why = f"seen after {self._recent_changes}" if is_recent else "unknown"
        for queue in sort_queues(owners):
            had, has = before.get(queue, ()), owners[queue]
            if set(had) != set(has):
                before_text, after_text = (" and ".join(names) or None for names in (had, has))
                yield _MovedQueue(*queue, before_text, after_text, None, why, at_ms)


def _find_member_changes(before: tuple[str, ...], now: tuple[str, ...]) -> Iterator[_ChangedMember]:
    yield from (_ChangedMember(name, "gone") for name in sort_names(set(before) - set(now)))
    yield from (_ChangedMember(name, "joined") for name in sort_names(set(now) - set(before)))


def _describe_changes(changed: tuple[_ChangedMember, ...]) -> str:
    """Describe who joined and left.

    >>> _describe_changes((_ChangedMember("c1", "gone"), _ChangedMember("c3", "joined")))
    'c1 disconnected, c3 joined'
    """
    texts = [f"{each.member} {'disconnected' if each.what == 'gone' else 'joined'}" for each in changed[:_NAMED]]
    more = len(changed) - _NAMED
    return ", ".join(texts) + (f" and {more} more changed" if more > 0 else "")


_CACHE_KEY = "rebalance histories"
_MAX_GROUPS = 64
_MAX_RECORDS, _MAX_WEIGHT = 1_000, 200_000
_MAX_MOVES = 500  # moves of one record that are listed; the others are counted


class GroupHistory:
    """The history of one group, the oldest record first."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.records: deque[HistoryRecord] = deque()
        self.total_records = 0  # how many records there ever were: a stream that sent some of them knows which are new
        self.is_persisted: bool | None = None  # whether brokers record it; None before they were asked
        self._cursor: str | None = None
        self._total_weight = 0
        self._observed = ObservedMoves()
        self._update_lock = asyncio.Lock()

    async def update(self, admin: Admin, view: GroupDescription) -> None:
        """Add what is new: what brokers recorded, and what this view shows if they do not."""
        async with self._update_lock:
            if not self.is_persisted:
                self.is_persisted = await admin.groups.has_rebalance_history()
            if self.is_persisted:
                found, self._cursor = await admin.groups.rebalance_history_since(
                    self._cursor, group=self.group, limit=_MAX_RECORDS
                )
                for each in found:
                    self._add(_to_record(each))
        if self._needs_observation(view):
            observed = self._observed.observe(view)
            if observed is not None:
                self._add(observed)

    def _needs_observation(self, view: GroupDescription) -> bool:
        """Whether brokers do not know all: they record nothing, or members take no locks."""
        return not self.is_persisted or any(not member.ours for member in view.members)

    def records_since(self, count: int) -> list[HistoryRecord]:
        """Return the records after the first ``count`` that there ever were."""
        new = min(len(self.records), self.total_records - count)
        return list(self.records)[len(self.records) - new :] if new > 0 else []

    def changed_within(self, span_ms: int, now_ms: int) -> bool:
        """Whether queues moved, or members joined or left, just now."""
        return any(
            now_ms - each.at_ms <= span_ms
            for each in list(self.records)[-8:]
            if each.moves or (each.member_changes and each.rebalance is None)
        )

    def notes(self) -> list[str]:
        """Describe what is missing in the history, and since when."""
        since_ms = self._observed.since_ms
        if since_ms is None:
            return []
        since = f"{format_time(datetime.fromtimestamp(since_ms / 1000, UTC), UTC)}"
        if self.is_persisted:
            why = "members of other clients take no queue locks, so brokers do not know all moves"
        else:
            why = "no broker of this cluster records a rebalance history"
        how = f"the moves shown were observed by this dashboard, since {since} and only while it was open"
        return [f"{why}: {how}; how long a queue had no owner is unknown"]

    def _add(self, record: HistoryRecord) -> None:
        if any(each.key == record.key for each in list(self.records)[-50:]):
            return
        self.records.append(record)
        self.total_records += 1
        self._total_weight += record.weight
        while len(self.records) > _MAX_RECORDS or (self._total_weight > _MAX_WEIGHT and len(self.records) > 1):
            self._total_weight -= self.records.popleft().weight


def history_for(context: DashboardContext, group: str) -> GroupHistory:
    """Return the history of a group; beyond `_MAX_GROUPS`, the least recently used one is dropped."""
    histories: dict[str, GroupHistory] = context.cache.setdefault(_CACHE_KEY, {})
    found = histories.pop(group, None) or GroupHistory(group)
    histories[group] = found
    while len(histories) > _MAX_GROUPS:
        del histories[next(iter(histories))]
    return found


def _to_record(moves: RebalanceRecord) -> HistoryRecord:
    at_ms, rebalance = to_epoch_ms(moves.at), moves.rebalance
    names, rows = _index_owners(
        {queue: () if owner is None else (owner,) for queue, owner in moves.owners.items()}, moves.members
    )
    done = None
    if rebalance is not None:
        began_ms, ended_ms = to_epoch_ms(rebalance.began), to_epoch_ms(rebalance.ended)
        done = _CompletedRebalance(began_ms, ended_ms, rebalance.moved, rebalance.least)
    return HistoryRecord(
        key=f"{moves.broker}@{at_ms}",
        at_ms=at_ms,
        broker=moves.broker,
        members=moves.members,
        owner_names=names,
        member_changes=tuple(_ChangedMember(each.member, each.what) for each in moves.changed),
        owners=rows,
        moves=tuple(
            _MovedQueue(*each.queue, each.before, each.after, each.gap_ms, each.why, to_epoch_ms(each.at))
            for each in moves.moves[:_MAX_MOVES]
        ),
        moved_count=len(moves.moves) + moves.left_out,
        rebalance=done,
    )
