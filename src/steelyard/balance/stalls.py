"""Queues that a member owns and that stand still although there are messages in hand: told once while it lasts.

Looked for by the clock, every now and then while the member has queues. A queue that is not sure, or is being given up,
is not looked at; it counts from when it is owned again.
"""

from typing import TYPE_CHECKING

from steelyard.balance.actions import Report
from steelyard.balance.board import Board
from steelyard.balance.hazards import Hazard, Progress, not_progressing
from steelyard.balance.life import State
from steelyard.balance.watching import Once

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["Stalls"]

_STILL_MS = 60_000
_LOOK_MS = 15_000


class Stalls:
    """The eyes of one member for its own queues."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._once = Once()
        self._since: dict[Queue, Progress] = {}
        """Queues with messages in hand, and when each was first seen as far as it is."""
        self._is_looking = False

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What was found to stand still the last time."""
        return self._once.lasting

    def begin(self) -> None:
        """Look from now on."""
        if not self._is_looking:
            self._is_looking = True
            self._board.timers.at(self._board.now_ms + _LOOK_MS, self._look)

    def _look(self) -> None:
        self._is_looking = False
        before, self._since = self._since, {}
        if not self._board.records:
            return
        self.begin()
        still: dict[Queue, tuple[Progress, Progress]] = {}
        for queue, record in self._board.records.items():
            window = record.window
            if record.state is not State.OWNED or window.low >= window.next:
                continue
            now = Progress(self._board.now_ms, window.low, window.next)
            first = before.get(queue, now)
            self._since[queue] = first if first.committed == now.committed else now
            still[queue] = self._since[queue], now
        options = self._board.options
        found = not_progressing(options.group, still, dict.fromkeys(still, options.id), after_ms=_STILL_MS)
        for hazard in self._once.new(found):
            self._board.say(Report("hazard", hazard.sentence))
