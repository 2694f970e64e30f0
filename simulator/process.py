"""A simulated process: it runs in turns, has clocks of its own, and can be paused, killed and started again.

A turn is a timer that is due or a delivery of the network. While a process is paused its turns wait, and all of them
run when it resumes: sometimes timers first, sometimes deliveries, because a real event loop may poll either first.
Turns of a dead process are void, and a turn of an earlier incarnation never reaches a later one.

Neither clock of a process is the world's. The steady clock never jumps, counts pauses as CLOCK_BOOTTIME does, and may
run a little fast or slow. The wall clock runs at the same rate and may jump either way.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator.disk import ProcessDied
from simulator.facts import ProcessGone, ProcessPaused, ProcessResumed, ProcessStarted
from simulator.network import SimulatedConnection
from simulator.world import Timer
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from simulator.world import World

WALL_CLOCK_START_MS = 1_700_000_000_000
"""The wall clock when a history begins."""

_MILLION = 1_000_000


class ProcessClock:
    """The steady clock and the wall clock of one process.

    >>> clock = ProcessClock(lambda: 5_000_000)
    >>> clock.jump(-60_000)
    >>> clock.steady_ms(), clock.wall_ms() - WALL_CLOCK_START_MS
    (5000, -55000)
    """

    def __init__(self, now_us: Callable[[], int], ppm: int = 0) -> None:
        self._now_us = now_us
        self.ppm = ppm
        """Microseconds that it gains in a second of the world."""
        self._since_us = self._base_us = now_us()
        self._wall_offset_ms = 0

    def steady_ms(self) -> int:
        """Return the milliseconds since the history began, by this clock."""
        return self._steady_us() // 1000

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, by the wall clock."""
        return WALL_CLOCK_START_MS + self._wall_offset_ms + self._steady_us() // 1000

    def _steady_us(self) -> int:
        now_us = self._now_us()
        if not self.ppm:
            return self._base_us + now_us - self._since_us
        return self._base_us + (now_us - self._since_us) * (_MILLION + self.ppm) // _MILLION

    def to_world_us(self, delay_ms: int) -> int:
        """Convert a delay on this clock to microseconds of the world."""
        if not self.ppm:
            return delay_ms * 1000
        return -(-delay_ms * 1000 * _MILLION // (_MILLION + self.ppm))

    def skew(self, ppm: int) -> None:
        """Run faster or slower from now on."""
        self._base_us, self._since_us = self._steady_us(), self._now_us()
        self.ppm = ppm

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward, or back."""
        self._wall_offset_ms += by_ms

    @property
    def wall_offset_ms(self) -> int:
        """The sum of all jumps of the wall clock."""
        return self._wall_offset_ms


class Process:
    """A program on a machine. Subclasses say what it does."""

    def __init__(self, world: "World", name: str, host: str) -> None:
        self.world, self.name, self.host = world, name, host
        """The host is an IP address in text form: a broker writes it into its records."""
        self.clock = ProcessClock(lambda: world.now_us)
        self.is_alive, self.is_paused = True, False
        self.incarnation = 0
        """Grows when it dies: timers of an earlier incarnation are void."""
        self.connections: dict[int, SimulatedConnection] = {}
        """Its ends of open connections, by number."""
        self._late_timers: deque[Timer] = deque()
        self._late_deliveries: deque[Timer] = deque()
        world.processes[name] = self

    # -- turns --------------------------------------------------------------------------------------------------------

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run a callback after a delay on its own clock: late if it is paused then, never once it is dead."""
        timer = Timer(callback, self, self.incarnation)
        self.world.push_timer(self.clock.to_world_us(delay_ms), timer)
        return timer

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Run a callback after a delay of the world, which may be less than a millisecond."""
        timer = Timer(callback, self, self.incarnation)
        self.world.push_timer(delay_us, timer)
        return timer

    def run_timer(self, timer: Timer) -> None:
        """Run a timer that is due."""
        if self.is_paused:
            self._late_timers.append(timer)
        elif timer.callback is not None and timer.incarnation == self.incarnation:
            self._run_turn(timer.callback)

    def run_delivery(self, callback: Callable[[], None]) -> None:
        """Run a delivery of the network."""
        if self.is_paused:
            self._late_deliveries.append(Timer(callback, self, self.incarnation))
        else:
            self._run_turn(callback)

    def _run_turn(self, callback: Callable[[], None]) -> None:
        if self.is_alive:
            try:
                callback()
            except ProcessDied:
                self.kill("crashed")

    # -- faults -------------------------------------------------------------------------------------------------------

    def kill(self, how: str = "killed") -> None:
        """End it at once: ``killed`` and ``crashed`` close its connections, ``vanished`` and ``power`` do not."""
        if not self.is_alive:
            return
        self.is_alive = self.is_paused = False
        self.incarnation += 1
        self._late_timers.clear()
        self._late_deliveries.clear()
        self.world.record(ProcessGone(at_ms=self.world.now_ms(), name=self.name, how=how))
        self.world.network.drop_process(self, silently=how in ("vanished", "power"))
        self.process_died(how)

    def revive(self) -> None:
        """Mark it alive again; the subclass starts its program anew."""
        self.is_alive = True

    def record_server_started(self, kind: str) -> None:
        """Record that a server of this kind runs from now on."""
        at_ms = self.world.now_ms()
        self.world.record(
            ProcessStarted(at_ms=at_ms, member=self.name, group="", kind=kind, mode="", strategy="", topics=())
        )

    def pause(self) -> None:
        """Suspend it; the world goes on."""
        if self.is_alive and not self.is_paused:
            self.is_paused = True
            self.world.record(ProcessPaused(at_ms=self.world.now_ms(), name=self.name))

    def resume(self) -> None:
        """Resume it, and run all turns that waited."""
        if not self.is_alive or not self.is_paused:
            return
        self.is_paused = False
        self.world.record(ProcessResumed(at_ms=self.world.now_ms(), name=self.name))
        first, second = self._late_timers, self._late_deliveries
        if self.world.random.random() < 0.5:
            first, second = second, first
        for turns in (first, second):
            while turns and not self.is_paused:
                self.run_timer(turns.popleft())

    # -- callbacks, for subclasses ------------------------------------------------------------------------------------

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """React to a connection of its own that is open now."""

    def connection_accepted(self, connection: SimulatedConnection) -> None:
        """React to a connection that a peer opened."""

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """React to a command."""

    def read_finished(self, connection: SimulatedConnection) -> None:
        """React to the end of one read: all its commands were received."""

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """React to a connection that closed, or could not be opened."""

    def process_died(self, how: str) -> None:
        """Drop the state that dies with it; it can neither send nor receive any more."""


_RECONNECT_DELAYS_MS = (0, 50, 100, 200, 400, 800, 1_000)
"""Before each attempt since the last response; the last delay repeats."""


class PersistentConnection:
    """A connection to one server that is opened again whenever it is gone, soon at first and then less often."""

    def __init__(self, process: Process, server: str | None, addresses: Sequence[str]) -> None:
        self.server = server
        """A broker's name, None for the name servers."""
        self.addresses = tuple(addresses)
        """One server may have several, such as all name servers: each attempt takes the next."""
        self.failures = 0
        """Connections that broke, or never opened, since the last response."""
        self.connection: SimulatedConnection | None = None
        """The current one, open or being opened; commands from an older one are ignored."""
        self._process = process
        self._address_index = 0
        self._was_open = False

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self.connection is not None and self.connection.is_open

    def mark_opened(self) -> None:
        """Remember that the connection was open."""
        self._was_open = True

    def connect(self) -> None:
        """Open a connection."""
        address = self.addresses[self._address_index % len(self.addresses)]
        self._address_index += 1
        self.connection = self._process.world.network.connect(self._process, address)

    def send(self, command: Command) -> bool:
        """Send a command; return whether the connection is open."""
        if self.connection is None or not self.connection.is_open:
            return False
        self.connection.send(command)
        return True

    def mark_alive(self) -> None:
        """Reset the reconnect delay: the server responds."""
        self.failures = 0

    def reconnect_later(self) -> bool:
        """Connect again after a delay; return whether the lost connection was ever open."""
        self.connection = None
        was_open, self._was_open = self._was_open, False
        pause_ms = _RECONNECT_DELAYS_MS[min(self.failures, len(_RECONNECT_DELAYS_MS) - 1)]
        self.failures += 1
        self._process.call_later(pause_ms, self.connect)
        return was_open

    def close(self) -> None:
        """Close the connection for good."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
