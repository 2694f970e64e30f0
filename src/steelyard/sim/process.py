"""A program on a machine: it is given turns by the world, and can be paused, killed and started again.

A turn is a timer that is due, or something that the network brings. While a process is paused its turns wait, and come
all at once when it goes on: sometimes the timers first, sometimes what the network brought, since a real one may look
at either first. Turns of a dead process are void, and those of an earlier life do not reach a later one.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from steelyard.sim.clocks import ProcessClock
from steelyard.sim.disk import ProcessDied
from steelyard.sim.facts import Gone, Joined, Paused, Resumed
from steelyard.sim.line import Line
from steelyard.sim.timer import Timer
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.sim.world import World

__all__ = ["Process"]


class Process:
    """Whoever speaks in a world. What it does is said by the classes that are made of this one."""

    def __init__(self, world: "World", name: str, host: str) -> None:
        self.world, self.name, self.host = world, name, host
        """Its host is the text of an IP address, which is what a broker writes into its records."""
        self.clock = ProcessClock(lambda: world.now_us)
        self.is_alive, self.is_paused = True, False
        self.life = 0
        """Grows when it dies: what an earlier life asked for is void."""
        self.lines: dict[int, Line] = {}
        """Its ends of open lines, by number."""
        self._late_timers: deque[Timer] = deque()
        self._late_news: deque[Timer] = deque()
        world.processes[name] = self

    # -- turns --------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: int, act: Callable[[], None]) -> Timer:
        """Do something after a time of its own clock: late if it is paused then, never once it is dead."""
        timer = Timer(act, self, self.life)
        self.world.put(self.clock.world_us(delay_ms), timer)
        return timer

    def after_us(self, delay_us: int, act: Callable[[], None]) -> Timer:
        """Do something after a time of the world, which may be less than a millisecond."""
        timer = Timer(act, self, self.life)
        self.world.put(delay_us, timer)
        return timer

    def due(self, timer: Timer) -> None:
        """Take a turn for a timer that is due."""
        if self.is_paused:
            self._late_timers.append(timer)
        elif timer.act is not None and timer.life == self.life:
            self._take_turn(timer.act)

    def bring(self, act: Callable[[], None]) -> None:
        """Take a turn for something that the network brings."""
        if self.is_paused:
            self._late_news.append(Timer(act, self, self.life))
        else:
            self._take_turn(act)

    def _take_turn(self, act: Callable[[], None]) -> None:
        if self.is_alive:
            try:
                act()
            except ProcessDied:
                self.kill("crashed")

    # -- what happens to it -------------------------------------------------------------------------------------------

    def kill(self, how: str = "killed") -> None:
        """End it at once: ``killed`` and ``crashed`` close its lines, of one that ``vanished`` nobody hears again."""
        if not self.is_alive:
            return
        self.is_alive = self.is_paused = False
        self.life += 1
        self._late_timers.clear()
        self._late_news.clear()
        self.world.tell(Gone(at_ms=self.world.now_ms(), name=self.name, how=how))
        self.world.network.forsake(self, silently=how in ("vanished", "power"))
        self.died(how)

    def revive(self) -> None:
        """Let it live again; whoever restarts it does the rest."""
        self.is_alive = True

    def tell_server(self, kind: str) -> None:
        """Tell that a server of some kind runs from now on."""
        at_ms = self.world.now_ms()
        self.world.tell(Joined(at_ms=at_ms, member=self.name, group="", kind=kind, mode="", strategy="", topics=()))

    def pause(self) -> None:
        """Let it stand still; the world goes on."""
        if self.is_alive and not self.is_paused:
            self.is_paused = True
            self.world.tell(Paused(at_ms=self.world.now_ms(), name=self.name))

    def resume(self) -> None:
        """Let it go on with everything that waited."""
        if not self.is_alive or not self.is_paused:
            return
        self.is_paused = False
        self.world.tell(Resumed(at_ms=self.world.now_ms(), name=self.name))
        first, second = self._late_timers, self._late_news
        if self.world.random.random() < 0.5:
            first, second = second, first
        for turns in (first, second):
            while turns and not self.is_paused:
                self.due(turns.popleft())

    # -- what it does, for others to fill in --------------------------------------------------------------------------

    def opened(self, line: Line) -> None:
        """Take note that a line which it asked for is open."""

    def accepted(self, line: Line) -> None:
        """Take note that somebody opened a line to it."""

    def heard(self, line: Line, command: Command) -> None:
        """Take a command."""

    def settled(self, line: Line) -> None:
        """Take note that all commands of one read were heard."""

    def closed(self, line: Line) -> None:
        """Take note that a line is gone, or could not be opened."""

    def died(self, how: str) -> None:
        """Let go of what dies with it; it can neither speak nor hear any more."""
