"""Groups: listed, described with members, owners and lag, created, changed and deleted.

A description combines what brokers list, what members report of themselves (through a broker), and the routes of the
subscribed topics. A summary uses only what brokers list, so it is cheap enough for many groups.
"""

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from steelyard.client.admin.admin_session import AdminSession, check_ok, gather_limited, release_4_error
from steelyard.client.admin.group_config import GroupChange, GroupChangePlan, GroupConfig
from steelyard.client.admin.group_description import (
    GroupDescription,
    GroupFacts,
    MemberDescription,
    MemberStatus,
    consumer_connections,
    describe_group,
    member_filters,
    member_status,
    members_in,
    online_members,
    running_state,
    started_at,
    subscribed_topics,
)
from steelyard.client.admin.offsets import GroupStats, group_stats
from steelyard.client.admin.rebalance_history import RebalanceHistory
from steelyard.client.admin.topics import TopicAdmin
from steelyard.client.namespace import ClientNamespace
from steelyard.client.times import from_epoch_ms
from steelyard.diagnostics import thresholds
from steelyard.diagnostics.group import ProgressSample, WaitingQueue, unreadable_message
from steelyard.errors import ConfigurationError, ConsumerOffline, SteelyardError
from steelyard.model import BrokerAddresses, Queue, StoredMessage
from steelyard.model.finding import Finding
from steelyard.model.formatting import pluralize
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, is_system_group
from steelyard.net.clock import now_ms
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from steelyard.wire.bodies.heartbeat import ConsumeType, MessageModel
from steelyard.wire.bodies.members import ConsumerConnections, ConsumerRunningState, GroupExtension
from steelyard.wire.bodies.queue_assignment import MessageRequestMode, MessageRequestModeSetting
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.headers.admin import DeleteGroup
from steelyard.wire.stored_messages import decode_sealed_messages

_KINDS = {ConsumeType.PUSH: "push", ConsumeType.PULL: "pull", ConsumeType.POP: "pop"}
_STRATEGY = "allocateMessageQueueStrategy"
_MAX_PARALLEL_MEMBERS = 4
_MAX_AGES = 16
"""Stuck queues whose oldest message is looked up: the rest will be as old."""
_MAX_ASKED_MEMBERS = 64
"""Members that are asked one by one: each blocks a thread of Apache's brokers until it answers."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group in a list."""

    name: str
    members: int
    kind: str | None
    """How it gets its messages: push, pull or pop; None while no member is online."""
    broadcast: bool
    lag: int
    """The lag in messages, where it has offsets."""
    tps: float


class GroupAdmin(RebalanceHistory):
    """Consumer groups: `Admin.groups`."""

    def __init__(self, session: AdminSession, topics: TopicAdmin) -> None:
        super().__init__(session)
        self._topics = topics

    async def names(self, *, system: bool = False) -> builtins.list[str]:
        """List just the names of groups, with one request to each broker."""
        tables = await self._session.group_tables((await self._session.broker_places()).values())
        return sorted(
            self._namespace.unwrap(name)
            for name in tables
            if self._session.in_namespace(name) and (system or not is_system_group(name))
        )

    async def describe(
        self, name: str, earlier: GroupDescription | None = None, *, is_known: bool = False, ask_members: bool = True
    ) -> GroupDescription:
        """Describe a group: members, the owner of every queue, lag, and findings.

        With an ``earlier`` description, queues that made no progress since are found too. ``is_known`` skips the check
        that the group exists: brokers can only list all groups, which is slow if there are thousands. Without
        ``ask_members`` our members are not asked where the locks of our brokers show who owns what, which is much
        cheaper; then it is unknown since when members are online and own their queues.
        """
        full, places = self._namespace.wrap(name), await self._session.broker_places()
        if not is_known:
            await self._session.require_group(full, places)
        facts = await _member_facts(self._session, full, places, ask_members=ask_members)
        return describe_group(replace(facts, waiting=await self._with_ages(facts, places)), earlier)

    async def _with_ages(self, facts: GroupFacts, places: Mapping[str, BrokerAddresses]) -> dict[Queue, WaitingQueue]:
        """Add when the oldest waiting message of stuck queues was stored, where no broker reported it."""
        still = [
            each
            for each in facts.waiting.values()
            if each.oldest_ms is None
            and facts.at_ms - each.since_ms >= thresholds.STUCK_MS
            and each.queue.broker in places
        ]

        async def ask(each: WaitingQueue) -> WaitingQueue:
            try:
                full = self._namespace.wrap_queue(each.queue)
                body, _ = await self._session.pull(places[full.broker], full, each.offset, 1, "*")
                first = next(decode_sealed_messages(StoredMessage, body, full.broker), None)
            except SteelyardError:
                return each
            return each if first is None else replace(each, oldest_ms=first.stored_ms)

        with_age = await gather_limited(ask, still[:_MAX_AGES])
        return {**facts.waiting, **{each.queue: each for each in with_age}}

    async def summarize(self, name: str, earlier: GroupDescription | None = None) -> GroupDescription:
        """Describe a group from two requests to each broker; no member and no name server is asked.

        Owners are known where our brokers hold the locks. A group that does not exist looks like an empty one.
        """
        facts, _ = await self._summary(name, (await self._session.broker_places()).values())
        return describe_group(facts, earlier)

    async def _summary(self, name: str, places: Iterable[BrokerAddresses]) -> tuple[GroupFacts, GroupStats]:
        full = self._namespace.wrap(name)
        connections = await consumer_connections(self._session, full, places)
        stats = await group_stats(self._session, full, places)
        return _listed_facts(self._namespace, full, connections, stats), stats

    async def members(self, group: str) -> builtins.list[MemberDescription]:
        """List the members of a group that are online, in the order in which queues are assigned."""
        full, places = self._namespace.wrap(group), await self._session.broker_places()
        found = await online_members(self._session, full, places.values())
        if not found:
            await self._session.require_group(full, places)
        return found

    async def member_status(self, group: str, member: str, *, stacks: bool = False) -> MemberStatus:
        """Return what a member holds, how fast it is, and what its handlers do now.

        With ``stacks`` also the stacks of all its threads; of a Java member, that is its jstack.
        """
        places = await self._session.broker_places()
        online = {each.id: each for each in await self.members(group)}
        if member not in online:
            raise ConsumerOffline(
                server=str(self._session.config),
                what=f"group {group} has no member {member!r}",
                next_step=f"online are: {', '.join(online) or 'none'}",
            )
        # A Java program stops for a moment to report its stacks.
        asks_stacks = stacks or online[member].ours
        state = await running_state(
            self._session, self._namespace.wrap(group), online[member], places, stacks=asks_stacks
        )
        status = member_status(self._namespace, member, state)
        return status if stacks else replace(status, stacks=None)

    async def configs(self, name: str) -> dict[str, GroupConfig]:
        """Return a group's settings by broker."""
        places = await self._session.broker_places()
        known = await self._session.require_group(self._namespace.wrap(name), places)
        return {broker: GroupConfig.of(settings, name) for broker, settings in sorted(known.items())}

    async def create(
        self,
        name: str,
        *,
        retries: int | None = None,
        broadcast: bool | None = None,
        consume: bool | None = None,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
    ) -> None:
        """Create a group on brokers, or change the given settings of one that exists.

        ``retries`` is how often a message is redelivered before it becomes a dead letter; ``broadcast`` and ``consume``
        are permissions of its members. `plan` takes all settings.
        """
        config = GroupConfig(name=name, retries=retries, broadcast=broadcast, consume=consume)
        await self.apply(await self.plan([config], brokers=brokers, cluster=cluster))

    async def plan(
        self, configs: Iterable[GroupConfig], *, brokers: Iterable[str] | None = None, cluster: str | None = None
    ) -> GroupChangePlan:
        """Plan the creation or change of groups at each broker, and change nothing."""
        places = await self._session.select_brokers(brokers, cluster)
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answers = await gather_limited(lambda place: self._session.request_ok(place, code), places)
        tables = [(answer.version, decode_body(SubscriptionGroupTable, answer.body).groups) for answer in answers]
        changes = []
        for config in configs:
            for place, (version, groups) in zip(places, tables, strict=True):
                if version < Version.V5_0_0 and (unknown := config.needs_release_5()):
                    lacks = f"whose groups have no {', '.join(unknown)}"
                    raise release_4_error(place.name, lacks, "leave it out, or name brokers of release 5")
                there = groups.get(self._namespace.wrap(config.name))
                before = None if there is None else GroupConfig.of(there, config.name)
                changes.append(GroupChange(config, place.name, before))
        return GroupChangePlan(tuple(changes))

    async def apply(self, plan: GroupChangePlan) -> GroupChangePlan:
        """Apply a plan; settings that changed since and are not in the plan stay."""
        chosen = await self._session.select_brokers({change.broker for change in plan.todo}, None)
        places = {place.name: place for place in chosen}
        tables = await self._session.group_tables(chosen)

        async def put(change: GroupChange) -> None:
            full, place = self._namespace.wrap(change.wanted.name), places[change.broker]
            before = tables.get(full, {}).get(change.broker, SubscriptionGroupConfig(name=full))
            body = encode_body(change.wanted.applied_to(before))
            await self._session.request_ok(place, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)

        await gather_limited(put, plan.todo)
        return plan

    async def set_request_mode(self, group: str, topic: str, *, pop: bool, share_queues: int = 0) -> builtins.list[str]:
        """Set how a group gets the messages of a topic, on all brokers that have it; return these.

        With ``pop`` a broker hands out messages instead of queues, otherwise members pull; ``share_queues`` is from how
        many more queues than its own a member then reads. Only Apache's brokers from 5.0 on support POP.
        """
        full = self._namespace.wrap(group)
        route = await self._session.require_route(self._namespace.wrap(topic))
        await self._session.require_group(full, await self._session.broker_places())
        mode = MessageRequestMode.POP if pop else MessageRequestMode.PULL
        setting = MessageRequestModeSetting(group=full, mode=mode, pop_share_queues=share_queues, topic=route.topic)

        async def put(place: BrokerAddresses) -> None:
            code = RequestCode.SET_MESSAGE_REQUEST_MODE
            answer = await self._session.request(place, code, {}, encode_body(setting))
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise release_4_error(place.name, "where all groups pull", "upgrade the broker to 5.0 or later")
            check_ok(answer, place.name)

        await gather_limited(put, route.brokers)
        return sorted(place.name for place in route.brokers)

    async def delete(self, name: str, *, dead_letters: bool = False) -> None:
        """Delete a group, its offsets and its retry topic; with ``dead_letters`` also its dead letters."""
        full, places = self._namespace.wrap(name), await self._session.broker_places()
        await self._session.require_group(full, places)
        online = await online_members(self._session, full, places.values())
        if online:
            raise ConfigurationError(
                f"group {name!r} has {pluralize(len(online), 'member')} online, which would create it again",
                next_step=f"stop them first: {', '.join(member.id for member in online[:5])}",
            )
        code, fields = RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(full, clean_offset=True, remove_offset=True)
        await gather_limited(lambda place: self._session.request_ok(place, code, fields), places.values())
        for prefix in (RETRY_PREFIX, DLQ_PREFIX) if dead_letters else (RETRY_PREFIX,):
            if await self._session.find_route(f"{prefix}{full}") is not None:
                await self._topics.delete(f"{prefix}{name}")

    async def list(self, *, system: bool = False) -> builtins.list[GroupSummary]:
        """List the groups that brokers know; with ``system`` also those of the servers and of tools."""
        places = (await self._session.broker_places()).values()

        async def summary(name: str) -> GroupSummary:
            facts, stats = await self._summary(name, places)
            return GroupSummary(name, len(facts.members), facts.kind, facts.broadcast, stats.lag, stats.tps)

        return await gather_limited(summary, await self.names(system=system))


def _listed_facts(
    namespace: ClientNamespace, group: str, connections: Mapping[str, ConsumerConnections], stats: GroupStats
) -> GroupFacts:
    """Return what brokers list about a group, by its full name."""
    any_body, at_ms = next(iter(connections.values()), None), now_ms()
    extensions = {broker: body.steelyard for broker, body in connections.items() if body.steelyard is not None}
    queues = [
        Queue(namespace.unwrap(topic), broker, queue_id)
        for broker, extension in extensions.items()
        for topic, count in (extension.queues or {}).items()
        for queue_id in range(count)
    ]
    return GroupFacts(
        group=namespace.unwrap(group),
        at_ms=at_ms,
        members=tuple(members_in(namespace, connections)),
        broadcast=any_body is not None and any_body.model is MessageModel.BROADCASTING,
        kind=None if any_body is None or any_body.kind is None else _KINDS.get(any_body.kind),
        topics=frozenset(namespace.unwrap(topic) for body in connections.values() for topic in body.subscriptions),
        queues=tuple(queues) if extensions else tuple(row.queue for row in stats.rows),
        locked={
            namespace.unwrap_queue(queue): owner
            for broker, body in connections.items()
            for queue, owner in _locked_at(broker, body).items()
        },
        our_brokers=frozenset(extensions),
        progress={row.queue: ProgressSample(at_ms, row.committed, row.end) for row in stats.rows},
        waiting={
            each.queue: each
            for broker, extension in extensions.items()
            for each in _waiting_at(namespace, broker, extension, at_ms)
        },
        listed={
            broker: tuple(each.client_id or "" for each in body.connections) for broker, body in connections.items()
        },
        reported=tuple(each.finding for extension in extensions.values() for each in extension.findings or ()),
    )


def _waiting_at(
    namespace: ClientNamespace, broker: str, extension: GroupExtension, at_ms: int
) -> Iterable[WaitingQueue]:
    """Return the queues in which our broker sees no progress."""
    for each in extension.waiting or ():
        queue = Queue(namespace.unwrap(each.topic), broker, each.queue_id)
        oldest_ms = None if each.oldest_ms is None else at_ms - each.oldest_ms
        yield WaitingQueue(queue, at_ms - each.still_ms, each.offset, each.lag, oldest_ms)


def _waiting_queues(
    namespace: ClientNamespace, facts: GroupFacts, states: Mapping[str, ConsumerRunningState]
) -> dict[Queue, WaitingQueue]:
    """Return the queues in which messages wait at their member, or at a broker that sees no progress.

    Java's members report when they last finished a message of a queue.
    """
    found = dict(facts.waiting)
    for state in states.values():
        extension = state.steelyard
        if extension is not None:
            still = {
                queue: facts.at_ms - still_ms
                for queue, still_ms in zip(extension.held or (), extension.still_ms or (), strict=False)
                if still_ms >= 0
            }
        else:
            still = {
                queue: each.consumed_ms
                for queue, each in state.queues.items()
                if each.cached_messages and each.consumed_ms > 0 and not each.dropped
            }
        for full, since_ms in still.items():
            queue, each = namespace.unwrap_queue(full), state.queues.get(full)
            progress, known = facts.progress.get(queue), found.get(queue)
            offset = progress.committed if progress else each.cached_min_offset if each else 0
            lag = progress.end - progress.committed if progress else each.cached_messages if each else 0
            if known is not None:
                found[queue] = replace(known, since_ms=min(known.since_ms, since_ms), lag=lag)
            else:
                found[queue] = WaitingQueue(queue, since_ms, offset, lag)
    return found


def _locked_at(broker: str, body: ConsumerConnections) -> dict[Queue, str]:
    """Return the owners of a broker's queues; on the wire an owner is an index into the list of members."""
    extension = body.steelyard
    ids = [each.client_id or "" for each in body.connections]
    return {
        Queue(topic, broker, queue_id): ids[index]
        for topic, row in ((extension.owners or {}) if extension is not None else {}).items()
        for queue_id, index in enumerate(row)
        if 0 <= index < len(ids)
    }


async def _member_facts(
    session: AdminSession, group: str, places: Mapping[str, BrokerAddresses], *, ask_members: bool
) -> GroupFacts:
    """Return what brokers list, with what members report and what the routes of their topics say."""
    namespace = session.namespace
    connections = await consumer_connections(session, group, places.values())
    members = members_in(namespace, connections)
    locks_suffice = not ask_members and all(body.steelyard is not None for body in connections.values())
    asked = [member for member in members if not (locks_suffice and member.ours)]
    states, notes = await _member_states(session, group, asked, places)
    topics = {topic for body in connections.values() for topic in body.subscriptions}
    topics |= {namespace.wrap(topic) for member in members for topic in member.topics or ()}
    queues, missing = await _readable_queues(session, topics)
    stats = await group_stats(session, group, places.values())
    facts = _listed_facts(namespace, group, connections, stats)
    return replace(
        facts,
        members=tuple(_with_state(namespace, member, states.get(member.id)) for member in members),
        topics=frozenset(map(namespace.unwrap, topics)),
        queues=tuple(map(namespace.unwrap_queue, queues)) if connections else tuple(row.queue for row in stats.rows),
        claimed={name: frozenset(map(namespace.unwrap_queue, _held_queues(state))) for name, state in states.items()},
        waiting=_waiting_queues(namespace, facts, states),
        failures={
            (name, namespace.unwrap(topic)): each.failed_tps
            for name, state in states.items()
            for topic, each in state.topics.items()
        },
        owned_at={
            (name, namespace.unwrap_queue(queue)): since
            for name, state in states.items()
            for queue, since in _owned_at(state, facts.at_ms).items()
        },
        consumed={row.queue: row.consumed_at for row in stats.rows if row.consumed_at is not None},
        reported=(
            *facts.reported,
            *(each for state in states.values() for each in _stopped(facts.group, state)),
        ),
        notes=(*notes, *missing),
    )


async def _member_states(
    session: AdminSession, group: str, members: list[MemberDescription], places: Mapping[str, BrokerAddresses]
) -> tuple[dict[str, ConsumerRunningState], list[str]]:
    """Return what members report, and a note for each that does not."""
    notes: list[str] = []
    if len(members) > _MAX_ASKED_MEMBERS:
        notes.append(f"{len(members)} members are too many to be asked one by one: owners are known only from locks")
        members = []

    async def ask(member: MemberDescription) -> ConsumerRunningState | None:
        try:
            return await running_state(session, group, member, places)
        except SteelyardError as error:
            notes.append(f"{member.id} did not report its queues: {error.what}")
            return None

    answers = await gather_limited(ask, members, limit=_MAX_PARALLEL_MEMBERS)
    states = {member.id: state for member, state in zip(members, answers, strict=True) if state is not None}
    return states, notes


def _with_state(
    namespace: ClientNamespace, member: MemberDescription, state: ConsumerRunningState | None
) -> MemberDescription:
    """Add what a member reports to what brokers know of it; where both know something, brokers know better."""
    if state is None:
        return member
    topics, strategy = member.topics, member.strategy
    if topics is None and state.subscriptions:
        topics = subscribed_topics(namespace, (each.topic for each in state.subscriptions))
    if strategy is None and member.ours:
        strategy = state.properties.get(_STRATEGY)
    filters = member_filters(namespace, state) or None
    return replace(member, topics=topics, filters=filters, strategy=strategy, started_at=started_at(state))


async def _readable_queues(session: AdminSession, topics: set[str]) -> tuple[list[Queue], list[str]]:
    """Return the queues of some topics, and a note for each that does not exist."""
    wanted = sorted(topics)
    routes = await gather_limited(session.find_route, wanted)
    queues = [queue for route in routes if route is not None for queue in route.readable_queues()]
    missing = [
        f"the group subscribes to {session.namespace.unwrap(topic)}, which does not exist"
        for topic, route in zip(wanted, routes, strict=True)
        if route is None
    ]
    return queues, missing


def _held_queues(state: ConsumerRunningState) -> set[Queue]:
    """Return the queues of a member, with those that it is giving up: until then it owns them."""
    extension = state.steelyard
    if extension is not None:
        return {*(extension.held or ()), *(extension.draining or ())}
    return {queue for queue, each in state.queues.items() if not each.dropped}


def _stopped(group: str, state: ConsumerRunningState) -> Iterable[Finding]:
    """Return the queues that a member has stopped reading, as our brokers report them."""
    extension = state.steelyard
    return (unreadable_message(group, each) for each in (() if extension is None else extension.stopped or ()))


def _owned_at(state: ConsumerRunningState, at_ms: int) -> dict[Queue, datetime]:
    """Return since when a member owns its queues. Its clock may be wrong, so it reports durations."""
    extension = state.steelyard
    if extension is None:
        return {}
    durations = zip(extension.held or (), extension.owned_ms or (), strict=False)
    found = {queue: from_epoch_ms(at_ms - owned_ms) for queue, owned_ms in durations if owned_ms >= 0}
    return {queue: since for queue, since in found.items() if since is not None}
