"""How far a member is in one queue, for whoever wants to look."""

from typing import NamedTuple

from steelyard.balance.life import State

__all__ = ["Progress"]


class Progress(NamedTuple):
    """One queue at one moment."""

    state: State
    generation: int
    low: int
    """Everything below it is done: what may be committed."""
    next: int
    """Where the next pull begins."""
    acked: int | None
    """What the broker has, as far as it told us."""
