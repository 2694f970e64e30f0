"""Facts of a cluster from outside, server by server, without a judgement (the rules: steelyard.diagnostics).

Nothing here hangs or raises. Name servers and brokers' ports are probed one by one, on connections of their own: a
session would use the first that answers, and report nothing of the others. Then an admin client asks for topics and
groups, only through servers that can be reached: one that never answers would delay every request. What is not known in
time is left out, and listed as such.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from steelyard.client.admin import Admin
from steelyard.client.admin.admin_session import gather_limited
from steelyard.client.admin.brokers import BrokerStatus
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.topics import TopicDescription, TopicSummary
from steelyard.diagnostics import thresholds
from steelyard.diagnostics.group import is_transient
from steelyard.diagnostics.servers import BrokerFacts, ConnectOutcome, ConnectProbe, NameServerFacts, ServerKind
from steelyard.diagnostics.topic import TopicFacts
from steelyard.errors import GroupNotFound, SteelyardError
from steelyard.model import Permission
from steelyard.model.reserved_names import DLQ_PREFIX
from steelyard.net.addresses import parse_address
from steelyard.net.connection_probe import RequestProbe, probe_connect, probe_request, resolve_host
from steelyard.net.tls import Tls, tls_context
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.topics import ClusterBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from steelyard.wire.signing import sign_command

if TYPE_CHECKING:
    from steelyard.client.config import ClientConfig


@dataclass(frozen=True, slots=True)
class GroupHealthFacts:
    """A group: its description, and its dead letters."""

    view: GroupDescription
    dead: int = 0
    died_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All facts. ``left_out`` says what could not be collected."""

    name_servers: tuple[NameServerFacts, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()
    topics: tuple[TopicFacts, ...] | None = None
    """Those of users; None if they could not be listed."""
    groups: tuple[GroupHealthFacts, ...] = ()
    not_there: tuple[tuple[str, str], ...] = ()
    """What was asked for and does not exist: a sentence, and the next step."""
    left_out: tuple[str, ...] = ()
    at: datetime


_ALERT = b"\x15\x03"
_SETTINGS = 4
_GO_AWAY = 7


def identify_server(received: bytes, *, hung_up: bool) -> ServerKind:
    r"""Return the kind of server that answers like this.

    >>> identify_server(b"HTTP/1.1 400 Bad Request\r\n", hung_up=True).value
    'an HTTP server'
    >>> identify_server(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", hung_up=False).value
    'an HTTP/2 or gRPC server'
    >>> identify_server(b"", hung_up=True).value
    'a server that hangs up'
    """
    if not received:
        return ServerKind.HANGS_UP if hung_up else ServerKind.MUTE
    if received.startswith(b"HTTP/") or received.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return ServerKind.HTTP
    if received.startswith(_ALERT):
        return ServerKind.TLS
    # An HTTP/2 frame: the first one is SETTINGS, or GOAWAY for a client without a preface.
    if len(received) >= 9 and received[3] in (_SETTINGS, _GO_AWAY) and received[5:9] == bytes(4):
        return ServerKind.HTTP2
    return ServerKind.UNKNOWN


_PROBE_FRAME = encode_frame(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
_PROBE_HTTP = b"GET / HTTP/1.0\r\n\r\n"


async def probe_name_servers(config: "ClientConfig", step_s: float) -> tuple[NameServerFacts, ...]:
    """Probe every name server, all at once; each step of each may take ``step_s``."""
    context = config.tls_context()

    def ask(code: int) -> bytes:
        command = Command(code)
        return encode_frame(command if config.credentials is None else sign_command(command, config.credentials))

    async def probe(address: str) -> NameServerFacts:
        host, port = parse_address(address)
        ips, why = await resolve_host(host, port, step_s)
        if not ips:
            return NameServerFacts(address, no_ip=why)
        ip, dialled = await probe_connect(ips, port, step_s)
        seen = NameServerFacts(address, ips, dialled=dialled)
        if dialled.outcome is not ConnectOutcome.OPEN:
            return seen
        probed = await probe_request(ip, port, ask(RequestCode.GET_BROKER_CLUSTER_INFO), step_s, tls=context, host=host)
        seen = replace(seen, took_ms=probed.took_ms)
        if probed.why:
            return await _without_tls(seen, probed, ip, port, step_s)
        if probed.response is None:
            return await _no_answer(seen, probed, ip, port, step_s, is_encrypted=context is not None)
        if probed.response.code == ResponseCode.SUCCESS:
            return _with_brokers(seen, probed.response)
        other = await probe_request(ip, port, ask(RequestCode.GET_BROKER_RUNTIME_INFO), step_s, tls=context, host=host)
        is_broker = other.response is not None and other.response.code == ResponseCode.SUCCESS
        why = probed.response.remark or f"it answered {probed.response.code}"
        return replace(seen, kind=ServerKind.BROKER if is_broker else ServerKind.STRANGER, why=why)

    return tuple(await asyncio.gather(*map(probe, config.name_servers)))


def _with_brokers(seen: NameServerFacts, answer: Command) -> NameServerFacts:
    """Add the brokers that a name server listed."""
    try:
        return replace(seen, kind=ServerKind.NAME_SERVER, brokers=decode_body(ClusterBody, answer.body).places())
    except SteelyardError as error:
        return replace(seen, kind=ServerKind.STRANGER, why=error.what)


async def _without_tls(
    seen: NameServerFacts, probed: RequestProbe, ip: str, port: int, step_s: float
) -> NameServerFacts:
    """Find out why TLS failed: a plain server, or one that is not trusted."""
    if await _accepts_tls(ip, port, step_s):
        return replace(seen, kind=ServerKind.DISTRUSTED, why=probed.why)
    plain = await probe_request(ip, port, _PROBE_FRAME, step_s)
    if plain.response is not None:
        return replace(seen, kind=ServerKind.PLAIN)
    return replace(seen, kind=identify_server(plain.first_bytes, hung_up=plain.closed_by_peer), why=probed.why)


async def _no_answer(
    seen: NameServerFacts, probed: RequestProbe, ip: str, port: int, step_s: float, *, is_encrypted: bool
) -> NameServerFacts:
    """Find out what answers instead of a name server."""
    kind = identify_server(probed.first_bytes, hung_up=probed.closed_by_peer)
    if is_encrypted and kind is ServerKind.HANGS_UP:
        # With TLS 1.3 a server rejects a missing client certificate only after the handshake.
        kind = ServerKind.WANTS_CERTIFICATE
    elif not is_encrypted and kind in (ServerKind.HANGS_UP, ServerKind.MUTE):
        # Some web servers wait for the end of a text line, which never comes.
        takes_tls, web = await asyncio.gather(
            _accepts_tls(ip, port, step_s), probe_request(ip, port, _PROBE_HTTP, step_s)
        )
        if takes_tls:
            kind = ServerKind.TLS
        elif kind is ServerKind.MUTE:
            probed, kind = web, identify_server(web.first_bytes, hung_up=False)
    return replace(seen, kind=kind, why=probed.first_bytes[:40].decode("latin-1"))


async def _accepts_tls(ip: str, port: int, step_s: float) -> bool:
    """Say whether a TLS connection can be opened, without verifying the certificate."""
    unverified = tls_context(Tls(verify=False))
    probed = await probe_request(ip, port, _PROBE_FRAME, step_s, tls=unverified)
    return not probed.why


async def probe_addresses(addresses: Iterable[str], step_s: float) -> Mapping[str, ConnectProbe]:
    """Probe addresses, all at once."""

    async def probe(address: str) -> ConnectProbe:
        try:
            host, port = parse_address(address)
        except SteelyardError as error:
            return ConnectProbe(ConnectOutcome.FAILED, 0, error.what)
        ips, why = await resolve_host(host, port, step_s)
        if not ips:
            return ConnectProbe(ConnectOutcome.FAILED, 0, f"the name {host} has no address here ({why})")
        return (await probe_connect(ips, port, step_s))[1]

    wanted = list(dict.fromkeys(addresses))
    return dict(zip(wanted, await asyncio.gather(*map(probe, wanted)), strict=True))


async def describe_settled_group(
    admin: Admin,
    name: str,
    earlier: GroupDescription | None = None,
    *,
    is_known: bool = False,
    settled_s: float = thresholds.SETTLED_S,
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
_MAX_GROUPS = 100
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
    brokers, topics, groups = await asyncio.gather(
        _ask_brokers(admin, seen.brokers),
        _within_timeout(admin.topics.list(), "topics", left_out),
        _within_timeout(_group_facts(admin, group, left_out, not_there), "groups", left_out),
    )
    return replace(
        seen,
        brokers=brokers,
        topics=None if topics is None else tuple(map(_topic_facts, topics)),
        groups=tuple(groups or ()),
        not_there=tuple(not_there),
        left_out=tuple(left_out),
    )


async def _within_timeout(work: Awaitable[T], what: str, left_out: list[str]) -> T | None:
    try:
        async with asyncio.timeout(_PART_S):
            return await work
    except SteelyardError as error:
        left_out.append(f"{what} could not be described: {error.what}")
    except TimeoutError:
        left_out.append(f"{what} could not be described in {_PART_S:g} s")
    return None


async def _probe_brokers(name_servers: Sequence[NameServerFacts], step_s: float) -> tuple[BrokerFacts, ...]:
    """Probe every address of every broker that a name server lists."""
    reported: dict[str, dict[str, None]] = {}
    for seen in name_servers:
        for name, place in (seen.brokers or {}).items():
            reported.setdefault(name, {}).update(dict.fromkeys(place.addresses.values()))
    found = await probe_addresses((address for addresses in reported.values() for address in addresses), step_s)
    return tuple(
        BrokerFacts(name=name, dialled={each: found[each] for each in reported[name]}, is_reported=False)
        for name in sorted(reported)
    )


def _topic_facts(topic: TopicSummary) -> TopicFacts:
    """Return what the rules need of a topic."""
    may_read, may_write = (bool(topic.permission & each) for each in (Permission.READ, Permission.WRITE))
    return TopicFacts(
        name=topic.name, brokers=len(topic.brokers), readable=topic.queues, may_read=may_read, may_write=may_write
    )


def broker_facts(state: BrokerStatus, known: BrokerFacts | None = None) -> BrokerFacts:
    """Return what the rules need of a broker's status; ``known`` is what was found out before."""
    return replace(
        known or BrokerFacts(name=state.name),
        problem=state.problem,
        is_reported=True,
        has_master=0 in state.addresses,
        version=state.version or "",
        disk_used=state.disk_used,
        refusal=None if state.reports is None else state.reports.refusal,
        loss=None if state.reports is None else state.reports.loss,
        answer_ms=state.took_ms,
    )


async def _ask_brokers(admin: Admin, seen: Sequence[BrokerFacts]) -> tuple[BrokerFacts, ...]:
    """Add the status of brokers; a silent one whose port is open has a status that says so."""
    began = datetime.now(UTC)
    try:
        async with asyncio.timeout(2 * _ANSWER_S):
            states = await admin.brokers.list()
    except (TimeoutError, SteelyardError) as error:
        why = error.what if isinstance(error, SteelyardError) else f"no answer in {2 * _ANSWER_S:g} s"
        silent = [each for each in seen if each.is_reachable]
        states = [BrokerStatus(each.name, "", {0: next(iter(each.dialled))}, problem=why) for each in silent]
    at, by_name = began + (datetime.now(UTC) - began) / 2, {state.name: state for state in states}

    async def complete(facts: BrokerFacts) -> BrokerFacts:
        state = by_name.get(facts.name)
        if state is None:
            return facts
        ahead_s, permission = None, ""
        if state.started_at is not None and state.up is not None:
            # It reports whole seconds, rounded down.
            ahead_s = (state.started_at + state.up + timedelta(seconds=0.5) - at).total_seconds()
        if state.problem is None:  # otherwise it would be waited for once more
            with suppress(TimeoutError, SteelyardError):
                async with asyncio.timeout(_ANSWER_S):
                    permission = (await admin.brokers.config(state.name)).get("brokerPermission", "")
        may_write = bool(int(permission) & _WRITES) if permission.isdigit() else None
        return replace(broker_facts(state, facts), clock_ahead_s=ahead_s, may_write=may_write)

    return tuple(await gather_limited(complete, seen))


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

    async def with_dead_letters(seen: GroupDescription) -> GroupHealthFacts:
        dead = await admin.dead_letters_of(seen.group)
        return GroupHealthFacts(seen) if dead is None else GroupHealthFacts(seen, dead.messages, dead.stored_at)

    found = [each for each in await gather_limited(view, names[:_MAX_GROUPS], limit=4) if each is not None]
    return await gather_limited(with_dead_letters, found, limit=4)
