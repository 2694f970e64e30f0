"""Groups: which there are, how one of them is right now, and making and deleting them."""

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.client.admin.asking import together
from steelyard.client.admin.group_rules import GroupChange, GroupPlan, GroupRules
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.topic_changes import TopicChanges
from steelyard.client.admin.viewing import KINDS, Viewing
from steelyard.errors import ConfigurationError, RequestNotSupported, error_for
from steelyard.model import BrokerPlace
from steelyard.model.names import DEAD, RETRY, is_system_group
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.assignment import RequestMode, RequestModeSetting
from steelyard.wire.bodies.groups import GroupSettings, GroupTable
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.codes import RequestCode, ResponseCode, Version
from steelyard.wire.headers.admin import DeleteGroup

__all__ = ["Group", "Groups"]

_TABLE = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG


@dataclass(frozen=True, slots=True)
class Group:
    """A group in a list."""

    name: str
    members: int
    """How many are online."""
    kind: str | None
    """How it gets its messages: push, pull or pop; None while nobody is online."""
    broadcast: bool
    lag: int
    """How many messages wait, where it has offsets."""
    tps: float
    """How many messages a second it gets."""


class Groups(Viewing, TopicChanges):
    """What an administrator does with groups."""

    async def groups(self, *, system: bool = False) -> list[Group]:
        """List the groups that brokers know; with ``system`` also those of the servers and of tools."""
        places = (await self._places()).values()
        names = map(self._names.full, await self.group_names(system=system))
        return await together(lambda name: self._listed(name, places), names)

    async def group_names(self, *, system: bool = False) -> list[str]:
        """List just the names of groups, which takes one question to each broker."""
        tables = await self._group_tables((await self._places()).values())
        return sorted(
            self._names.bare(name) for name in tables if self._is_here(name) and (system or not is_system_group(name))
        )

    async def group(
        self, name: str, earlier: GroupView | None = None, *, is_known: bool = False, ask_members: bool = True
    ) -> GroupView:
        """Look at a group: members, the owner of every queue, lag, and what looks wrong.

        With an ``earlier`` view it is also seen which queues have not moved since. Who has the name from a list says
        ``is_known``: brokers tell whether a group is there only by telling all of them, which takes long if there are
        thousands. Without ``ask_members`` those are not asked whose queues locks of our brokers tell, which is much
        cheaper; then it is not known since when they are there, and since when they have what they have.
        """
        places = await self._places()
        if not is_known:
            await self._known_group(self._names.full(name), places)
        return await self._view(name, places, earlier, ask_members=ask_members)

    async def glance(self, name: str, earlier: GroupView | None = None) -> GroupView:
        """Look at a group from afar: brokers are asked and nobody else, two questions each, for who looks at many.

        Who has which queue is known where brokers of ours have locks; elsewhere only members know. A group that is not
        there looks like one that has nothing.
        """
        full, places = self._names.full(name), (await self._places()).values()
        connections = await self._connections(full, places)
        return self._glance(full, connections, await self._stats(full, places), earlier)

    async def group_rules(self, name: str) -> dict[str, GroupRules]:
        """Return a group's settings by broker."""
        known = await self._known_group(self._names.full(name), await self._places())
        return {broker: GroupRules.of(settings, name) for broker, settings in sorted(known.items())}

    async def create_group(
        self,
        name: str,
        *,
        retries: int | None = None,
        broadcast: bool | None = None,
        consume: bool | None = None,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
    ) -> None:
        """Make a group on brokers, or change what is given of one that is there.

        ``retries`` is how often a message is tried before it rests in the dead letters; ``broadcast`` and ``consume``
        are what its members may do. `plan_groups` takes all settings.
        """
        wish = GroupRules(name=name, retries=retries, broadcast=broadcast, consume=consume)
        await self.apply_groups(await self.plan_groups([wish], brokers=brokers, cluster=cluster))

    async def plan_groups(
        self, wishes: Iterable[GroupRules], *, brokers: Iterable[str] | None = None, cluster: str | None = None
    ) -> GroupPlan:
        """Work out what making or changing groups would do at each broker, and do nothing."""
        places = await self._chosen(brokers, cluster)
        answers = await together(lambda place: self._ask_well(place, _TABLE), places)
        tables = [(answer.version, decode_body(GroupTable, answer.body).groups) for answer in answers]
        changes = []
        for wish in wishes:
            for place, (version, groups) in zip(places, tables, strict=True):
                if version < Version.V5_0_0 and (unknown := wish.needs_release_5()):
                    raise RequestNotSupported(
                        code=int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
                        server=place.name,
                        what=f"{place.name} is of release 4, whose groups have no {', '.join(unknown)}",
                        next_step="leave it out, or name brokers of release 5",
                    )
                there = groups.get(self._names.full(wish.name))
                before = None if there is None else GroupRules.of(there, wish.name)
                changes.append(GroupChange(wish, place.name, before))
        return GroupPlan(tuple(changes))

    async def apply_groups(self, plan: GroupPlan) -> GroupPlan:
        """Do what was planned; what has changed meanwhile and is not in the plan stays."""
        places = {place.name: place for place in await self._chosen({change.broker for change in plan.todo}, None)}
        tables = await self._group_tables(places.values())

        async def put(change: GroupChange) -> None:
            full = self._names.full(change.wish.name)
            before = tables.get(full, {}).get(change.broker, GroupSettings(name=full))
            body = encode_body(change.wish.applied_to(before))
            await self._ask_well(places[change.broker], RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)

        await together(put, plan.todo)
        return plan

    async def set_request_mode(self, group: str, topic: str, *, pop: bool, share_queues: int = 0) -> list[str]:
        """Say how a group gets the messages of a topic, on all brokers that have it; these are returned.

        With ``pop`` a broker hands out messages and not queues, and else members pull; ``share_queues`` is how many
        more queues than its own a member then reads from. Only brokers of Apache's from 5.0 on know POP.
        """
        route = await self._route(self._names.full(topic))
        await self._known_group(self._names.full(group), await self._places())
        mode = RequestMode.POP if pop else RequestMode.PULL
        wish = RequestModeSetting(
            group=self._names.full(group), mode=mode, pop_share_queues=share_queues, topic=route.topic
        )

        async def put(place: BrokerPlace) -> None:
            answer = await self._ask(place, RequestCode.SET_MESSAGE_REQUEST_MODE, {}, encode_body(wish))
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise RequestNotSupported(
                    code=answer.code,
                    server=place.name,
                    what=f"{place.name} is of release 4, where all groups pull",
                    next_step="upgrade the broker to 5.0 or later",
                )
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=place.name)

        await together(put, route.brokers)
        return sorted(place.name for place in route.brokers)

    async def delete_group(self, name: str, *, dead_letters: bool = False) -> None:
        """Delete a group, its offsets and its retries; with ``dead_letters`` also what it gave up."""
        full, places = self._names.full(name), await self._places()
        await self._known_group(full, places)
        online = await self._members(full, places.values())
        if online:
            members = "1 member" if len(online) == 1 else f"{len(online)} members"
            raise ConfigurationError(
                f"group {name!r} has {members} online, which would make it again",
                next_step=f"stop them first: {', '.join(member.id for member in online[:5])}",
            )
        asked = DeleteGroup(full, clean_offset=True, remove_offset=True)
        await together(
            lambda place: self._ask_well(place, RequestCode.DELETE_SUBSCRIPTIONGROUP, asked), places.values()
        )
        for prefix in (RETRY, DEAD) if dead_letters else (RETRY,):
            if await self._find_route(f"{prefix}{full}") is not None:
                await self.delete_topic(f"{prefix}{name}")

    async def _listed(self, name: str, places: Iterable[BrokerPlace]) -> Group:
        connections = await self._connections(name, places)
        stats = await self._stats(name, places)
        told = next(iter(connections.values()), None)
        return Group(
            self._names.bare(name),
            len(self._members_in(connections)),
            None if told is None else KINDS.get(told.kind),
            told is not None and told.model is MessageModel.BROADCASTING,
            stats.lag,
            stats.tps,
        )
