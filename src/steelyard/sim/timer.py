"""Something that will happen at a time, unless it is cancelled."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.sim.process import Process

__all__ = ["Timer"]


class Timer:
    """A place on the heap of the world. A cancelled one stays there and does nothing."""

    __slots__ = ("act", "life", "process")

    def __init__(self, act: Callable[[], None], process: "Process | None" = None, life: int = 0) -> None:
        self.act: Callable[[], None] | None = act
        """What happens; None once it is cancelled."""
        self.process = process
        """Whose timer it is: it waits while that process is paused, and is void when it is dead."""
        self.life = life
        """In which of its lives the process asked for it."""

    def cancel(self) -> None:
        """Let it not happen."""
        self.act = None
