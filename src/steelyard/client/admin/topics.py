"""Topics: listed, described, created, changed and deleted; planned changes are shown before they are applied.

A topic exists once the name servers have it in their routes: brokers register it in their own time, which is waited
for. If it exists otherwise than wanted `create` refuses, and `apply` changes it by a plan that was shown.

Ordered topics have a fixed list of queues, such as ``broker-a:4;broker-b:4``, whatever brokers are online. Name servers
keep it as a key-value setting and send it with the topic's route; Apache's only with ``orderMessageEnable``.
"""

import asyncio
import builtins
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from steelyard.client.admin.admin_session import AdminPart, AdminSession, check_ok, gather_limited, release_4_error
from steelyard.client.admin.offsets import QueueOffsets, group_offsets_in, topic_offsets
from steelyard.client.admin.topic_plan import (
    BrokerTopicConfig,
    TopicChange,
    TopicChangePlan,
    TopicSpec,
    check_topic_name,
)
from steelyard.errors import ConfigurationError, TimedOut, TopicExists, TransportError
from steelyard.model import BrokerAddresses, Permission, QueueCounts, TopicRoute
from steelyard.model.reserved_names import DEFAULT_TOPIC, DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import GroupNames, TopicNames
from steelyard.wire.bodies.stats import BrokerStats
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.headers.admin import CreateTopic, ViewBrokerStats
from steelyard.wire.headers.common import TopicNameRequest
from steelyard.wire.headers.nameserver import DeleteTopic, KVConfigRequest, KVConfigResponse

_ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Where name servers keep the fixed lists of ordered topics, by topic."""
_ROUTE_TIMEOUT_S = 15.0
"""How long brokers and name servers may take to agree; Apache's brokers register at once, and again after 10 s."""
_POLL_DELAYS_S = (0.0, 0.01, 0.02, 0.05, 0.1, *[0.2] * 75)
"""How long to wait before each poll: the timeout in all."""
_MAX_SINGLE_REQUESTS = 8
"""Up to so many topics are requested one by one; for more, a broker sends its whole table."""


class TopicKind(Enum):
    """Whose a topic is."""

    USERS = "users"
    RETRY = "retry"
    """Messages of a group that will be redelivered."""
    DEAD = "dead letters"
    """Messages of a group that failed too often."""
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic in a list. ``queues`` are the readable ones, over all brokers."""

    name: str
    kind: TopicKind
    queues: int
    brokers: tuple[str, ...]
    permission: Permission
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with the offsets of its queues, and its queue counts by broker."""

    name: str
    queues: tuple[QueueOffsets, ...]
    counts: tuple[QueueCounts, ...]
    order: str | None = None
    """The fixed list of an ordered topic, such as ``broker-a:4;broker-b:4``."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers that have it."""
        return tuple(each.broker for each in self.counts)

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return sum(each.messages for each in self.queues)

    @property
    def stored_at(self) -> datetime | None:
        """When the last message was stored."""
        return max((each.stored_at for each in self.queues if each.stored_at is not None), default=None)


@dataclass(frozen=True, slots=True)
class GroupThroughput:
    """What a group reads from a topic."""

    group: str
    lag: int
    out_tps: float
    """Messages delivered a second, over the last minute."""
    out_day: int
    """Messages delivered in the last 24 hours, as far as brokers have counted."""


@dataclass(frozen=True, slots=True)
class TopicThroughput:
    """Rates of a topic and of the groups that read it. Brokers count from their start; an unused counter is 0."""

    topic: str
    in_tps: float
    """Messages stored a second, over the last minute."""
    in_day: int
    """Messages stored in the last 24 hours, as far as brokers have counted."""
    groups: tuple[GroupThroughput, ...]


class TopicAdmin(AdminPart):
    """Topics: `Admin.topics`."""

    async def describe(self, name: str) -> TopicDescription:
        """Describe a topic: every queue with its first and last offset."""
        route = await self._session.require_route(self._namespace.wrap(name))
        queues = await topic_offsets(self._session, route)
        # Apache's name servers list brokers in no order.
        counts = tuple(sorted(route.counts, key=lambda each: each.broker))
        return TopicDescription(name, tuple(queues), counts, route.order)

    async def route(self, name: str) -> TopicRoute:
        """Return a topic's route, as the name servers send it to every client."""
        return replace(await self._session.require_route(self._namespace.wrap(name)), topic=name)

    async def groups(self, name: str) -> builtins.list[str]:
        """List the groups that subscribe to a topic, or have offsets in it."""
        route = await self._session.require_route(self._namespace.wrap(name))
        return sorted(map(self._namespace.unwrap, await subscribed_groups(self._session, route)))

    async def configs(self, name: str) -> dict[str, BrokerTopicConfig]:
        """Return a topic's settings by broker."""
        full = self._namespace.wrap(name)
        route = await self._session.require_route(full)
        found = await gather_limited(lambda place: self._config_at(place, full), route.brokers)
        configs = {
            place.name: BrokerTopicConfig.of(config)
            for place, config in zip(route.brokers, found, strict=True)
            if config is not None
        }
        return dict(sorted(configs.items()))

    async def throughput(self, topic: str | None = None) -> builtins.list[TopicThroughput]:
        """Return the rates of the users' topics, or of one topic."""
        if topic is not None:
            return [await self._throughput(await self._session.require_route(self._namespace.wrap(topic)))]
        names = [self._namespace.wrap(each.name) for each in await self.list()]
        routes = await gather_limited(self._session.find_route, names)
        return await gather_limited(self._throughput, [route for route in routes if route is not None])

    async def create(
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
    ) -> TopicDescription:
        """Create a topic with so many queues on each broker: those named, those of a cluster, or all.

        ``read`` and ``write`` are the permissions of clients; ``order`` fixes its list of queues at the name servers;
        ``attributes`` are those of 5.x, such as ``message.type``.
        """
        spec = TopicSpec(
            name=name,
            queues=queues,
            permission=Permission(int(Permission.READ) * read + int(Permission.WRITE) * write),
            order=order or None,
            attributes=attributes or {},
        )
        plan = await self.plan([spec], brokers=brokers, cluster=cluster)
        for change in plan.changes:
            if change.what == "change" and (there := change.before) is not None:
                raise TopicExists(
                    server=change.broker,
                    what=f"topic {name!r} exists already: {change.broker} has {there.read_queues} queues of it to read "
                    f"and {there.write_queues} to write, with permission {int(there.permission)}",
                    next_step="use it as it is, see: steelyard topic set --help, or choose another name",
                )
        await self.apply(plan)
        return await self.describe(name)

    async def add_queues(self, name: str, queues: int) -> TopicDescription:
        """Increase the queues of a topic to so many on each broker that has it."""
        plan = await self.plan([TopicSpec(name=name, queues=queues)], only_existing=True)
        before = [each.before for each in plan.changes if each.before is not None]
        widest = max((max(each.read_queues, each.write_queues) for each in before), default=0)
        if queues < widest:
            raise ConfigurationError(
                f"topic {name!r} has {widest} queues on a broker, and {queues} would be fewer",
                next_step="queues are only added: messages in removed ones would not be read",
            )
        await self.apply(plan)
        return await self.describe(name)

    async def plan(
        self,
        specs: Iterable[TopicSpec],
        *,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
        only_existing: bool = False,
    ) -> TopicChangePlan:
        """Plan the changes that make topics as specified, and change nothing.

        A spec without brokers means the brokers named here, those of a cluster, or all; with ``only_existing`` those of
        them that have the topic, and a topic that none of them has is an error.
        """
        listed = list(specs)
        chosen = await self._session.select_brokers(brokers, cluster)
        named = await self._session.select_brokers({broker for spec in listed for broker in spec.brokers or ()}, None)
        places = {place.name: place for place in (*chosen, *named)}
        there = await self._topic_configs(places.values(), {spec.name for spec in listed})
        changes: dict[tuple[str, str], TopicChange] = {}
        for spec in listed:
            wanted = chosen if spec.brokers is None else [places[broker] for broker in dict.fromkeys(spec.brokers)]
            if only_existing:
                wanted = [place for place in wanted if (place.name, spec.name) in there]
                if not wanted:
                    raise await self._session.topic_not_found(self._namespace.wrap(spec.name))
            for place in wanted:
                before = there.get((place.name, spec.name))
                if before is None:
                    check_topic_name(self._namespace.wrap(spec.name))
                change = TopicChange(spec.name, place.name, before, spec.apply_to(before))
                if changes.setdefault((spec.name, place.name), change) != change:
                    raise ConfigurationError(
                        f"topic {spec.name!r} has two different specs for {place.name}", next_step="remove one of them"
                    )
        return TopicChangePlan(tuple(changes.values()))

    async def apply(self, plan: TopicChangePlan) -> TopicChangePlan:
        """Apply a plan, and wait until the name servers have it in their routes."""
        chosen = await self._session.select_brokers({each.broker for each in plan.todo}, None)
        places = {place.name: place for place in chosen}
        # Before anything is changed: a plan that is half applied is worse than none.
        special = {change.broker for change in plan.todo if change.attribute_changes() is not None}
        await gather_limited(lambda broker: self._check_attributes(places[broker]), sorted(special))
        await gather_limited(lambda change: self._put_topic(places[change.broker], change), plan.todo)
        orders = await self._get_orders({self._namespace.wrap(each.topic) for each in plan.todo})
        for topic, changes in plan.by_topic().items():
            await self._update_order(self._namespace.wrap(topic), changes, orders)
            await self._wait_for_routes(topic, changes)
        return plan

    async def delete(self, name: str, *, cluster: str | None = None) -> None:
        """Delete a topic and its messages everywhere, or in one cluster."""
        full = self._namespace.wrap(name)
        route = await self._session.require_route(full)
        here = [place for place in route.brokers if cluster in (None, place.cluster)]
        if not here:
            await self._session.select_brokers(None, cluster)
            raise ConfigurationError(
                f"topic {name!r} is not in cluster {cluster!r}",
                next_step=f"it is in {', '.join(sorted({place.cluster for place in route.brokers}))}",
            )
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        await gather_limited(lambda place: self._session.request_ok(place, code, TopicNameRequest(full)), here)
        if len(here) == len(route.brokers):
            await self._delete_order(full)
        gone = {place.name for place in here}
        # A registration that is under way brings the topic back, so it is deleted until the route stays gone.
        fields = DeleteTopic(full, cluster)
        for pause_s in _POLL_DELAYS_S:
            await asyncio.sleep(pause_s)
            await self._session.request_each_name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields)
            left = await self._session.find_route(full)
            if left is None or not gone & {each.broker for each in left.counts}:
                return
        raise TimedOut(
            f"topic {name!r} is deleted, but {self._session.config} still has its route after {_ROUTE_TIMEOUT_S:g} s",
            next_step="see whether a broker that was away came back with it",
        )

    async def order(self, name: str) -> dict[str, int] | None:
        """Return a topic's fixed list, as the queues of each broker; None if it has none."""
        full = self._namespace.wrap(name)
        fields = KVConfigRequest(_ORDER_NAMESPACE, full)
        answer = await self._session.request_name_server(RequestCode.GET_KV_CONFIG, fields)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            await self._session.require_route(full)
            return None
        return _parse_order(full, check_ok(answer, self._session.config).header(KVConfigResponse).value or "")

    async def set_order(self, name: str, counts: Mapping[str, int] | None = None) -> dict[str, int]:
        """Set a topic's fixed list: so many queues of each broker, or all that can be written to."""
        full = self._namespace.wrap(name)
        route = await self._session.require_route(full)
        there = {each.broker: each.write for each in route.counts if Permission.WRITE in each.permission}
        fixed = dict(there if counts is None else counts)
        for broker, count in fixed.items():
            if not 0 < count <= there.get(broker, 0):
                raise ConfigurationError(
                    f"{broker} has {there.get(broker, 0)} queues of topic {name!r} to write to, and the list would "
                    f"have {count}",
                    next_step=f"there are: {_format_order(there) or 'none'}",
                )
        if not fixed:
            raise ConfigurationError(
                f"nothing of topic {name!r} can be written to, so there is nothing to fix",
                next_step="let clients write to it first, or name brokers and how many queues they have",
            )
        await self._put_order(full, fixed)
        return fixed

    async def clear_order(self, name: str) -> None:
        """Remove a topic's fixed list, if it has one."""
        full = self._namespace.wrap(name)
        await self._session.require_route(full)
        await self._delete_order(full)

    async def _get_orders(self, topics: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the fixed lists of those topics that have one, by their full names.

        Only name servers know them: a broker of 4.9 forgets that a topic is ordered.
        """
        kept = await self._session.key_values(_ORDER_NAMESPACE)
        return {topic: _parse_order(topic, kept[topic]) for topic in topics if topic in kept}

    async def _put_order(self, topic: str, counts: Mapping[str, int]) -> None:
        fields = KVConfigRequest(_ORDER_NAMESPACE, topic, _format_order(counts))
        await self._session.update_name_servers(RequestCode.PUT_KV_CONFIG, fields)

    async def _delete_order(self, topic: str) -> None:
        await self._session.update_name_servers(RequestCode.DELETE_KV_CONFIG, KVConfigRequest(_ORDER_NAMESPACE, topic))

    async def _topic_configs(
        self, places: Iterable[BrokerAddresses], names: Iterable[str]
    ) -> dict[tuple[str, str], BrokerTopicConfig]:
        """Return the settings of topics by broker and name, where they exist."""
        full = {self._namespace.wrap(name): name for name in names}
        orders = await self._get_orders(full)

        async def ask(place: BrokerAddresses) -> dict[tuple[str, str], BrokerTopicConfig]:
            configs: Mapping[str, TopicConfig]
            if len(full) > _MAX_SINGLE_REQUESTS:
                configs = await topic_configs_at(self._session, place)
            else:
                found = await gather_limited(lambda topic: self._config_at(place, topic), full)
                configs = {each.name: each for each in found if each is not None}
            return {
                (place.name, full[each]): replace(
                    BrokerTopicConfig.of(configs[each]), order=place.name in orders.get(each, ())
                )
                for each in full
                if each in configs
            }

        return {key: config for part in await gather_limited(ask, places) for key, config in part.items()}

    async def _put_topic(self, place: BrokerAddresses, change: TopicChange) -> None:
        after = change.after
        fields = CreateTopic(
            topic=self._namespace.wrap(change.topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=after.read_queues,
            write_queue_nums=after.write_queues,
            perm=int(after.permission),
            topic_filter_type=after.filter_type,
            order=after.order,
            topic_sys_flag=after.sys_flag,
            attributes=change.attribute_changes(),
        )
        await self._session.request_ok(place, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    async def _check_attributes(self, place: BrokerAddresses) -> None:
        """Refuse attributes at a broker of release 4: it would accept and ignore them."""
        probe = await self._session.request(place, RequestCode.GET_TOPIC_CONFIG, TopicNameRequest(DEFAULT_TOPIC))
        if probe.version < Version.V5_0_0:
            next_step = "omit the attributes, or use a broker of release 5"
            raise release_4_error(place.name, "whose topics have no attributes", next_step)

    async def _update_order(
        self, topic: str, changes: Iterable[TopicChange], orders: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Update the fixed list of a topic, if its changes affect it."""
        before = orders.get(topic, {})
        after = dict(before)
        for change in changes:
            was = change.before or BrokerTopicConfig(write_queues=0)
            if not change.after.order:
                after.pop(change.broker, None)
            elif not was.order or was.write_queues != change.after.write_queues:
                after[change.broker] = change.after.write_queues
        if after and after != before:
            await self._put_order(topic, after)
        elif before and not after:
            await self._delete_order(topic)

    async def _wait_for_routes(self, topic: str, changes: Iterable[TopicChange]) -> None:
        """Wait until every name server that can be reached has these changes in its route."""
        full, wanted, servers = self._namespace.wrap(topic), tuple(changes), self._session.config.name_servers
        for pause_s in _POLL_DELAYS_S:
            await asyncio.sleep(pause_s)
            found = await gather_limited(lambda address: self._counts_at(address, full), servers)
            counts = [each for each in found if each is not None]
            if counts and all(_is_visible(change, each.get(change.broker)) for each in counts for change in wanted):
                return
        raise TimedOut(
            f"topic {topic!r} is created on {', '.join(each.broker for each in wanted)}, but {self._session.config} "
            f"has no such route after {_ROUTE_TIMEOUT_S:g} s",
            next_step="see whether these brokers are registered with all name servers",
        )

    async def _counts_at(self, address: str, topic: str) -> dict[str, QueueCounts] | None:
        """Return a topic's queue counts by broker as one name server has them; None if it cannot be reached."""
        try:
            route = await self._session.find_route(topic, address)
        except TransportError as error:
            self._session.warn_once(f"name server {address} is left out: {error.what}")
            return None
        return {} if route is None else {each.broker: each for each in route.counts}

    async def _config_at(self, place: BrokerAddresses, topic: str) -> TopicConfig | None:
        """Return a topic's settings at one broker, or None; 4.9 sends only its whole table."""
        answer = await self._session.request(place, RequestCode.GET_TOPIC_CONFIG, TopicNameRequest(topic))
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return (await topic_configs_at(self._session, place)).get(topic)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return decode_body(TopicConfig, check_ok(answer, place.name).body)

    async def _throughput(self, route: TopicRoute) -> TopicThroughput:
        async def read_by(group: str) -> GroupThroughput:
            got = await self._sum_counter(route, "GROUP_GET_NUMS", f"{route.topic}@{group}")
            lag = sum(row.lag for row in await group_offsets_in(self._session, group, route))
            return GroupThroughput(self._namespace.unwrap(group), lag, *got)

        put = await self._sum_counter(route, "TOPIC_PUT_NUMS", route.topic)
        groups = await gather_limited(read_by, sorted(await subscribed_groups(self._session, route)))
        return TopicThroughput(self._namespace.unwrap(route.topic), *put, tuple(groups))

    async def _sum_counter(self, route: TopicRoute, counter: str, key: str) -> tuple[float, int]:
        """Return a counter's messages a second and a day, over all brokers of a topic."""
        tps, day = 0.0, 0
        code, fields = RequestCode.VIEW_BROKER_STATS_DATA, ViewBrokerStats(counter, key)
        for _, stats in await self._session.decode_each(BrokerStats, route.brokers, code, fields):
            tps += stats.minute.tps if stats.minute else 0.0
            # Apache's brokers have no sum of a day before they ran for hours: what they have of it is less.
            day += max((each.sum for each in (stats.day, stats.hour, stats.minute) if each), default=0)
        return tps, day

    async def list(self, *, system: bool = False) -> builtins.list[TopicSummary]:
        """List the users' topics; with ``system`` also the servers' own, and the retry and dead letter topics."""
        places = await self._session.broker_places()
        own = await system_topics(self._session, places.values())
        configs: dict[str, dict[str, TopicConfig]] = {name: {} for name in await self._session.topic_names()}
        code = RequestCode.GET_ALL_TOPIC_CONFIG
        for place, table in await self._session.decode_each(TopicConfigTable, places.values(), code):
            for name, each in table.topics.items():
                configs.setdefault(name, {})[place.name] = each
        found = [
            _topic_summary(self._namespace.unwrap(name), own, configs[name], places)
            for name in sorted(configs)
            if self._session.in_namespace(name)
        ]
        return [topic for topic in found if system or topic.kind is TopicKind.USERS]


async def system_topics(session: AdminSession, places: Iterable[BrokerAddresses]) -> frozenset[str]:
    """Return the topics that brokers call their own."""
    found = await session.decode_each(TopicNames, places, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return frozenset(name for _, names in found for name in names.topics)


async def subscribed_groups(session: AdminSession, route: TopicRoute) -> set[str]:
    """Return the full names of the groups that read a topic."""
    code, fields = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicNameRequest(route.topic)
    return {
        name for _, names in await session.decode_each(GroupNames, route.brokers, code, fields) for name in names.groups
    }


async def topic_configs_at(session: AdminSession, place: BrokerAddresses) -> Mapping[str, TopicConfig]:
    """Return the settings of all topics of a broker, by full name."""
    answer = await session.request_ok(place, RequestCode.GET_ALL_TOPIC_CONFIG)
    return decode_body(TopicConfigTable, answer.body).topics


def _topic_summary(
    name: str, own: frozenset[str], settings: Mapping[str, TopicConfig], places: Mapping[str, BrokerAddresses]
) -> TopicSummary:
    permission = Permission(0)
    for each in settings.values():
        permission |= Permission(each.permission & sum(Permission))
    return TopicSummary(
        name,
        _topic_kind(name, own),
        sum(each.read_queues for each in settings.values()),
        tuple(sorted(settings)),
        permission,
        tuple(sorted({places[broker].cluster for broker in settings})),
    )


def _topic_kind(name: str, own: frozenset[str]) -> TopicKind:
    if name.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if name.startswith(DLQ_PREFIX):
        return TopicKind.DEAD
    return TopicKind.SYSTEM if name in own or is_system_topic(name) else TopicKind.USERS


def _parse_order(topic: str, order: str) -> dict[str, int]:
    """Parse a fixed list.

    >>> _parse_order("orders", "broker-a:4;broker-b:2")
    {'broker-a': 4, 'broker-b': 2}
    """
    return dict(Counter(queue.broker for queue in TopicRoute(topic, (), (), order).publish_list().queues))


def _format_order(counts: Mapping[str, int]) -> str:
    return ";".join(f"{broker}:{count}" for broker, count in sorted(counts.items()))


def _is_visible(change: TopicChange, counts: QueueCounts | None) -> bool:
    """Whether a name server has a change; permissions can be changed there for a whole broker."""
    after = change.after
    if counts is None or (counts.read, counts.write) != (after.read_queues, after.write_queues):
        return False
    return change.what == "keep" or counts.permission == after.permission
