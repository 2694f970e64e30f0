"""Messages that wait for a delay level: how far each level's queue has been delivered.

All messages of a level wait equally long, so a level is delivered in the order of its queue, and one number says all.
"""

from steelyard.broker.progress import Progress
from steelyard.store.marks import DELAY_LEVELS_MS
from steelyard.wire.bodies.offsets import DelayOffsets
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.maps import ById

__all__ = ["LEVELS", "Schedule"]

LEVELS = len(DELAY_LEVELS_MS)
"""How many delay levels there are; the queue of a level has the number below it."""


class Schedule:
    """The offsets up to which each level was delivered, by its queue. ``changes`` grows with each change."""

    def __init__(self, saved: DelayOffsets | None) -> None:
        self.changes = 0
        self._version = (saved and saved.version) or TableVersion(state_version=0)
        self._safe = dict(saved.offsets) if saved is not None else {}
        self.reached = [max(0, self._safe.get(queue_id + 1, 0)) for queue_id in range(LEVELS)]
        """The next offset of each queue to be delivered."""
        self.next_ms = [0] * LEVELS
        """Before this time nothing of a queue is due, as far as it was looked at."""
        self._progress = Progress[list[int]]()

    def note(self, end: int) -> None:
        """Remember how far each level is; it is saved once the log is safe up to a position."""
        self._progress.note(end, self.reached[:])

    def settle(self, durable: int) -> None:
        """Take note of how far the log is safe."""
        reached = self._progress.safe(durable)
        if reached is not None:
            self._safe |= {queue_id + 1: offset for queue_id, offset in enumerate(reached) if offset}
            self.changes += 1

    def table(self) -> DelayOffsets:
        """Return the offsets as they are saved, by level."""
        return DelayOffsets(version=self._version, offsets=ById(self._safe))
