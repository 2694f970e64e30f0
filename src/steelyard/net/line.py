"""A line of our own to a server, on the loop: commands out, commands in.

What is said within one turn of the loop leaves in one write: many small sends then cost one system call. What comes in
is handed on command by command; whoever has the line knows which question an answer belongs to. Errors of the system
end here: they become errors of ours, or the end of the line.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from steelyard.errors import ProtocolError
from steelyard.net.addresses import parse_address
from steelyard.net.forks import keep, let_go
from steelyard.net.reaching import reason, unreachable
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter, encode_frame

if TYPE_CHECKING:
    import ssl

__all__ = ["Line", "open_line"]

_Heard = Callable[["Line", Command], None]
_Lost = Callable[["Line", str], None]

_PAUSE_BYTES = 1 << 20
"""What may wait to be written before `is_full` says so."""


class Line(asyncio.Protocol):
    """One connection. ``heard`` takes what comes in; ``lost`` is called once, when it is closed by anybody."""

    __slots__ = (
        "_heard",
        "_is_writing",
        "_loop",
        "_lost",
        "_number",
        "_out",
        "_splitter",
        "_transport",
        "_why",
        "is_full",
    )

    def __init__(self, heard: _Heard, lost: _Lost) -> None:
        self._heard, self._lost = heard, lost
        self._loop = asyncio.get_running_loop()
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._is_writing = False
        self._number = -1
        self._why = "the server closed the line"
        self.is_full = False
        """Whether the server does not read what it is sent: wait before saying more."""

    @property
    def is_open(self) -> bool:
        """Whether something can be said on it."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def local_host(self) -> str:
        """The address that the server sees us at, as far as we can know."""
        name = None if self._transport is None else self._transport.get_extra_info("sockname")
        return str(name[0]) if name else "127.0.0.1"

    def say(self, command: Command) -> None:
        """Send a command with all others of this turn of the loop; one that cannot be written raises."""
        self._out.append(encode_frame(command))
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._write)

    def hang_up(self, why: str = "we closed the line") -> None:
        """Send what was said, and close the line."""
        if self._transport is not None and not self._transport.is_closing():
            self._write()
            self._why = why
            self._transport.close()

    def drop(self, why: str = "we gave the line up") -> None:
        """Close the line at once; what was said may be lost."""
        if self._transport is not None:
            self._why = why
            self._out.clear()
            self._transport.abort()

    def _write(self) -> None:
        self._is_writing = False
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    # -- what the loop says -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note that the line is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by birth
        self._transport.set_write_buffer_limits(high=_PAUSE_BYTES)
        found = self._transport.get_extra_info("socket")
        if found is not None:
            self._number = found.fileno()
            keep(self._number)

    def data_received(self, data: bytes) -> None:
        """Hand on what arrived, command by command."""
        heard = self._heard
        try:
            for command in self._splitter.feed(data):
                heard(self, command)
        except ProtocolError as error:
            self.drop(f"it does not speak the protocol: {error}")

    def pause_writing(self) -> None:
        """Take note that the server does not read."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Take note that it reads again."""
        self.is_full = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the line is gone."""
        if exc is not None:
            self._why = f"the line broke ({reason(exc)})"
        self._transport = None
        let_go(self._number)
        self._out.clear()
        self._lost(self, self._why)


async def open_line(
    address: str, heard: _Heard, lost: _Lost, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000
) -> Line:
    """Open a line; raises CannotConnect."""
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            # Awaited right here: given up at any moment, it closes what it has opened.
            _, line = await loop.create_connection(
                lambda: Line(heard, lost), host, port, ssl=tls, server_hostname=host if tls is not None else None
            )
    except Exception as error:  # whatever it is, nobody is left waiting for the line
        raise unreachable(address, timeout_ms, error) from None
    return line
