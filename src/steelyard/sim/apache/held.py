"""Pulls that found nothing and wait: for a message in their queue, or until their time is over.

Whoever stores a message asks for those who wait for it. Times are looked at every `LOOK_MS` only, so a pull may wait
that much longer than it asked for. A pull of a line that is closed waits on like any other.
"""

from msgspec import Struct

from steelyard.sim.apache.log import Entry, Place
from steelyard.sim.line import Line
from steelyard.wire.command import Command

__all__ = ["LOOK_MS", "Held", "HeldPull"]

LOOK_MS = 5_000


class HeldPull(Struct, frozen=True, eq=False):
    """A pull that waits."""

    line: Line
    request: Command
    offset: int
    hashes: tuple[int, ...]
    """The tags that it wants; none means all."""
    until_ms: int

    def wants(self, entry: Entry) -> bool:
        """Whether a message that came is one it waits for."""
        return entry.offset >= self.offset and (not self.hashes or entry.tag in self.hashes)


class Held:
    """All that wait, by queue."""

    def __init__(self) -> None:
        self._pulls: dict[Place, list[HeldPull]] = {}

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._pulls)

    def add(self, place: Place, pull: HeldPull) -> None:
        """Let a pull wait."""
        self._pulls.setdefault(place, []).append(pull)

    def woken(self, entry: Entry) -> list[HeldPull]:
        """Take out those who waited for a message that came."""
        waiting = self._pulls.get(entry.place)
        return self._take(entry.place, [pull for pull in waiting if pull.wants(entry)]) if waiting else []

    def over(self, now_ms: int) -> list[HeldPull]:
        """Take out those whose time is over."""
        taken = []
        for place, waiting in list(self._pulls.items()):
            taken += self._take(place, [pull for pull in waiting if pull.until_ms <= now_ms])
        return taken

    def _take(self, place: Place, taken: list[HeldPull]) -> list[HeldPull]:
        if taken:
            left = [pull for pull in self._pulls[place] if pull not in taken]
            if left:
                self._pulls[place] = left
            else:
                del self._pulls[place]
        return taken
