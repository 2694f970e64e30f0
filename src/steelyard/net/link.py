"""A line of our own to a server: a command out, its answer back, by its number.

It is opened with the first question and again with the first after it was lost, and it stays open: a name server
takes a broker out of its routes when the line closes that registered it. What the other side asks is passed over.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from msgspec import structs

from steelyard.errors import CannotConnect, LineClosed, ProtocolError, SteelyardError, TimedOut
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter, encode_frame

__all__ = ["Link"]

_CONNECT_MS = 3_000
_OPAQUES = 1 << 31


class Link:
    """A line to one server. ``lost`` is called when it closes without our doing."""

    def __init__(self, host: str, port: int, *, lost: Callable[[], None] | None = None) -> None:
        self._host, self._port, self._lost = host, port, lost
        self._line: _Line | None = None
        self._opening = asyncio.Lock()
        self._opaque = 0

    @property
    def address(self) -> str:
        """Where the server is."""
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    async def ask(self, command: Command, *, timeout_ms: int) -> Command:
        """Send a request and return its answer, whatever it says; raise a TransportError if none comes."""
        line = await self._open()
        self._opaque = (self._opaque + 1) % _OPAQUES
        try:
            return await asyncio.wait_for(
                line.ask(structs.replace(command, opaque=self._opaque)), timeout=timeout_ms / 1000
            )
        except TimeoutError:
            line.waiting.pop(self._opaque, None)
            raise TimedOut(f"{self.address} did not answer request {command.code} in {timeout_ms} ms") from None

    def close(self) -> None:
        """Hang up; the next question opens the line again."""
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()

    async def _open(self) -> "_Line":
        async with self._opening:
            if self._line is None:
                loop = asyncio.get_running_loop()
                try:
                    made = loop.create_connection(lambda: _Line(self._gone), self._host, self._port)
                    _, line = await asyncio.wait_for(made, timeout=_CONNECT_MS / 1000)
                except TimeoutError:
                    raise CannotConnect(f"{self.address} did not answer in {_CONNECT_MS} ms") from None
                except (OSError, UnicodeError, OverflowError) as error:
                    why = (getattr(error, "strerror", None) or str(error)).lower()
                    raise CannotConnect(f"{self.address} cannot be reached ({why})") from None
                self._line = line
            return self._line

    def _gone(self, line: "_Line") -> None:
        error = LineClosed(f"{self.address} closed the line")
        for answer in line.waiting.values():
            if not answer.done():
                answer.set_exception(error)
        if self._line is line:
            self._line = None
            if self._lost is not None:
                self._lost()


class _Line(asyncio.Protocol):
    """One connection: its questions that wait for an answer, by their number."""

    def __init__(self, gone: "Callable[[_Line], None]") -> None:
        self._gone = gone
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self.waiting: dict[int, asyncio.Future[Command]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for command in self._splitter.feed(data):
                answer = self.waiting.pop(command.opaque, None) if command.is_answer else None
                if answer is not None and not answer.done():
                    answer.set_result(command)
        except ProtocolError:
            self.hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._gone(self)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def ask(self, command: Command) -> "asyncio.Future[Command]":
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        try:
            frame = encode_frame(command)
        except SteelyardError as error:
            answer.set_exception(error)
            return answer
        if self._transport is None or self._transport.is_closing():
            answer.set_exception(LineClosed("the line closed before the request was sent"))
            return answer
        self.waiting[command.opaque] = answer
        self._transport.write(frame)
        return answer
