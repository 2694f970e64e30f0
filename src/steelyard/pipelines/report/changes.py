"""Events → the changes of a group: stretches with a quiet time around them, what moved, and the least possible.

The owners before a change are those at rest; a queue that nobody has just then counts for whom it was with last, so
that a queue which is in the air between two stretches is not taken for a new one. Members that say nothing because they
were killed are taken out when the first of their queues has a new owner. A very long record is not explained to its
end: the changes that are returned are its first ones.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.balance.explain import Explanation, explain
from steelyard.model import Queue, names_in_order
from steelyard.pipelines.report.events import Event

__all__ = ["QUIET_MS", "Change", "changes_of"]

QUIET_MS = 1_000
"""A change is over when nothing was said for so long; hand-overs of a planned change take less.

Rather too short than too long: two changes that are taken for one seem to move more than they had to, where one that
is cut in two only shows its queues in two rows.
"""

_MOST_WORK = 5_000_000
"""Queues and members, counted once a change, up to which changes are held against the least possible."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a group: who came and went, how many queues moved, and how many had to."""

    start_ms: int
    end_ms: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    lost: tuple[str, ...]
    """Members that fell silent."""
    moves: int
    """How often a queue went to another member in it."""
    explanation: Explanation

    members: int = 0
    """How many there were after it."""

    @property
    def least(self) -> int:
        """How many queues move in any even plan."""
        return self.explanation.least

    @property
    def needed(self) -> int:
        """How many of its moves had to be: a change that is not over yet has made fewer than it has to."""
        return min(self.moves, self.least)

    @property
    def cause(self) -> str:
        """Who came and went, in words; members that only shift queues among themselves are neither.

        >>> Change(0, 9, ("c3",), ("c1",), (), 2, explain({}, {})).cause
        'c3 joined, c1 left'
        """
        parts = [("joined", self.joined), ("left", self.left), ("fell silent", self.lost)]
        return ", ".join(f"{', '.join(who)} {verb}" for verb, who in parts if who) or "nobody came or went"


def changes_of(events: Sequence[Event], silent: Mapping[str, int], moved_ms: Sequence[int]) -> Iterator[Change]:
    """Cut events into changes. ``silent`` says when members lost a queue unheard; ``moved_ms`` are moves, by time."""
    owned: dict[str, frozenset[Queue]] = {}
    last_owner: dict[Queue, str] = {}
    work = 0
    for stretch in _stretches(events):
        work += len(owned) + len(last_owner)
        if work > _MOST_WORK:
            return
        start_ms, end_ms = stretch[0].at_ms, stretch[-1].at_ms
        before = _with_those_in_the_air(owned, last_owner)
        there = set(owned)
        lost = names_in_order(name for name in owned if silent.get(name, end_ms + 1) <= end_ms)
        for event in stretch:
            if event.leaves:
                owned.pop(event.id, None)
            else:
                owned[event.id] = frozenset(event.queues)
            last_owner.update(dict.fromkeys(event.queues, event.id))
        for name in lost:
            owned.pop(name, None)
        joined = tuple(name for name in names_in_order(owned) if name not in there)
        left = tuple(name for name in names_in_order(there) if name not in owned and name not in lost)
        moves = bisect_right(moved_ms, end_ms) - bisect_left(moved_ms, start_ms)
        if not (joined or left or lost or moves):
            continue
        told = explain(before, {name: list(mine) for name, mine in owned.items()})
        yield Change(start_ms, end_ms, joined, left, tuple(lost), moves, told, len(owned))


def _stretches(events: Sequence[Event]) -> Iterator[list[Event]]:
    stretch: list[Event] = []
    for event in events:
        if stretch and event.at_ms - stretch[-1].at_ms > QUIET_MS:
            yield stretch
            stretch = []
        stretch.append(event)
    if stretch:
        yield stretch


def _with_those_in_the_air(
    owned: Mapping[str, Iterable[Queue]], last_owner: Mapping[Queue, str]
) -> dict[str, list[Queue]]:
    before = {name: list(mine) for name, mine in owned.items()}
    has_owner = {queue for mine in owned.values() for queue in mine}
    for queue, name in last_owner.items():
        if queue not in has_owner:
            before.setdefault(name, []).append(queue)
    return before
