"""Watching a group for a while: who has what, as events like those of members, and how much waits.

A look is what brokers and members say at a moment. What changes between two looks is seen at the second of them, so
moves and gaps that are found like this are no finer than the time between two looks; a hand-over that takes less is
seen as one without a gap. Lines that members write themselves (`report/events.py`) are exact, and count instead.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from steelyard.client.admin.group_view import GroupView
from steelyard.errors import TransportError
from steelyard.model import Queue
from steelyard.pipelines.report.events import LEAVES, Event
from steelyard.pipelines.report.study import Waiting

__all__ = ["LOOK_S", "Asked", "Watched", "merged", "watch"]

LOOK_S = 0.5
"""The time between two looks, while there are not too many of them."""

_MOST_LOOKS = 2_000
_SEEN = "seen while it was watched"


class Asked(Protocol):
    """Whoever can be asked for a group, as an administrator's client can."""

    def group(self, name: str, earlier: GroupView | None = None) -> GroupView:
        """Look at a group."""


@dataclass(slots=True)
class Watched:
    """What was seen."""

    topic: str
    view: GroupView | None = None
    """The last look."""
    events: list[Event] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    missed: int = 0
    """Looks that nobody answered."""
    _owned: dict[str, frozenset[Queue]] = field(default_factory=dict)

    def take(self, view: GroupView) -> None:
        """Take a look into account."""
        mine = [each for each in view.queues if each.queue.topic == self.topic]
        owned: dict[str, set[Queue]] = {member.id: set() for member in view.members}
        for each in mine:
            for owner in each.owners:
                owned.setdefault(owner, set()).add(each.queue)
        for name in self._owned.keys() - owned.keys():
            self.events.append(Event(view.at_ms, name, (), LEAVES))
        for name, queues in owned.items():
            if name not in self._owned or self._owned[name] != frozenset(queues):
                self.events.append(Event(view.at_ms, name, tuple(sorted(queues)), _SEEN))
        self._owned = {name: frozenset(queues) for name, queues in owned.items()}
        self.waiting.append(Waiting(view.at_ms, sum(each.lag or 0 for each in mine)))
        self.view = view


def watch(admin: Asked, group: str, topic: str, *, for_s: float, sleep: Callable[[float], object]) -> Watched:
    """Look at a group again and again for a time, and once at least."""
    seen = Watched(topic)
    seen.take(admin.group(group))
    looks = min(int(for_s / LOOK_S), _MOST_LOOKS)
    for _ in range(looks):
        sleep(for_s / looks)
        try:
            seen.take(admin.group(group, earlier=seen.view))
        except TransportError:
            # A server that is away for a moment is a part of what is watched.
            seen.missed += 1
    return seen


def merged(told: Iterable[Event], seen: Iterable[Event]) -> list[Event]:
    """Put together what members wrote and what was seen: whoever wrote itself is believed.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> told, seen = [Event(5, "c1", (queue,))], [Event(7, "c1", (queue,)), Event(7, "c2", ())]
    >>> [(event.at_ms, event.id) for event in merged(told, seen)]
    [(5, 'c1'), (7, 'c2')]
    """
    own = list(told)
    wrote = {event.id for event in own}
    return own + [event for event in seen if event.id not in wrote]
