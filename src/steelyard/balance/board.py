"""What the parts of one member share: its queues, its timers, what it wants done in this step, and the one table.

Whatever happens to a queue goes through `Board.see`, which looks it up in `LIFE` and lets `Lives` do it. The parts
(taking, asking, starting, handling, committing) know the board and not each other, but for what each is told to do.
"""

from collections import deque
from typing import Protocol

from steelyard.balance.actions import Action, Report
from steelyard.balance.life import LIFE, Seen, State
from steelyard.balance.lines import Lines
from steelyard.balance.member_options import MemberOptions
from steelyard.balance.record import Record
from steelyard.balance.timers import Timers
from steelyard.balance.views import Views
from steelyard.errors import ImpossibleEvent
from steelyard.model import Queue

__all__ = ["Board", "Moves"]


_NAMED = 5
"""So many queues are named in a sentence."""


class Moves(Protocol):
    """Who has the methods that the table names, and is told where they led."""

    def moved(self, record: Record, before: State) -> None:
        """Take note that a queue changed its state."""


class Board:
    """The shared part of one member."""

    def __init__(self, options: MemberOptions, lines: Lines, views: Views, now_ms: int) -> None:
        self.options = options
        self.times = options.times
        self.lines = lines
        self.views = views
        self.timers = Timers()
        self.now_ms = now_ms
        self.records: dict[Queue, Record] = {}
        self.at_broker: dict[str, dict[Queue, Record]] = {}
        """The same by broker."""
        self.actions: list[Action] = []
        """What this step wants done so far."""
        self.is_leaving = False
        self.leave_by_ms: int | None = None
        """Until when handlers may go on once we leave; None: for ever."""
        self.lives: Moves
        self._number = 0
        self._news: dict[tuple[str, str], list[Queue]] = {}
        self._coming: deque[tuple[Record, Seen, object]] = deque()
        self._is_seeing = False

    def say(self, action: Action) -> None:
        """Want something done."""
        self.actions.append(action)

    def report(self, kind: str, sentence: str, queue: Queue) -> None:
        """Tell the user of a queue; those with the same sentence are told of together, at the end of the step."""
        self._news.setdefault((kind, sentence), []).append(queue)

    def flush_reports(self) -> None:
        """Say what there is to tell."""
        for (kind, sentence), queues in self._news.items():
            more = len(queues) - _NAMED
            named = ", ".join(map(str, queues[:_NAMED])) + (f" and {more} more" if more > 0 else "")
            self.say(Report(kind, f"{sentence}: {named}", tuple(queues)))
        self._news.clear()

    def close(self) -> list[Action]:
        """End the step: return what it wants done."""
        if self._news:
            self.flush_reports()
        actions, self.actions = self.actions, []
        return actions

    def number(self) -> int:
        """Return a number that was never used at this member: for generations and lives."""
        self._number += 1
        return self._number

    # -- the life of queues --------------------------------------------------------------------------------------------

    def see(self, record: Record, seen: Seen, about: object = None) -> None:
        """Let something happen to a queue, after whatever is happening now."""
        if self._is_seeing:
            self._coming.append((record, seen, about))
            return
        self._is_seeing = True
        try:
            self._happen(record, seen, about)
            while self._coming:
                self._happen(*self._coming.popleft())
        finally:
            self._is_seeing = False

    def _happen(self, record: Record, seen: Seen, about: object) -> None:
        before = record.state
        row = LIFE.get((before, seen))
        if row is None:
            raise ImpossibleEvent(str(record.queue), state=before.name, event=seen.name)
        getattr(self.lives, row.does)(record, about)
        after = record.state
        if after not in row.leads_to:
            raise ImpossibleEvent(str(record.queue), state=before.name, event=seen.name, after=after.name)
        if after is not before:
            self.lives.moved(record, before)

    def is_current(self, record: Record, generation: int | None = None) -> bool:
        """Whether a record still counts, for a timer that was set earlier; also its generation, if one is given."""
        return self.records.get(record.queue) is record and generation in (None, record.generation)
