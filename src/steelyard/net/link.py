"""A line of our own to a server: a command out, its answer back, by its number.

It is opened with the first question and again with the first after it was lost, and it stays open: a name server
takes a broker out of its routes when the line closes that registered it. What the other side asks is passed over.
"""

import asyncio
from collections.abc import Callable

from msgspec import structs

from steelyard.errors import LineClosed, TimedOut
from steelyard.net.addresses import parse_address
from steelyard.net.line import Line, open_line
from steelyard.wire.command import Command

__all__ = ["Link"]

_OPAQUES = 1 << 31


class Link:
    """A line to one server. ``lost`` is called when it closes without our doing."""

    def __init__(self, address: str, *, lost: Callable[[], None] | None = None) -> None:
        parse_address(address)  # a wrong one is told now, and not with every question
        self.address = address
        """Where the server is."""
        self._lost = lost
        self._line: Line | None = None
        self._opening = asyncio.Lock()
        self._opaque = 0
        self._waiting: dict[int, tuple[Line, asyncio.Future[Command]]] = {}
        """Questions without an answer, each with its line: an old line may end after a new one was opened."""

    async def ask(self, command: Command, *, timeout_ms: int) -> Command:
        """Send a request and return its answer, whatever it says; raise a TransportError if none comes."""
        line = await self._open()
        self._opaque = opaque = (self._opaque + 1) % _OPAQUES
        line.say(structs.replace(command, opaque=opaque))
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = line, answer
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            raise TimedOut(f"{self.address} did not answer request {command.code} in {timeout_ms} ms") from None
        finally:
            self._waiting.pop(opaque, None)

    def close(self) -> None:
        """Hang up; the next question opens the line again."""
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()

    async def _open(self) -> Line:
        async with self._opening:
            if self._line is None:
                line = await open_line(self.address, self._heard, self._gone)
                if not line.is_open:
                    raise LineClosed(f"{self.address} closed the line at once")
                self._line = line
            return self._line

    def _heard(self, line: Line, command: Command) -> None:
        del line
        asked = self._waiting.get(command.opaque) if command.is_answer else None
        if asked is not None and not asked[1].done():
            asked[1].set_result(command)

    def _gone(self, line: Line, why: str) -> None:
        for asked_on, answer in self._waiting.values():
            if asked_on is line and not answer.done():
                answer.set_exception(LineClosed(f"{self.address}: {why}"))
        if self._line is line:
            self._line = None
            if self._lost is not None:
                self._lost()
