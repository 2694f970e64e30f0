"""Apache's transactions: halves that wait for a word of their producer, and are asked about if none comes.

A half lies in a topic of its own. A commit copies it to its real place, wherever in the log it is named, so that a
second one stores a second copy. Every half that is older than `IMMUNITY_MS` is written anew by each round of questions,
and a commit that names the record before ends that one only.
"""

from msgspec import Struct

from steelyard.model.names import HALF_TOPIC
from steelyard.sim.apache.log import Entry, Place

__all__ = ["CHECKS", "HALF_PLACE", "IMMUNITY_MS", "Half", "Halves"]

HALF_PLACE: Place = (HALF_TOPIC, 0)
IMMUNITY_MS = 6_000
CHECKS = 15


class Half(Struct, frozen=True, gc=False):
    """A half that nobody ended."""

    offset: int
    position: int
    stored_ms: int
    checks: int = 0


class Halves:
    """The halves that are open, by their offsets."""

    def __init__(self) -> None:
        self._open: dict[int, Half] = {}

    def add(self, entry: Entry, now_ms: int, checks: int = 0) -> None:
        """Note a half that was stored."""
        self._open[entry.offset] = Half(entry.offset, entry.position, now_ms, checks)

    def end(self, offset: int) -> None:
        """Note that a half was committed, rolled back, given up or written anew."""
        self._open.pop(offset, None)

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self._open)

    def due(self, now_ms: int) -> list[Half]:
        """Return those that have to be asked about."""
        return [half for half in self._open.values() if half.checks or now_ms - half.stored_ms >= IMMUNITY_MS]
