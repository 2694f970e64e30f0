"""Rebalance history: which queue of a group went from whom to whom, when, why, and for how long it had no owner.

Our brokers keep it in their own topic, `REBALANCE_HISTORY_TOPIC`, with one queue on each broker; the tag of a record
is its group. Apache's brokers keep none. A broker knows only its own queues: `group_rebalances` combines the records of
all brokers. Rebalances of several brokers are one if they began within a second of each other, or one began before
another had ended.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from steelyard.balance.assignors.explain import explain
from steelyard.client.admin.admin_session import AdminPart
from steelyard.client.admin.offsets import offset_at_time, queue_offsets
from steelyard.client.times import TimeOrAge, from_epoch_ms, resolve_epoch_ms
from steelyard.errors import ConfigurationError
from steelyard.model import BrokerAddresses, Queue
from steelyard.model.reserved_names import REBALANCE_HISTORY_TOPIC
from steelyard.net.clock import now_ms
from steelyard.wire.rebalance_history import RebalanceEntry, RebalanceHistoryRecord, decode_history_record
from steelyard.wire.stored_messages import decode_messages

_PULL_BATCH, _PULL_BYTES = 256, 1 << 20
_NO_LIMIT = 1 << 62
_BACKWARD_STEP = 2_000
_DIGITS = 18
_JOIN_WITHIN = timedelta(seconds=1)

_Read: TypeAlias = tuple[list[RebalanceHistoryRecord], int]
"""Records, and how far the queue was read."""


@dataclass(frozen=True, slots=True)
class QueueMove:
    """A queue that got an owner, or lost it."""

    queue: Queue
    before: str | None
    """Its last owner; None if it had none since its broker started."""
    after: str | None
    """Its new owner; None if it has none yet."""
    gap_ms: int | None
    """For how long it had no owner; None for its first owner, or if it has none yet."""
    why: str
    """A sentence: what changed in the group, or what became of its last owner."""
    at: datetime
    kind: str
    """How its owner lost it: ``given up``, ``left``, ``lost``, ``expired``, ``topic gone``, or ``first``."""

    @property
    def moved(self) -> bool:
        """Whether it went from one member to another."""
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """A member that joined or left."""

    member: str
    what: str
    """``joined``, ``back`` (after its broker was started again), ``leaving``, ``left``, ``gone``, ``wants``."""
    at: datetime


@dataclass(frozen=True, slots=True)
class BrokerRebalance:
    """One rebalance of a group on one broker, after members or queues had changed."""

    began: datetime
    ended: datetime
    """When the last queue changed hands."""
    moved: int
    """How many queues of this broker went from one member to another."""
    least: int | None
    """How many had to; None if other brokers have queues of the group too: see `group_rebalances`."""

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return round((self.ended - self.began).total_seconds() * 1000)


@dataclass(frozen=True, slots=True)
class RebalanceRecord:
    """What changed in a group at one broker within a moment, and the owners of that broker's queues afterwards."""

    group: str
    at: datetime
    broker: str
    members: tuple[str, ...]
    """The members afterwards, in the order in which queues are assigned."""
    changed: tuple[MembershipChange, ...]
    owners: Mapping[Queue, str | None]
    """The owner of each queue afterwards; empty where members hold no locks, so that only they know."""
    moves: tuple[QueueMove, ...]
    rebalance: BrokerRebalance | None
    """Set if this record ends a rebalance."""
    left_out: int = 0
    """Moves that the record had no room for."""


class RebalanceHistory(AdminPart):
    """The part of `Admin.groups` that reads the rebalance history."""

    async def has_rebalance_history(self) -> bool:
        """Whether any broker keeps a rebalance history; ours do, unless configured otherwise."""
        return await self._session.find_route(REBALANCE_HISTORY_TOPIC) is not None

    async def rebalance_history(
        self,
        group: str | None = None,
        *,
        since: TimeOrAge | None = None,
        until: TimeOrAge | None = None,
        limit: int = 1000,
    ) -> list[RebalanceRecord]:
        """Return the rebalance history of a group, or of all: the newest records of a time span, oldest first.

        Records of several brokers are ordered by time. The list is empty where no broker keeps a history:
        `has_rebalance_history` tells that apart from a group in which nothing moved.
        """
        here_ms = now_ms()
        since_ms = 0 if since is None else resolve_epoch_ms(since, now_ms=here_ms)
        until_ms = None if until is None else resolve_epoch_ms(until, now_ms=here_ms)
        places = await self._history_brokers()
        parts = await self._session.for_each_reachable(
            places, lambda place: self._read_newest(place, group, limit, since_ms, until_ms)
        )
        found = [record for _, (records, _) in parts for record in records]
        return self._to_records(found, group, alone=len(places) == 1)[-limit:]

    async def rebalance_history_since(
        self, cursor: str | None = None, *, group: str | None = None, limit: int = 1000
    ) -> tuple[list[RebalanceRecord], str]:
        """Return the records after a cursor, and the cursor to continue with.

        Without a cursor these are the newest records, as `rebalance_history` returns them. The records of a broker that
        cannot be reached come with a later call.
        """
        known = _read_cursor(cursor)
        places = await self._history_brokers()

        async def read(place: BrokerAddresses) -> _Read:
            if cursor is None:
                return await self._read_newest(place, group, limit)
            return await self._read_forward(place, group, known.get(place.name, 0), limit=limit)

        parts = await self._session.for_each_reachable(places, read)
        reached = known | {place.name: offset for place, (_, offset) in parts}
        found = [record for _, (records, _) in parts for record in records]
        return self._to_records(found, group, alone=len(places) == 1), _write_cursor(reached)

    async def _history_brokers(self) -> tuple[BrokerAddresses, ...]:
        route = await self._session.find_route(REBALANCE_HISTORY_TOPIC)
        return () if route is None else route.brokers

    async def _read_newest(
        self, place: BrokerAddresses, group: str | None, limit: int, since_ms: int = 0, until_ms: int | None = None
    ) -> _Read:
        """Read the newest records of a time span, from the end backwards; and where the queue ends."""
        queue = Queue(REBALANCE_HISTORY_TOPIC, place.name, 0)
        ends = await queue_offsets(self._session, place, queue)
        start, end = ends.start, ends.end
        if since_ms:
            start = await offset_at_time(self._session, place, queue, since_ms)
        if until_ms is not None:
            end = min(end, await offset_at_time(self._session, place, queue, until_ms))
        found: list[RebalanceHistoryRecord] = []
        while end > start and len(found) < limit:
            begin = max(start, end - _BACKWARD_STEP)
            records, _ = await self._read_forward(place, group, begin, end=end)
            found = [*records, *found]
            end = begin
        return found[-limit:], ends.end

    async def _read_forward(
        self, place: BrokerAddresses, group: str | None, start: int, *, limit: int = _NO_LIMIT, end: int = _NO_LIMIT
    ) -> _Read:
        """Read from an offset on, up to an end or to so many records; and where that ended."""
        queue = Queue(REBALANCE_HISTORY_TOPIC, place.name, 0)
        tags = "*" if group is None else self._namespace.wrap(group)
        found: list[RebalanceHistoryRecord] = []
        while start < end and len(found) < limit:
            most = min(_PULL_BATCH, end - start, limit - len(found))
            body, following = await self._session.pull(place, queue, start, most, tags, _PULL_BYTES)
            wanted = (each for each in decode_messages(body, place.name) if start <= each.offset < end)
            found += [record for each in wanted if (record := decode_history_record(each.body)) is not None]
            # A next offset below this one: the broker lost its log and starts over.
            is_over, start = following <= start, following
            if is_over:
                break
        return found, start

    def _to_records(
        self, records: Iterable[RebalanceHistoryRecord], group: str | None, *, alone: bool
    ) -> list[RebalanceRecord]:
        """Return the public values of records, ordered by time."""
        wanted = None if group is None else self._namespace.wrap(group)
        return [
            self._to_record(each, at, alone=alone)
            for each in sorted(records, key=lambda each: each.at_ms)
            if (each.group == wanted if wanted is not None else self._session.in_namespace(each.group))
            and (at := from_epoch_ms(each.at_ms)) is not None
        ]

    def _to_record(self, record: RebalanceHistoryRecord, at: datetime, *, alone: bool) -> RebalanceRecord:
        names = self._namespace
        members = dict(enumerate(record.members))
        return RebalanceRecord(
            group=names.unwrap(record.group),
            at=at,
            broker=record.broker,
            members=record.members,
            changed=tuple(
                MembershipChange(each.member, each.what, from_epoch_ms(each.at_ms) or at) for each in record.changed
            ),
            owners={
                Queue(names.unwrap(topic), record.broker, queue_id): members.get(place)
                for topic, row in record.owners.items()
                for queue_id, place in enumerate(row)
            },
            moves=tuple(
                QueueMove(
                    Queue(names.unwrap(each.topic), record.broker, each.queue),
                    each.before,
                    each.after,
                    each.gap_ms,
                    names.unwrap_text(each.why),
                    from_epoch_ms(each.at_ms) or at,
                    each.kind,
                )
                for each in record.moves
            ),
            rebalance=_broker_rebalance(record.rebalance, alone=alone),
            left_out=record.left_out,
        )


def _broker_rebalance(entry: RebalanceEntry | None, *, alone: bool) -> BrokerRebalance | None:
    if entry is None:
        return None
    began, ended = from_epoch_ms(entry.began_ms), from_epoch_ms(entry.ended_ms)
    if began is None or ended is None:
        return None
    return BrokerRebalance(began, ended, entry.moved, entry.least if alone else None)


def _write_cursor(reached: Mapping[str, int]) -> str:
    """Format how far each broker was read.

    >>> _write_cursor({"broker-b": 7, "east@broker-a": 12})
    'broker-b:7,east@broker-a:12'
    """
    return ",".join(f"{broker}:{offset}" for broker, offset in sorted(reached.items()))


def _read_cursor(cursor: str | None) -> dict[str, int]:
    """Parse what `_write_cursor` wrote.

    >>> _read_cursor("broker-b:7,east@broker-a:12")
    {'broker-b': 7, 'east@broker-a': 12}
    """
    reached: dict[str, int] = {}
    for part in (cursor or "").split(",") if cursor else ():
        broker, colon, offset = part.rpartition(":")
        if not colon or not offset.isascii() or not offset.isdigit() or len(offset) > _DIGITS:
            raise ConfigurationError(f"{part[:80]!r} is no part of a cursor", next_step="give one that was returned")
        reached[broker] = int(offset)
    return reached


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """One rebalance of a group over all its brokers, after members or queues had changed."""

    group: str
    began: datetime
    ended: datetime
    """When the last queue changed hands."""
    moved: int
    """How often a queue went from one member to another."""
    least: int | None
    """How many had to move for an even assignment; None if the history does not go back so far."""
    longest_gap_ms: int | None
    """The longest time that a queue had no owner; None if none moved."""
    reasons: tuple[str, ...]

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return round((self.ended - self.began).total_seconds() * 1000)


def group_rebalances(history: Iterable[RebalanceRecord]) -> list[GroupRebalance]:
    """Return the rebalances of each group in a history, ordered by their end."""
    groups: dict[str, list[RebalanceRecord]] = {}
    for record in sorted(history, key=lambda record: record.at):
        groups.setdefault(record.group, []).append(record)
    found = [
        _group_rebalance(records, part)
        for records in groups.values()
        for part in _joined_rebalances([each for each in records if each.rebalance])
    ]
    return sorted(found, key=lambda each: each.ended)


def _joined_rebalances(rested: Sequence[RebalanceRecord]) -> Iterator[list[RebalanceRecord]]:
    """Group the records that belong to one rebalance."""
    part: list[RebalanceRecord] = []
    for record in sorted(rested, key=_began):
        if part and _began(record) > max(map(_ended, part)) + _JOIN_WITHIN:
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def _began(record: RebalanceRecord) -> datetime:
    return record.at if record.rebalance is None else record.rebalance.began


def _ended(record: RebalanceRecord) -> datetime:
    return record.at if record.rebalance is None else record.rebalance.ended


def _group_rebalance(records: Sequence[RebalanceRecord], part: Sequence[RebalanceRecord]) -> GroupRebalance:
    began, ended, closed = _began(part[0]), max(map(_ended, part)), max(record.at for record in part)
    moves = [move for record in records for move in record.moves if began <= move.at <= ended]
    # The last record of each broker counts.
    before = {record.broker: record for record in records if record.at <= began}
    after = {record.broker: record for record in records if record.at <= closed}
    gaps = [move.gap_ms for move in moves if move.moved and move.gap_ms is not None]
    return GroupRebalance(
        group=part[0].group,
        began=began,
        ended=ended,
        moved=sum(move.moved for move in moves),
        least=_minimum_moves(before, after, moves),
        longest_gap_ms=max(gaps, default=None),
        reasons=tuple(dict.fromkeys(move.why for move in moves)),
    )


def _minimum_moves(
    before: Mapping[str, RebalanceRecord], after: Mapping[str, RebalanceRecord], moves: Iterable[QueueMove]
) -> int | None:
    if any(move.before is not None and move.queue.broker not in before for move in moves):
        return None
    members = max(after.values(), key=lambda record: record.at).members
    owned = _queues_by_owner(after.values())
    plan = {member: owned.get(member, []) for member in members}
    queues = [queue for record in after.values() for queue in record.owners]
    return explain(_queues_by_owner(before.values()), plan, queues).least


def _queues_by_owner(records: Iterable[RebalanceRecord]) -> dict[str, list[Queue]]:
    owned: dict[str, list[Queue]] = {}
    for record in records:
        for queue, owner in record.owners.items():
            if owner is not None:
                owned.setdefault(owner, []).append(queue)
    return owned
