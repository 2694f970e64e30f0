"""How far groups are: what they committed in each queue, what waits, and what their members hold in memory.

A broker tells of a group's topics (208); of one that its online members do not subscribe to Apache's tell nothing, and
then each queue is asked for (14). A broker that cannot be reached is left out, and said once in the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from steelyard.client.admin.asking import together
from steelyard.client.admin.members import Members
from steelyard.client.admin.times import moment
from steelyard.client.admin.topics import Topics
from steelyard.errors import ConsumerOffline, error_for
from steelyard.model import BrokerPlace, Queue, Route
from steelyard.model.names import RETRY
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.bodies.stats import ConsumeStats
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import ConsumeStats as AskStats
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import GroupAndTopic, QueryOffset

__all__ = ["GroupOffset", "HeldOffset", "Offsets", "Stats", "TopicLag"]


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
class HeldOffset:
    """How far a member is in a queue by its own account, which it may not have committed yet."""

    member: str
    queue: Queue
    offset: int


@dataclass(frozen=True, slots=True)
class TopicLag:
    """What waits for a group in a topic."""

    topic: str
    queues: int
    waiting: int
    handled_to: datetime | None
    """When the last message was stored that the group is through with, in the queue that is furthest behind."""


@dataclass(frozen=True, slots=True)
class Stats:
    """How far a group is wherever it has offsets, and how many messages a second it gets."""

    rows: tuple[GroupOffset, ...]
    tps: float

    @property
    def lag(self) -> int:
        """How many messages wait."""
        return sum(row.lag for row in self.rows)


class Offsets(Members, Topics):
    """What an administrator asks about offsets."""

    async def offsets(self, group: str, topic: str | None = None) -> list[GroupOffset]:
        """Return how far a group is in each queue: of one topic, or of all that it has offsets in."""
        full, places = self._names.full(group), await self._places()
        if topic is None:
            rows = await self._progress(full, places.values())
        else:
            rows = await self._offsets_in(full, await self._route(self._names.full(topic)))
        if not any(row.committed for row in rows):
            # 4.9 keeps offsets of groups that nobody made.
            await self._known_group(full, places)
        return rows

    async def lag(self, group: str) -> list[TopicLag]:
        """Return what waits for a group in each of its topics."""
        topics: dict[str, list[GroupOffset]] = {}
        for row in await self.offsets(group):
            topics.setdefault(row.queue.topic, []).append(row)
        return [
            TopicLag(
                topic,
                len(rows),
                sum(row.lag for row in rows),
                min((row.consumed_at for row in rows if row.lag and row.consumed_at is not None), default=None),
            )
            for topic, rows in sorted(topics.items(), key=lambda item: (item[0].startswith(RETRY), item[0]))
        ]

    async def held_offsets(self, group: str, topic: str, member: str | None = None) -> list[HeldOffset]:
        """Ask members, or one, how far they are in a topic; those who do not answer in time are left out."""
        full, places = self._names.full(group), await self._places()
        await self._known_group(full, places)
        route = await self._route(self._names.full(topic))
        if not await self._members(full, places.values()):
            raise ConsumerOffline(
                code=int(ResponseCode.CONSUMER_NOT_ONLINE),
                server=str(self._connect),
                what=f"nobody of group {group!r} is online",
                next_step=f"see what it committed: steelyard offset show {group}",
            )
        asked = GroupAndTopic(full, route.topic, member)
        found: dict[tuple[str, Queue], int] = {}
        # Each broker asks all members that it knows: what the last one hears is the newest.
        answers = await self._ask_all(places.values(), RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)
        for place, answer in answers:
            if answer.code == ResponseCode.SUCCESS:
                for name, queues in decode_body(MemberOffsets, answer.body).members.items():
                    found |= {(name, self._names.bare_queue(queue)): offset for queue, offset in queues.items()}
            elif len(answers) == 1:
                raise error_for(answer.code, answer.remark or "", server=place.name)
        return [HeldOffset(name, queue, offset) for (name, queue), offset in sorted(found.items())]

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _topics_of(self, group: str, places: Iterable[BrokerPlace]) -> list[str]:
        """Return the topics that a group reads, by its full name: has offsets in, or subscribes to now."""
        found = {row.queue.topic for row in await self._progress(group, places)}
        for body in (await self._connections(group, places)).values():
            found |= {self._names.bare(topic) for topic in body.subscriptions}
        return sorted(topic for topic in found if not topic.startswith(RETRY))

    async def _progress(self, group: str, places: Iterable[BrokerPlace]) -> list[GroupOffset]:
        """Return how far a group is wherever it has offsets, by its full name."""
        return list((await self._stats(group, places)).rows)

    async def _stats(self, group: str, places: Iterable[BrokerPlace]) -> Stats:
        rows: list[GroupOffset] = []
        tps = 0.0
        for place, answer in await self._ask_all(places, RequestCode.GET_CONSUME_STATS, AskStats(group)):
            if answer.code == ResponseCode.SUCCESS:
                body = decode_body(ConsumeStats, answer.body)
                rows += self._rows(place, body)
                tps += body.consume_tps
        return Stats(tuple(sorted(rows, key=lambda row: row.queue)), tps)

    async def _offsets_in(self, group: str, route: Route) -> list[GroupOffset]:
        """Return how far a group is in every readable queue of a topic."""
        rows: dict[Queue, GroupOffset] = {}
        asked = AskStats(group, route.topic)
        places: dict[str, BrokerPlace] = {}
        for place, answer in await self._ask_all(route.brokers, RequestCode.GET_CONSUME_STATS, asked):
            places[place.name] = place
            if answer.code == ResponseCode.SUCCESS:
                rows |= {row.queue: row for row in self._rows(place, decode_body(ConsumeStats, answer.body))}
        untold = [
            queue for queue in route.readable() if queue.broker in places and self._names.bare_queue(queue) not in rows
        ]
        found = await together(lambda queue: self._offset_of(places[queue.broker], group, queue), untold)
        return sorted([*rows.values(), *found], key=lambda row: row.queue)

    def _rows(self, place: BrokerPlace, body: ConsumeStats) -> list[GroupOffset]:
        return [
            GroupOffset(
                self._names.bare_queue(Queue(queue.topic, place.name, queue.queue_id)),
                max(0, each.consumer_offset),
                each.broker_offset,
                moment(each.consumed_ms),
            )
            for queue, each in body.queues.items()
        ]

    async def _offset_of(self, place: BrokerPlace, group: str, queue: Queue) -> GroupOffset:
        asked = QueryOffset(group, queue.topic, queue.queue_id, set_zero_if_not_found=False)
        answer = await self._ask(place, RequestCode.QUERY_CONSUMER_OFFSET, asked)
        committed = answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else 0
        ends = await self._queue_ends(place, queue)
        return GroupOffset(ends.queue, max(0, committed), ends.end)
