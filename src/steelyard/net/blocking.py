"""A line that one thread has for itself: it sends a request and waits for the answer, without an event loop.

A hop from thread to thread costs more than the whole send, so a thread that waits anyway owns its socket. One request
is under way at a time. What a server asks of its own accord is passed over: it says such things on the line that has
the heartbeats.

A line whose answer did not come in time is of no more use: the answer may come while another is awaited. Close it.
"""

from typing import TYPE_CHECKING

from msgspec import structs

from steelyard.errors import LineClosed, ProtocolError, TimedOut
from steelyard.net.clock import steady_ms
from steelyard.net.dialled import Dialled
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.frames import Splitter, encode_frame, only_command

if TYPE_CHECKING:
    import ssl

__all__ = ["BlockingLine"]

_READ_BYTES = 65_536
_OPAQUES = 1 << 31


class BlockingLine(Dialled):
    """A connection to one server, for one thread at a time. Making it opens it; CannotConnect where that fails."""

    __slots__ = ("_opaque", "_splitter")

    def __init__(self, address: str, *, tls: "ssl.SSLContext | None" = None, timeout_ms: int = 3_000) -> None:
        super().__init__(address, tls=tls, timeout_ms=timeout_ms)
        self._opaque = 0
        self._splitter = Splitter()

    def ask(self, command: Command, timeout_ms: int) -> Command:
        """Send a request, whose number is set here, and return its answer, whatever it says.

        Raises TimedOut and LineClosed; the line is of no more use then.
        """
        began_ms = steady_ms()
        self._opaque = opaque = (self._opaque + 1) % _OPAQUES
        frame = encode_frame(structs.replace(command, opaque=opaque))
        left_ms = timeout_ms
        try:
            while left_ms > 0:
                if left_ms != self._limit_ms:
                    self._limit(left_ms)
                if frame:
                    self._socket.sendall(frame)
                    frame = b""
                arrived = self._socket.recv(_READ_BYTES)
                if not arrived:
                    raise LineClosed(f"{self.address} closed the line")
                whole = None if self._splitter.held_bytes else only_command(arrived)
                for answer in self._splitter.feed(arrived) if whole is None else (whole,):
                    if answer.opaque == opaque and answer.flag & RESPONSE:
                        self.used_ms = began_ms
                        return answer
                left_ms = began_ms + timeout_ms - steady_ms()
        except (OSError, ProtocolError) as error:
            self._check_broken(error)
        raise TimedOut(f"{self.address} did not answer request {command.code} in {timeout_ms} ms")

    def tell(self, command: Command, timeout_ms: int) -> None:
        """Send a command that wants no answer."""
        frame = encode_frame(command)
        try:
            self._limit(timeout_ms)
            self._socket.sendall(frame)
        except OSError as error:
            self._check_broken(error)
            raise TimedOut(f"{self.address} did not take {len(frame)} bytes in {timeout_ms} ms") from None
        self.used_ms = steady_ms()
