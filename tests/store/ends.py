"""Every end that something done to a disk can come to."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from steelyard.sim.disk import Fault, FaultKind, ForgettingDisk, ProcessDied

__all__ = ["every_end"]

_DEATHS: tuple[FaultKind, ...] = ("crash_before", "crash_midway", "crash_after")


def every_end(
    prepare: Callable[[], ForgettingDisk], act: Callable[[ForgettingDisk], object]
) -> Iterator[ForgettingDisk]:
    """Let the process die before, within and after each call of an act, and yield the disks that may be found then.

    From each death there is one disk if the machine went on, and one for each way the lights can go out.
    """
    disk = prepare()
    first = disk.calls["any"]
    act(disk)
    for nth in range(first, disk.calls["any"]):
        for kind in _DEATHS:
            disk = prepare()
            disk.faults.append(Fault("any", nth + 1, kind))
            with suppress(ProcessDied):
                act(disk)
            yield disk.crash()
            yield from disk.power_losses()
