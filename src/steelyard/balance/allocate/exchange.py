"""The last step to the least movement: exchanges of extras that keep everything even and make fewer queues move.

The extras are a table of members and topics. How many a topic gives is fixed, and who may have one of a topic. Every
member has the lower or the upper of two neighbouring loads, its own ones if members weigh differently. Giving up an
extra where a member is rich costs one move, taking one where it is rich saves one. An exchange is a closed walk,
member → topic → member …, that takes an extra away on each arrow into a topic and gives it on each arrow out; one more
place, the *level*, lets the upper load pass from one member to another. A table in which no closed walk costs less than
nothing is the cheapest there is, and each walk taken makes at least one more queue stay.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

__all__ = ["EXACT_CELLS", "TopicExtras", "cheapen"]

EXACT_CELLS = 20_000
"""Members times topics with extras up to which cheaper exchanges are sought: beyond, a move saved costs too long."""


class TopicExtras(NamedTuple):
    """The extras of one topic."""

    takers: Collection[int]
    """Who may have one."""

    rich: set[int]
    """Who of them keeps one more queue by having one."""

    extra: set[int]
    """Who has one; this is what changes."""


def cheapen(
    topics: Sequence[TopicExtras],
    load: list[int],
    lower: Sequence[int] | None = None,
    upper: Sequence[int] | None = None,
) -> None:
    """Change the extras in place until no exchange makes fewer queues move.

    ``load`` is how many extras each member has, and stays between its ``lower`` and ``upper``: two neighbouring
    numbers that are the same for all, unless they are given.

    >>> first, second, load = {0}, {1}, [1, 1]
    >>> cheapen([TopicExtras(range(2), {1}, first), TopicExtras(range(2), {0}, second)], load)
    >>> first, second, load
    ({1}, {0}, [1, 1])
    """
    # No table can do better than every extra on a rich member: most are that good already.
    best = sum(min(len(topic.rich), len(topic.extra)) for topic in topics)
    level = sum(load) // len(load)
    lower = lower or [level] * len(load)
    upper = upper or [level + 1] * len(load)
    while sum(len(topic.rich & topic.extra) for topic in topics) < best:
        walk = _cheaper_walk(_arrows(topics, load, lower, upper))
        if not walk:
            return
        _take(walk, topics, load)


def _arrows(
    topics: Sequence[TopicExtras], load: list[int], lower: Sequence[int], upper: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """List the arrows out of each place, as (place, cost): first the members, then the topics, last the level."""
    members = len(load)
    level = members + len(topics)
    arrows: list[list[tuple[int, int]]] = [[] for _ in range(level + 1)]
    for at, (takers, rich, extra) in enumerate(topics, start=members):
        for member in takers:
            if member in extra:
                arrows[member].append((at, int(member in rich)))
            else:
                arrows[at].append((member, -int(member in rich)))
    for member, units in enumerate(load):
        if units < upper[member]:
            arrows[member].append((level, 0))
        if units > lower[member]:
            arrows[level].append((member, 0))
    return arrows


def _cheaper_walk(arrows: list[list[tuple[int, int]]]) -> list[int]:
    """Return the places of a closed walk that costs less than nothing, or nothing if there is none."""
    cost = [0] * len(arrows)
    came_from = [-1] * len(arrows)
    active = list(range(len(arrows)))
    while active:
        improved: dict[int, None] = {}
        for place in active:
            so_far = cost[place]
            for to, step in arrows[place]:
                if so_far + step < cost[to]:
                    cost[to] = so_far + step
                    came_from[to] = place
                    improved[to] = None
        # As soon as the ways back close a circle, that circle is such a walk.
        if circle := _circle(came_from):
            return circle
        active = list(improved)
    return []


def _circle(came_from: list[int]) -> list[int]:
    """Return a circle in the ways back, in walking order, or nothing."""
    seen_by = [-1] * len(came_from)
    for start in range(len(came_from)):
        place = start
        while place >= 0 and seen_by[place] < 0:
            seen_by[place] = start
            place = came_from[place]
        if place >= 0 and seen_by[place] == start:
            circle = [place]
            while (back := came_from[circle[-1]]) != place:
                circle.append(back)
            return circle[::-1]
    return []


def _take(walk: list[int], topics: Sequence[TopicExtras], load: list[int]) -> None:
    members = len(load)
    for place, to in zip(walk, [*walk[1:], walk[0]], strict=True):
        if place < members <= to < members + len(topics):
            topics[to - members].extra.remove(place)
            load[place] -= 1
        elif to < members <= place < members + len(topics):
            topics[place - members].extra.add(to)
            load[to] += 1
