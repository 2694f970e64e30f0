"""Messages that wait for a delay level: how far each level's queue has been delivered."""

from steelyard.wire.bodies.offsets import DelayOffsets

__all__ = ["Schedule"]


class Schedule:
    """The offsets up to which each level was delivered. ``changes`` grows with each change."""

    def __init__(self, saved: DelayOffsets | None) -> None:
        self.saved, self.changes = saved, 0

    def table(self) -> DelayOffsets:
        """Return the offsets as they are saved."""
        raise NotImplementedError
