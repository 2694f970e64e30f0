"""All that can be seen of a cluster from outside, gathered in parallel and in time: nothing here hangs or raises.

Name servers and brokers' ports are looked at one by one (looking.py). Then an administrator's client asks for topics
and groups, through the name servers that work and only brokers that can be reached: one that swallows what it is sent
would hold up every question. What does not come in time is left out, and said so.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from steelyard.client.admin import Admin
from steelyard.client.admin.asking import together
from steelyard.client.admin.cluster import Broker
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.topics import TopicView
from steelyard.client.checkup.facts import BrokerSeen, ClusterSeen, GroupSeen, NameServerSeen
from steelyard.client.checkup.groups import look_at_group
from steelyard.client.checkup.looking import dial_all, look_at_name_servers
from steelyard.errors import GroupNotFound, SteelyardError
from steelyard.model import BrokerPlace, Queue
from steelyard.model.names import DEAD

if TYPE_CHECKING:
    from steelyard.client.connect import Connect

__all__ = ["look_around"]

_PART_S = 15.0
"""How long brokers may take, and topics, and groups: they are asked at once."""
_ANSWER_S = 5.0
"""How long one broker may take to say how it is: about as long as everybody waits for an answer."""
_BETWEEN_LOOKS_S = 6.0
"""Java's members tell how far they are every five seconds, so who is looked at for less seems to stand still."""
_LONG_S = 60.0
"""A queue whose oldest message has waited for less is not worth a second look."""
_MOST_GROUPS = 100
_MOST_STILL = 16
_WRITES = 2

T = TypeVar("T")


class _Reachable(Admin):
    """An administrator's client that asks some brokers and leaves the others alone."""

    def __init__(self, connect: "Connect", brokers: Sequence[str]) -> None:
        super().__init__(connect)
        self._reachable = frozenset(brokers)

    async def _places(self) -> dict[str, BrokerPlace]:
        found = await super()._places()
        return {name: place for name, place in found.items() if name in self._reachable}

    async def dead_letters_of(self, group: str) -> TopicView | None:
        """Return where a group's dead letters are; None if it never gave anything up."""
        topic = f"{DEAD}{group}"
        return None if await self._find_route(self._names.full(topic)) is None else await self.topic(topic)


async def look_around(connect: "Connect", group: str | None = None) -> ClusterSeen:
    """Look at everything, or at the cluster and one group."""
    at = datetime.now(UTC)
    name_servers = await look_at_name_servers(connect, connect.timeout_s)
    brokers = await _dialled(name_servers, connect.timeout_s)
    working = [each.address for each in name_servers if each.works]
    reachable = [each.name for each in brokers if each.is_reachable]
    seen = ClusterSeen(name_servers=name_servers, brokers=brokers, at=at)
    if not reachable:
        return seen
    try:
        async with _Reachable(replace(connect, namesrv=";".join(working)), reachable) as admin:
            return await _asked(admin, seen, group)
    except SteelyardError as error:
        return replace(seen, left_out=(f"the cluster was there, and then it was not: {error.what}",))


async def _asked(admin: "_Reachable", seen: ClusterSeen, group: str | None) -> ClusterSeen:
    """Ask for what name servers and ports do not tell: how brokers are, topics, groups."""
    left_out: list[str] = []
    not_there: list[tuple[str, str]] = []
    told, topics, groups = await asyncio.gather(
        _states(admin, seen.brokers),
        _in_time(admin.topics(system=True), "topics", left_out),
        _in_time(_groups(admin, group, left_out, not_there), "groups", left_out),
    )
    return replace(
        seen,
        brokers=tuple(_with_state(each, told) for each in seen.brokers),
        topics=None if topics is None else tuple(topics),
        groups=tuple(groups or ()),
        not_there=tuple(not_there),
        left_out=tuple(left_out),
    )


async def _in_time(work: Awaitable[T], what: str, left_out: list[str]) -> T | None:
    try:
        async with asyncio.timeout(_PART_S):
            return await work
    except TimeoutError:
        left_out.append(f"{what} could not be looked at in {_PART_S:g} s")
    except SteelyardError as error:
        left_out.append(f"{what} could not be looked at: {error.what}")
    return None


async def _dialled(name_servers: Sequence[NameServerSeen], step_s: float) -> tuple[BrokerSeen, ...]:
    """Dial every address of every broker that a name server told of."""
    told: dict[str, dict[str, None]] = {}
    for seen in name_servers:
        for name, place in (seen.brokers or {}).items():
            told.setdefault(name, {}).update(dict.fromkeys(place.addresses.values()))
    found = await dial_all((address for addresses in told.values() for address in addresses), step_s)
    return tuple(BrokerSeen(name, {each: found[each] for each in told[name]}) for name in sorted(told))


# -- brokers ----------------------------------------------------------------------------------------------------------


class _Told:
    """What a broker says of itself."""

    def __init__(self, state: Broker, at: datetime, settings: Mapping[str, str] | None) -> None:
        self.state = state
        self.clock_ahead: timedelta | None = None
        if state.started_at is not None and state.up is not None:
            # It tells whole seconds, rounded down.
            self.clock_ahead = state.started_at + state.up + timedelta(seconds=0.5) - at
        permission = (settings or {}).get("brokerPermission", "")
        self.may_write = bool(int(permission) & _WRITES) if permission.isdigit() else None


async def _states(admin: Admin, seen: Sequence[BrokerSeen]) -> dict[str, _Told]:
    """Ask brokers how they are; one whose port is open and that says nothing has a state that says so."""
    began = datetime.now(UTC)
    try:
        async with asyncio.timeout(2 * _ANSWER_S):
            states = await admin.cluster()
    except (TimeoutError, SteelyardError) as error:
        why = error.what if isinstance(error, SteelyardError) else f"no answer in {2 * _ANSWER_S:g} s"
        silent = [each for each in seen if each.is_reachable]
        states = [Broker(each.name, "", {0: next(iter(each.dialled))}, problem=why) for each in silent]
    at = began + (datetime.now(UTC) - began) / 2

    async def settings(state: Broker) -> Mapping[str, str] | None:
        if state.problem is not None:
            return None  # who does not say how it is would be waited for once more
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await admin.broker_config(state.name)
        except (TimeoutError, SteelyardError):
            return None

    found = await together(settings, states)
    return {each.name: _Told(each, at, told) for each, told in zip(states, found, strict=True)}


def _with_state(seen: BrokerSeen, told: Mapping[str, _Told]) -> BrokerSeen:
    found = told.get(seen.name)
    if found is None:
        return seen
    return replace(seen, state=found.state, clock_ahead=found.clock_ahead, may_write=found.may_write)


# -- groups -----------------------------------------------------------------------------------------------------------


async def _groups(
    admin: _Reachable, only: str | None, left_out: list[str], not_there: list[tuple[str, str]]
) -> list[GroupSeen]:
    names = [only] if only is not None else [each.name for each in await admin.groups()]
    if len(names) > _MOST_GROUPS:
        left_out.append(f"there are {len(names)} groups, and {_MOST_GROUPS} were looked at: name one with --group")

    async def view(name: str) -> GroupView | None:
        try:
            return await look_at_group(admin, name, is_known=only is None)
        except GroupNotFound as error:
            if only is not None:
                not_there.append((error.what, error.next_step))
            return None  # one of a list was deleted meanwhile

    first = [each for each in await together(view, names[:_MOST_GROUPS], at_once=4) if each is not None]
    waits = await together(lambda view: _behind(admin, view), first, at_once=4)
    behind = {view.group: queues for view, queues in zip(first, waits, strict=True)}
    if any(behind.values()):
        await asyncio.sleep(_BETWEEN_LOOKS_S)
    return await together(lambda view: _whole(admin, view, behind[view.group]), first, at_once=4)


async def _whole(admin: _Reachable, view: GroupView, behind: Mapping[Queue, timedelta]) -> GroupSeen:
    """Look once more at a group that is behind, and at what it gave up."""
    still: Mapping[Queue, timedelta] = {}
    if behind:
        then = {each.queue: each.committed for each in view.queues}
        view = replace(await admin.group(view.group, view, is_known=True), hazards=view.hazards)
        same = {each.queue for each in view.queues if each.owner and then.get(each.queue) == each.committed}
        still = {queue: long for queue, long in behind.items() if queue in same}
    dead = await admin.dead_letters_of(view.group)
    if dead is None:
        return GroupSeen(view, still)
    return GroupSeen(view, still, dead.messages, dead.stored_at)


async def _behind(admin: Admin, view: GroupView) -> dict[Queue, timedelta]:
    """Return for how long messages wait in queues that have an owner, where that is long."""
    if not view.members:
        return {}
    waiting = [each for each in view.queues if each.owner and each.lag][:_MOST_STILL]
    waits = await together(lambda each: _waits(admin, each.queue, each.committed or 0, view.at_ms), waiting)
    told = zip(waiting, waits, strict=True)
    return {each.queue: long for each, long in told if long is not None and long.total_seconds() >= _LONG_S}


async def _waits(admin: Admin, queue: Queue, offset: int, now_ms: int) -> timedelta | None:
    try:
        message = await admin.message_at(queue, offset)
    except SteelyardError:
        return None
    return None if message is None else timedelta(milliseconds=max(0, now_ms - message.stored_ms))
