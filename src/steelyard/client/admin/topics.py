"""Topics: which there are, how far their queues are, and making, widening and deleting them.

A topic is made on every broker that is to have it, and is there once the name servers tell of it: brokers tell them in
their own time, which is waited for. Making one that is there as wanted changes nothing; one that is there otherwise is
refused, since a topic's queues must not disappear under its readers.

Left out: static topics, attributes of 5.x topics.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from steelyard.client.admin.asking import Asking, together
from steelyard.client.admin.times import moment
from steelyard.errors import ConfigurationError, TimedOut, TopicExists, TransportError, error_for
from steelyard.model import BrokerPlace, Permission, Queue, QueueCounts, Route
from steelyard.model.names import DEAD, DEFAULT_TOPIC, RETRY, is_system_topic
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.bodies.stats import TopicStats
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.common import OffsetAnswer, QueueRequest, TopicName
from steelyard.wire.headers.group import GetMaxOffset
from steelyard.wire.headers.nameserver import DeleteTopic, KeyValue

__all__ = ["QueueEnds", "Topic", "TopicKind", "TopicView", "Topics"]

_ORDER = "ORDER_TOPIC_CONFIG"
_MOST_QUEUES = 65_536
_ROUTE_S = 15.0
"""How long brokers and name servers have to agree; Apache's brokers tell at once, and again after 10 s."""
_LOOK_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)


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
    """What an administrator does with topics."""

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
            _listed(self._names.bare(name), own, settings[name]) for name in sorted(settings) if self._is_here(name)
        ]
        return [topic for topic in found if system or topic.kind is TopicKind.USERS]

    async def topic(self, name: str) -> TopicView:
        """Look at one topic: every queue with its ends."""
        full = self._names.full(name)
        route = await self._route(full)
        rows = [row for part in await together(lambda place: self._ends(place, route), route.brokers) for row in part]
        return TopicView(name, tuple(sorted(rows, key=lambda row: row.queue)), route.counts, route.order)

    async def create_topic(
        self,
        name: str,
        queues: int = 8,
        *,
        read: bool = True,
        write: bool = True,
        order: bool = False,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
    ) -> TopicView:
        """Make a topic with so many queues on each broker: those named, those of a cluster, or all.

        ``read`` and ``write`` are what clients may do with it; ``order`` fixes its list of queues at the name servers.
        """
        _check_queues(queues)
        full = self._names.full(name)
        wanted = TopicSettings(
            name=full,
            read_queues=queues,
            write_queues=queues,
            permission=int(Permission.READ) * read + int(Permission.WRITE) * write,
            order=order,
        )
        chosen = await self._chosen(brokers, cluster)
        route = await self._find_route(full)
        there = {} if route is None else {each.broker: each for each in route.counts}
        for place in chosen:
            _refuse_other(name, there.get(place.name), wanted)
        lacking = [place for place in chosen if place.name not in there]
        await together(lambda place: self._put(place, wanted), lacking)
        if order:
            await self._fix_order(full, {place.name: queues for place in chosen})
        await self._until_told(full, {place.name: queues for place in chosen})
        return await self.topic(name)

    async def add_queues(self, name: str, queues: int) -> TopicView:
        """Give a topic so many queues on each broker that has it; never fewer than it has."""
        _check_queues(queues)
        full = self._names.full(name)
        route = await self._route(full)
        widest = max((max(each.read, each.write) for each in route.counts), default=0)
        if queues < widest:
            raise ConfigurationError(
                f"topic {name!r} has {widest} queues on a broker, and {queues} would be fewer",
                next_step="queues are only added: what is in those that go would not be read",
            )

        async def widen(place: BrokerPlace) -> None:
            before = await self._settings(place, full)
            wanted = TopicSettings(
                name=full,
                read_queues=queues,
                write_queues=queues,
                permission=before.permission,
                order=before.order,
                filter_type=before.filter_type,
                sys_flag=before.sys_flag,
            )
            await self._put(place, wanted)

        await together(widen, route.brokers)
        counts = {each.broker: queues for each in route.counts}
        if route.order:
            await self._fix_order(full, counts)
        await self._until_told(full, counts)
        return await self.topic(name)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages everywhere."""
        full = self._names.full(name)
        route = await self._route(full)
        asked = TopicName(full)
        await together(lambda place: self._ask_well(place, RequestCode.DELETE_TOPIC_IN_BROKER, asked), route.brokers)
        if route.order:
            await self._ask_each_name_server(RequestCode.DELETE_KV_CONFIG, KeyValue(_ORDER, full))
        # A registration that was under way brings it back: so it is said until all know.
        for pause_s in _pauses():
            await asyncio.sleep(pause_s)
            await self._ask_each_name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopic(full))
            if await self._find_route(full) is None:
                return
        raise TimedOut(
            f"topic {name!r} is deleted, but {self._connect} still tells of it after {_ROUTE_S:g} s",
            next_step="see whether a broker that was away came back with it",
        )

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

    async def _settings(self, place: BrokerPlace, topic: str) -> TopicSettings:
        """Return a topic's settings on one broker; 4.9 tells only of all topics at once."""
        answer = await self._ask(place, RequestCode.GET_TOPIC_CONFIG, TopicName(topic))
        if answer.code == ResponseCode.SUCCESS:
            return decode_body(TopicSettings, answer.body)
        if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        everything = await self._ask_well(place, RequestCode.GET_ALL_TOPIC_CONFIG)
        found = decode_body(TopicTable, everything.body).topics.get(topic)
        if found is None:
            raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"no topic {topic}", server=place.name)
        return found

    async def _put(self, place: BrokerPlace, wanted: TopicSettings) -> None:
        header = CreateTopic(
            topic=wanted.name,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=wanted.read_queues,
            write_queue_nums=wanted.write_queues,
            perm=wanted.permission,
            topic_filter_type=wanted.filter_type,
            order=wanted.order,
            topic_sys_flag=wanted.sys_flag,
        )
        await self._ask_well(place, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def _fix_order(self, topic: str, counts: Mapping[str, int]) -> None:
        text = ";".join(f"{broker}:{count}" for broker, count in sorted(counts.items()))
        await self._ask_each_name_server(RequestCode.PUT_KV_CONFIG, KeyValue(_ORDER, topic, text))

    async def _until_told(self, topic: str, counts: Mapping[str, int]) -> None:
        """Wait until every name server that can be reached tells that these brokers have so many queues to read."""
        for pause_s in _pauses():
            await asyncio.sleep(pause_s)
            answers = await together(lambda address: self._told_by(address, topic), self._connect.name_servers)
            told = [each for each in answers if each is not None]
            if told and all(counts.items() <= each.items() for each in told):
                return
        missing = ", ".join(sorted(counts))
        raise TimedOut(
            f"topic {self._names.bare(topic)!r} is made on {missing}, but {self._connect} does not tell so after "
            f"{_ROUTE_S:g} s",
            next_step="see whether these brokers are registered with all name servers",
        )

    async def _told_by(self, address: str, topic: str) -> dict[str, int] | None:
        """Return how many queues of a topic each broker has by one name server; None if it cannot be reached."""
        try:
            route = await self._find_route(topic, address)
        except TransportError as error:
            self._tell_once(f"name server {address} is left out: {error.what}")
            return None
        return {} if route is None else {each.broker: each.read for each in route.counts}


def _listed(name: str, own: frozenset[str], settings: Mapping[str, TopicSettings]) -> Topic:
    permission = Permission(0)
    for each in settings.values():
        permission |= Permission(each.permission & sum(Permission))
    return Topic(
        name,
        _kind(name, own),
        sum(each.read_queues for each in settings.values()),
        tuple(sorted(settings)),
        permission,
    )


def _kind(name: str, own: frozenset[str]) -> TopicKind:
    if name.startswith(RETRY):
        return TopicKind.RETRY
    if name.startswith(DEAD):
        return TopicKind.DEAD
    return TopicKind.SYSTEM if name in own or is_system_topic(name) else TopicKind.USERS


def _refuse_other(name: str, there: QueueCounts | None, wanted: TopicSettings) -> None:
    """Refuse to make a topic on a broker that has it otherwise."""
    if there is None or (there.read, there.write, there.permission) == (
        wanted.read_queues,
        wanted.write_queues,
        wanted.permission,
    ):
        return
    raise TopicExists(
        code=int(ResponseCode.TOPIC_EXIST_ALREADY),
        server=there.broker,
        what=f"topic {name!r} exists already: {there.broker} has {there.read} queues of it to read and {there.write} "
        f"to write, with permission {int(there.permission)}",
        next_step="use it as it is, give it more queues with add_queues, or choose another name",
    )


def _check_queues(queues: int) -> None:
    if not 0 < queues <= _MOST_QUEUES:
        raise ConfigurationError(
            f"a topic cannot have {queues} queues on a broker", next_step=f"give 1 to {_MOST_QUEUES}"
        )


def _pauses() -> Iterable[float]:
    """Yield how long to wait before each look, until it was long enough."""
    spent_s = 0.0
    for pause_s in _LOOK_S:
        spent_s += pause_s
        yield pause_s
    while spent_s < _ROUTE_S:
        spent_s += _LOOK_S[-1]
        yield _LOOK_S[-1]
