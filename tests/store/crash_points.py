"""Crash points: every state that a disk can be left in by an operation that is interrupted."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from simulator.disk import DiskFault, DiskFaultKind, ProcessDied, SimulatedDisk

_DEATHS: tuple[DiskFaultKind, ...] = ("crash_before", "crash_midway", "crash_after")


def every_end(prepare: Callable[[], SimulatedDisk], act: Callable[[SimulatedDisk], object]) -> Iterator[SimulatedDisk]:
    """Kill the process before, within and after each disk call of an operation, and yield the resulting disks.

    Each crash gives one disk if the machine goes on, and one for each possible power loss.
    """
    disk = prepare()
    first = disk.calls["any"]
    act(disk)
    for nth in range(first, disk.calls["any"]):
        for kind in _DEATHS:
            disk = prepare()
            disk.faults.append(DiskFault("any", nth + 1, kind))
            with suppress(ProcessDied):
                act(disk)
            yield disk.crash()
            yield from disk.all_power_losses()
