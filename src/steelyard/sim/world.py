"""The seeded world: one heap of what will happen, one source of chance, one time for everything.

Nothing happens but what somebody put on the heap, in the order of time; what falls on the same microsecond happens in
the order in which it was asked for. All chance is drawn from one seed while events are handled, so that a history is
its seed: run again, in another process, it is the same to the last byte. `Journal.digest` proves it.

Left out: what programs are (sim/process.py), what is between them (sim/network.py), what goes wrong (sim/faults.py).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from steelyard.sim.chance import Chance
from steelyard.sim.facts import Fact
from steelyard.sim.journal import Journal
from steelyard.sim.network import Network
from steelyard.sim.timer import Timer

if TYPE_CHECKING:
    from steelyard.sim.process import Process

__all__ = ["Timer", "World"]

_LOOK_US = 50_000
"""How often a run asks whether it may stop: asking after each event would cost as much as the events."""


class World:
    """Time, chance, a network, and the processes on it.

    >>> world = World(7)
    >>> seen = []
    >>> _ = world.at(2_000, lambda: seen.append("second"))
    >>> _ = world.at(1_000, lambda: seen.append("first"))
    >>> world.at(3_000, lambda: seen.append("never")).cancel()
    >>> world.run(until_ms=10)
    >>> seen, world.now_ms()
    (['first', 'second'], 10)
    """

    def __init__(self, seed: int | str = 0, *, trace: bool = False) -> None:
        self.now_us = 0
        self.random = Chance(seed)
        self.journal = Journal(self.now_ms, trace=trace)
        self.processes: dict[str, Process] = {}
        """Who is or was here, by name."""
        self.events = 0
        """How many events were handled so far."""
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self.network = Network(self)

    def now_ms(self) -> int:
        """Return the time since the history began."""
        return self.now_us // 1000

    def at(self, delay_us: int, act: Callable[[], None]) -> Timer:
        """Let something happen after a delay; the timer can be cancelled until then."""
        timer = Timer(act)
        self.put(delay_us, timer)
        return timer

    def put(self, delay_us: int, timer: Timer) -> None:
        """Put a timer on the heap."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (self.now_us + delay_us, sequence, timer))

    def run(self, until_ms: int, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass until then, or until ``stop`` says so, which is asked every now and then."""
        heap, until_us = self._heap, until_ms * 1000
        look_us = self.now_us + _LOOK_US
        while heap and heap[0][0] <= until_us:
            at_us, _, timer = heappop(heap)
            act = timer.act
            if act is None:
                continue
            if stop is not None and at_us >= look_us:
                look_us = at_us + _LOOK_US
                if stop():
                    heappush(heap, (at_us, 0, timer))
                    return
            self.now_us = at_us
            self.events += 1
            if timer.process is None:
                act()
            else:
                timer.process.due(timer)
        self.now_us = max(self.now_us, until_us)

    def tell(self, fact: Fact) -> None:
        """Write a fact down, for whoever listens."""
        self.journal.tell(fact)
