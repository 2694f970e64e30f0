"""What a member has to tell its user: queues that came and went, and what looks wrong. Logged, and passed on.

Moves of one moment are told together. What goes wrong again and again is told at most once a minute, with how often it
was; what lasts is told once while it lasts. A callback that raises is logged, and nothing else happens.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, structs

from steelyard.balance.actions import Report
from steelyard.balance.hazards import Hazard
from steelyard.balance.watching import Once
from steelyard.client.names import Names
from steelyard.model import Queue, in_order
from steelyard.model.names import RETRY

__all__ = ["Hazard", "Moved", "News", "is_of_retries"]

_AGAIN_MS = 60_000
_MOVES = frozenset({"taken", "released", "lost"})
_GOOD = frozenset({"restored"})

_log = logging.getLogger("steelyard")


def is_of_retries(queue: Queue) -> bool:
    """Say whether a queue holds what failed and comes again."""
    return queue.topic.startswith(RETRY)


class Moved(Struct, frozen=True):
    """What changed hands at one moment, as this member sees it."""

    at_ms: int
    """When, in milliseconds since 1970."""
    id: str
    """Whose member this is."""
    taken: tuple[Queue, ...]
    released: tuple[Queue, ...]
    """Given up in order: finished, committed, and free for others."""
    lost: tuple[Queue, ...]
    """Gone without that: what was being handled may be handled again elsewhere."""
    queues: tuple[Queue, ...]
    """All that it owns now."""
    why: str

    def __str__(self) -> str:
        parts = [("took", self.taken), ("released", self.released), ("lost", self.lost)]
        said = "; ".join(f"{verb} {', '.join(map(str, queues))}" for verb, queues in parts if queues)
        return f"{self.id} {said}; has {len(self.queues)} now ({self.why})"


class _Told(NamedTuple):
    at_ms: int
    untold: int = 0


class News:
    """Where the reports of one member go; it is on the loop."""

    def __init__(
        self, group: str, names: Names, on_move: Callable[[Moved], None], on_hazard: Callable[[Hazard], None]
    ) -> None:
        self._group, self._names = group, names
        self._on_move, self._on_hazard = on_move, on_hazard
        self._moves: dict[str, list[Queue]] = {}
        self._whys: dict[str, None] = {}
        self._told: dict[str, _Told] = {}
        self._once = Once()
        self._degraded: dict[str, Hazard] = {}

    @property
    def has_moves(self) -> bool:
        """Whether queues came or went since the last `moved`."""
        return bool(self._moves)

    def report(self, report: Report, now_ms: int) -> None:
        """Take a report of the member."""
        report = structs.replace(report, sentence=self._names.bare_text(report.sentence))
        if report.kind in _MOVES:
            # What comes back to the group is its own business, and no queue of the user's.
            queues = [self._names.bare_queue(queue) for queue in report.queues if not is_of_retries(queue)]
            if not queues:
                return
            self._moves.setdefault(report.kind, []).extend(queues)
            if report.kind == "lost":
                self._whys[report.sentence.partition(":")[0]] = None
        elif report.kind in _GOOD:
            self._degraded.clear()
            _log.info("%s", report.sentence)
        elif report.kind == "hazard":
            self._tell(Hazard(report.kind, report.sentence))
        else:
            if report.kind == "degraded":
                self._degraded[report.sentence] = Hazard(report.kind, report.sentence)
            # What cannot be read is told of each queue. Else queues and numbers differ from time to time, and what it
            # is about comes before the colon.
            said = report.queues if report.kind == "unreadable" else report.sentence.partition(":")[0]
            self._tell_seldom(Hazard(report.kind, report.sentence), f"{report.kind}:{said}", now_ms)

    def lasting(self, found: list[Hazard]) -> None:
        """Take what looks wrong at this moment: what is new is told."""
        for hazard in self._once.new(found):
            self._tell(hazard)

    def hazards(self) -> tuple[Hazard, ...]:
        """Return what lasts, besides what the member knows itself."""
        return (*self._degraded.values(), *self._once.lasting)

    def moved(self, at_ms: int, member: str, queues: tuple[Queue, ...], plan: str) -> None:
        """Tell what came and went since the last time."""
        moves, self._moves = self._moves, {}
        whys, self._whys = self._whys, {}
        taken, released, lost = (tuple(in_order(moves.get(kind, ()))) for kind in ("taken", "released", "lost"))
        move = Moved(at_ms, member, taken, released, lost, queues, "; ".join(whys) or plan)
        (_log.warning if lost else _log.info)("group %s: %s", self._group, move)
        self._on_move(move)

    def _tell_seldom(self, hazard: Hazard, about: str, now_ms: int) -> None:
        told = self._told.get(about)
        if told is not None and now_ms - told.at_ms < _AGAIN_MS:
            self._told[about] = told._replace(untold=told.untold + 1)
            return
        self._told[about] = _Told(now_ms)
        if told is not None and told.untold:
            hazard = Hazard(hazard.kind, f"{hazard.sentence} (and {told.untold} times in the minute before)")
        self._tell(hazard)

    def _tell(self, hazard: Hazard) -> None:
        _log.warning("%s", hazard.sentence)
        self._on_hazard(hazard)
