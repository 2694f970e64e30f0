"""The network between processes: who listens where, how lines come to be, how long things take, how lines break.

Bytes really travel: a command is written as a frame at one end and read by a `Splitter` at the other. What a fault does
to a line never breaks what TCP promises while a line lives, see sim/line.py.

To open a line takes a way there and one back. Where nobody listens it is refused; where the machine is gone, or nothing
gets through, it fails after a while. A paused process does not take the line, but its machine does: it looks open.

Left out: names (hosts are IP addresses), bandwidth, and lines that nobody reads while they are full.
"""

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from steelyard.sim.facts import LineLost
from steelyard.sim.line import Line, Way

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.sim.process import Process
    from steelyard.sim.timer import Timer
    from steelyard.sim.world import World
    from steelyard.wire.command import Command

__all__ = ["Network", "Temper"]

_FIRST_PORT = 40_000
_GIVE_UP_US = (1_000_000, 4_000_000)
"""How long it takes to find that nobody answers at all."""
_SILENCE_US = (5_000_000, 20_000_000)
"""How long it takes to find that what was said on an open line is not answered by anything."""
_RESET_US, _LATE_RESET_US = (1_000, 200_000), (200_000, 5_000_000)
"""How long it takes to be told that what was said on a broken line was for nobody."""


class Temper(Struct, frozen=True):
    """How a network behaves while nothing is broken."""

    least_us: int = 200
    usual_us: int = 3_000
    """Most deliveries take between these two."""
    tail_us: int = 50_000
    tails: float = 0.01
    """Some take up to so long, and how many do."""
    cuts: float = 0.02
    """How many frames arrive in two parts."""


class Network:
    """All lines of a world."""

    def __init__(self, world: "World") -> None:
        self.world, self.journal = world, world.journal
        self.temper = Temper()
        self.loses: Callable[[Command], bool] | None = None
        """What never leaves the one who says it, such as a notice for which there was no room."""
        self.is_healed = False
        """Whether broken lines are noticed soon: at the end of a history."""
        self._listeners: dict[str, Process] = {}
        self._silent: set[str] = set()
        """Addresses of machines that are gone, and names of processes on them: not even a refusal comes from there."""
        self._jams: set[tuple[str, str]] = set()
        """Ways, by the names of two processes, on which nothing gets through."""
        self._gaps: set[tuple[str, str]] = set()
        """Pairs of processes between which no line can be opened."""
        self._slow_us: dict[tuple[str, str], int] = {}
        self._opening: dict[int, tuple[Line, Process, Timer]] = {}
        """Attempts that hang: their line, for whom it is, and when they are given up."""
        self._numbers = self._ports = 0
        self._draw = world.random.random

    # -- lines --------------------------------------------------------------------------------------------------------

    def listen(self, process: "Process", address: str) -> None:
        """Let a process take lines at an address; it stays the one who does until it dies."""
        self._listeners[address] = process
        self._silent -= {address, process.name}

    def connect(self, process: "Process", address: str) -> Line:
        """Ask for a line; `Process.opened` or `Process.closed` follows."""
        self._silent.discard(process.name)
        self._ports += 1
        local = f"{process.host}:{_FIRST_PORT + self._ports % 20_000}"
        listener = self._listeners.get(address)
        line = self._line(process, local, address, address if listener is None else listener.name)
        delay_us = self.delay_us()
        if listener is not None:
            self.world.at(delay_us, partial(self._knock, line, address))
        elif address in self._silent:
            self.world.at(self._between(_GIVE_UP_US), line.notice)
        else:
            self.world.at(delay_us + self.delay_us(), line.notice)
        return line

    def _line(self, process: "Process", local: str, remote: str, far: str) -> Line:
        self._numbers += 1
        line = Line(self, process, self._numbers, local, remote, far)
        process.lines[line.number] = line
        return line

    def _knock(self, line: Line, address: str) -> None:
        """Let a request for a line arrive."""
        if line.is_over:
            return
        listener = self._listeners.get(address)
        if listener is None:
            self.world.at(self._between(_GIVE_UP_US) if address in self._silent else self.delay_us(), line.notice)
        elif self._gaps and _pair(line.process.name, listener.name) in self._gaps:
            self.world.at(self.delay_us(), line.notice)
        elif self._jams and self._is_jammed(line.process.name, listener.name):
            given_up = self.world.at(self._between(_GIVE_UP_US), partial(self._give_up, line))
            self._opening[line.number] = line, listener, given_up
        else:
            self._open(line, listener)

    def _give_up(self, line: Line) -> None:
        del self._opening[line.number]
        line.notice()

    def _open(self, near: Line, listener: "Process") -> None:
        far = self._line(listener, near.remote, near.local, near.process.name)
        near.way = far.back = Way(self, far)
        far.way = near.back = Way(self, near)
        names = near.process.name, listener.name
        near.way.slow_us, far.way.slow_us = self._slow_us.get(names, 0), self._slow_us.get(names[::-1], 0)
        far.open()
        listener.bring(partial(_accept, far))
        far.way.greet()

    def forsake(self, process: "Process", *, silently: bool) -> None:
        """Let a process that died be gone: its lines close, or nobody hears anything of it again."""
        addresses = [address for address, listener in self._listeners.items() if listener is process]
        for address in addresses:
            del self._listeners[address]
        if silently:
            self._silent |= {process.name, *addresses}
        for line in list(process.lines.values()):
            line.end()
            if line.way is None or line.back is None:
                continue
            line.back.break_off(0)
            if silently:
                line.way.break_off()
            else:
                self._end_soon(line.way)

    def _end_soon(self, way: Way) -> None:
        """Let the other end of a dead process hear some of what was said, and then that it is over."""
        far = way.target
        way.break_off()
        self._notice_later(far)

    # -- time ---------------------------------------------------------------------------------------------------------

    def delay_us(self) -> int:
        """Draw how long something takes on its way."""
        drawn, temper = self._draw(), self.temper
        if drawn >= temper.tails:
            return temper.least_us + int((temper.usual_us - temper.least_us) * drawn)
        return temper.usual_us + int((temper.tail_us - temper.usual_us) * drawn / temper.tails)

    def cuts_frame(self) -> bool:
        """Draw whether a frame arrives in two parts."""
        return self._draw() < self.temper.cuts

    def _between(self, bounds_us: tuple[int, int]) -> int:
        return self.world.random.randint(*bounds_us)

    # -- faults -------------------------------------------------------------------------------------------------------

    def lines_between(self, one: str, other: str) -> list[Line]:
        """List both ends of all lines between two processes."""
        found = []
        for name, far in ((one, other), (other, one)):
            process = self.world.processes.get(name)
            if process is not None:
                found += [line for line in process.lines.values() if line.far == far and line.way is not None]
        return found

    def cut(self, one: str, other: str) -> None:
        """Break all lines between two processes; each end notices at its own time."""
        for line in self._broken(one, other):
            self._notice_later(line, surely=False)
        self._tell(one, other, "cut")

    def half_open(self, one: str, other: str) -> None:
        """Break all lines between two processes; one of them knows, the other hears of it once it has spoken."""
        for line in self._broken(one, other):
            if line.process.name == one:
                self.world.at(self.delay_us(), line.notice)
        self._tell(one, other, "half open")

    def strand(self, one: str, other: str, for_us: int) -> None:
        """Let what one process says to another get stuck; it gives its lines up halfway, and what is stuck arrives."""
        for line in self.lines_between(one, other):
            if line.process.name == one and line.way is not None and not line.way.is_broken:
                line.way.jam()
                self.world.at(for_us // 2, partial(self._replace, line, line.way))
                self.world.at(for_us, line.way.release)
        self._tell(one, other, "stuck")

    def _replace(self, line: Line, way: Way) -> None:
        line.notice()
        way.send(None)

    def _broken(self, one: str, other: str) -> list[Line]:
        ends = self.lines_between(one, other)
        for line in ends:
            if line.way is not None:
                line.way.break_off()
        return ends

    def part(self, one: str, other: str) -> None:
        """Let no new line be opened between two processes."""
        self._gaps.add(_pair(one, other))

    def join(self, one: str, other: str) -> None:
        """Let lines be opened again between two processes."""
        self._gaps.discard(_pair(one, other))

    def _notice_later(self, line: Line, *, surely: bool = True) -> None:
        """Let an end notice that its line is broken: mostly soon, seldom late, or only once it speaks."""
        drawn = self._draw()
        if drawn < (0.9 if surely else 0.7) or self.is_healed:
            self.world.at(self.delay_us(), line.notice)
        elif surely or drawn < 0.85:
            self.world.at(self._between((50_000, 2_000_000)), line.notice)

    def reset_later(self, line: Line) -> None:
        """Let an end that spoke on a broken line be told so, after a while; where the machine is gone, long after."""
        if line.far in self._silent:
            bounds_us = _SILENCE_US
        else:
            bounds_us = _RESET_US if self.is_healed or self._draw() < 0.8 else _LATE_RESET_US
        self.world.at(self._between(bounds_us), line.notice)

    def jam(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Let nothing through between two processes, or only nothing from one to the other: it waits."""
        pairs = [(one, other)] if one_way else [(one, other), (other, one)]
        for source, target in pairs:
            self._jams.add((source, target))
            for way in self._ways(source, target):
                way.jam()
        self._tell(one, other, "one way" if one_way else "jammed")

    def release(self, one: str, other: str) -> None:
        """Let through what waited between two processes."""
        for source, target in ((one, other), (other, one)):
            if (source, target) in self._jams:
                self._jams.remove((source, target))
                for way in self._ways(source, target):
                    way.release()
        for line, listener, given_up in list(self._opening.values()):
            if not self._is_jammed(line.process.name, listener.name):
                del self._opening[line.number]
                given_up.cancel()
                self._knock(line, line.remote)
        self.journal.remark(f"the lines of {one} and {other} are free again")

    def _is_jammed(self, one: str, other: str) -> bool:
        return (one, other) in self._jams or (other, one) in self._jams

    def slow(self, one: str, other: str, by_us: int) -> None:
        """Let everything between two processes take longer from now on; 0 is as usual."""
        for source, target in ((one, other), (other, one)):
            self._slow_us[source, target] = by_us
            for way in self._ways(source, target):
                way.slow_us = by_us
        if by_us:
            self._tell(one, other, "slow")
        self.journal.remark(f"the lines of {one} and {other} take {by_us // 1000} ms longer")

    def _ways(self, source: str, target: str) -> list[Way]:
        process = self.world.processes.get(source)
        lines = process.lines.values() if process is not None else ()
        return [line.way for line in lines if line.far == target and line.way is not None]

    def heal(self) -> None:
        """Undo all that was done to lines; what is broken is noticed soon."""
        self.is_healed = True
        self._gaps.clear()
        for one, other in sorted(self._jams):
            self.release(one, other)
        for one, other in sorted(self._slow_us):
            self.slow(one, other, 0)
        for process in self.world.processes.values():
            for line in list(process.lines.values()):
                if line.way is not None and line.way.is_broken:
                    self.world.at(self.delay_us(), line.notice)

    def _tell(self, one: str, other: str, how: str) -> None:
        self.world.tell(LineLost(at_ms=self.world.now_ms(), one=one, other=other, how=how))


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _accept(line: Line) -> None:
    if not line.is_over:
        line.process.accepted(line)
