"""Diagnoses an address step by step: resolve the name, connect, send a request, each with a timeout.

The outcome of each step is a value; nothing is raised. Names are resolved in a daemon thread, because a resolver may
take half a minute to give up.
"""

import asyncio
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.diagnostics.servers import ConnectOutcome, ConnectProbe
from steelyard.errors import ProtocolError
from steelyard.net.clock import steady_ms
from steelyard.net.connect_errors import describe_error
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder

if TYPE_CHECKING:
    import ssl

_READ_BYTES = 65_536
_MAX_FIRST_BYTES = 256
_MAX_ADDRESSES = 4


@dataclass(frozen=True, slots=True)
class RequestProbe:
    """The outcome of a request: a response of the protocol, or what arrived instead."""

    response: Command | None = None
    first_bytes: bytes = b""
    """The first bytes of what is not a response."""
    closed_by_peer: bool = False
    """Whether the other end closed the connection."""
    why: str = ""
    """Why no request could be sent, such as a certificate that is not trusted."""
    took_ms: int = 0


async def resolve_host(host: str, port: int, timeout_s: float) -> tuple[tuple[str, ...], str]:
    """Return the addresses of a host, or none and the reason."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[tuple[tuple[str, ...], str]] = loop.create_future()

    def set_result(addresses: tuple[str, ...], why: str) -> None:
        if not found.done():
            found.set_result((addresses, why))

    def resolve() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            result = (tuple(dict.fromkeys(str(row[4][0]) for row in rows)), "")
        except (OSError, UnicodeError) as error:
            result = ((), describe_error(error))
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(set_result, *result)

    threading.Thread(target=resolve, name="steelyard-resolve", daemon=True).start()
    try:
        async with asyncio.timeout(timeout_s):
            return await found
    except TimeoutError:
        return (), f"no answer in {timeout_s:g} s"


async def probe_connect(addresses: tuple[str, ...], port: int, timeout_s: float) -> tuple[str, ConnectProbe]:
    """Connect to the addresses of a host at once; return the first that opens, or the first with its outcome."""
    wanted = addresses[:_MAX_ADDRESSES]
    found = await asyncio.gather(*(_probe_address(address, port, timeout_s) for address in wanted))
    probes = list(zip(wanted, found, strict=True)) or [
        ("", ConnectProbe(ConnectOutcome.FAILED, 0, "there is no address"))
    ]
    return next((each for each in probes if each[1].outcome is ConnectOutcome.OPEN), probes[0])


async def _probe_address(address: str, port: int, timeout_s: float) -> ConnectProbe:
    began_ms = steady_ms()
    outcome, why = ConnectOutcome.OPEN, ""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
        await _abort(writer)
    except TimeoutError:
        outcome, why = ConnectOutcome.TIMED_OUT, f"no answer in {timeout_s:g} s"
    except ConnectionRefusedError as error:
        outcome, why = ConnectOutcome.REFUSED, describe_error(error)
    except OSError as error:
        unreachable = error.errno in (101, 113, 51, 65)
        outcome, why = ConnectOutcome.UNREACHABLE if unreachable else ConnectOutcome.FAILED, describe_error(error)
    return ConnectProbe(outcome, steady_ms() - began_ms, why)


async def probe_request(
    address: str,
    port: int,
    request: bytes,
    timeout_s: float,
    *,
    tls: "ssl.SSLContext | None" = None,
    host: str | None = None,
) -> RequestProbe:
    """Send a request on a new connection, and return what arrived. ``host`` is the name that TLS expects."""
    began_ms = steady_ms()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                address, port, ssl=tls, server_hostname=(host or address) if tls else None
            )
    except (OSError, TimeoutError) as error:
        return RequestProbe(
            why=getattr(error, "verify_message", None) or describe_error(error), took_ms=steady_ms() - began_ms
        )
    received = _ResponseReader()
    try:
        writer.write(request)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await received.read_from(reader)
    finally:
        await _abort(writer)
    return RequestProbe(
        received.response, received.first_bytes, received.closed_by_peer, took_ms=steady_ms() - began_ms
    )


async def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


class _ResponseReader:
    """Reads a connection up to the first response, or the first bytes that are none."""

    def __init__(self) -> None:
        self.response: Command | None = None
        self.first_bytes = b""
        self.closed_by_peer = False
        self._decoder = FrameDecoder()

    async def read_from(self, reader: asyncio.StreamReader) -> None:
        while self.response is None:
            try:
                arrived = await reader.read(_READ_BYTES)
            except OSError:
                arrived = b""
            self.first_bytes = (self.first_bytes + arrived)[:_MAX_FIRST_BYTES]
            if not arrived:
                self.closed_by_peer = True
                return
            try:
                self.response = next((each for each in self._decoder.feed(arrived) if each.is_response), None)
            except ProtocolError:
                return
