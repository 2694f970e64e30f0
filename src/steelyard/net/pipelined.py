"""A line on which one thread has many requests under way: several in one write, and answers heard as they come.

    numbers = [line.say(request) for request in requests]
    line.flush(3_000)
    for answer in line.hear(3_000): ...        # by answer.opaque; in the order of the server, which may be any

Nothing is sent before `flush`, and nothing heard between two calls of `hear`: a thread that works in between finds what
came meanwhile with its next read. Reads are large, and a body is copied once, from the line's buffer.

Whoever has several lines waits for the first of them with `first_ready`. What a server asks of its own accord is
passed over. A line that raised is of no more use, and what was under way on it is unknown: close it.
"""

import select
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from steelyard.errors import LineClosed, ProtocolError, TimedOut
from steelyard.net.clock import steady_ms
from steelyard.net.dialled import Dialled
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.frames import command_at, encode_frame

if TYPE_CHECKING:
    import ssl

__all__ = ["PipelinedLine", "first_ready"]

_BUFFER_BYTES = 1 << 21
_OPAQUES = 1 << 31


class PipelinedLine(Dialled):
    """A connection to one server, for one thread at a time. Making it opens it; CannotConnect where that fails."""

    __slots__ = ("_buffer", "_end", "_opaque", "_start", "_unsent", "_view")

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        super().__init__(address, tls=tls, timeout_ms=timeout_ms)
        self._opaque = 0
        self._unsent: list[bytes] = []
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        """What of the buffer is not heard yet: less than a frame, after each `hear`."""

    def say(self, command: Command) -> int:
        """Put a request on the line, for the next `flush`; return the number that its answer will have."""
        self._opaque = opaque = (self._opaque + 1) % _OPAQUES
        self._unsent.append(encode_frame(structs.replace(command, opaque=opaque)))
        return opaque

    def flush(self, timeout_ms: int) -> None:
        """Send what was said since the last flush. Raises TimedOut and LineClosed."""
        if not self._unsent:
            return
        frames = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        self._unsent.clear()
        try:
            if timeout_ms != self._limit_ms:
                self._limit(timeout_ms)
            self._socket.sendall(frames)
        except OSError as error:
            self._check_broken(error)
            raise TimedOut(f"{self.address} did not take {len(frames)} bytes in {timeout_ms} ms") from None

    def hear(self, timeout_ms: int) -> list[Command]:
        """Wait until something comes, read once, and return the answers that are whole: none, if it was a part of one.

        Raises TimedOut if nothing came at all, and LineClosed.
        """
        try:
            if timeout_ms != self._limit_ms:
                self._limit(timeout_ms)
            count = self._socket.recv_into(self._view[self._end :])
            if not count:
                raise LineClosed(f"{self.address} closed the line")
            self._end += count
            return self._whole()
        except (OSError, ProtocolError) as error:
            self._check_broken(error)
            raise TimedOut(f"{self.address} said nothing for {timeout_ms} ms") from None

    def _whole(self) -> list[Command]:
        """Take the whole answers out of the buffer, and make room for the rest of one that is not whole."""
        self.used_ms = steady_ms()
        view, start, end = self._view, self._start, self._end
        heard: list[Command] = []
        while True:
            command, stop = command_at(view, start, end)
            if command is None:
                break
            start = stop
            if command.flag & RESPONSE:
                heard.append(command)
        if start == end:
            self._start = self._end = 0
            if len(view) > _BUFFER_BYTES:
                self._take_buffer(_BUFFER_BYTES)  # one was large; the next ones mostly are not
        elif stop > len(view):
            rest = bytes(view[start:end])
            if stop - start > len(view):
                self._take_buffer(stop - start)
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        else:
            self._start = start
        return heard

    def _take_buffer(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)

    def fileno(self) -> int:
        """Return the number of its socket."""
        return self._socket.fileno()

    def has_more(self) -> bool:
        """Say whether something has come that the system does not tell of: TLS keeps some of it."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0


def first_ready(lines: Sequence[PipelinedLine], timeout_ms: int) -> list[PipelinedLine]:
    """Wait until one of several lines can be heard, and return those that can; none when the time is over."""
    ready = [line for line in lines if line.has_more()]
    if ready:
        return ready
    watch = select.poll()
    numbered: dict[int, PipelinedLine] = {}
    for line in lines:
        numbered[number := line.fileno()] = line
        watch.register(number, select.POLLIN)
    return [numbered[number] for number, _ in watch.poll(max(0, timeout_ms))]
