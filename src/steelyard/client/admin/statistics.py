"""How much passes: what comes in and goes out of each broker, topic and group, and how far groups are behind.

Brokers count by themselves, each since it was started. A counter that was never used is not told of, and is 0 here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from steelyard.client.admin.asking import together
from steelyard.client.admin.brokers import BrokerCare
from steelyard.client.admin.offsets import Offsets
from steelyard.client.admin.servers import Server
from steelyard.client.admin.topics import TopicKind
from steelyard.errors import SteelyardError
from steelyard.model import BrokerPlace, Route
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.stats import BrokerStats
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import ViewStats

__all__ = ["BrokerFlow", "GroupFlow", "Statistics", "TopicFlow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFlow:
    """What passes through one server: a broker's master, or a replica. What it does not tell is None."""

    cluster: str
    broker: str
    id: int
    """0 is the master."""
    address: str
    version: str | None = None
    in_tps: float | None = None
    """Messages stored a second, over the last ten."""
    out_tps: float | None = None
    """Messages delivered a second, over the last ten."""
    in_today: int | None = None
    out_today: int | None = None
    in_yesterday: int | None = None
    out_yesterday: int | None = None
    oldest_at: datetime | None = None
    """When the oldest message was stored that it still has."""
    disk_used: float | None = None
    """The share of its disk that is full, from 0 to 1."""
    up: timedelta | None = None
    problem: str | None = None
    """Why it tells nothing at all."""


@dataclass(frozen=True, slots=True)
class GroupFlow:
    """What a group takes from a topic."""

    group: str
    lag: int
    out_tps: float
    """Messages delivered a second, over the last minute."""
    out_day: int
    """Messages delivered in the last 24 hours, as far as brokers have counted."""


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """What passes through a topic, and the groups that read it."""

    topic: str
    in_tps: float
    """Messages stored a second, over the last minute."""
    in_day: int
    """Messages stored in the last 24 hours, as far as brokers have counted."""
    groups: tuple[GroupFlow, ...]


class Statistics(Offsets, BrokerCare):
    """What an administrator sees of rates."""

    async def broker_flows(self) -> list[BrokerFlow]:
        """Return what passes through every server of every broker; one that does not answer has a problem instead."""
        return await together(self._broker_flow, await self.servers())

    async def topic_flows(self, topic: str | None = None) -> list[TopicFlow]:
        """Return what passes through the users' topics, or through one topic."""
        if topic is not None:
            return [await self._topic_flow(await self._route(self._names.full(topic)))]
        names = [each.name for each in await self.topics() if each.kind is TopicKind.USERS]
        routes = await together(lambda name: self._find_route(self._names.full(name)), names)
        return await together(self._topic_flow, [route for route in routes if route is not None])

    async def _broker_flow(self, server: Server) -> BrokerFlow:
        place = BrokerFlow(cluster=server.cluster, broker=server.broker, id=server.broker_id, address=server.address)
        try:
            state = await self.broker(server.broker, broker_id=server.broker_id)
        except SteelyardError as error:
            return replace(place, problem=error.what)
        return replace(
            place,
            version=state.version,
            in_tps=None if state.put is None else state.put.ten_seconds,
            out_tps=None if state.delivered is None else state.delivered.ten_seconds,
            in_today=state.stored_today,
            out_today=state.delivered_today,
            in_yesterday=_yesterday(state.told, "Put"),
            out_yesterday=_yesterday(state.told, "Get"),
            oldest_at=state.oldest_at,
            disk_used=state.log_disk_used,
            up=state.up,
        )

    async def _topic_flow(self, route: Route) -> TopicFlow:
        put = await self._counted(route.brokers, "TOPIC_PUT_NUMS", route.topic)
        readers = sorted(await self._readers(route.topic, route.brokers))
        groups = await together(lambda group: self._group_flow(group, route), readers)
        return TopicFlow(self._names.bare(route.topic), *put, tuple(groups))

    async def _group_flow(self, group: str, route: Route) -> GroupFlow:
        got = await self._counted(route.brokers, "GROUP_GET_NUMS", f"{route.topic}@{group}")
        lag = sum(row.lag for row in await self._offsets_in(group, route))
        return GroupFlow(self._names.bare(group), lag, *got)

    async def _counted(self, places: Iterable[BrokerPlace], counter: str, key: str) -> tuple[float, int]:
        """Return a counter's messages a second and a day, over all brokers."""
        tps, day = 0.0, 0
        for _, answer in await self._ask_all(places, RequestCode.VIEW_BROKER_STATS_DATA, ViewStats(counter, key)):
            if answer.code == ResponseCode.SUCCESS:
                told = decode_body(BrokerStats, answer.body)
                tps += told.minute.tps if told.minute else 0.0
                # Apache's brokers have no sum of a day before they ran for hours: what they have of it is less.
                day += max((each.sum for each in (told.day, told.hour, told.minute) if each), default=0)
        return tps, day


def _yesterday(told: Mapping[str, str], kind: str) -> int | None:
    """Return how many messages came or went between two midnights of the broker's clock."""
    try:
        start, end = (int(told[f"msg{kind}Total{day}Morning"]) for day in ("Yesterday", "Today"))
    except (KeyError, ValueError):
        return None
    return max(0, end - start)
