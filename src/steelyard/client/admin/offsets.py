"""How far groups are, and moving them: to the first or last message, to a time, to offsets.

A move is planned first and shown: from where to where in each queue, what is skipped or comes again, who is online.
Applying a plan moves the group whether its members run or not, on every broker:

- ours and Apache's from 5.0 on (222 with a queue and an offset): the broker keeps the new offset against what members
  commit and tells them with their next pull; they keep their locks;
- 4.9 with members online (222 with a time): it tells the members, and knows no offsets: only the first message, the
  last one, or a time. It refuses a group that never committed in one of its queues, so 0 is committed there before;
- 4.9 with nobody online: the offsets are committed (15) for the group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from steelyard.client.admin.asking import together
from steelyard.client.admin.members import Members
from steelyard.client.admin.times import epoch_ms, moment
from steelyard.client.admin.topics import Topics
from steelyard.errors import BrokerNotInRoute, ConfigurationError, RequestNotSupported, error_for
from steelyard.model import BrokerPlace, Queue, Route
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.bodies.stats import ConsumeStats
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import ConsumeStats as AskStats
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import CommitOffset, QueryOffset, ResetOffset, SearchOffset

__all__ = ["GroupOffset", "Move", "Offsets", "Reset", "Target"]

Target: TypeAlias = Literal["first", "last"] | datetime | timedelta | int | Mapping[Queue, int]
"""Where to move a group: an end, a time, so long ago, an offset for every queue, or one for each."""

_TO_THE_END = -1


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group is in a queue. A group that never committed there is at 0."""

    queue: Queue
    committed: int
    end: int
    consumed_at: datetime | None = None
    """When the last message was stored that the group is through with."""

    @property
    def lag(self) -> int:
        """How many messages wait."""
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Move:
    """What a reset does in one queue."""

    queue: Queue
    before: int
    to: int
    start: int
    end: int

    @property
    def skipped(self) -> int:
        """Messages that the group will not see."""
        return max(0, self.to - max(self.before, self.start))

    @property
    def repeated(self) -> int:
        """Messages that the group will see again."""
        return max(0, self.before - self.to)

    def __str__(self) -> str:
        change = f", skips {self.skipped}" if self.skipped else f", repeats {self.repeated}" if self.repeated else ""
        return f"{self.queue} from {self.before} to {self.to}{change}"


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset that was planned, and not yet done: show it, then give it to ``Admin.apply``."""

    group: str
    topic: str
    moves: tuple[Move, ...]
    members: int
    """How many members are online."""
    time_ms: int | None = None
    """The time that was asked for; -1 for the end, 0 for the beginning, None for offsets."""

    @property
    def skipped(self) -> int:
        """Messages that the group will not see."""
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        """Messages that the group will see again."""
        return sum(move.repeated for move in self.moves)

    def __str__(self) -> str:
        online = f"{self.members} members online" if self.members else "nobody online"
        return (
            f"group {self.group} in {self.topic}: {len(self.moves)} queues, skips {self.skipped}, repeats "
            f"{self.repeated}, {online}"
        )


class Offsets(Members, Topics):
    """What an administrator does with offsets."""

    async def offsets(self, group: str, topic: str | None = None) -> list[GroupOffset]:
        """Return how far a group is in each queue: of one topic, or of all that it has offsets in."""
        full, places = self._names.full(group), await self._places()
        if topic is not None:
            return await self._offsets_in(full, await self._route(self._names.full(topic)))
        await self._known_group(full, places)
        return await self._progress(full, places.values())

    async def plan_reset(self, group: str, topic: str, to: Target) -> Reset:
        """Work out what moving a group would do, and do nothing.

        ``to`` is "first", "last", a datetime, a timedelta (so long ago), an offset for all queues, or a mapping of
        queues to offsets. An offset that a queue does not have becomes the nearest one that it has.
        """
        full, places = self._names.full(group), await self._places()
        await self._known_group(full, places)
        route = await self._route(self._names.full(topic))
        before = {each.queue: each.committed for each in await self._offsets_in(full, route)}
        view = await self.topic(topic)
        ends = {each.queue: each for each in view.queues if each.queue in before}
        time_ms = _time_of(to)
        targets = _targets(to, ends) if time_ms is None else await self._at_time(route, list(ends), time_ms)
        moves = []
        for queue, offset in sorted(targets.items()):
            start, end = ends[queue].start, ends[queue].end
            moves.append(Move(queue, before[queue], min(max(offset, start), end), start, end))
        members = await self._members(full, places.values())
        return Reset(group, topic, tuple(moves), len(members), time_ms)

    async def apply(self, reset: Reset) -> Reset:
        """Do what was planned."""
        full, topic = self._names.full(reset.group), self._names.full(reset.topic)
        route = await self._route(topic)
        places = {place.name: place for place in route.brokers}
        moves: dict[str, list[Move]] = {}
        for move in reset.moves:
            moves.setdefault(move.queue.broker, []).append(move)
        if gone := sorted(moves.keys() - places):
            raise BrokerNotInRoute(
                f"{', '.join(gone)} had queues of {reset.topic} when the reset was planned, and is gone",
                next_step="plan it again, or wait until the broker is back",
            )
        await together(lambda broker: self._apply_at(places[broker], full, topic, reset, moves[broker]), moves)
        return reset

    async def reset_offsets(self, group: str, topic: str, to: Target) -> Reset:
        """Move a group at once; `plan_reset` shows first what that does."""
        return await self.apply(await self.plan_reset(group, topic, to))

    # -- how far ------------------------------------------------------------------------------------------------------

    async def _progress(self, group: str, places: Iterable[BrokerPlace]) -> list[GroupOffset]:
        """Return how far a group is wherever it has offsets, by its full name."""
        rows: list[GroupOffset] = []
        for place, answer in await self._ask_all(places, RequestCode.GET_CONSUME_STATS, AskStats(group)):
            if answer.code == ResponseCode.SUCCESS:
                rows += self._rows(place, answer)
        return sorted(rows, key=lambda row: row.queue)

    async def _offsets_in(self, group: str, route: Route) -> list[GroupOffset]:
        """Return how far a group is in every readable queue of a topic."""
        rows: dict[Queue, GroupOffset] = {}
        asked = AskStats(group, route.topic)
        for place, answer in await self._ask_all(route.brokers, RequestCode.GET_CONSUME_STATS, asked):
            if answer.code == ResponseCode.SUCCESS:
                rows |= {row.queue: row for row in self._rows(place, answer)}
        places = {place.name: place for place in route.brokers}
        # Apache tells nothing of a topic that online members do not subscribe to.
        untold = [queue for queue in route.readable() if self._names.bare_queue(queue) not in rows]
        found = await together(lambda queue: self._offset_of(places[queue.broker], group, queue), untold)
        return sorted([*rows.values(), *found], key=lambda row: row.queue)

    def _rows(self, place: BrokerPlace, answer: Command) -> list[GroupOffset]:
        told = decode_body(ConsumeStats, answer.body).queues
        return [
            GroupOffset(
                self._names.bare_queue(Queue(queue.topic, place.name, queue.queue_id)),
                max(0, each.consumer_offset),
                each.broker_offset,
                moment(each.consumed_ms),
            )
            for queue, each in told.items()
        ]

    async def _offset_of(self, place: BrokerPlace, group: str, queue: Queue) -> GroupOffset:
        asked = QueryOffset(group, queue.topic, queue.queue_id, set_zero_if_not_found=False)
        answer = await self._ask(place, RequestCode.QUERY_CONSUMER_OFFSET, asked)
        committed = answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else 0
        ends = await self._queue_ends(place, queue)
        return GroupOffset(ends.queue, max(0, committed), ends.end)

    # -- moving -------------------------------------------------------------------------------------------------------

    async def _at_time(self, route: Route, queues: list[Queue], time_ms: int) -> dict[Queue, int]:
        """Return the first offset at or after a time; a time to come is the end, of which 4.9 says one too few."""
        places = {place.name: place for place in route.brokers}
        is_to_come = time_ms >= now_ms()

        async def find(queue: Queue) -> int:
            place = places[queue.broker]
            if time_ms == _TO_THE_END or is_to_come:
                return (await self._queue_ends(place, self._names.full_queue(queue))).end
            asked = SearchOffset(route.topic, queue.queue_id, time_ms)
            answer = await self._ask_well(place, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, asked)
            return answer.header(OffsetAnswer).offset

        return dict(zip(queues, await together(find, queues), strict=True))

    async def _apply_at(self, place: BrokerPlace, group: str, topic: str, reset: Reset, moves: list[Move]) -> None:
        probe = await self._ask(place, RequestCode.GET_CONSUME_STATS, AskStats(group, topic))
        if probe.version >= Version.V5_0_0:
            await together(lambda move: self._move(place, group, topic, move), moves)
        elif await self._members(group, [place]):
            await self._move_by_time(place, group, topic, reset, moves)
        else:
            await together(lambda move: self._commit(place, group, topic, move.queue.queue_id, move.to), moves)

    async def _move(self, place: BrokerPlace, group: str, topic: str, move: Move) -> None:
        header = ResetOffset(topic, group, _TO_THE_END, True, queue_id=move.queue.queue_id, offset=move.to)
        answer = await self._ask(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            # It is known elsewhere: here nobody of it has been yet.
            body = encode_body(GroupSettings(name=group))
            await self._ask_well(place, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
            answer = await self._ask(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)

    async def _move_by_time(self, place: BrokerPlace, group: str, topic: str, reset: Reset, moves: list[Move]) -> None:
        if reset.time_ms is None:
            raise RequestNotSupported(
                code=int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
                server=place.name,
                what=f"{place.name} is of release 4, which moves members that are online only to a time",
                next_step="stop the members first, or give 'first', 'last' or a time",
            )
        header = ResetOffset(topic, group, reset.time_ms, True)
        answer = await self._ask(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        if answer.code == ResponseCode.SYSTEM_ERROR and "not exist" in (answer.remark or ""):
            new = [move for move in moves if move.before == 0]
            await together(lambda move: self._commit(place, group, topic, move.queue.queue_id, 0), new)
            answer = await self._ask(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)

    async def _commit(self, place: BrokerPlace, group: str, topic: str, queue_id: int, offset: int) -> None:
        header = CommitOffset(group, topic, queue_id, offset)
        await self._ask_well(place, RequestCode.UPDATE_CONSUMER_OFFSET, header)


def _time_of(to: Target) -> int | None:
    """Return the time of a target: 0 for the first message, -1 for the end, None for offsets."""
    if to == "first":
        return 0
    if to == "last":
        return _TO_THE_END
    if isinstance(to, datetime | timedelta):
        return epoch_ms(to, now_ms=now_ms())
    if isinstance(to, Mapping) or (isinstance(to, int) and not isinstance(to, bool)):
        return None
    raise ConfigurationError(
        f"a group cannot be moved to {to!r}",
        next_step="give 'first', 'last', a datetime, a timedelta for so long ago, an offset, or {queue: offset}",
    )


def _targets(to: Target, ends: Mapping[Queue, object]) -> dict[Queue, int]:
    if isinstance(to, int):
        return dict.fromkeys(ends, to)
    assert isinstance(to, Mapping)
    for queue in to:
        if queue not in ends:
            raise ConfigurationError(
                f"{queue} is no queue that can be read", next_step=f"there are {', '.join(map(str, list(ends)[:8]))}"
            )
    return dict(to)
