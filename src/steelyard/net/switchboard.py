"""Between the lines and a server's core: commands to the core, its replies to the lines they are for.

All of a server's lines are known here, by the number of their peer. Answers to the line that asks leave with its read;
those to others are gathered and leave when the loop turns, one write a line. Once a second every line is looked after:
one sweep, and no timer for each. Lines whose last read brought more than a turn's work stand in a row; each time the
loop turns, one turn is given to the row, and all others are read as ever.

A server can be troubled on purpose, for tests and demonstrations. Made slow, each command and the end of each line
reach the core so much later. Somebody can be put before the core, who sees each command first; lines can be cut, and
new ones be let in no more. Who is left in peace pays nothing for that.

A core that raises has a bug: it is logged with its traceback, the request is answered with code 1, the line goes on.
"""

import logging
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TypeAlias

from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.net.channel import Channel
from steelyard.net.clock import elapsed_ns as read_elapsed
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.core import Core, Replies
from steelyard.net.detour import Detour
from steelyard.net.limits import LineLimits
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.peers import Hangup, Peer, Reply

__all__ = ["Handle", "Switchboard"]

Handle: TypeAlias = Callable[[Command, Peer, int], Replies]
"""What takes a command of a line at a time: a core, or who is put before it."""

_log = logging.getLogger("steelyard.net")

# Numbers of peers: never twice in the life of a process, whatever server they are for.
_numbers = count(1)

# Entries in the log between two sweeps, about closed lines and about bugs: who floods us must not flood it too.
_TOLD = 20
_BUGS = 3

_SLOWEST_MS = 3_600_000
_MILLISECOND_NS = 1_000_000


class Switchboard:
    """The lines of one server."""

    def __init__(
        self,
        core: Core,
        loop: AbstractEventLoop,
        limits: LineLimits | None = None,
        *,
        name: str = "server",
        clock: Callable[[], int] = read_clock,
        elapsed_ns: Callable[[], int] = read_elapsed,
    ) -> None:
        self._core, self._loop, self._name = core, loop, name
        self._limits = limits or LineLimits()
        self.clock, self.elapsed_ns = clock, elapsed_ns
        self.turn_ns = self._limits.turn_ms * _MILLISECOND_NS
        self._row = deque[Channel]()
        self._is_turn_set = False
        self._handle: Handle = core.handle
        self._handle_now: Handle = core.handle
        """The same once its time has come, if the server is slow."""
        self._flush = core.flush
        self._is_shut = False
        self._detour = Detour(loop, lambda: self.settle(self.clock()))
        self._channels: dict[int, Channel] = {}
        self._of_address = Counter[str]()
        self._unwritten: list[Channel] = []
        self._now_ms = clock()
        self._halves_bytes = self._backlogs_bytes = 0
        self._told = self._bugs = 0
        self.received_bytes = self.sent_bytes = self.lines_opened = self.lines_closed = self.bugs = 0
        """What came in and went out, lines that were opened, those that we closed, and bugs, since the start."""

    def __len__(self) -> int:
        """Count the lines."""
        return len(self._channels)

    def channel(self) -> Channel:
        """Make the protocol of a line that comes in."""
        return Channel(self, self._limits)

    # -- what a line says ---------------------------------------------------------------------------------------------

    def opened(self, channel: Channel, host: str, port: int) -> None:
        """Take a new line, or refuse it."""
        channel.peer = Peer.at(host, port, number=next(_numbers))
        channel.heard_ms = self.clock()
        self._channels[channel.peer.number] = channel
        self._of_address[host] += 1
        self.lines_opened += 1
        if self._is_shut:
            channel.give_up("nobody is let in just now")
        elif len(self._channels) > self._limits.lines:
            channel.give_up(f"there are {self._limits.lines} lines already")
        elif self._of_address[host] > self._limits.lines_of_address:
            channel.give_up(f"its host has {self._limits.lines_of_address} lines already")

    def take(self, command: Command, peer: Peer, now_ms: int) -> None:
        """Give a command to the core, and its replies to their lines."""
        try:
            replies = self._handle(command, peer, now_ms)
        except Exception as error:
            replies = self._met_bug(command, peer, error)
        if replies:
            self.post(replies)

    def _met_bug(self, command: Command, peer: Peer, error: Exception) -> Replies:
        self._tell_bug(f"request {command.code} of {peer.address}")
        if command.flag:
            return ()
        remark = f"the server has a bug: {type(error).__name__}; its log says more"
        return (Reply(peer, answer_to(command, ResponseCode.SYSTEM_ERROR, remark=remark)),)

    def settle(self, now_ms: int) -> None:
        """Let the core finish what one read brought."""
        self._now_ms = now_ms
        try:
            replies = self._flush(now_ms)
        except Exception:
            self._tell_bug("the end of a read")
            return
        if replies:
            self.post(replies)

    def lost(self, channel: Channel) -> None:
        """Forget a line that is gone, and let the core know."""
        peer = channel.peer
        del self._channels[peer.number]
        self._of_address[peer.host] -= 1
        if not self._of_address[peer.host]:
            del self._of_address[peer.host]
        if self._detour.delay_ms:
            self._detour.send(partial(self._end, peer))
        else:
            self._end(peer)

    def _end(self, peer: Peer) -> None:
        try:
            replies = self._core.closed(peer, self.clock())
        except Exception:
            self._tell_bug(f"the end of the line of {peer.address}")
            return
        self.post(replies)

    def tell(self, channel: Channel, why: str) -> None:
        """Say in the log why a line is closed by us."""
        self._told += 1
        self.lines_closed += 1
        if self._told <= _TOLD:
            _log.info("%s closes the line of %s: %s", self._name, channel.peer.address, why)

    def _tell_bug(self, what: str) -> None:
        self._bugs += 1
        self.bugs += 1
        if self._bugs <= _BUGS:
            _log.exception("%s: %s met a bug", self._name, what)

    def note_halves(self, more_bytes: int) -> None:
        """Take note that half frames have grown or shrunk; make room if they are too many."""
        self._halves_bytes += more_bytes
        while self._halves_bytes > self._limits.all_halves_bytes:
            largest = max(self._channels.values(), key=lambda channel: channel.half_bytes)
            self._halves_bytes -= largest.half_bytes
            largest.half_bytes = 0
            largest.give_up("half frames take too much memory, and its is the largest")

    def note_written(self, size: int) -> int:
        """Take note of bytes handed to a transport; return the time."""
        self._backlogs_bytes += size
        self.sent_bytes += size
        if self._backlogs_bytes > self._limits.all_backlogs_bytes:
            self._loop.call_soon(self.sweep)
            self._backlogs_bytes = 0
        return self._now_ms

    def call_soon(self, action: Callable[[], None]) -> None:
        """Do something when the loop turns."""
        self._loop.call_soon(action)

    def wait_for_turn(self, channel: Channel) -> None:
        """Let a line go on when those before it in the row had their turn."""
        self._row.append(channel)
        self._set_turn()

    def _set_turn(self) -> None:
        if self._row and not self._is_turn_set:
            self._is_turn_set = True
            self._loop.call_soon(self._give_turn)

    def _give_turn(self) -> None:
        end_ns = self.elapsed_ns() + self.turn_ns
        for _ in range(len(self._row)):
            self._row.popleft().take_turn()
            if self.elapsed_ns() >= end_ns:
                break
        self._is_turn_set = False
        self._set_turn()

    # -- what the server says -----------------------------------------------------------------------------------------

    def post(self, replies: Replies) -> None:
        """Bring replies to their lines; those to lines that are gone are dropped."""
        channels = self._channels
        for reply in replies:
            channel = channels.get(reply.peer.number)
            if channel is None:
                continue
            if type(reply) is Reply:
                self._add(channel, reply.command)
            elif isinstance(reply, Hangup):
                channel.close(reply.why)
            if not channel.is_queued:
                channel.is_queued = True
                if not self._unwritten:
                    self._loop.call_soon(self._write)
                self._unwritten.append(channel)

    def _add(self, channel: Channel, command: Command) -> None:
        try:
            channel.add(command)
        except SteelyardError as error:
            _log.error("%s: an answer to %s cannot be written: %s", self._name, channel.peer.address, error)
            if command.is_answer:
                channel.add(answer_to(command, ResponseCode.SYSTEM_ERROR, remark=f"the answer cannot be sent: {error}"))

    def _write(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        for channel in unwritten:
            channel.write()

    def slow_down(self, delay_ms: int) -> None:
        """Let each command that arrives from now on wait so long; 0: no longer, and those that wait are handled now."""
        if not 0 <= delay_ms <= _SLOWEST_MS:
            raise ConfigurationError(f"a delay of {delay_ms} ms cannot be", next_step=f"give 0 to {_SLOWEST_MS}")
        self._detour.delay_ms = delay_ms
        if delay_ms:
            self._handle = self._handle_late
        else:
            self._handle = self._handle_now
            self._detour.hurry()

    def interpose(self, handle: Handle | None) -> None:
        """Put somebody before the core, who takes each command from now on; None: the core takes them itself."""
        self._handle_now = handle or self._core.handle
        if not self._detour.delay_ms:
            self._handle = self._handle_now

    def shut(self, *, is_shut: bool) -> None:
        """Let no new line in, or let them in again; those that are open stay."""
        self._is_shut = is_shut

    def cut(self, whose: Callable[[Peer], bool]) -> int:
        """Cut the lines of some peers, as a network does; say how many."""
        found = [channel for channel in self._channels.values() if whose(channel.peer)]
        for channel in found:
            channel.give_up("it is cut on purpose")
        return len(found)

    def peers(self) -> list[Peer]:
        """List who is on a line, the oldest first."""
        return [channel.peer for channel in self._channels.values()]

    def excuse(self, missed_ms: int) -> None:
        """Count a time as not passed for all lines, since the clock was put forward."""
        for channel in self._channels.values():
            channel.excuse(missed_ms)

    @property
    def waiting(self) -> int:
        """How many commands were made to wait, and still do."""
        return len(self._detour)

    def _handle_late(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        del now_ms
        self._detour.send(partial(self._take_late, command, peer))
        return ()

    def _take_late(self, command: Command, peer: Peer) -> None:
        try:
            replies = self._handle_now(command, peer, self.clock())
        except Exception as error:
            replies = self._met_bug(command, peer, error)
        self.post(replies)

    def tick(self) -> None:
        """Let the core do what is due."""
        now_ms = self._now_ms = self.clock()
        try:
            replies = self._core.tick(now_ms)
        except Exception:
            self._tell_bug("a tick")
            return
        self.post(replies)

    def sweep(self) -> None:
        """Look after every line: close those that broke a limit. To be called every second."""
        now_ms = self._now_ms = self.clock()
        if self._told > _TOLD:
            _log.info("%s closed %d more lines", self._name, self._told - _TOLD)
        if self._bugs > _BUGS:
            _log.error("%s met a bug %d more times", self._name, self._bugs - _BUGS)
        self._told = self._bugs = 0
        backlogs = {channel: channel.look_after(now_ms) for channel in list(self._channels.values())}
        self._backlogs_bytes = sum(backlogs.values())
        if self._backlogs_bytes > self._limits.all_backlogs_bytes:
            for channel in sorted(backlogs, key=lambda each: -backlogs[each]):
                channel.give_up("answers that nobody reads take too much memory, and its are the most")
                self._backlogs_bytes -= backlogs[channel]
                if self._backlogs_bytes <= self._limits.all_backlogs_bytes // 2:
                    break

    def close(self, why: str) -> None:
        """Close all lines, each after its last answer."""
        for channel in list(self._channels.values()):
            channel.close(why)

    def drop(self) -> None:
        """Cut all lines at once, and those that are just being opened; commands that were made to wait are dropped."""
        self._is_shut = True
        self._detour.delay_ms = 0
        self._detour.drop()
        for channel in list(self._channels.values()):
            channel.give_up("the server goes away")
