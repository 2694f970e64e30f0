"""Moving groups: to the first or last message, to a time, to offsets, by some messages, to where another group is.

A move is planned first and shown: from where to where in each queue, what is skipped or comes again, who is online.
Applying a plan moves the group whether its members run or not, on every broker:

- ours and Apache's from 5.0 on (222 with a queue and an offset): the broker keeps the new offset against what members
  commit and tells them with their next pull; they keep their locks;
- 4.9 with members online (222 with a time): it tells the members, and knows no offsets: only the first message, the
  last one, or a time, and that in all queues. It refuses a group that never committed in one of its queues, so 0 is
  committed there before;
- 4.9 with nobody online: the offsets are committed (15) for the group.

What a broker will refuse is refused when it is planned.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from steelyard.client.admin.asking import together
from steelyard.client.admin.offsets import Offsets
from steelyard.client.admin.times import epoch_ms
from steelyard.errors import BrokerNotInRoute, ConfigurationError, RequestNotSupported, error_for
from steelyard.model import BrokerPlace, Queue, Route
from steelyard.model.names import RETRY
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.headers.admin import ConsumeStats as AskStats
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import CommitOffset, ResetOffset, SearchOffset

__all__ = ["Move", "Reset", "Resets", "Shift", "Target"]


@dataclass(frozen=True, slots=True)
class Shift:
    """So many messages on from where a group is; a negative number goes back."""

    by: int


Target: TypeAlias = Literal["first", "last"] | datetime | timedelta | int | Shift | Mapping[Queue, int]
"""Where to move a group: an end, a time, so long ago, an offset for all queues, so many on or back, or one for each."""

_TO_THE_END = -1


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
    """The time that was asked for in all queues; -1 for the end, 0 for the beginning, None for offsets."""
    is_new: bool = False
    """Whether the group has to be made first."""

    @property
    def skipped(self) -> int:
        """Messages that the group will not see."""
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        """Messages that the group will see again."""
        return sum(move.repeated for move in self.moves)

    def __str__(self) -> str:
        online = f"{self.members or 'nobody'} online"
        return (
            f"group {self.group} in {self.topic}: {len(self.moves)} queues, skips {self.skipped}, repeats "
            f"{self.repeated}, {online}"
        )


class Resets(Offsets):
    """What an administrator does with offsets."""

    async def plan_reset(self, group: str, topic: str, to: Target, *, queues: Iterable[Queue] | None = None) -> Reset:
        """Work out what moving a group would do, and do nothing.

        ``to`` is "first", "last", a datetime, a timedelta (so long ago), an offset for all queues, a `Shift` of so many
        messages, or a mapping of queues to offsets. An offset that a queue does not have becomes the nearest one that
        it has. ``queues`` are those to move, if not all.
        """
        full, places = self._names.full(group), await self._places()
        await self._known_group(full, places)
        return await self._plan(group, topic, to, None if queues is None else list(queues), places)

    async def plan_resets(self, group: str, to: Target, topics: Iterable[str] | None = None) -> list[Reset]:
        """Work out what moving a group would do in some topics, or in all that it reads but its retries."""
        full, places = self._names.full(group), await self._places()
        await self._known_group(full, places)
        wanted = await self._topics_of(full, places.values()) if topics is None else list(dict.fromkeys(topics))
        if not wanted:
            raise ConfigurationError(f"group {group!r} has not read any topic yet", next_step="say which topic")
        return [await self._plan(group, topic, to, None, places) for topic in wanted]

    async def plan_copy(self, source: str, group: str, topics: Iterable[str] | None = None) -> list[Reset]:
        """Work out what moving a group to where another one is would do; a group that is not there is made."""
        places = await self._places()
        there = {row.queue: row.committed for row in await self.offsets(source)}
        read = sorted({queue.topic for queue in there if not queue.topic.startswith(RETRY)})
        wanted = read if topics is None else list(dict.fromkeys(topics))
        missing = [topic for topic in wanted if topic not in read]
        if missing or not wanted:
            raise ConfigurationError(
                f"group {source!r} has no offsets in {', '.join(missing) or 'any topic'}",
                next_step=f"it has some in: {', '.join(read) or 'none'}",
            )
        is_new = self._names.full(group) not in await self._group_tables(places.values())
        return [
            await self._plan(
                group,
                topic,
                {queue: offset for queue, offset in there.items() if queue.topic == topic},
                None,
                places,
                is_new=is_new,
            )
            for topic in wanted
        ]

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
        if reset.is_new:
            await together(lambda place: self._make(place, full), (await self._places()).values())
        await together(lambda broker: self._apply_at(places[broker], full, topic, reset, moves[broker]), moves)
        return reset

    async def reset_offsets(
        self, group: str, topic: str, to: Target, *, queues: Iterable[Queue] | None = None
    ) -> Reset:
        """Move a group at once; `plan_reset` shows first what that does."""
        return await self.apply(await self.plan_reset(group, topic, to, queues=queues))

    # -- planning -----------------------------------------------------------------------------------------------------

    async def _plan(
        self,
        group: str,
        topic: str,
        to: Target,
        queues: list[Queue] | None,
        places: Mapping[str, BrokerPlace],
        *,
        is_new: bool = False,
    ) -> Reset:
        full = self._names.full(group)
        time_ms = _time_of(to)
        route = await self._route(self._names.full(topic))
        view = await self.topic(topic)
        before = {each.queue: each.committed for each in await self._offsets_in(full, route)}
        ends = {each.queue: each for each in view.queues if each.queue in before}
        chosen = list(ends) if queues is None else [_checked(queue, ends) for queue in queues]
        if time_ms is None:
            targets = _targets(to, ends, before, chosen)
        else:
            targets = await self._at_time(route, chosen, time_ms)
        moves = []
        for queue, offset in sorted(targets.items()):
            start, end = ends[queue].start, ends[queue].end
            moves.append(Move(queue, before[queue], min(max(offset, start), end), start, end))
        members = await self._members(full, places.values())
        at_time_ms = time_ms if queues is None else None
        if members and at_time_ms is None:
            await self._check_takes_offsets(full, route)
        return Reset(group, topic, tuple(moves), len(members), at_time_ms, is_new)

    async def _check_takes_offsets(self, group: str, route: Route) -> None:
        """Refuse what a broker of release 4 would refuse: offsets while members are online."""
        for place, answer in await self._ask_all(
            route.brokers, RequestCode.GET_CONSUME_STATS, AskStats(group, route.topic)
        ):
            if answer.version < Version.V5_0_0 and await self._members(group, [place]):
                raise _only_times(place)

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

    # -- moving -------------------------------------------------------------------------------------------------------

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
            await self._make(place, group)
            answer = await self._ask(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)

    async def _make(self, place: BrokerPlace, group: str) -> None:
        body = encode_body(GroupSettings(name=group))
        await self._ask_well(place, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)

    async def _move_by_time(self, place: BrokerPlace, group: str, topic: str, reset: Reset, moves: list[Move]) -> None:
        if reset.time_ms is None:
            raise _only_times(place)
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


def _only_times(place: BrokerPlace) -> RequestNotSupported:
    return RequestNotSupported(
        code=int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        server=place.name,
        what=f"{place.name} is of release 4, which moves members that are online only to a time, in all queues",
        next_step="stop the members first, or give 'first', 'last' or a time",
    )


def _time_of(to: Target) -> int | None:
    """Return the time of a target: 0 for the first message, -1 for the end, None for offsets."""
    if to == "first":
        return 0
    if to == "last":
        return _TO_THE_END
    if isinstance(to, datetime | timedelta):
        return epoch_ms(to, now_ms=now_ms())
    if isinstance(to, Shift | Mapping) or (isinstance(to, int) and not isinstance(to, bool)):
        return None
    raise ConfigurationError(
        f"a group cannot be moved to {to!r}",
        next_step="give 'first', 'last', a datetime, a timedelta for so long ago, an offset, or {queue: offset}",
    )


def _targets(
    to: Target, ends: Mapping[Queue, object], before: Mapping[Queue, int], chosen: list[Queue]
) -> dict[Queue, int]:
    if isinstance(to, int):
        return dict.fromkeys(chosen, to)
    if isinstance(to, Shift):
        return {queue: before[queue] + to.by for queue in chosen}
    assert isinstance(to, Mapping)
    return {_checked(queue, ends): offset for queue, offset in to.items()}


def _checked(queue: Queue, there: Mapping[Queue, object]) -> Queue:
    if queue not in there:
        raise ConfigurationError(
            f"{queue} is no queue that can be read", next_step=f"there are {', '.join(map(str, list(there)[:8]))}"
        )
    return queue
