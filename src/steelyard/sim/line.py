"""Lines: what one end says the other hears, in order, late, until the line breaks.

A line has two ends and two ways between them. As TCP does, a way loses nothing in the middle: what arrives is what was
said, in order, up to some point behind which nothing arrives any more. Several frames may arrive as one read, and one
frame as two. An end that was broken notices when it is told, or some time after it has spoken; or never.
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter, encode_frame
from steelyard.wire.peers import Peer

if TYPE_CHECKING:
    from steelyard.sim.network import Network
    from steelyard.sim.process import Process

__all__ = ["Line", "Way"]


class Line:
    """One end of a line, as the process that has it sees it."""

    __slots__ = (
        "_early",
        "_is_warned",
        "_splitter",
        "back",
        "far",
        "is_open",
        "is_over",
        "local",
        "network",
        "number",
        "process",
        "remote",
        "way",
    )

    def __init__(self, network: "Network", process: "Process", number: int, local: str, remote: str, far: str) -> None:
        self.network, self.process, self.number, self.local, self.remote = network, process, number, local, remote
        self.far = far
        """Who is at the other end, for those who read a trace."""
        self.is_open = False
        """Whether it can be spoken on, as far as this end knows."""
        self.is_over = False
        """Whether this end is closed, or knows that the line is."""
        self.way: Way | None = None
        """Towards the other end, once there is one."""
        self.back: Way | None = None
        """From the other end."""
        self._splitter = Splitter()
        self._early: list[Command] = []
        self._is_warned = False

    def say(self, command: Command) -> None:
        """Send a command: at once, or as soon as the line is open; on a line that is over it is lost."""
        way = self.way
        if self.is_over:
            return
        if not self.is_open or way is None:
            self._early.append(command)
        elif way.is_broken:
            self.warn()
        elif self.network.loses is None or not self.network.loses(command):
            way.send(encode_frame(command))

    def close(self) -> None:
        """Close this end; the other one hears what was said, then that the line is closed."""
        if self.is_over:
            return
        self.end()
        if self.way is not None:
            self.way.send(None)

    def peer(self) -> Peer:
        """Return the other end as the core of a server knows it."""
        host, _, port = self.remote.rpartition(":")
        return Peer.at(host, int(port), number=self.number)

    # -- for the network ----------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let this end be over, without a word to anybody."""
        self.is_open, self.is_over = False, True
        self.process.lines.pop(self.number, None)
        self._early.clear()

    def open(self) -> None:
        """Let this end speak."""
        self.is_open = True
        early, self._early = self._early, []
        for command in early:
            self.say(command)

    def warn(self) -> None:
        """Let this end find out, some time after it spoke on a broken line, that it is broken."""
        if not self._is_warned:
            self._is_warned = True
            self.network.reset_later(self)

    def notice(self) -> None:
        """Let this end know that the line is gone."""
        if not self.is_over:
            self.process.bring(self._noticed)

    def _noticed(self) -> None:
        if not self.is_over:
            self.end()
            self.process.closed(self)

    def arrive(self, data: bytes | None) -> None:
        """Bring bytes to this end, or None: the end of what the other one says."""
        if self.is_over:
            return
        if data is None:
            self.notice()
        else:
            self.process.bring(partial(self._read, data))

    def _read(self, data: bytes) -> None:
        if self.is_over:
            return
        if not self.is_open:
            self.open()
            self.process.opened(self)
            if not data:
                return
        process, journal = self.process, self.network.journal
        journal.delivered(self.network.world.now_us, self.number, data)
        is_told = journal.lines is not None
        for command in self._splitter.feed(data):
            if is_told:
                journal.heard(self.far, process.name, command)
            process.heard(self, command)
            if self.is_over:
                return
        process.settled(self)


class Way:
    """One direction of a line."""

    __slots__ = ("_due", "_network", "_under_way", "is_broken", "is_jammed", "slow_us", "target")

    def __init__(self, network: "Network", target: Line) -> None:
        self._network, self.target = network, target
        self.is_broken = False
        """Whether nothing that is said from now on arrives."""
        self.is_jammed = False
        """Whether everything waits on the way."""
        self.slow_us = 0
        """How much longer than usual everything takes."""
        self._under_way: deque[tuple[int, bytes | None]] = deque()
        self._due = 0
        """How many parcels should have arrived while the way was jammed."""

    def greet(self) -> None:
        """Let the other end know that the line is open."""
        self._put(b"")

    def send(self, data: bytes | None) -> None:
        """Put bytes on the way, or None: nothing comes after it."""
        if self.is_broken:
            return
        network = self._network
        cut = 0
        if data is not None and network.cuts_frame():
            cut = network.world.random.randrange(1, len(data))
            self._put(data[:cut])
        self._put(data[cut:] if cut and data is not None else data, is_rest=cut > 0)

    def _put(self, data: bytes | None, *, is_rest: bool = False) -> None:
        network, under_way = self._network, self._under_way
        world = network.world
        at_us = world.now_us + network.delay_us() + self.slow_us
        if under_way:
            last_us, before = under_way[-1]
            if at_us <= last_us:
                if before is not None and data is not None and not is_rest:
                    under_way[-1] = last_us, before + data  # it is read together with what came before it
                    return
                at_us = last_us + 1
        under_way.append((at_us, data))
        world.at(at_us - world.now_us, self._arrive)

    def _arrive(self) -> None:
        if self.is_jammed:
            self._due += 1
        elif self._under_way:
            self.target.arrive(self._under_way.popleft()[1])

    def jam(self) -> None:
        """Let everything wait."""
        self.is_jammed = True

    def release(self) -> None:
        """Let everything that waited arrive."""
        self.is_jammed = False
        due, self._due = self._due, 0
        for _ in range(due):
            self._network.world.at(0, self._arrive)

    def break_off(self, kept: int | None = None) -> None:
        """Lose all but the first parcels under way, as many as chance says, and everything that follows."""
        self.is_broken = True
        if kept is None:
            kept = self._network.world.random.randint(0, len(self._under_way))
        while len(self._under_way) > kept:
            self._under_way.pop()
