"""Questions that a broker passes on to a member, until it answers or ten seconds are over.

The question goes on with its fields and its body as they are, and so does the answer. A line that closes meanwhile is
not noticed: whoever asked waits until the time is over.
"""

from msgspec import Struct

from steelyard.sim.line import Line
from steelyard.wire.command import Command

__all__ = ["RELAY_MS", "Relay", "Relays"]

RELAY_MS = 10_000


class Relay(Struct, frozen=True):
    """A question that is under way."""

    line: Line
    """Of the one who asked."""
    request: Command
    group: str
    client: str


class Relays:
    """All questions that are under way, by the number they went on with."""

    def __init__(self) -> None:
        self._opaque = 0
        self._open: dict[tuple[int, int], Relay] = {}

    def add(self, target: int, relay: Relay) -> int:
        """Note a question to the member on a line, and return its number."""
        self._opaque += 1
        self._open[target, self._opaque] = relay
        return self._opaque

    def take(self, target: int, opaque: int) -> Relay | None:
        """Return a question that is over, answered or not; None if it was over already."""
        return self._open.pop((target, opaque), None)
