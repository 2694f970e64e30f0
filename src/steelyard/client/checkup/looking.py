"""Looking at name servers and brokers one by one: its name, its port, who answers there, and what that tells.

Each look ends in time and raises nothing. Name servers are asked on lines of their own: a session would be content with
the first that answers, and say of the others nothing at all.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.client.checkup.facts import Dialling, Door, NameServerSeen, ServerKind
from steelyard.client.checkup.spoken import who_speaks
from steelyard.errors import SteelyardError
from steelyard.model import BrokerPlace
from steelyard.net.addresses import parse_address
from steelyard.net.probing import Speech, dial, look_up, speak
from steelyard.net.tls import Tls, tls_context
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import ClusterBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from steelyard.wire.signing import signed

if TYPE_CHECKING:
    from steelyard.client.connect import Connect

__all__ = ["dial_all", "look_at_name_servers"]

_ASK = encode_frame(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
_ASK_WEB = b"GET / HTTP/1.0\r\n\r\n"


async def look_at_name_servers(connect: "Connect", step_s: float) -> tuple[NameServerSeen, ...]:
    """Look at every name server that was given, all at once; each step of each may take so long."""
    context = connect.tls_context()

    def ask(code: int) -> bytes:
        command = Command(code)
        return encode_frame(command if connect.credentials is None else signed(command, connect.credentials))

    async def look(address: str) -> NameServerSeen:
        host, port = parse_address(address)
        ips, why = await look_up(host, port, step_s)
        if not ips:
            return NameServerSeen(address, no_ip=why)
        ip, dialled = await dial(ips, port, step_s)
        seen = NameServerSeen(address, ips, dialled=dialled)
        if dialled.door is not Door.OPEN:
            return seen
        said = await speak(ip, port, ask(RequestCode.GET_BROKER_CLUSTER_INFO), step_s, tls=context, host=host)
        seen = replace(seen, took_ms=said.took_ms)
        if said.why:
            return await _without_tls(seen, said, ip, port, step_s)
        if said.answer is None:
            return await _no_answer(seen, said, ip, port, step_s, is_encrypted=context is not None)
        if said.answer.code == ResponseCode.SUCCESS:
            return _told(seen, said.answer)
        other = await speak(ip, port, ask(RequestCode.GET_BROKER_RUNTIME_INFO), step_s, tls=context, host=host)
        is_broker = other.answer is not None and other.answer.code == ResponseCode.SUCCESS
        why = said.answer.remark or f"it answered {said.answer.code}"
        return replace(seen, kind=ServerKind.BROKER if is_broker else ServerKind.STRANGER, why=why)

    return tuple(await asyncio.gather(*map(look, connect.name_servers)))


def _told(seen: NameServerSeen, answer: Command) -> NameServerSeen:
    """Read the brokers that a name server told."""
    try:
        entries = decode_body(ClusterBody, answer.body).brokers
    except SteelyardError as error:
        return replace(seen, kind=ServerKind.STRANGER, why=error.what)
    places = {
        name: BrokerPlace(name, entries[name].cluster or "", dict(sorted(entries[name].addresses.items())))
        for name in sorted(entries)
    }
    return replace(seen, kind=ServerKind.NAME_SERVER, brokers=places)


async def _without_tls(seen: NameServerSeen, said: Speech, ip: str, port: int, step_s: float) -> NameServerSeen:
    """Find out why an encrypted line did not come up: a plain server, or one that is not trusted."""
    if await _takes_tls(ip, port, step_s):
        return replace(seen, kind=ServerKind.DISTRUSTED, why=said.why)
    plain = await speak(ip, port, _ASK, step_s)
    if plain.answer is not None:
        return replace(seen, kind=ServerKind.PLAIN)
    return replace(seen, kind=who_speaks(plain.heard, hung_up=plain.hung_up), why=said.why)


async def _no_answer(
    seen: NameServerSeen, said: Speech, ip: str, port: int, step_s: float, *, is_encrypted: bool
) -> NameServerSeen:
    """Find out who is there instead of a name server."""
    kind = who_speaks(said.heard, hung_up=said.hung_up)
    if is_encrypted and kind is ServerKind.HANGS_UP:
        # Of TLS 1.3 a server refuses who has no certificate only after the line is up.
        kind = ServerKind.WANTS_CERTIFICATE
    elif not is_encrypted and kind in (ServerKind.HANGS_UP, ServerKind.MUTE):
        # Some web servers wait for the end of a line that never comes.
        takes_tls, web = await asyncio.gather(_takes_tls(ip, port, step_s), speak(ip, port, _ASK_WEB, step_s))
        if takes_tls:
            kind = ServerKind.TLS
        elif kind is ServerKind.MUTE:
            said, kind = web, who_speaks(web.heard, hung_up=False)
    return replace(seen, kind=kind, why=said.heard[:40].decode("latin-1"))


async def _takes_tls(ip: str, port: int, step_s: float) -> bool:
    """Say whether an encrypted line comes up, whoever is at its other end."""
    believing = tls_context(Tls(verify=False))
    said = await speak(ip, port, _ASK, step_s, tls=believing)
    return not said.why


async def dial_all(addresses: Iterable[str], step_s: float) -> Mapping[str, Dialling]:
    """Dial some addresses, all at once."""

    async def one(address: str) -> Dialling:
        try:
            host, port = parse_address(address)
        except SteelyardError as error:
            return Dialling(Door.FAILED, 0, error.what)
        ips, why = await look_up(host, port, step_s)
        if not ips:
            return Dialling(Door.FAILED, 0, f"the name {host} has no address here ({why})")
        return (await dial(ips, port, step_s))[1]

    wanted = list(dict.fromkeys(addresses))
    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))
