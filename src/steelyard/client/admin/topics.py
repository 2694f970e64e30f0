"""Topics as they are: which there are, how far their queues are, where they live, and who reads them.

Left out: making, changing and deleting them (topic_changes.py); static topics.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from steelyard.client.admin.asking import Asking, together
from steelyard.client.admin.times import moment
from steelyard.client.admin.topic_wishes import TopicSetup
from steelyard.errors import error_for
from steelyard.model import BrokerPlace, Permission, Queue, QueueCounts, Route
from steelyard.model.names import DEAD, RETRY, is_system_topic
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.shared import GroupNames, TopicNames
from steelyard.wire.bodies.stats import TopicStats
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import OffsetAnswer, QueueRequest, TopicName
from steelyard.wire.headers.group import GetMaxOffset

__all__ = ["QueueEnds", "Topic", "TopicKind", "TopicView", "Topics"]


class TopicKind(Enum):
    """Whose a topic is."""

    USERS = "users"
    RETRY = "retry"
    """A group's messages that come again."""
    DEAD = "dead letters"
    """A group's messages that were given up."""
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in a list. ``queues`` can be read, over all brokers."""

    name: str
    kind: TopicKind
    queues: int
    brokers: tuple[str, ...]
    permission: Permission
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """A queue's first offset, the next one to be written, and when that was done last."""

    queue: Queue
    start: int
    end: int
    stored_at: datetime | None = None

    @property
    def messages(self) -> int:
        """How many it holds."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic by its queues, and how each of its brokers keeps it."""

    name: str
    queues: tuple[QueueEnds, ...]
    counts: tuple[QueueCounts, ...]
    order: str | None = None
    """The fixed list of an ordered topic, such as ``broker-a:4;broker-b:4``."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """Who has it."""
        return tuple(each.broker for each in self.counts)

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return sum(each.messages for each in self.queues)

    @property
    def stored_at(self) -> datetime | None:
        """When the last message came."""
        return max((each.stored_at for each in self.queues if each.stored_at is not None), default=None)


class Topics(Asking):
    """What an administrator sees of topics."""

    async def topics(self, *, system: bool = False) -> list[Topic]:
        """List the users' topics; with ``system`` also those of the servers, and those that groups bring along."""
        places = await self._places()
        own = await self._system_topics(places.values())
        settings: dict[str, dict[str, TopicSettings]] = {name: {} for name in await self._topic_names()}
        for place, answer in await self._ask_all(places.values(), RequestCode.GET_ALL_TOPIC_CONFIG):
            if answer.code == ResponseCode.SUCCESS:
                for name, each in decode_body(TopicTable, answer.body).topics.items():
                    settings.setdefault(name, {})[place.name] = each
        found = [
            _listed(self._names.bare(name), own, settings[name], places)
            for name in sorted(settings)
            if self._is_here(name)
        ]
        return [topic for topic in found if system or topic.kind is TopicKind.USERS]

    async def topic(self, name: str) -> TopicView:
        """Look at one topic: every queue with its ends."""
        full = self._names.full(name)
        route = await self._route(full)
        rows = [row for part in await together(lambda place: self._ends(place, route), route.brokers) for row in part]
        # Apache's name servers tell brokers in no order.
        counts = tuple(sorted(route.counts, key=lambda each: each.broker))
        return TopicView(name, tuple(sorted(rows, key=lambda row: row.queue)), counts, route.order)

    async def topic_route(self, name: str) -> Route:
        """Return where a topic is, as the name servers tell every client."""
        return replace(await self._route(self._names.full(name)), topic=name)

    async def topic_groups(self, name: str) -> list[str]:
        """List the groups that read a topic: that subscribe to it, or have offsets in it."""
        full = self._names.full(name)
        route = await self._route(full)
        return sorted(map(self._names.bare, await self._readers(full, route.brokers)))

    async def topic_setups(self, name: str) -> dict[str, TopicSetup]:
        """Return how each broker keeps a topic."""
        full = self._names.full(name)
        route = await self._route(full)
        found = await together(lambda place: self._settings(place, full), route.brokers)
        setups = {
            place.name: TopicSetup.of(settings)
            for place, settings in zip(route.brokers, found, strict=True)
            if settings is not None
        }
        return dict(sorted(setups.items()))

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _system_topics(self, places: Iterable[BrokerPlace]) -> frozenset[str]:
        answers = await self._ask_all(places, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        good = (answer for _, answer in answers if answer.code == ResponseCode.SUCCESS)
        return frozenset(name for answer in good for name in decode_body(TopicNames, answer.body).topics)

    async def _ends(self, place: BrokerPlace, route: Route) -> list[QueueEnds]:
        """Ask one broker for the ends of its queues; 4.9 tells only of those that can be written, so ask for others."""
        answer = await self._ask_well(place, RequestCode.GET_TOPIC_STATS_INFO, TopicName(route.topic))
        told = decode_body(TopicStats, answer.body).queues
        rows = [
            QueueEnds(self._names.bare_queue(queue), ends.min_offset, ends.max_offset, moment(ends.written_ms))
            for queue, ends in told.items()
        ]
        count = max((max(each.read, each.write) for each in route.counts if each.broker == place.name), default=0)
        untold = [queue for number in range(count) if (queue := Queue(route.topic, place.name, number)) not in told]
        return rows + await together(lambda queue: self._queue_ends(place, queue), untold)

    async def _queue_ends(self, place: BrokerPlace, queue: Queue) -> QueueEnds:
        """Ask for the ends of one queue, by its full name."""
        first = await self._ask_well(place, RequestCode.GET_MIN_OFFSET, QueueRequest(queue.topic, queue.queue_id))
        last = await self._ask_well(place, RequestCode.GET_MAX_OFFSET, GetMaxOffset(queue.topic, queue.queue_id))
        return QueueEnds(
            self._names.bare_queue(queue), first.header(OffsetAnswer).offset, last.header(OffsetAnswer).offset
        )

    async def _readers(self, topic: str, places: Iterable[BrokerPlace]) -> set[str]:
        """Return the full names of the groups that read a topic."""
        answers = await self._ask_all(places, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicName(topic))
        good = (answer for _, answer in answers if answer.code == ResponseCode.SUCCESS)
        return {name for answer in good for name in decode_body(GroupNames, answer.body).groups}

    async def _settings(self, place: BrokerPlace, topic: str) -> TopicSettings | None:
        """Return a topic's settings on one broker, or None; 4.9 tells only of all topics at once."""
        answer = await self._ask(place, RequestCode.GET_TOPIC_CONFIG, TopicName(topic))
        if answer.code == ResponseCode.SUCCESS:
            return decode_body(TopicSettings, answer.body)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        return (await self._all_settings(place)).get(topic)

    async def _all_settings(self, place: BrokerPlace) -> Mapping[str, TopicSettings]:
        """Return the settings of all topics that a broker has, by their full names."""
        return decode_body(TopicTable, (await self._ask_well(place, RequestCode.GET_ALL_TOPIC_CONFIG)).body).topics


def _listed(
    name: str, own: frozenset[str], settings: Mapping[str, TopicSettings], places: Mapping[str, BrokerPlace]
) -> Topic:
    permission = Permission(0)
    for each in settings.values():
        permission |= Permission(each.permission & sum(Permission))
    return Topic(
        name,
        _kind(name, own),
        sum(each.read_queues for each in settings.values()),
        tuple(sorted(settings)),
        permission,
        tuple(sorted({places[broker].cluster for broker in settings})),
    )


def _kind(name: str, own: frozenset[str]) -> TopicKind:
    if name.startswith(RETRY):
        return TopicKind.RETRY
    if name.startswith(DEAD):
        return TopicKind.DEAD
    return TopicKind.SYSTEM if name in own or is_system_topic(name) else TopicKind.USERS
