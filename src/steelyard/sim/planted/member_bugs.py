"""Mistakes in a member's machine, and in what it says on the wire."""

from steelyard.sim.planted.bug import Bug

__all__ = ["MEMBER_BUGS"]

MEMBER_BUGS: tuple[Bug, ...] = ()
