"""What goes wrong on purpose, by the names of processes; most of it ends by itself after a time.

A fault that meets a process in the wrong state does nothing: a dead one cannot be paused, one that was started again
meanwhile is not started twice. So faults may overlap as chance wants it, and a history from which some were taken away
is still a history. `heal` ends them all.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from steelyard.sim.broker_process import BrokerProcess
from steelyard.sim.disk import Fault, FaultKind, Operation
from steelyard.sim.facts import Healed, Situation

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.sim.process import Process
    from steelyard.sim.world import World

__all__ = ["Faults", "Server"]

_DISK_DEATHS: tuple[FaultKind, ...] = ("crash_before", "crash_midway", "crash_after")
_DISK_DEATH_MS = 200
"""A broker that is to die at its disk and does not touch it for so long dies anyway."""
_ERRORS: tuple[Operation, ...] = ("write", "fsync", "rename", "open")
_WRITES: tuple[Operation, ...] = ("write", "open", "mkdir", "truncate")


@runtime_checkable
class Server(Protocol):
    """A process that can be started again under the same name."""

    def stop(self) -> None:
        """End it in order."""

    def restart(self) -> None:
        """Start it again; nothing happens if it runs."""


class Faults:
    """The hands that break things in a world."""

    def __init__(self, world: "World") -> None:
        self._world = world

    # -- processes ----------------------------------------------------------------------------------------------------

    def kill(self, name: str, for_ms: int = 0) -> None:
        """End a process; its lines close. A server is started again after ``for_ms``, 0: not before all is healed.

        A broker of ours that is killed dies now, or in the middle of what it does next to its disk.
        """
        process = self._alive(name)
        if isinstance(process, BrokerProcess) and self._world.random.percent(40):
            kind = self._world.random.choice(_DISK_DEATHS)
            process.disk.faults.append(Fault("any", process.disk.calls["any"] + self._world.random.randint(1, 5), kind))
            self._later(_DISK_DEATH_MS, partial(self._kill_life, process, process.life))
            for_ms += _DISK_DEATH_MS if for_ms else 0
        elif process is not None:
            process.kill("killed")
        self._start_later(name, for_ms)

    def _kill_life(self, process: "Process", life: int) -> None:
        if process.life == life:
            process.kill("killed")

    def vanish(self, name: str, for_ms: int = 0) -> None:
        """End a process, and its machine with it: nobody is told."""
        if process := self._alive(name):
            process.kill("vanished")
        self._start_later(name, for_ms)

    def lose_power(self, name: str, for_ms: int = 0) -> None:
        """End a process, its machine, and what was not safe on its disk."""
        if process := self._alive(name):
            process.kill("power")
        self._start_later(name, for_ms)

    def stop(self, name: str, for_ms: int = 0) -> None:
        """End a server in order."""
        process = self._alive(name)
        if isinstance(process, Server):
            process.stop()
        self._start_later(name, for_ms)

    def start(self, name: str) -> None:
        """Start a server again that is dead."""
        process = self._world.processes.get(name)
        if process is not None and not process.is_alive and isinstance(process, Server):
            process.restart()

    def _start_later(self, name: str, for_ms: int) -> None:
        if for_ms:
            self._later(for_ms, partial(self.start, name))

    def pause(self, name: str, for_ms: int) -> None:
        """Let a process stand still for a while; of two pauses that overlap the first ends both."""
        if process := self._alive(name):
            process.pause()
            self._later(for_ms, process.resume)

    # -- lines --------------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, for_ms: int = 0) -> None:
        """Cut the lines between two processes, and let none be opened for a while."""
        network = self._world.network
        network.cut(one, other)
        if for_ms:
            network.part(one, other)
            self._later(for_ms, partial(network.join, one, other))

    def half_open(self, one: str, other: str) -> None:
        """Let one process lose its lines to another, which is not told."""
        self._world.network.half_open(one, other)

    def strand(self, one: str, other: str, for_ms: int) -> None:
        """Let a process give up its lines to another; what it said last arrives when it has new ones."""
        self._world.network.strand(one, other, for_ms * 1000)

    def jam(self, one: str, other: str, for_ms: int) -> None:
        """Let everything between two processes wait for a while."""
        self._world.network.jam(one, other)
        self._later(for_ms, partial(self._world.network.release, one, other))

    def one_way(self, source: str, target: str, for_ms: int) -> None:
        """Let nothing get from one process to another for a while; the other way all is well."""
        self._world.network.jam(source, target, one_way=True)
        self._later(for_ms, partial(self._world.network.release, source, target))

    def slow(self, one: str, other: str, by_ms: int, for_ms: int) -> None:
        """Let everything between two processes take longer for a while."""
        self._world.network.slow(one, other, by_ms * 1000)
        self._later(for_ms, partial(self._world.network.slow, one, other, 0))

    # -- disks and clocks ---------------------------------------------------------------------------------------------

    def break_disk(self, name: str, for_ms: int) -> None:
        """Let some writes and syncs of a broker's disk fail for a while."""
        random = self._world.random
        one = random.choice(_ERRORS)
        self._set_whim(name, for_ms, lambda operation: "error" if operation == one and random.percent(50) else None)
        self._situation("a disk fails", name)

    def fill_disk(self, name: str, for_ms: int) -> None:
        """Let a broker's disk have no room for a while."""
        self._set_whim(name, for_ms, lambda operation: "no_space" if operation in _WRITES else None)
        self._situation("a disk is full", name)

    def _set_whim(self, name: str, for_ms: int, whim: "Callable[[Operation], FaultKind | None]") -> None:
        process = self._world.processes.get(name)
        if isinstance(process, BrokerProcess):
            process.disk.whim = whim
            self._later(for_ms, partial(self._calm_disk, process))

    def _calm_disk(self, process: BrokerProcess) -> None:
        process.disk.whim = None

    def jump_clock(self, name: str, by_ms: int) -> None:
        """Set the clock on the wall of a process forward, or back."""
        if process := self._world.processes.get(name):
            process.clock.jump(by_ms)
            self._situation("a clock jumped forward" if by_ms > 0 else "a clock jumped back", name)

    def skew_clock(self, name: str, ppm: int) -> None:
        """Let the clocks of a process run fast or slow, by so many parts in a million."""
        if process := self._world.processes.get(name):
            process.clock.skew(ppm)
            self._situation("a clock runs fast" if ppm > 0 else "a clock runs slow", name)

    # -- the end of it ------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults: lines flow, disks work, who was paused goes on, every server runs and takes writes."""
        world = self._world
        world.network.heal()
        for process in list(world.processes.values()):
            if isinstance(process, BrokerProcess):
                self._calm_disk(process)
                process.disk.faults.clear()
            process.resume()
            if isinstance(process, BrokerProcess) and process.is_refusing:
                process.stop()
            self.start(process.name)
        world.tell(Healed(at_ms=world.now_ms()))

    def _alive(self, name: str) -> "Process | None":
        process = self._world.processes.get(name)
        return process if process is not None and process.is_alive else None

    def _later(self, delay_ms: int, act: "Callable[[], None]") -> None:
        self._world.at(delay_ms * 1000, act)

    def _situation(self, name: str, process: str) -> None:
        self._world.tell(Situation(at_ms=self._world.now_ms(), name=name, about={"process": process}))
