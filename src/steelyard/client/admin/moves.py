"""The history of moves: which queue of a group went from whom to whom, when, why, and for how long nobody had it.

Brokers of ours keep it in a topic of their own, `MOVES_TOPIC`, one queue on each, which can also be read as any other.
Apache's brokers keep none: then there is nothing to tell, and `keeps_moves` says so. A record has its group as its tag,
so that whoever asks for one group gets no other's.

The newest are read from the end of the queue. Who looks on hands the cursor back and gets what is newer, which takes
one question to the name server and one to each broker.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from steelyard.client.admin.asking import TOOLS_GROUP, together
from steelyard.client.admin.messages import Messages
from steelyard.client.admin.times import Moment, epoch_ms, moment
from steelyard.errors import ConfigurationError, TransportError, error_for
from steelyard.model import BrokerPlace, Queue
from steelyard.model.names import MOVES_TOPIC
from steelyard.net.clock import now_ms
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import SearchOffset
from steelyard.wire.headers.pull import Pull, PullAnswer
from steelyard.wire.moves import MovesRecord, RebalanceLine, read_moves
from steelyard.wire.stored import messages as read_messages

__all__ = ["GroupMoves", "MemberChange", "Move", "Moves", "Rebalance"]

_PULLED, _PULLED_BYTES = 256, 1 << 20
_SUBSCRIBED = 4
_STEP = 2_000
"""How far one goes back at a time from the end of a queue."""
_DIGITS = 18
_NOTHING_THERE = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)

_Read: TypeAlias = tuple[list[MovesRecord], int]
"""Records, and how far the queue was read."""


@dataclass(frozen=True, slots=True)
class Move:
    """A queue that was taken or got free."""

    queue: Queue
    before: str | None
    """Who had it last; None if nobody had it since its broker started."""
    after: str | None
    """Who has it since; None if it got free, and nobody has it yet."""
    gap_ms: int | None
    """For how long nobody had it; None if it was the first to have it, or nobody has it yet."""
    why: str
    """A sentence: what changed in the group, or what became of its last owner."""
    at: datetime
    kind: str
    """How it got free: ``given up``, ``left``, ``lost``, ``expired``, ``topic gone``; ``first`` if nobody had it."""

    @property
    def moved(self) -> bool:
        """Whether it went from one member to another."""
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A member that came or went."""

    member: str
    what: str
    """``joined``, ``back`` (after its broker was started again), ``leaving``, ``left``, ``gone``, ``wants``."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A group that came to rest on one broker, after members or queues had changed."""

    began: datetime
    ended: datetime
    """When the last queue changed hands."""
    moved: int
    """How many queues of this broker went from one member to another."""
    least: int | None
    """How many had to; None if others have queues of the group too, which `rebalances` puts together."""

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return round((self.ended - self.began).total_seconds() * 1000)


@dataclass(frozen=True, slots=True)
class GroupMoves:
    """What changed in a group at one broker within a moment, and who had which queue of that broker after it."""

    group: str
    at: datetime
    broker: str
    members: tuple[str, ...]
    """Who was there after it, in the order that all agree on."""
    changed: tuple[MemberChange, ...]
    owners: Mapping[Queue, str | None]
    """Who had each queue after it; empty where members hold no locks, so that nobody but they know."""
    moves: tuple[Move, ...]
    rebalance: Rebalance | None
    """Given if the group has come to rest."""
    left_out: int = 0
    """Moves that the record had no room for."""


class Moves(Messages):
    """What an administrator can see of the moves of groups."""

    async def keeps_moves(self) -> bool:
        """Say whether any broker keeps a history of moves; those of ours do, unless they are told not to."""
        return await self._find_route(MOVES_TOPIC) is not None

    async def moves(
        self,
        group: str | None = None,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 1000,
    ) -> list[GroupMoves]:
        """Return what moved in a group, or in all: the newest records of a span of time, the oldest of them first.

        Records of several brokers are put in order by their time. Where no broker keeps a history the list is empty,
        and `keeps_moves` tells that apart from a group in which nothing moved.
        """
        here_ms = now_ms()
        span = _Span(
            limit,
            0 if since is None else epoch_ms(since, now_ms=here_ms),
            None if until is None else epoch_ms(until, now_ms=here_ms),
        )
        places = await self._moves_places()
        parts = await self._from_each(places, lambda place: self._newest(place, group, span))
        found = [record for records, _ in parts.values() for record in records]
        return self._as_users_know(found, group, alone=len(places) == 1)[-limit:]

    async def moves_since(
        self, cursor: str | None = None, *, group: str | None = None, limit: int = 1000
    ) -> tuple[list[GroupMoves], str]:
        """Return what is newer than a cursor, and the cursor to go on with.

        Without a cursor these are the newest records, as `moves` gives them. A broker that does not answer now is
        asked again from the same place the next time.
        """
        known = _read_cursor(cursor)
        places = await self._moves_places()

        async def read(place: BrokerPlace) -> _Read:
            if cursor is None:
                return await self._newest(place, group, _Span(limit, 0, None))
            return await self._forward(place, group, known.get(place.name, 0), limit)

        parts = await self._from_each(places, read)
        reached = known | {name: offset for name, (_, offset) in parts.items()}
        found = [record for records, _ in parts.values() for record in records]
        return self._as_users_know(found, group, alone=len(places) == 1), _write_cursor(reached)

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _moves_places(self) -> tuple[BrokerPlace, ...]:
        route = await self._find_route(MOVES_TOPIC)
        return () if route is None else route.brokers

    async def _from_each(
        self, places: Iterable[BrokerPlace], read: Callable[[BrokerPlace], Awaitable[_Read]]
    ) -> dict[str, _Read]:
        """Read at every broker; who does not answer is named once in the log, and left out."""

        async def one(place: BrokerPlace) -> _Read | TransportError:
            try:
                return await read(place)
            except TransportError as error:
                self._tell_once(f"broker {place.name} is left out: {error.what}")
                return error

        listed = tuple(places)
        found = dict(zip((place.name for place in listed), await together(one, listed), strict=True))
        good = {name: part for name, part in found.items() if not isinstance(part, TransportError)}
        if found and not good:
            raise next(part for part in found.values() if isinstance(part, TransportError))
        return good

    async def _newest(self, place: BrokerPlace, group: str | None, span: "_Span") -> _Read:
        """Read the newest records of a span of time, from the end backwards; and where the queue ends."""
        ends = await self._queue_ends(place, Queue(MOVES_TOPIC, place.name, 0))
        start = ends.start if not span.since_ms else await self._offset_at(place, span.since_ms)
        end = ends.end if span.until_ms is None else min(ends.end, await self._offset_at(place, span.until_ms))
        found: list[MovesRecord] = []
        while end > start and len(found) < span.limit:
            begin = max(start, end - _STEP)
            found = [*await self._between(place, group, begin, end), *found]
            end = begin
        return found[-span.limit :], ends.end

    async def _offset_at(self, place: BrokerPlace, time_ms: int) -> int:
        answer = await self._ask_well(
            place, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(MOVES_TOPIC, 0, time_ms)
        )
        return answer.header(OffsetAnswer).offset

    async def _between(self, place: BrokerPlace, group: str | None, start: int, end: int) -> list[MovesRecord]:
        found: list[MovesRecord] = []
        while start < end:
            records, following = await self._pull_moves(place, group, start, min(_PULLED, end - start))
            found += [record for offset, record in records if offset < end]
            if following <= start:
                break
            start = following
        return found

    async def _forward(self, place: BrokerPlace, group: str | None, start: int, limit: int) -> _Read:
        """Read on from an offset; and where that ended."""
        found: list[MovesRecord] = []
        while len(found) < limit:
            records, following = await self._pull_moves(place, group, start, min(_PULLED, limit - len(found)))
            found += [record for _, record in records]
            if following == start:
                break
            is_gone = following < start  # the broker lost its log and begins again
            start = following
            if is_gone:
                break
        return found, start

    async def _pull_moves(
        self, place: BrokerPlace, group: str | None, offset: int, most: int
    ) -> tuple[list[tuple[int, MovesRecord]], int]:
        """Pull some records; with them where to go on."""
        tags = "*" if group is None else self._names.full(group)
        header = Pull(
            TOOLS_GROUP, MOVES_TOPIC, 0, offset, most, _SUBSCRIBED, 0, 0, 0, tags, "TAG", max_msg_bytes=_PULLED_BYTES
        )
        answer = await self._ask(place, RequestCode.PULL_MESSAGE, header)
        if answer.code in _NOTHING_THERE:
            return [], answer.header(PullAnswer).next_begin_offset
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        read = ((message.offset, read_moves(message.body)) for message in read_messages(answer.body, place.name))
        found = [(at, record) for at, record in read if record is not None and at >= offset]
        return found, answer.header(PullAnswer).next_begin_offset

    def _as_users_know(self, records: Iterable[MovesRecord], group: str | None, *, alone: bool) -> list[GroupMoves]:
        """Return records as users know them, in the order of their time."""
        wanted = None if group is None else self._names.full(group)
        mine = [each for each in records if (each.group == wanted if wanted is not None else self._is_here(each.group))]
        told = [self._known(each, alone=alone) for each in sorted(mine, key=lambda each: each.at_ms)]
        return [each for each in told if each is not None]

    def _known(self, record: MovesRecord, *, alone: bool) -> GroupMoves | None:
        at, names = moment(record.at_ms), self._names
        if at is None:
            return None
        members = dict(enumerate(record.members))
        return GroupMoves(
            group=names.bare(record.group),
            at=at,
            broker=record.broker,
            members=record.members,
            changed=tuple(MemberChange(each.member, each.what, moment(each.at_ms) or at) for each in record.changed),
            owners={
                Queue(names.bare(topic), record.broker, queue_id): members.get(place)
                for topic, row in record.owners.items()
                for queue_id, place in enumerate(row)
            },
            moves=tuple(
                Move(
                    Queue(names.bare(each.topic), record.broker, each.queue),
                    each.before,
                    each.after,
                    each.gap_ms,
                    names.bare_text(each.why),
                    moment(each.at_ms) or at,
                    each.kind,
                )
                for each in record.moves
            ),
            rebalance=_rebalance(record.rebalance, alone=alone),
            left_out=record.left_out,
        )


class _Span(NamedTuple):
    """Which records are wanted."""

    limit: int
    since_ms: int
    until_ms: int | None


def _rebalance(line: RebalanceLine | None, *, alone: bool) -> Rebalance | None:
    began, ended = (None, None) if line is None else (moment(line.began_ms), moment(line.ended_ms))
    if line is None or began is None or ended is None:
        return None
    return Rebalance(began, ended, line.moved, line.least if alone else None)


def _write_cursor(reached: Mapping[str, int]) -> str:
    """Write how far each broker was read.

    >>> _write_cursor({"broker-b": 7, "east@broker-a": 12})
    'broker-b:7,east@broker-a:12'
    """
    return ",".join(f"{broker}:{offset}" for broker, offset in sorted(reached.items()))


def _read_cursor(cursor: str | None) -> dict[str, int]:
    """Read what `_write_cursor` wrote.

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
