"""Topics are made, changed and deleted; what would change can be seen before.

A topic is made on every broker that is to have it, and is there once the name servers tell of it: brokers tell them in
their own time, which is waited for. Making one that is there as wanted changes nothing; one that is there otherwise is
refused by `create_topic`, and changed by `apply_topics` with a plan that was shown.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from steelyard.client.admin.asking import together
from steelyard.client.admin.topic_orders import TopicOrders
from steelyard.client.admin.topic_wishes import TopicChange, TopicPlan, TopicSetup, TopicWish, check_new_name
from steelyard.client.admin.topics import TopicView
from steelyard.client.nearest import missing_topic
from steelyard.errors import ConfigurationError, RequestNotSupported, TimedOut, TopicExists, TransportError
from steelyard.model import BrokerPlace, Permission, QueueCounts
from steelyard.model.names import DEFAULT_TOPIC
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.common import TopicName
from steelyard.wire.headers.nameserver import DeleteTopic

__all__ = ["TopicChanges"]

_ROUTE_S = 15.0
"""How long brokers and name servers have to agree; Apache's brokers tell at once, and again after 10 s."""
_LOOK_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
_FEW = 8
"""So many topics are asked for one by one; of more a broker tells all it has at once."""


class TopicChanges(TopicOrders):
    """What an administrator does with topics."""

    async def create_topic(
        self,
        name: str,
        queues: int = 8,
        *,
        read: bool = True,
        write: bool = True,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
    ) -> TopicView:
        """Make a topic with so many queues on each broker: those named, those of a cluster, or all.

        ``read`` and ``write`` are what clients may do with it; ``order`` fixes its list of queues at the name servers;
        ``attributes`` are those of 5.x, such as ``message.type``.
        """
        wish = TopicWish(
            name=name,
            queues=queues,
            permission=Permission(int(Permission.READ) * read + int(Permission.WRITE) * write),
            order=order or None,
            attributes=attributes or {},
        )
        plan = await self.plan_topics([wish], brokers=brokers, cluster=cluster)
        for change in plan.changes:
            _refuse_other(change)
        await self.apply_topics(plan)
        return await self.topic(name)

    async def add_queues(self, name: str, queues: int) -> TopicView:
        """Give a topic so many queues on each broker that has it; never fewer than it has."""
        plan = await self.plan_topics([TopicWish(name=name, queues=queues)], only_existing=True)
        before = [each.before for each in plan.changes if each.before is not None]
        widest = max((max(each.read_queues, each.write_queues) for each in before), default=0)
        if queues < widest:
            raise ConfigurationError(
                f"topic {name!r} has {widest} queues on a broker, and {queues} would be fewer",
                next_step="queues are only added: what is in those that go would not be read",
            )
        await self.apply_topics(plan)
        return await self.topic(name)

    async def plan_topics(
        self,
        wishes: Iterable[TopicWish],
        *,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
        only_existing: bool = False,
    ) -> TopicPlan:
        """Work out what would change for topics to be as wished, and do nothing.

        Without a word about it a topic is to be on the brokers named, those of a cluster, or all; with
        ``only_existing`` on those of them that have it, and one that none of them has is an error.
        """
        listed = list(wishes)
        chosen = await self._chosen(brokers, cluster)
        named = await self._chosen({broker for wish in listed for broker in wish.brokers or ()}, None)
        places = {place.name: place for place in (*chosen, *named)}
        there = await self._setups(places.values(), {wish.name for wish in listed})
        changes: dict[tuple[str, str], TopicChange] = {}
        for wish in listed:
            wanted = chosen if wish.brokers is None else [places[broker] for broker in dict.fromkeys(wish.brokers)]
            if only_existing:
                wanted = [place for place in wanted if (place.name, wish.name) in there] or await self._nowhere(wish)
            for place in wanted:
                before = there.get((place.name, wish.name))
                if before is None:
                    check_new_name(self._names.full(wish.name))
                change = TopicChange(wish.name, place.name, before, wish.upon(before))
                if changes.setdefault((wish.name, place.name), change) != change:
                    raise ConfigurationError(
                        f"topic {wish.name!r} is wished for twice on {place.name}, and otherwise each time",
                        next_step="leave one of them",
                    )
        return TopicPlan(tuple(changes.values()))

    async def apply_topics(self, plan: TopicPlan) -> TopicPlan:
        """Do what was planned, and wait until the name servers tell of it."""
        places = {place.name: place for place in await self._chosen({each.broker for each in plan.todo}, None)}
        # Before anything is changed: half of it would be worse than nothing.
        special = {change.broker for change in plan.todo if change.attribute_changes() is not None}
        await together(lambda broker: self._check_attributes(places[broker]), sorted(special))
        await together(lambda change: self._put(places[change.broker], change), plan.todo)
        orders = await self._orders({self._names.full(each.topic) for each in plan.todo})
        for topic, changes in plan.by_topic().items():
            await self._keep_order(self._names.full(topic), changes, orders)
            await self._until_told(topic, changes)
        return plan

    async def delete_topic(self, name: str, *, cluster: str | None = None) -> None:
        """Delete a topic and its messages everywhere, or in one cluster."""
        full = self._names.full(name)
        route = await self._route(full)
        asked = TopicName(full)
        here = [place for place in route.brokers if cluster in (None, place.cluster)]
        if not here:
            await self._chosen(None, cluster)
            raise ConfigurationError(
                f"topic {name!r} is not in cluster {cluster!r}",
                next_step=f"it is in {', '.join(sorted({place.cluster for place in route.brokers}))}",
            )
        await together(lambda place: self._ask_well(place, RequestCode.DELETE_TOPIC_IN_BROKER, asked), here)
        if len(here) == len(route.brokers):
            await self._drop_order(full)
        gone = {place.name for place in here}
        # A registration that was under way brings it back: so it is said until all know.
        for pause_s in _pauses():
            await asyncio.sleep(pause_s)
            await self._ask_each_name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopic(full, cluster))
            left = await self._find_route(full)
            if left is None or not gone & {each.broker for each in left.counts}:
                return
        raise TimedOut(
            f"topic {name!r} is deleted, but {self._connect} still tells of it after {_ROUTE_S:g} s",
            next_step="see whether a broker that was away came back with it",
        )

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _setups(self, places: Iterable[BrokerPlace], names: Iterable[str]) -> dict[tuple[str, str], TopicSetup]:
        """Return how brokers keep topics, by broker and name; what is not there is left out."""
        full = {self._names.full(name): name for name in names}
        orders = await self._orders(full)

        async def ask(place: BrokerPlace) -> dict[tuple[str, str], TopicSetup]:
            if len(full) > _FEW:
                told = await self._all_settings(place)
            else:
                found = await together(lambda topic: self._settings(place, topic), full)
                told = {each.name: each for each in found if each is not None}
            return {
                (place.name, full[each]): replace(TopicSetup.of(told[each]), order=place.name in orders.get(each, ()))
                for each in full
                if each in told
            }

        return {key: setup for part in await together(ask, places) for key, setup in part.items()}

    async def _nowhere(self, wish: TopicWish) -> list[BrokerPlace]:
        known = [self._names.bare(name) for name in await self._topic_names() if self._is_here(name)]
        raise missing_topic(wish.name, known, where=str(self._connect), asked=await self._places())

    async def _put(self, place: BrokerPlace, change: TopicChange) -> None:
        after, attributes = change.after, change.attribute_changes()
        header = CreateTopic(
            topic=self._names.full(change.topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=after.read_queues,
            write_queue_nums=after.write_queues,
            perm=int(after.permission),
            topic_filter_type=after.filter_type,
            order=after.order,
            topic_sys_flag=after.sys_flag,
            attributes=attributes,
        )
        await self._ask_well(place, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def _check_attributes(self, place: BrokerPlace) -> None:
        """Refuse attributes at a broker of release 4: it would say yes, and forget them."""
        probe = await self._ask(place, RequestCode.GET_TOPIC_CONFIG, TopicName(DEFAULT_TOPIC))
        if probe.version < Version.V5_0_0:
            raise RequestNotSupported(
                code=int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
                server=place.name,
                what=f"{place.name} is of release 4, whose topics have no attributes",
                next_step="leave the attributes away, or use a broker of release 5",
            )

    async def _keep_order(
        self, topic: str, changes: Iterable[TopicChange], orders: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Let the fixed list of a topic follow its changes; one that they do not touch stays as it is."""
        before = orders.get(topic, {})
        after = dict(before)
        for change in changes:
            was = change.before or TopicSetup(write_queues=0)
            if not change.after.order:
                after.pop(change.broker, None)
            elif not was.order or was.write_queues != change.after.write_queues:
                after[change.broker] = change.after.write_queues
        if after and after != before:
            await self._put_order(topic, after)
        elif before and not after:
            await self._drop_order(topic)

    async def _until_told(self, topic: str, changes: Iterable[TopicChange]) -> None:
        """Wait until every name server that can be reached tells that these brokers have it so."""
        full, wanted = self._names.full(topic), tuple(changes)
        for pause_s in _pauses():
            await asyncio.sleep(pause_s)
            answers = await together(lambda address: self._told_by(address, full), self._connect.name_servers)
            told = [each for each in answers if each is not None]
            if told and all(_is_told(change, each.get(change.broker)) for each in told for change in wanted):
                return
        raise TimedOut(
            f"topic {topic!r} is made on {', '.join(each.broker for each in wanted)}, but {self._connect} does not "
            f"tell so after {_ROUTE_S:g} s",
            next_step="see whether these brokers are registered with all name servers",
        )

    async def _told_by(self, address: str, topic: str) -> dict[str, QueueCounts] | None:
        """Return what each broker has of a topic by one name server; None if it cannot be reached."""
        try:
            route = await self._find_route(topic, address)
        except TransportError as error:
            self._tell_once(f"name server {address} is left out: {error.what}")
            return None
        return {} if route is None else {each.broker: each for each in route.counts}


def _is_told(change: TopicChange, told: QueueCounts | None) -> bool:
    """Whether a name server tells of a change; what clients may do can be changed there for a whole broker."""
    after = change.after
    if told is None or (told.read, told.write) != (after.read_queues, after.write_queues):
        return False
    return change.what == "keep" or told.permission == after.permission


def _refuse_other(change: TopicChange) -> None:
    """Refuse to make a topic on a broker that has it otherwise."""
    if change.what == "change" and change.before is not None:
        there = change.before
        raise TopicExists(
            code=int(ResponseCode.TOPIC_EXIST_ALREADY),
            server=change.broker,
            what=f"topic {change.topic!r} exists already: {change.broker} has {there.read_queues} queues of it to read "
            f"and {there.write_queues} to write, with permission {int(there.permission)}",
            next_step="use it as it is, see: steelyard topic set --help, or choose another name",
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
