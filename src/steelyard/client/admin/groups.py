"""Groups: which there are, how one of them is right now, and making and deleting them."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from steelyard.client.admin.asking import together
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.viewing import KINDS, Viewing
from steelyard.errors import ConfigurationError
from steelyard.model import BrokerPlace
from steelyard.model.names import DEAD, RETRY, is_system_group
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.admin import DeleteGroup

__all__ = ["Group", "Groups"]


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


class Groups(Viewing):
    """What an administrator does with groups."""

    async def groups(self, *, system: bool = False) -> list[Group]:
        """List the groups that brokers know; with ``system`` also those of the servers and of tools."""
        places = (await self._places()).values()
        names = sorted(name for name in await self._group_tables(places) if self._is_here(name))
        return await together(
            lambda name: self._listed(name, places), [name for name in names if system or not is_system_group(name)]
        )

    async def group(self, name: str, earlier: GroupView | None = None) -> GroupView:
        """Look at a group: members, the owner of every queue, lag, and what looks wrong.

        With an ``earlier`` view it is also seen which queues have not moved since.
        """
        places = await self._places()
        await self._known_group(self._names.full(name), places)
        return await self._view(name, places, earlier)

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
        are what its members may do.
        """
        full = self._names.full(name)
        places = await self._chosen(brokers, cluster)
        there = (await self._group_tables(places)).get(full, {})
        given = {"max_retries": retries, "broadcast_enabled": broadcast, "consume_enabled": consume}
        changes = {field: value for field, value in given.items() if value is not None}

        async def put(place: BrokerPlace) -> None:
            # Attributes are told as changes: none of them changes.
            before = replace(there.get(place.name, GroupSettings(name=full)), attributes=None)
            body = encode_body(replace(before, **changes))
            await self._ask_well(place, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)

        await together(put, places)

    async def delete_group(self, name: str, *, dead_letters: bool = False) -> None:
        """Delete a group, its offsets and its retries; with ``dead_letters`` also what it gave up."""
        full, places = self._names.full(name), await self._places()
        await self._known_group(full, places)
        online = await self._members(full, places.values())
        if online:
            raise ConfigurationError(
                f"group {name!r} has {len(online)} members online, which would make it again",
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
        lag = sum(row.lag for row in await self._progress(name, places))
        told = next(iter(connections.values()), None)
        return Group(
            self._names.bare(name),
            len(self._members_in(connections)),
            None if told is None else KINDS.get(told.kind),
            told is not None and told.model is MessageModel.BROADCASTING,
            lag,
        )
