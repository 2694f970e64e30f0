"""A look at an address from outside, for whoever wonders why it does not work: every step on its own, each in time.

A client only needs to know that a line did not come up. Here a name is looked up, the port is dialled and a question is
asked one after the other, and what came of each is told as a value: nothing is raised. Names are looked up in a thread
that nobody waits for at the end, because a resolver may take half a minute to give up.
"""

import asyncio
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from steelyard.errors import ProtocolError
from steelyard.net.clock import steady_ms
from steelyard.net.reaching import reason
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter

if TYPE_CHECKING:
    import ssl

__all__ = ["Dialling", "Door", "Speech", "dial", "look_up", "speak"]

_READ_BYTES = 65_536
_KEPT_BYTES = 256
_MOST_ADDRESSES = 4


class Door(Enum):
    """What came of dialling."""

    OPEN = "open"
    REFUSED = "refused"
    """The host is there, and nobody listens at the port."""
    SILENT = "silent"
    """Nothing came back: the host is off, or something on the way swallows it."""
    NO_WAY = "no way"
    """This machine knows no way to that network."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Dialling:
    """What came of dialling an address."""

    door: Door
    took_ms: int
    why: str = ""
    """What the system said, if it is not open."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What came of asking: an answer of the protocol, or what was heard instead."""

    answer: Command | None = None
    heard: bytes = b""
    """The first bytes of what is no answer."""
    hung_up: bool = False
    """Whether the other end closed the line."""
    why: str = ""
    """Why nothing could be asked at all, such as a certificate that is not trusted."""
    took_ms: int = 0


async def look_up(host: str, port: int, timeout_s: float) -> tuple[tuple[str, ...], str]:
    """Return the addresses of a host, and if there are none why."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[tuple[tuple[str, ...], str]] = loop.create_future()

    def tell(addresses: tuple[str, ...], why: str) -> None:
        if not found.done():
            found.set_result((addresses, why))

    def look() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            told = (tuple(dict.fromkeys(str(row[4][0]) for row in rows)), "")
        except (OSError, UnicodeError) as error:
            told = ((), reason(error))
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(tell, *told)

    threading.Thread(target=look, name="steelyard-look-up", daemon=True).start()
    try:
        async with asyncio.timeout(timeout_s):
            return await found
    except TimeoutError:
        return (), f"no answer in {timeout_s:g} s"


async def dial(addresses: tuple[str, ...], port: int, timeout_s: float) -> tuple[str, Dialling]:
    """Dial the addresses of a host, all at once; return the first that opens, or the first with what came of it."""
    wanted = addresses[:_MOST_ADDRESSES]
    found = await asyncio.gather(*(_dial(address, port, timeout_s) for address in wanted))
    told = list(zip(wanted, found, strict=True)) or [("", Dialling(Door.FAILED, 0, "there is no address"))]
    return next((each for each in told if each[1].door is Door.OPEN), told[0])


async def _dial(address: str, port: int, timeout_s: float) -> Dialling:
    began_ms = steady_ms()
    door, why = Door.OPEN, ""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
        await _hang_up(writer)
    except TimeoutError:
        door, why = Door.SILENT, f"no answer in {timeout_s:g} s"
    except ConnectionRefusedError as error:
        door, why = Door.REFUSED, reason(error)
    except OSError as error:
        unreachable = error.errno in (101, 113, 51, 65)
        door, why = Door.NO_WAY if unreachable else Door.FAILED, reason(error)
    return Dialling(door, steady_ms() - began_ms, why)


async def speak(
    address: str,
    port: int,
    words: bytes,
    timeout_s: float,
    *,
    tls: "ssl.SSLContext | None" = None,
    host: str | None = None,
) -> Speech:
    """Say something on a line of its own, and return what came, whatever that is. ``host`` is whom TLS expects."""
    began_ms = steady_ms()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                address, port, ssl=tls, server_hostname=(host or address) if tls else None
            )
    except (OSError, TimeoutError) as error:
        return Speech(why=getattr(error, "verify_message", None) or reason(error), took_ms=steady_ms() - began_ms)
    heard = _Heard()
    try:
        writer.write(words)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await heard.take_from(reader)
    finally:
        await _hang_up(writer)
    return Speech(heard.answer, heard.first, heard.hung_up, took_ms=steady_ms() - began_ms)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


class _Heard:
    """What comes on a line, up to the first answer or the first bytes that are none."""

    def __init__(self) -> None:
        self.answer: Command | None = None
        self.first = b""
        self.hung_up = False
        self._splitter = Splitter()

    async def take_from(self, reader: asyncio.StreamReader) -> None:
        while self.answer is None:
            try:
                arrived = await reader.read(_READ_BYTES)
            except OSError:
                arrived = b""
            self.first = (self.first + arrived)[:_KEPT_BYTES]
            if not arrived:
                self.hung_up = True
                return
            try:
                self.answer = next((each for each in self._splitter.feed(arrived) if each.is_answer), None)
            except ProtocolError:
                return
