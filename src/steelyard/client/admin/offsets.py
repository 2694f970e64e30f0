"""Offsets: committed offsets and lag of groups, and resets, which are planned and shown before they are applied.

A broker reports a group's offsets (208). Apache's leave out topics that online members do not subscribe to: then each
queue is requested on its own (14). A reset works whether members run or not, and depends on the broker:

- ours, and Apache's from 5.0 on (222 with a queue and an offset): the broker keeps the new offset against commits of
  members and tells them with their next pull; they keep their locks;
- 4.9 with members online (222 with a time): it notifies the members, but only of a time, in all queues. It refuses a
  group that never committed in one of its queues, so 0 is committed there before;
- 4.9 without members: the offsets are committed (15) for the group.

What a broker would refuse is refused by the plan.
"""

import builtins
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from steelyard.client.admin.admin_session import AdminPart, AdminSession, check_ok, gather_limited, release_4_error
from steelyard.client.admin.group_description import consumer_connections, online_members
from steelyard.client.times import from_epoch_ms, resolve_epoch_ms
from steelyard.errors import BrokerNotInRoute, ConfigurationError, ConsumerOffline, RequestNotSupported, ServerFailed
from steelyard.model import BrokerAddresses, Queue, TopicRoute
from steelyard.model.formatting import pluralize
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.model.time_text import parse_time
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.bodies.stats import ConsumeStats, TopicOffset, TopicStats
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.headers.admin import GetConsumeStats
from steelyard.wire.headers.common import OffsetResponse, QueueRequest, TopicNameRequest
from steelyard.wire.headers.group import (
    CommitOffset,
    GetMaxOffset,
    GroupTopicRequest,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
)

_TO_THE_END = -1


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """A queue's first offset, the next one to be written, and when the last message was stored."""

    queue: Queue
    start: int
    end: int
    stored_at: datetime | None = None

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A group's committed offset in a queue; 0 if it never committed there."""

    queue: Queue
    committed: int
    end: int
    consumed_at: datetime | None = None
    """When the last message that the group is done with was stored."""

    @property
    def lag(self) -> int:
        """The lag in messages."""
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class MemberOffset:
    """A member's own offset in a queue, which it may not have committed yet."""

    member: str
    queue: Queue
    offset: int


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The lag of a group in a topic."""

    topic: str
    queues: int
    waiting: int
    handled_to: datetime | None
    """When the last message that the group is done with was stored, in the queue that is furthest behind."""


@dataclass(frozen=True, slots=True)
class GroupStats:
    """A group's offsets in all its queues, and how many messages a second it gets."""

    rows: tuple[GroupOffset, ...]
    tps: float

    @property
    def lag(self) -> int:
        """The lag in messages."""
        return sum(row.lag for row in self.rows)


@dataclass(frozen=True, slots=True)
class OffsetShift:
    """So many messages forward from the committed offset; a negative number goes back."""

    by: int


ResetTarget: TypeAlias = Literal["first", "last"] | datetime | timedelta | int | OffsetShift | Mapping[Queue, int]
"""Where to move a group: to an end, a time, an age, an offset in all queues, by a shift, or to an offset a queue."""


@dataclass(frozen=True, slots=True)
class QueueReset:
    """What a reset does in one queue."""

    queue: Queue
    before: int
    to: int
    start: int
    end: int

    @property
    def skipped(self) -> int:
        """Messages that the group will not get."""
        return max(0, self.to - max(self.before, self.start))

    @property
    def repeated(self) -> int:
        """Messages that the group will get again."""
        return max(0, self.before - self.to)

    def __str__(self) -> str:
        change = f", skips {self.skipped}" if self.skipped else f", repeats {self.repeated}" if self.repeated else ""
        return f"{self.queue} from {self.before} to {self.to}{change}"


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """A reset that is planned and not applied: show it, then pass it to ``admin.offsets.apply``."""

    group: str
    topic: str
    moves: tuple[QueueReset, ...]
    members: int
    time_ms: int | None = None
    """The requested time in all queues; -1 for the end, 0 for the beginning, None for offsets."""
    is_new: bool = False
    """Whether the group has to be created first."""

    @property
    def skipped(self) -> int:
        """Messages that the group will not get."""
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        """Messages that the group will get again."""
        return sum(move.repeated for move in self.moves)

    def __str__(self) -> str:
        online = f"{pluralize(self.members, 'member') if self.members else 'no member'} online"
        return (
            f"group {self.group} in {self.topic}: {pluralize(len(self.moves), 'queue')}, skips {self.skipped}, repeats "
            f"{self.repeated}, {online}"
        )


class OffsetAdmin(AdminPart):
    """Offsets of groups: `Admin.offsets`."""

    async def lag(self, group: str) -> builtins.list[TopicLag]:
        """Return the lag of a group in each of its topics."""
        topics: dict[str, list[GroupOffset]] = {}
        for row in await self.list(group):
            topics.setdefault(row.queue.topic, []).append(row)
        return [
            TopicLag(
                topic,
                len(rows),
                sum(row.lag for row in rows),
                min((row.consumed_at for row in rows if row.lag and row.consumed_at is not None), default=None),
            )
            for topic, rows in sorted(topics.items(), key=lambda item: (item[0].startswith(RETRY_PREFIX), item[0]))
        ]

    async def in_memory(self, group: str, topic: str, member: str | None = None) -> builtins.list[MemberOffset]:
        """Return the offsets that members, or one, have in memory; those that do not answer in time are left out."""
        full, places = self._namespace.wrap(group), await self._session.broker_places()
        await self._session.require_group(full, places)
        route = await self._session.require_route(self._namespace.wrap(topic))
        if not await online_members(self._session, full, places.values()):
            raise ConsumerOffline(
                server=str(self._session.config),
                what=f"no member of group {group!r} is online",
                next_step=f"see what it committed: steelyard offset show {group}",
            )
        fields = GroupTopicRequest(full, route.topic, member)
        found: dict[tuple[str, Queue], int] = {}
        # Each broker asks all members that it knows: the last response is the newest.
        answers = await self._session.request_each(
            places.values(), RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields
        )
        for place, answer in answers:
            if answer.code == ResponseCode.SUCCESS:
                for name, queues in decode_body(MemberOffsets, answer.body).members.items():
                    found |= {(name, self._namespace.unwrap_queue(queue)): offset for queue, offset in queues.items()}
            elif len(answers) == 1:
                check_ok(answer, place.name)
        return [MemberOffset(name, queue, offset) for (name, queue), offset in sorted(found.items())]

    async def plan_reset(
        self, group: str, topic: str, to: ResetTarget, *, queues: Iterable[Queue] | None = None
    ) -> ResetPlan:
        """Plan a reset, and change nothing.

        ``to`` is "first", "last", a datetime, a timedelta (an age), an offset for all queues, an `OffsetShift`, or a
        mapping of queues to offsets. An offset that a queue does not have becomes the nearest one that it has.
        ``queues`` are those to move, if not all.
        """
        places = await self._session.broker_places()
        await self._session.require_group(self._namespace.wrap(group), places)
        return await self._plan_topic(group, topic, to, places, None if queues is None else [*queues])

    async def plan_resets(
        self, group: str, to: ResetTarget, topics: Iterable[str] | None = None
    ) -> builtins.list[ResetPlan]:
        """Plan a reset in some topics, or in all that the group reads except its retry topic."""
        full, places = self._namespace.wrap(group), await self._session.broker_places()
        await self._session.require_group(full, places)
        wanted = await self._topics_of(full, places.values()) if topics is None else [*dict.fromkeys(topics)]
        if not wanted:
            raise ConfigurationError(f"group {group!r} has not read any topic yet", next_step="say which topic")
        return [await self._plan_topic(group, topic, to, places) for topic in wanted]

    async def plan_copy(self, source: str, group: str, topics: Iterable[str] | None = None) -> builtins.list[ResetPlan]:
        """Plan to move a group to the offsets of another one; a group that does not exist will be created."""
        places = await self._session.broker_places()
        there = {row.queue: row.committed for row in await self.list(source)}
        read = sorted({queue.topic for queue in there if not queue.topic.startswith(RETRY_PREFIX)})
        wanted = read if topics is None else [*dict.fromkeys(topics)]
        missing = [topic for topic in wanted if topic not in read]
        if missing or not wanted:
            raise ConfigurationError(
                f"group {source!r} has no offsets in {', '.join(missing) or 'any topic'}",
                next_step=f"it has some in: {', '.join(read) or 'none'}",
            )
        is_new = self._namespace.wrap(group) not in await self._session.group_tables(places.values())
        targets = {topic: {queue: there[queue] for queue in there if queue.topic == topic} for topic in wanted}
        return [await self._plan_topic(group, topic, targets[topic], places, is_new=is_new) for topic in wanted]

    async def apply(self, reset: ResetPlan) -> ResetPlan:
        """Apply a plan."""
        full, topic = self._namespace.wrap(reset.group), self._namespace.wrap(reset.topic)
        route = await self._session.require_route(topic)
        places = {place.name: place for place in route.brokers}
        moves: dict[str, list[QueueReset]] = {}
        for move in reset.moves:
            moves.setdefault(move.queue.broker, []).append(move)
        if gone := sorted(moves.keys() - places):
            raise BrokerNotInRoute(
                f"{', '.join(gone)} had queues of {reset.topic} when the reset was planned, and is gone",
                next_step="plan it again, or wait until the broker is back",
            )
        if reset.is_new:
            every = (await self._session.broker_places()).values()
            await gather_limited(lambda place: self._create_group_at(place, full), every)
        await gather_limited(lambda broker: self._apply_at(places[broker], full, topic, reset, moves[broker]), moves)
        return reset

    async def reset(
        self, group: str, topic: str, to: ResetTarget, *, queues: Iterable[Queue] | None = None
    ) -> ResetPlan:
        """Plan a reset and apply it at once; `plan_reset` shows it first."""
        return await self.apply(await self.plan_reset(group, topic, to, queues=queues))

    async def _topics_of(self, group: str, places: Iterable[BrokerAddresses]) -> builtins.list[str]:
        """Return the topics that a group has offsets in, or subscribes to now."""
        found = {row.queue.topic for row in (await group_stats(self._session, group, places)).rows}
        for body in (await consumer_connections(self._session, group, places)).values():
            found |= {self._namespace.unwrap(topic) for topic in body.subscriptions}
        return sorted(topic for topic in found if not topic.startswith(RETRY_PREFIX))

    async def _plan_topic(
        self,
        group: str,
        topic: str,
        to: ResetTarget,
        places: Mapping[str, BrokerAddresses],
        queues: builtins.list[Queue] | None = None,
        *,
        is_new: bool = False,
    ) -> ResetPlan:
        full = self._namespace.wrap(group)
        time_ms = _target_time(to)
        route = await self._session.require_route(self._namespace.wrap(topic))
        every = await topic_offsets(self._session, route)
        before = {each.queue: each.committed for each in await group_offsets_in(self._session, full, route)}
        ends = {each.queue: each for each in every if each.queue in before}
        chosen = [*ends] if queues is None else [_check_queue(queue, ends) for queue in queues]
        if time_ms is None:
            targets = _target_offsets(to, ends, before, chosen)
        else:
            targets = await self._offsets_at_time(route, chosen, time_ms)
        moves = []
        for queue, offset in sorted(targets.items()):
            start, end = ends[queue].start, ends[queue].end
            moves.append(QueueReset(queue, before[queue], min(max(offset, start), end), start, end))
        members = await online_members(self._session, full, places.values())
        at_time_ms = time_ms if queues is None else None
        if members and at_time_ms is None:
            await self._check_takes_offsets(full, route)
        return ResetPlan(group, topic, tuple(moves), len(members), at_time_ms, is_new)

    async def _check_takes_offsets(self, group: str, route: TopicRoute) -> None:
        """Refuse what a broker of release 4 would refuse: offsets while members are online."""
        fields = GetConsumeStats(group, route.topic)
        for place, answer in await self._session.request_each(route.brokers, RequestCode.GET_CONSUME_STATS, fields):
            if answer.version < Version.V5_0_0 and await online_members(self._session, group, [place]):
                raise _only_times(place)

    async def _offsets_at_time(self, route: TopicRoute, queues: builtins.list[Queue], time_ms: int) -> dict[Queue, int]:
        """Return the first offset at or after a time; for a time to come the end, of which 4.9 reports one too few."""
        places = {place.name: place for place in route.brokers}
        is_end = time_ms == _TO_THE_END or time_ms >= now_ms()

        async def find(queue: Queue) -> int:
            place, full = places[queue.broker], self._namespace.wrap_queue(queue)
            if is_end:
                return (await queue_offsets(self._session, place, full)).end
            return await offset_at_time(self._session, place, full, time_ms)

        return dict(zip(queues, await gather_limited(find, queues), strict=True))

    async def _apply_at(
        self, place: BrokerAddresses, group: str, topic: str, reset: ResetPlan, moves: builtins.list[QueueReset]
    ) -> None:
        probe = await self._session.request(place, RequestCode.GET_CONSUME_STATS, GetConsumeStats(group, topic))
        if probe.version >= Version.V5_0_0:
            await gather_limited(lambda move: self._reset_queue(place, group, topic, move), moves)
        elif await online_members(self._session, group, [place]):
            await self._reset_by_time(place, group, topic, reset, moves)
        else:
            await gather_limited(lambda move: self._commit(place, group, topic, move.queue.queue_id, move.to), moves)

    async def _reset_queue(self, place: BrokerAddresses, group: str, topic: str, move: QueueReset) -> None:
        fields = ResetOffset(topic, group, _TO_THE_END, True, queue_id=move.queue.queue_id, offset=move.to)
        answer = await self._session.request(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            # Other brokers know the group; no member of it has been here yet.
            await self._create_group_at(place, group)
            answer = await self._session.request(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        check_ok(answer, place.name)

    async def _create_group_at(self, place: BrokerAddresses, group: str) -> None:
        body = encode_body(SubscriptionGroupConfig(name=group))
        await self._session.request_ok(place, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)

    async def _reset_by_time(
        self, place: BrokerAddresses, group: str, topic: str, reset: ResetPlan, moves: builtins.list[QueueReset]
    ) -> None:
        if reset.time_ms is None:
            raise _only_times(place)
        fields = ResetOffset(topic, group, reset.time_ms, True)
        answer = await self._session.request(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        if answer.code == ResponseCode.SYSTEM_ERROR and "not exist" in (answer.remark or ""):
            new = [move for move in moves if move.before == 0]
            await gather_limited(lambda move: self._commit(place, group, topic, move.queue.queue_id, 0), new)
            answer = await self._session.request(place, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        check_ok(answer, place.name)

    async def _commit(self, place: BrokerAddresses, group: str, topic: str, queue_id: int, offset: int) -> None:
        fields = CommitOffset(group, topic, queue_id, offset)
        await self._session.request_ok(place, RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    async def list(self, group: str, topic: str | None = None) -> builtins.list[GroupOffset]:
        """Return a group's offset in each queue: of one topic, or of all that it has offsets in."""
        full, places = self._namespace.wrap(group), await self._session.broker_places()
        if topic is None:
            rows = [*(await group_stats(self._session, full, places.values())).rows]
        else:
            route = await self._session.require_route(self._namespace.wrap(topic))
            rows = await group_offsets_in(self._session, full, route)
        if not any(row.committed for row in rows):
            # 4.9 keeps offsets of groups that were never created.
            await self._session.require_group(full, places)
        return rows


async def group_stats(session: AdminSession, group: str, places: Iterable[BrokerAddresses]) -> GroupStats:
    """Return a group's offsets at some brokers, by its full name."""
    rows: list[GroupOffset] = []
    tps = 0.0
    code, fields = RequestCode.GET_CONSUME_STATS, GetConsumeStats(group)
    for place, body in await session.decode_each(ConsumeStats, places, code, fields):
        rows += _group_offsets(session, place, body)
        tps += body.consume_tps
    return GroupStats(tuple(sorted(rows, key=lambda row: row.queue)), tps)


async def group_offsets_in(session: AdminSession, group: str, route: TopicRoute) -> list[GroupOffset]:
    """Return a group's offset in every readable queue of a topic, by its full name."""
    rows: dict[Queue, GroupOffset] = {}
    fields = GetConsumeStats(group, route.topic)
    places: dict[str, BrokerAddresses] = {}
    for place, answer in await session.request_each(route.brokers, RequestCode.GET_CONSUME_STATS, fields):
        places[place.name] = place
        if answer.code == ResponseCode.SUCCESS:
            rows |= {row.queue: row for row in _group_offsets(session, place, decode_body(ConsumeStats, answer.body))}

    async def ask(queue: Queue) -> GroupOffset:
        place = places[queue.broker]
        committed = await committed_offset(session, place, group, queue)
        ends = await queue_offsets(session, place, queue)
        return GroupOffset(ends.queue, max(0, committed or 0), ends.end)

    left_out = [
        queue
        for queue in route.readable_queues()
        if queue.broker in places and session.namespace.unwrap_queue(queue) not in rows
    ]
    return sorted([*rows.values(), *await gather_limited(ask, left_out)], key=lambda row: row.queue)


def _group_offsets(session: AdminSession, place: BrokerAddresses, body: ConsumeStats) -> list[GroupOffset]:
    return [
        GroupOffset(
            session.namespace.unwrap_queue(Queue(queue.topic, place.name, queue.queue_id)),
            max(0, each.consumer_offset),
            each.broker_offset,
            from_epoch_ms(each.consumed_ms),
        )
        for queue, each in body.queues.items()
    ]


async def committed_offset(session: AdminSession, place: BrokerAddresses, group: str, queue: Queue) -> int | None:
    """Return a group's offset in one queue, by full names; None if it never committed there."""
    fields = QueryConsumerOffset(group, queue.topic, queue.queue_id, set_zero_if_not_found=False)
    answer = await session.request(place, RequestCode.QUERY_CONSUMER_OFFSET, fields)
    return answer.header(OffsetResponse).offset if answer.code == ResponseCode.SUCCESS else None


async def topic_offsets(session: AdminSession, route: TopicRoute) -> list[QueueOffsets]:
    """Return the first and last offsets of all queues of a topic; the broker names the queues as users do."""

    async def ask(place: BrokerAddresses) -> list[QueueOffsets]:
        reported: Mapping[Queue, TopicOffset] = {}
        with suppress(ServerFailed):  # more queues than the broker reports at a time
            answer = await session.request_ok(place, RequestCode.GET_TOPIC_STATS_INFO, TopicNameRequest(route.topic))
            reported = decode_body(TopicStats, answer.body).queues
        rows = [
            QueueOffsets(
                session.namespace.unwrap_queue(queue), ends.min_offset, ends.max_offset, from_epoch_ms(ends.written_ms)
            )
            for queue, ends in reported.items()
        ]
        # 4.9 reports only queues that can be written to.
        count = max((max(each.read, each.write) for each in route.counts if each.broker == place.name), default=0)
        every = (Queue(route.topic, place.name, number) for number in range(count))
        left_out = [queue for queue in every if queue not in reported]
        return rows + await gather_limited(lambda queue: queue_offsets(session, place, queue), left_out)

    parts = await gather_limited(ask, route.brokers)
    return sorted((row for part in parts for row in part), key=lambda row: row.queue)


async def queue_offsets(session: AdminSession, place: BrokerAddresses, queue: Queue) -> QueueOffsets:
    """Return the first and last offset of one queue, by its full name."""
    first = await session.request_ok(place, RequestCode.GET_MIN_OFFSET, QueueRequest(queue.topic, queue.queue_id))
    last = await session.request_ok(place, RequestCode.GET_MAX_OFFSET, GetMaxOffset(queue.topic, queue.queue_id))
    return QueueOffsets(
        session.namespace.unwrap_queue(queue), first.header(OffsetResponse).offset, last.header(OffsetResponse).offset
    )


async def offset_at_time(session: AdminSession, place: BrokerAddresses, queue: Queue, time_ms: int) -> int:
    """Return the first offset of a queue at or after a time, by its full name."""
    fields = SearchOffset(queue.topic, queue.queue_id, time_ms)
    answer = await session.request_ok(place, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
    return answer.header(OffsetResponse).offset


def _only_times(place: BrokerAddresses) -> RequestNotSupported:
    lacks = "which moves members that are online only to a time, in all queues"
    return release_4_error(place.name, lacks, "stop the members first, or give 'first', 'last' or a time")


def _target_time(to: ResetTarget) -> int | None:
    """Return the time of a target: 0 for the first message, -1 for the end, None for offsets."""
    if to == "first":
        return 0
    if to == "last":
        return _TO_THE_END
    if isinstance(to, datetime | timedelta):
        return resolve_epoch_ms(to, now_ms=now_ms())
    if isinstance(to, OffsetShift | Mapping) or (isinstance(to, int) and not isinstance(to, bool)):
        return None
    raise ConfigurationError(
        f"a group cannot be moved to {to!r}",
        next_step="give 'first', 'last', a datetime, a timedelta (relative to now), an offset, or {queue: offset}",
    )


def _target_offsets(
    to: ResetTarget, ends: Mapping[Queue, object], before: Mapping[Queue, int], chosen: list[Queue]
) -> dict[Queue, int]:
    if isinstance(to, int):
        return dict.fromkeys(chosen, to)
    if isinstance(to, OffsetShift):
        return {queue: before[queue] + to.by for queue in chosen}
    assert isinstance(to, Mapping)
    return {_check_queue(queue, ends): offset for queue, offset in to.items()}


def _check_queue(queue: Queue, there: Mapping[Queue, object]) -> Queue:
    if queue not in there:
        raise ConfigurationError(
            f"{queue} is no queue that can be read", next_step=f"there are {', '.join(map(str, list(there)[:8]))}"
        )
    return queue


def parse_reset_target(text: str, now: datetime) -> ResetTarget:
    """Parse the target of a reset.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> parse_reset_target("first", noon), parse_reset_target("42", noon), parse_reset_target("-10", noon)
    ('first', 42, OffsetShift(by=-10))
    """
    words = text.strip()
    if words == "first":
        return "first"
    if words == "last":
        return "last"
    digits = words.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(words) - len(digits) <= 1 and len(digits) < 19:
        return int(words) if digits == words else OffsetShift(int(words))
    try:
        return parse_time(words, now)
    except ConfigurationError:
        raise ConfigurationError(
            f"{text!r} is no place to move to",
            next_step="give first, last, 2026-11-01T08:00:00Z or '2 hours ago', an offset, or +10 or -10",
        ) from None
