"""The faults of a plan, done to the world when their time comes.

A plan names parts (``m1``), the world knows programs: whoever plays the part at that moment is hit. A member that is to
come back is started as a new process; servers come back as they are.
"""

from collections.abc import Callable
from functools import partial

from steelyard.sim.faults import Faults
from steelyard.sim.plan import FaultKind, FaultPlan, MemberPlan
from steelyard.sim.staging import Stage

__all__ = ["Troubles"]


class Troubles:
    """Does what a plan says goes wrong."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._faults = Faults(stage.world)
        self._members = {member.name: member for member in stage.plan.members}
        for fault in stage.plan.faults:
            stage.world.at(fault.at_ms * 1000, partial(self._strike, fault))

    def _strike(self, fault: FaultPlan) -> None:
        self._stage.world.journal.remark(str(fault))
        if fault.kind is FaultKind.QUEUES:
            self._stage.grow(fault.target, fault.other, fault.amount)
            return
        target, other = self._named(fault.target), self._named(fault.other)
        if target is not None and (other is not None or not fault.other):
            self._doing(fault, target, other or "")()
            if fault.kind in (FaultKind.KILL, FaultKind.VANISH) and fault.for_ms and fault.target in self._members:
                again = partial(self._stage.join, self._members[fault.target])
                self._stage.world.at(fault.for_ms * 1000, again)

    def _named(self, part: str) -> str | None:
        """Return the name of the program that plays a part now; None if it has not come yet."""
        process = self._stage.process(part)
        return None if process is None else process.name

    def _doing(self, fault: FaultPlan, target: str, other: str) -> Callable[[], None]:
        faults, for_ms, amount = self._faults, fault.for_ms, fault.amount
        table: dict[FaultKind, Callable[[], None]] = {
            FaultKind.KILL: partial(faults.kill, target, for_ms),
            FaultKind.VANISH: partial(faults.vanish, target, for_ms),
            FaultKind.PAUSE: partial(faults.pause, target, for_ms),
            FaultKind.POWER: partial(faults.lose_power, target, for_ms),
            FaultKind.CUT: partial(faults.cut, target, other, for_ms),
            FaultKind.ONE_WAY: partial(faults.one_way, target, other, for_ms),
            FaultKind.HALF_OPEN: partial(faults.half_open, target, other),
            FaultKind.STUCK: partial(faults.strand, target, other, for_ms),
            FaultKind.JAM: partial(faults.jam, target, other, for_ms),
            FaultKind.SLOW: partial(faults.slow, target, other, amount, for_ms),
            FaultKind.DISK_ERROR: partial(faults.break_disk, target, for_ms),
            FaultKind.DISK_FULL: partial(faults.fill_disk, target, for_ms),
            FaultKind.CLOCK_JUMP: partial(faults.jump_clock, target, amount),
            FaultKind.CLOCK_SKEW: partial(faults.skew_clock, target, amount),
        }
        return table[fault.kind]

    def heal(self) -> None:
        """End all faults; a group of which nobody is left gets a member, so that somebody can finish its work."""
        self._faults.heal()
        staying = {member.group for member in self._stage.plan.members if self._stays(member)}
        for group in self._stage.groups:
            if group not in staying:
                mates = [member for member in self._stage.plan.members if member.group == group]
                self._stage.join(mates[0] if mates else MemberPlan("m0", group, self._stage.world.now_ms()))

    def _stays(self, member: MemberPlan) -> bool:
        playing = self._stage.members.get(member.name)
        return member.leaves_ms is None and playing is not None and playing.is_alive
