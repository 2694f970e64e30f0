"""One line of a server: bytes in, commands to the switchboard; answers joined, bytes out.

The rule of speed: one read, one look at the clock, one socket write. The rule of peace: what is ready for a peer that
does not read it has an end. Beyond the first mark nothing more is read from the peer, and commands that have arrived
already wait undecoded; beyond the last one the line is given up. The rule of turns: what one read brought may cost a
turn (``turn_ms``). What is left then waits for the next one, behind everybody else, and meanwhile nothing more is read.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from steelyard.errors import ProtocolError
from steelyard.net.limits import LineLimits
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter, encode_frame, encode_parts
from steelyard.wire.peers import Peer

if TYPE_CHECKING:
    from steelyard.net.switchboard import Switchboard

__all__ = ["Channel"]

# A read as large as this says that more has arrived already. uvloop would go on with the same line for up to 32 reads
# of 256 kB, and everybody else, members that ask for a route among them, would wait a tenth of a second for their turn.
_GREEDY_BYTES = 65_536

# Pieces smaller than this on average are cheaper to copy together than to be written as they are.
_PIECE_BYTES = 2_048


class Channel(asyncio.Protocol):
    """One line that somebody opened to us."""

    __slots__ = (
        "_board",
        "_closing_ms",
        "_half_ms",
        "_handed_bytes",
        "_is_full",
        "_is_held",
        "_is_waiting",
        "_limits",
        "_out",
        "_owed_bytes",
        "_splitter",
        "_stalled_ms",
        "_transport",
        "half_bytes",
        "heard_ms",
        "is_queued",
        "peer",
        "ready_bytes",
    )

    peer: Peer

    def __init__(self, board: "Switchboard", limits: LineLimits) -> None:
        self._board, self._limits = board, limits
        self._transport: asyncio.Transport | None = None
        self._splitter = Splitter()
        self._out: list[bytes | memoryview] = []
        self.ready_bytes = 0
        """What is ready and not handed to the transport yet."""
        self.half_bytes = 0
        """What has arrived of a frame that is not whole."""
        self.is_queued = False
        """Whether somebody will call `write` before the loop turns."""
        self.heard_ms = 0
        """When something was read or written last."""
        self._half_ms: int | None = None
        self._closing_ms: int | None = None
        self._is_full = self._is_held = self._is_waiting = False
        self._handed_bytes = self._owed_bytes = self._stalled_ms = 0

    # -- what the loop says -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of a new line; the switchboard may refuse it."""
        self._transport = line = cast("asyncio.Transport", transport)  # uvloop's is none by birth
        line.set_write_buffer_limits(high=self._limits.pause_bytes)
        host, port = (line.get_extra_info("peername") or ("0.0.0.0", 0))[:2]
        self._board.opened(self, host.partition("%")[0], port)

    def data_received(self, data: bytes) -> None:
        """Take what arrived: hand on each command, then write all answers at once."""
        board = self._board
        now_ms = self.heard_ms = board.clock()
        board.received_bytes += len(data)
        if self._closing_ms is not None:
            return
        self.is_queued = True
        splitter, mark, elapsed_ns = self._splitter, self._limits.pause_bytes, board.elapsed_ns
        end_ns = elapsed_ns() + board.turn_ns
        try:
            for command in splitter.feed(data):
                self._half_ms = None
                board.take(command, self.peer, now_ms)
                if self.ready_bytes > mark or (elapsed_ns() >= end_ns and splitter.held_bytes):
                    self._is_held = True
                    break
            else:
                self._is_held = False
        except ProtocolError as error:
            board.settle(now_ms)
            self.close(f"it does not speak the protocol: {error}")
            return
        board.settle(now_ms)
        self._note_half(splitter.held_bytes, now_ms)
        self.write()
        if self._is_held:
            self._wait()
        elif len(data) >= _GREEDY_BYTES:
            self._give_way()

    def pause_writing(self) -> None:
        """Read no more from a peer that does not read what it is sent."""
        self._is_full = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on reading, first of all what has arrived already."""
        self._is_full = False
        if self._is_held:
            self._wait()
        else:
            self._read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the line is gone, whoever closed it."""
        del exc
        self._note_half(0, 0)
        self._transport = None
        self._out.clear()
        self._board.lost(self)

    def _give_way(self) -> None:
        """Read on once the other lines had their turn."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._board.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._is_blocked and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wait(self) -> None:
        """Wait for the next turn with what is left of the last read, and read nothing more before."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.pause_reading()
        if not self._is_full and not self._is_waiting:
            self._is_waiting = True
            self._board.wait_for_turn(self)

    def take_turn(self) -> None:
        """Go on with what waits."""
        self._is_waiting = False
        if self._is_held and not self._is_full and self._transport is not None:
            self.data_received(b"")
            self._read_on()

    def _note_half(self, held_bytes: int, now_ms: int) -> None:
        more_bytes, self.half_bytes = held_bytes - self.half_bytes, held_bytes
        if more_bytes:
            self._board.note_halves(more_bytes)
        if not held_bytes:
            self._half_ms = None
        elif self._half_ms is None:
            self._half_ms = now_ms

    # -- what the switchboard says ------------------------------------------------------------------------------------

    def add(self, command: Command) -> None:
        """Make a command ready; it leaves with the next `write`. One that cannot be written raises."""
        if command.parts:
            pieces = encode_parts(command)
            self._out += pieces
            self.ready_bytes += sum(map(len, pieces))
        else:
            frame = encode_frame(command)
            self._out.append(frame)
            self.ready_bytes += len(frame)
        if self._is_full or self.ready_bytes > self._limits.pause_bytes:
            backlog = self.backlog_bytes
            if backlog > self._limits.backlog_bytes:
                self.give_up(f"it has not read {backlog} bytes")

    @property
    def backlog_bytes(self) -> int:
        """What the peer has not read yet, as far as we can know."""
        return self.ready_bytes + (0 if self._transport is None else self._transport.get_write_buffer_size())

    @property
    def is_open(self) -> bool:
        """Whether answers can still be sent."""
        return self._transport is not None and self._closing_ms is None

    def write(self) -> None:
        """Hand all that is ready to the transport."""
        self.is_queued = False
        out, size = self._out, self.ready_bytes
        if not out:
            return
        self._out, self.ready_bytes = [], 0
        if self._transport is None or self._transport.is_closing():
            return
        self._handed_bytes += size
        self.heard_ms = self._board.note_written(size)
        if len(out) == 1:
            self._transport.write(out[0])
        elif size < len(out) * _PIECE_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
            if not self._is_full and self._transport.get_write_buffer_size() > self._limits.pause_bytes:
                # The asyncio of Python 3.12 and 3.13, in their first releases, forgets to look whether too much waits
                # (CVE-2024-12254). It looks when it is told how much that is.
                self._transport.set_write_buffer_limits(high=self._limits.pause_bytes)

    def close(self, why: str) -> None:
        """Send what is ready, then close the line."""
        if self._transport is not None and self._closing_ms is None:
            self.write()
            self._board.tell(self, why)
            self._closing_ms = self._board.clock()
            self._transport.close()

    def give_up(self, why: str) -> None:
        """Close the line at once; what is ready is dropped."""
        if self._transport is not None:
            if self._closing_ms is None:
                self._board.tell(self, why)
                self._closing_ms = self._board.clock()
            self._out.clear()
            self.ready_bytes = 0
            self._transport.abort()

    def look_after(self, now_ms: int) -> int:
        """Close the line if it broke a limit of time; return what its peer has not read yet. Called every second."""
        limits, backlog = self._limits, self.backlog_bytes
        if self._closing_ms is not None:
            if now_ms - self._closing_ms > limits.closing_ms:
                self.give_up("it does not read its last answer")
            return backlog
        if now_ms - self.heard_ms > limits.idle_ms:
            self.close(f"nothing was said on it for {limits.idle_ms // 1000} s")
        elif self._half_ms is not None and not self._is_blocked and now_ms - self._half_ms > limits.frame_ms:
            self.give_up(f"a frame is not whole after {limits.frame_ms // 1000} s")
        elif self._stands_still(backlog, now_ms):
            self.give_up(f"it reads less than {limits.step_bytes} bytes in {limits.stall_ms // 1000} s")
        return backlog

    @property
    def _is_blocked(self) -> bool:
        """Whether it is we who do not read."""
        return self._is_full or self._is_held

    def excuse(self, missed_ms: int) -> None:
        """Count a time as not passed on this line, since the clock was put forward."""
        self.heard_ms += missed_ms
        self._stalled_ms += missed_ms
        if self._half_ms is not None:
            self._half_ms += missed_ms
        if self._closing_ms is not None:
            self._closing_ms += missed_ms

    def _stands_still(self, backlog: int, now_ms: int) -> bool:
        read = self._handed_bytes + self.ready_bytes - backlog
        if not backlog or read >= self._owed_bytes:
            # What it must have read in all when it is asked next.
            self._owed_bytes = read + min(max(backlog, 1), self._limits.step_bytes)
            self._stalled_ms = now_ms
            return False
        return now_ms - self._stalled_ms > self._limits.stall_ms
