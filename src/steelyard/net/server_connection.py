"""One connection of a server: bytes in, commands to the server; responses joined, bytes out.

Speed: one read of the socket costs one reading of the clock and one write. Backpressure: responses that a peer does not
read are limited. Beyond ``write_pause_bytes`` nothing more is read from it, and commands that have arrived stay
undecoded; beyond ``backlog_bytes`` the connection is aborted. Fairness: the commands of one read may take one turn
(``turn_ms``). The rest waits behind all other connections, and meanwhile nothing more is read.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from steelyard.errors import ProtocolError
from steelyard.net.limits import ConnectionLimits
from steelyard.wire.command import Command, Peer
from steelyard.wire.frames import FrameDecoder, decode_single_frame, encode_frame, encode_frame_parts

if TYPE_CHECKING:
    from steelyard.net.server import RemotingServer

# A read this large means that more has arrived. uvloop would read the same connection up to 32 times, 256 kB each, and
# all others, heartbeats among them, would wait a tenth of a second.
_LARGE_READ_BYTES = 65_536

# Pieces that are smaller on average are cheaper to join than to write one by one.
_MIN_PIECE_BYTES = 2_048


class ServerConnection(asyncio.Protocol):
    """A connection that a client opened."""

    peer: Peer

    def __init__(self, server: "RemotingServer", limits: ConnectionLimits) -> None:
        self._server, self._limits = server, limits
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._pending_writes: list[bytes | memoryview] = []
        self.pending_bytes = 0
        """Encoded, and not handed to the transport yet."""
        self.partial_frame_bytes = 0
        """Received of a frame that is not complete."""
        self.is_write_scheduled = False
        """Whether `write` will be called before the loop turns."""
        self.last_active_ms = 0
        """The time of the last read or write."""
        self._partial_since_ms: int | None = None
        self._closing_since_ms: int | None = None
        self._is_write_paused = self._has_undecoded_bytes = self._is_turn_queued = False
        self._written_bytes = self._required_read_bytes = self._last_progress_ms = 0

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register with the server, which may abort it."""
        self._transport = opened = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it
        opened.set_write_buffer_limits(high=self._limits.write_pause_bytes)
        host, port = (opened.get_extra_info("peername") or ("0.0.0.0", 0))[:2]
        self._server.connection_opened(self, host.partition("%")[0], port)

    def data_received(self, data: bytes) -> None:
        """Pass on each command, then write all responses at once."""
        server = self._server
        now_ms = self.last_active_ms = server.clock()
        server.received_bytes += len(data)
        if self._closing_since_ms is not None:
            return
        self.is_write_scheduled = True
        decoder, mark, elapsed_ns = self._decoder, self._limits.write_pause_bytes, server.elapsed_ns
        end_ns = elapsed_ns() + server.turn_ns
        try:
            whole = None if decoder.buffered_bytes else decode_single_frame(data)
            for command in decoder.feed(data) if whole is None else (whole,):
                self._partial_since_ms = None
                server.handle_command(command, self.peer, now_ms)
                if self.pending_bytes > mark or (elapsed_ns() >= end_ns and decoder.buffered_bytes):
                    self._has_undecoded_bytes = True
                    break
            else:
                self._has_undecoded_bytes = False
        except ProtocolError as error:
            server.flush_core(now_ms)
            self.close(f"it does not speak the protocol: {error}")
            return
        server.flush_core(now_ms)
        if decoder.buffered_bytes or self.partial_frame_bytes:
            self._track_partial_frame(decoder.buffered_bytes, now_ms)
        self.write()
        if self._has_undecoded_bytes:
            self._queue_for_turn()
        elif len(data) >= _LARGE_READ_BYTES:
            self._yield_to_others()

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read its responses."""
        self._is_write_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading, first what has arrived already."""
        self._is_write_paused = False
        if self._has_undecoded_bytes:
            self._queue_for_turn()
        else:
            self._resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, and notify the server."""
        del exc
        self._track_partial_frame(0, 0)
        self._transport = None
        self._pending_writes.clear()
        self._server.connection_lost(self)

    def _yield_to_others(self) -> None:
        """Resume reading once the other connections had their turn."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._server.call_soon(self._resume_reading)

    def _resume_reading(self) -> None:
        if not self._is_blocked and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _queue_for_turn(self) -> None:
        """Wait for a turn with the rest of the last read, and read nothing more before that."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.pause_reading()
        if not self._is_write_paused and not self._is_turn_queued:
            self._is_turn_queued = True
            self._server.queue_turn(self)

    def run_turn(self) -> None:
        """Decode the rest of the last read."""
        self._is_turn_queued = False
        if self._has_undecoded_bytes and not self._is_write_paused and self._transport is not None:
            self.data_received(b"")
            self._resume_reading()

    def _track_partial_frame(self, buffered_bytes: int, now_ms: int) -> None:
        more_bytes, self.partial_frame_bytes = buffered_bytes - self.partial_frame_bytes, buffered_bytes
        if more_bytes:
            self._server.add_partial_frame_bytes(more_bytes)
        if not buffered_bytes:
            self._partial_since_ms = None
        elif self._partial_since_ms is None:
            self._partial_since_ms = now_ms

    # -- called by the server -----------------------------------------------------------------------------------------

    def enqueue(self, command: Command) -> None:
        """Encode a command for the next `write`; one that cannot be encoded raises."""
        if command.parts:
            pieces = encode_frame_parts(command)
            self._pending_writes += pieces
            self.pending_bytes += sum(map(len, pieces))
        else:
            frame = encode_frame(command)
            self._pending_writes.append(frame)
            self.pending_bytes += len(frame)
        if self._is_write_paused or self.pending_bytes > self._limits.write_pause_bytes:
            backlog = self.backlog_bytes
            if backlog > self._limits.backlog_bytes:
                self.abort(f"it has not read {backlog} bytes")

    @property
    def backlog_bytes(self) -> int:
        """What the peer has not read yet, as far as we know."""
        return self.pending_bytes + (0 if self._transport is None else self._transport.get_write_buffer_size())

    @property
    def is_open(self) -> bool:
        """Whether responses can still be sent."""
        return self._transport is not None and self._closing_since_ms is None

    def write(self) -> None:
        """Hand all encoded commands to the transport."""
        self.is_write_scheduled = False
        out, size = self._pending_writes, self.pending_bytes
        if not out:
            return
        self._pending_writes, self.pending_bytes = [], 0
        if self._transport is None or self._transport.is_closing():
            return
        self._written_bytes += size
        self.last_active_ms = self._server.record_written(size)
        if len(out) == 1:
            self._transport.write(out[0])
        elif size < len(out) * _MIN_PIECE_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
            if not self._is_write_paused and self._transport.get_write_buffer_size() > self._limits.write_pause_bytes:
                # The first releases of Python 3.12 and 3.13 forget to pause writing here (CVE-2024-12254). Setting the
                # limits makes asyncio check them.
                self._transport.set_write_buffer_limits(high=self._limits.write_pause_bytes)

    def close(self, why: str) -> None:
        """Write what is pending, then close the connection."""
        if self._transport is not None and self._closing_since_ms is None:
            self.write()
            self._server.log_close(self, why)
            self._closing_since_ms = self._server.clock()
            self._transport.close()

    def abort(self, why: str) -> None:
        """Close the connection at once; what is pending is dropped."""
        if self._transport is not None:
            if self._closing_since_ms is None:
                self._server.log_close(self, why)
                self._closing_since_ms = self._server.clock()
            self._pending_writes.clear()
            self.pending_bytes = 0
            self._transport.abort()

    def check_timeouts(self, now_ms: int) -> int:
        """Close the connection if a time limit has passed; return the backlog. Called every second."""
        limits, backlog = self._limits, self.backlog_bytes
        if self._closing_since_ms is not None:
            if now_ms - self._closing_since_ms > limits.close_timeout_ms:
                self.abort("it does not read its last response")
            return backlog
        if now_ms - self.last_active_ms > limits.idle_ms:
            self.close(f"it was idle for {limits.idle_ms // 1000} s")
        elif (
            self._partial_since_ms is not None
            and not self._is_blocked
            and now_ms - self._partial_since_ms > limits.frame_timeout_ms
        ):
            self.abort(f"a frame is not complete after {limits.frame_timeout_ms // 1000} s")
        elif self._is_stalled(backlog, now_ms):
            self.abort(f"it reads less than {limits.min_read_bytes} bytes in {limits.stall_timeout_ms // 1000} s")
        return backlog

    @property
    def _is_blocked(self) -> bool:
        """Whether reading is paused by us."""
        return self._is_write_paused or self._has_undecoded_bytes

    def shift_deadlines(self, missed_ms: int) -> None:
        """Move all deadlines, since the clock jumped."""
        self.last_active_ms += missed_ms
        self._last_progress_ms += missed_ms
        if self._partial_since_ms is not None:
            self._partial_since_ms += missed_ms
        if self._closing_since_ms is not None:
            self._closing_since_ms += missed_ms

    def _is_stalled(self, backlog: int, now_ms: int) -> bool:
        read = self._written_bytes + self.pending_bytes - backlog
        if not backlog or read >= self._required_read_bytes:
            # The total that it must have read by the next check.
            self._required_read_bytes = read + min(max(backlog, 1), self._limits.min_read_bytes)
            self._last_progress_ms = now_ms
            return False
        return now_ms - self._last_progress_ms > self._limits.stall_timeout_ms
