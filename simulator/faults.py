"""Faults, injected by the names of processes; most of them end by themselves after a time.

A fault that meets a process in the wrong state does nothing: a dead one cannot be paused, and one that runs again is
not started twice. So faults may overlap, and a history without some of its faults is still a history. `heal` ends them
all.

A scenario names parts (``m1``), the world knows processes: a fault hits the current process of its part. A member that
comes back is started as a new process; a server comes back with its name and its disk.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from simulator.actors.broker import BrokerProcess
from simulator.cluster import SimulatedCluster
from simulator.disk import DiskFault, DiskFaultKind, DiskOperation
from simulator.facts import FaultsHealed, Situation
from simulator.scenario import FaultKind, ScenarioFault, ScenarioMember

if TYPE_CHECKING:
    from simulator.process import Process
    from simulator.world import World

_CRASHES_AT_DISK: tuple[DiskFaultKind, ...] = ("crash_before", "crash_midway", "crash_after")
_CRASH_AT_DISK_TIMEOUT_MS = 200
"""A broker that is to crash in a disk call dies after this time without one."""
_FAILING_OPERATIONS: tuple[DiskOperation, ...] = ("write", "fsync", "rename", "open")
_SPACE_OPERATIONS: tuple[DiskOperation, ...] = ("write", "open", "mkdir", "truncate")


@runtime_checkable
class _RestartableServer(Protocol):
    """A process that can be started again under the same name."""

    def stop(self) -> None:
        """Shut it down cleanly."""

    def restart(self) -> None:
        """Start it again; nothing happens if it runs."""


class SimulatedFaults:
    """Injects faults into a world, and ends them."""

    def __init__(self, world: "World") -> None:
        self._world = world

    # -- processes ----------------------------------------------------------------------------------------------------

    def kill(self, name: str, for_ms: int = 0) -> None:
        """Kill a process; its connections close. A server is started again after ``for_ms``, or when all is healed (0).

        Our broker dies at once, or in the middle of one of its next disk calls.
        """
        process = self._alive_process(name)
        if isinstance(process, BrokerProcess) and self._world.random.chance(40):
            kind = self._world.random.choice(_CRASHES_AT_DISK)
            process.disk.faults.append(
                DiskFault("any", process.disk.calls["any"] + self._world.random.randint(1, 5), kind)
            )
            self._schedule(_CRASH_AT_DISK_TIMEOUT_MS, partial(self._kill_incarnation, process, process.incarnation))
            for_ms += _CRASH_AT_DISK_TIMEOUT_MS if for_ms else 0
        elif process is not None:
            process.kill("killed")
        self._start_later(name, for_ms)

    def _kill_incarnation(self, process: "Process", incarnation: int) -> None:
        if process.incarnation == incarnation:
            process.kill("killed")

    def vanish(self, name: str, for_ms: int = 0) -> None:
        """End a process and its machine: its connections are not closed."""
        if process := self._alive_process(name):
            process.kill("vanished")
        self._start_later(name, for_ms)

    def lose_power(self, name: str, for_ms: int = 0) -> None:
        """End a process and its machine; what was not synced may be lost."""
        if process := self._alive_process(name):
            process.kill("power")
        self._start_later(name, for_ms)

    def stop(self, name: str, for_ms: int = 0) -> None:
        """Shut a server down cleanly."""
        process = self._alive_process(name)
        if isinstance(process, _RestartableServer):
            process.stop()
        self._start_later(name, for_ms)

    def start(self, name: str) -> None:
        """Start a dead server again."""
        process = self._world.processes.get(name)
        if process is not None and not process.is_alive and isinstance(process, _RestartableServer):
            process.restart()

    def _start_later(self, name: str, for_ms: int) -> None:
        if for_ms:
            self._schedule(for_ms, partial(self.start, name))

    def pause(self, name: str, for_ms: int) -> None:
        """Suspend a process for a while; if two pauses overlap, the end of the first ends both."""
        if process := self._alive_process(name):
            process.pause()
            self._schedule(for_ms, process.resume)

    # -- connections --------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, for_ms: int = 0) -> None:
        """Cut the connections of two processes, and refuse new ones for a while."""
        network = self._world.network
        network.cut(one, other)
        if for_ms:
            network.block_connects(one, other)
            self._schedule(for_ms, partial(network.allow_connects, one, other))

    def half_open(self, one: str, other: str) -> None:
        """Break the connections of two processes so that only the first notices."""
        self._world.network.half_open(one, other)

    def stall_until_reconnect(self, one: str, other: str, for_ms: int) -> None:
        """Let a process reconnect to another; what it sent last arrives after that."""
        self._world.network.stall_until_reconnect(one, other, for_ms * 1000)

    def jam(self, one: str, other: str, for_ms: int) -> None:
        """Hold back everything between two processes for a while."""
        self._world.network.jam(one, other)
        self._schedule(for_ms, partial(self._world.network.release, one, other))

    def one_way(self, source: str, target: str, for_ms: int) -> None:
        """Hold back what one process sends to another for a while; the other direction works."""
        self._world.network.jam(source, target, one_way=True)
        self._schedule(for_ms, partial(self._world.network.release, source, target))

    def slow(self, one: str, other: str, by_ms: int, for_ms: int) -> None:
        """Delay everything between two processes for a while."""
        self._world.network.slow(one, other, by_ms * 1000)
        self._schedule(for_ms, partial(self._world.network.slow, one, other, 0))

    # -- disks and clocks ---------------------------------------------------------------------------------------------

    def break_disk(self, name: str, for_ms: int) -> None:
        """Let one kind of operation of a broker's disk fail half the time, for a while."""
        random = self._world.random
        failing = random.choice(_FAILING_OPERATIONS)
        self._set_disk_faults(
            name, for_ms, lambda operation: "error" if operation == failing and random.chance(50) else None
        )
        self._record_situation("a disk fails", name)

    def fill_disk(self, name: str, for_ms: int) -> None:
        """Let a broker's disk be full for a while."""
        self._set_disk_faults(name, for_ms, lambda operation: "no_space" if operation in _SPACE_OPERATIONS else None)
        self._record_situation("a disk is full", name)

    def _set_disk_faults(
        self, name: str, for_ms: int, choose_fault: "Callable[[DiskOperation], DiskFaultKind | None]"
    ) -> None:
        process = self._world.processes.get(name)
        if isinstance(process, BrokerProcess):
            process.disk.choose_fault = choose_fault
            self._schedule(for_ms, partial(self._repair_disk, process))

    def _repair_disk(self, process: BrokerProcess) -> None:
        process.disk.choose_fault = None

    def jump_clock(self, name: str, by_ms: int) -> None:
        """Set the wall clock of a process forward, or back."""
        if process := self._world.processes.get(name):
            process.clock.jump(by_ms)
            self._record_situation("a clock jumped forward" if by_ms > 0 else "a clock jumped back", name)

    def skew_clock(self, name: str, ppm: int) -> None:
        """Let the clocks of a process run fast or slow."""
        if process := self._world.processes.get(name):
            process.clock.skew(ppm)
            self._record_situation("a clock runs fast" if ppm > 0 else "a clock runs slow", name)

    def heal(self) -> None:
        """End all faults: the network and disks work, no process is paused, every server runs and accepts writes."""
        world = self._world
        world.network.heal()
        for process in list(world.processes.values()):
            if isinstance(process, BrokerProcess):
                self._repair_disk(process)
                process.disk.faults.clear()
            process.resume()
            if isinstance(process, BrokerProcess) and process.is_refusing:
                process.stop()
            self.start(process.name)
        world.record(FaultsHealed(at_ms=world.now_ms()))

    def _alive_process(self, name: str) -> "Process | None":
        process = self._world.processes.get(name)
        return process if process is not None and process.is_alive else None

    def _schedule(self, delay_ms: int, callback: "Callable[[], None]") -> None:
        self._world.schedule(delay_ms * 1000, callback)

    def _record_situation(self, name: str, process: str) -> None:
        self._world.record(Situation(at_ms=self._world.now_ms(), name=name, about={"process": process}))


class FaultScheduler:
    """Injects the faults of a scenario when their time comes."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._simulated_faults = SimulatedFaults(cluster.world)
        self._members = {member.name: member for member in cluster.scenario.members}
        for fault in cluster.scenario.faults:
            cluster.world.schedule(fault.at_ms * 1000, partial(self._inject, fault))

    def _inject(self, fault: ScenarioFault) -> None:
        self._cluster.world.journal.trace_remark(str(fault))
        if fault.kind is FaultKind.QUEUES:
            self._cluster.add_queues(fault.target, fault.other, fault.amount)
            return
        target, other = self._process_name(fault.target), self._process_name(fault.other)
        if target is not None and (other is not None or not fault.other):
            self._injection(fault, target, other or "")()
            if fault.kind in (FaultKind.KILL, FaultKind.VANISH) and fault.for_ms and fault.target in self._members:
                restart = partial(self._cluster.start_member, self._members[fault.target])
                self._cluster.world.schedule(fault.for_ms * 1000, restart)

    def _process_name(self, part: str) -> str | None:
        """Return the name of the current process of a part; None if it has not started yet."""
        process = self._cluster.find_process(part)
        return None if process is None else process.name

    def _injection(self, fault: ScenarioFault, target: str, other: str) -> Callable[[], None]:
        faults, for_ms, amount = self._simulated_faults, fault.for_ms, fault.amount
        table: dict[FaultKind, Callable[[], None]] = {
            FaultKind.KILL: partial(faults.kill, target, for_ms),
            FaultKind.VANISH: partial(faults.vanish, target, for_ms),
            FaultKind.PAUSE: partial(faults.pause, target, for_ms),
            FaultKind.POWER: partial(faults.lose_power, target, for_ms),
            FaultKind.CUT: partial(faults.cut, target, other, for_ms),
            FaultKind.ONE_WAY: partial(faults.one_way, target, other, for_ms),
            FaultKind.HALF_OPEN: partial(faults.half_open, target, other),
            FaultKind.STUCK: partial(faults.stall_until_reconnect, target, other, for_ms),
            FaultKind.JAM: partial(faults.jam, target, other, for_ms),
            FaultKind.SLOW: partial(faults.slow, target, other, amount, for_ms),
            FaultKind.DISK_ERROR: partial(faults.break_disk, target, for_ms),
            FaultKind.DISK_FULL: partial(faults.fill_disk, target, for_ms),
            FaultKind.CLOCK_JUMP: partial(faults.jump_clock, target, amount),
            FaultKind.CLOCK_SKEW: partial(faults.skew_clock, target, amount),
        }
        return table[fault.kind]

    def heal(self) -> None:
        """End all faults; a group without members gets one, so that its work can be finished."""
        self._simulated_faults.heal()
        staying = {member.group for member in self._cluster.scenario.members if self._stays(member)}
        for group in self._cluster.groups:
            if group not in staying:
                members = [member for member in self._cluster.scenario.members if member.group == group]
                self._cluster.start_member(
                    members[0] if members else ScenarioMember("m0", group, self._cluster.world.now_ms())
                )

    def _stays(self, member: ScenarioMember) -> bool:
        process = self._cluster.members.get(member.name)
        return member.leaves_ms is None and process is not None and process.is_alive
