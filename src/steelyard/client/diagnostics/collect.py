"""Collects all facts about a cluster from outside, in parallel and in time: nothing here hangs or raises.

Name servers and brokers' ports are probed one by one (server_probe.py). Then an admin client asks for topics and
groups, only through name servers that work and brokers that can be reached: one that never answers would delay every
request. What is not known in time is left out, and listed as such.

While a queue moves between members it has no owner for a moment, or two. That is wrong only if it lasts, so such
findings count only if a second description a moment later has them too.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from steelyard.client.admin import Admin
from steelyard.client.admin.admin_session import gather_limited
from steelyard.client.admin.brokers import BrokerStatus
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.topics import TopicDescription
from steelyard.client.diagnostics.facts import BrokerFacts, ClusterFacts, GroupHealthFacts, NameServerFacts
from steelyard.client.diagnostics.server_probe import probe_addresses, probe_name_servers
from steelyard.errors import GroupNotFound, SteelyardError
from steelyard.model import Queue
from steelyard.model.finding import Finding
from steelyard.model.reserved_names import DLQ_PREFIX

if TYPE_CHECKING:
    from steelyard.client.config import ClientConfig

__all__ = ["collect_cluster_facts", "describe_settled_group", "is_transient"]


_SETTLED_S = 2.0
"""After this a rebalance is over, unless a handler takes longer."""
_TRANSIENT_KINDS = ("unowned queues", "claimed twice")


def is_transient(finding: Finding) -> bool:
    """Say whether a rebalance may cause it."""
    return finding.kind.startswith(_TRANSIENT_KINDS)


async def describe_settled_group(
    admin: Admin,
    name: str,
    earlier: GroupDescription | None = None,
    *,
    is_known: bool = False,
    settled_s: float = _SETTLED_S,
) -> GroupDescription:
    """Describe a group; findings of a rebalance are kept only if they are still there a moment later."""
    view = await admin.groups.describe(name, earlier, is_known=is_known)
    if not any(map(is_transient, view.findings)):
        return view
    await asyncio.sleep(settled_s)
    later = await admin.groups.describe(name, view, is_known=True)
    return replace(
        later, findings=tuple(each for each in later.findings if not is_transient(each) or each in view.findings)
    )


_PART_S = 15.0
"""How long brokers, topics and groups may take: they are asked at once."""
_ANSWER_S = 5.0
"""The timeout of one broker's status."""
_BETWEEN_POLLS_S = 6.0
"""Java's members commit every five seconds: within less they seem to make no progress."""
_LONG_WAIT_S = 60.0
"""A queue whose oldest message has waited for less is not stalled."""
_MAX_GROUPS = 100
_MAX_STALLED_QUEUES = 16
_WRITES = 2

T = TypeVar("T")


class _ReachableAdmin(Admin):
    """An admin client that asks only brokers that can be reached."""

    def __init__(self, config: "ClientConfig", brokers: Sequence[str]) -> None:
        super().__init__(config)
        self._session.only_brokers = frozenset(brokers)

    async def dead_letters_of(self, group: str) -> TopicDescription | None:
        """Return a group's dead-letter topic; None if it has none."""
        topic = f"{DLQ_PREFIX}{group}"
        route = await self._session.find_route(self._session.namespace.wrap(topic))
        return None if route is None else await self.topics.describe(topic)


async def collect_cluster_facts(config: "ClientConfig", group: str | None = None) -> ClusterFacts:
    """Collect the facts of all groups, or of one."""
    at = datetime.now(UTC)
    name_servers = await probe_name_servers(config, config.timeout_s)
    brokers = await _probe_brokers(name_servers, config.timeout_s)
    working = [each.address for each in name_servers if each.works]
    reachable = [each.name for each in brokers if each.is_reachable]
    seen = ClusterFacts(name_servers=name_servers, brokers=brokers, at=at)
    if not reachable:
        return seen
    try:
        async with _ReachableAdmin(replace(config, namesrv=";".join(working)), reachable) as admin:
            return await _collect(admin, seen, group)
    except SteelyardError as error:
        return replace(seen, left_out=(f"the cluster was there, and then it was not: {error.what}",))


async def _collect(admin: "_ReachableAdmin", seen: ClusterFacts, group: str | None) -> ClusterFacts:
    """Ask for the status of brokers, topics and groups."""
    left_out: list[str] = []
    not_there: list[tuple[str, str]] = []
    reported, topics, groups = await asyncio.gather(
        _broker_reports(admin, seen.brokers),
        _within_timeout(admin.topics.list(system=True), "topics", left_out),
        _within_timeout(_group_facts(admin, group, left_out, not_there), "groups", left_out),
    )
    return replace(
        seen,
        brokers=tuple(_with_report(each, reported) for each in seen.brokers),
        topics=None if topics is None else tuple(topics),
        groups=tuple(groups or ()),
        not_there=tuple(not_there),
        left_out=tuple(left_out),
    )


async def _within_timeout(work: Awaitable[T], what: str, left_out: list[str]) -> T | None:
    try:
        async with asyncio.timeout(_PART_S):
            return await work
    except TimeoutError:
        left_out.append(f"{what} could not be described in {_PART_S:g} s")
    except SteelyardError as error:
        left_out.append(f"{what} could not be described: {error.what}")
    return None


async def _probe_brokers(name_servers: Sequence[NameServerFacts], step_s: float) -> tuple[BrokerFacts, ...]:
    """Probe every address of every broker that a name server lists."""
    reported: dict[str, dict[str, None]] = {}
    for seen in name_servers:
        for name, place in (seen.brokers or {}).items():
            reported.setdefault(name, {}).update(dict.fromkeys(place.addresses.values()))
    found = await probe_addresses((address for addresses in reported.values() for address in addresses), step_s)
    return tuple(BrokerFacts(name, {each: found[each] for each in reported[name]}) for name in sorted(reported))


class _BrokerReport:
    """A broker's status and settings."""

    def __init__(self, state: BrokerStatus, at: datetime, settings: Mapping[str, str] | None) -> None:
        self.state = state
        self.clock_ahead: timedelta | None = None
        if state.started_at is not None and state.up is not None:
            # It reports whole seconds, rounded down.
            self.clock_ahead = state.started_at + state.up + timedelta(seconds=0.5) - at
        permission = (settings or {}).get("brokerPermission", "")
        self.may_write = bool(int(permission) & _WRITES) if permission.isdigit() else None


async def _broker_reports(admin: Admin, seen: Sequence[BrokerFacts]) -> dict[str, _BrokerReport]:
    """Return the status of brokers; a silent one whose port is open has a status that says so."""
    began = datetime.now(UTC)
    try:
        async with asyncio.timeout(2 * _ANSWER_S):
            states = await admin.brokers.list()
    except (TimeoutError, SteelyardError) as error:
        why = error.what if isinstance(error, SteelyardError) else f"no answer in {2 * _ANSWER_S:g} s"
        silent = [each for each in seen if each.is_reachable]
        states = [BrokerStatus(each.name, "", {0: next(iter(each.dialled))}, problem=why) for each in silent]
    at = began + (datetime.now(UTC) - began) / 2

    async def settings(state: BrokerStatus) -> Mapping[str, str] | None:
        if state.problem is not None:
            return None  # who does not say how it is would be waited for once more
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await admin.brokers.config(state.name)
        except (TimeoutError, SteelyardError):
            return None

    found = await gather_limited(settings, states)
    return {each.name: _BrokerReport(each, at, reported) for each, reported in zip(states, found, strict=True)}


def _with_report(seen: BrokerFacts, reported: Mapping[str, _BrokerReport]) -> BrokerFacts:
    found = reported.get(seen.name)
    if found is None:
        return seen
    return replace(seen, state=found.state, clock_ahead=found.clock_ahead, may_write=found.may_write)


async def _group_facts(
    admin: _ReachableAdmin, only: str | None, left_out: list[str], not_there: list[tuple[str, str]]
) -> list[GroupHealthFacts]:
    names = [only] if only is not None else [each.name for each in await admin.groups.list()]
    if len(names) > _MAX_GROUPS:
        left_out.append(f"there are {len(names)} groups, and {_MAX_GROUPS} were looked at: name one with --group")

    async def view(name: str) -> GroupDescription | None:
        try:
            return await describe_settled_group(admin, name, is_known=only is None)
        except GroupNotFound as error:
            if only is not None:
                not_there.append((error.what, error.next_step))
            return None  # one of a list was deleted meanwhile

    first = [each for each in await gather_limited(view, names[:_MAX_GROUPS], limit=4) if each is not None]
    waits = await gather_limited(lambda view: _long_waits(admin, view), first, limit=4)
    behind = {view.group: queues for view, queues in zip(first, waits, strict=True)}
    if any(behind.values()):
        await asyncio.sleep(_BETWEEN_POLLS_S)
    return await gather_limited(lambda view: _complete_group(admin, view, behind[view.group]), first, limit=4)


async def _complete_group(
    admin: _ReachableAdmin, view: GroupDescription, behind: Mapping[Queue, timedelta]
) -> GroupHealthFacts:
    """Describe a group with lag once more, and add its dead letters."""
    still: Mapping[Queue, timedelta] = {}
    if behind:
        then = {each.queue: each.committed for each in view.queues}
        view = replace(await admin.groups.describe(view.group, view, is_known=True), findings=view.findings)
        same = {each.queue for each in view.queues if each.owner and then.get(each.queue) == each.committed}
        still = {queue: long for queue, long in behind.items() if queue in same}
    dead = await admin.dead_letters_of(view.group)
    if dead is None:
        return GroupHealthFacts(view, still)
    return GroupHealthFacts(view, still, dead.messages, dead.stored_at)


async def _long_waits(admin: Admin, view: GroupDescription) -> dict[Queue, timedelta]:
    """Return how long messages wait in queues with an owner, where that is long."""
    if not view.members:
        return {}
    waiting = [each for each in view.queues if each.owner and each.lag][:_MAX_STALLED_QUEUES]
    waits = await gather_limited(lambda each: _oldest_wait(admin, each.queue, each.committed or 0, view.at_ms), waiting)
    reported = zip(waiting, waits, strict=True)
    return {each.queue: long for each, long in reported if long is not None and long.total_seconds() >= _LONG_WAIT_S}


async def _oldest_wait(admin: Admin, queue: Queue, offset: int, now_ms: int) -> timedelta | None:
    try:
        message = await admin.messages.at(queue, offset)
    except SteelyardError:
        return None
    return None if message is None else timedelta(milliseconds=max(0, now_ms - message.stored_ms))
