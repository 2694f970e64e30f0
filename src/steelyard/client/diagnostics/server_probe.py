"""Probes name servers and brokers one by one: DNS, port, who answers there, and what it answers.

Each probe ends in time and raises nothing. Name servers are asked on connections of their own: a session would use the
first that answers, and report nothing of the others. Another server than a name server is identified by its first
bytes.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.client.diagnostics.facts import ConnectOutcome, ConnectProbe, NameServerFacts, ServerKind
from steelyard.errors import SteelyardError
from steelyard.model import BrokerAddresses
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

__all__ = ["identify_server", "probe_addresses", "probe_name_servers"]


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
        entries = decode_body(ClusterBody, answer.body).brokers
    except SteelyardError as error:
        return replace(seen, kind=ServerKind.STRANGER, why=error.what)
    places = {
        name: BrokerAddresses(name, entries[name].cluster or "", dict(sorted(entries[name].addresses.items())))
        for name in sorted(entries)
    }
    return replace(seen, kind=ServerKind.NAME_SERVER, brokers=places)


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
