"""Balance the lag of members, with a budget of moves.

Starting from a plan that is even in queues, the member with the most lag passes a queue to a member with less, and may
take one of the same topic in return, whichever brings the two closest together. Counts stay the same, or pass from one
member to the other, so an even plan stays even.

Guaranteed: at most ``budget`` queues move in addition, no topic and no total becomes less even, the largest lag of a
member never grows, and the same input gives the same plan. Not guaranteed: the best plan for that budget (each step is
the best for one pair of members), and the same plan again while it is carried out, because lags change meanwhile.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["balance_lag"]

_NOTHING = -1
"""In place of the queue that is taken in return."""


def balance_lag(
    cut: Sequence[int],
    members: int,
    owner: Sequence[int],
    planned: Sequence[int],
    lag: Sequence[int],
    *,
    budget: int,
    fixed_counts: bool = False,
) -> list[int]:
    """Return the new owner of each queue. With fixed counts queues are only exchanged, never passed on alone.

    >>> balance_lag([0, 4], 2, owner=[0, 0, 1, 1], planned=[0, 0, 1, 1], lag=[50, 40, 0, 0], budget=2)
    [1, 0, 1, 0]
    """
    table = _LagTable(cut, members, owner, planned, lag, fixed_counts)
    # Each step lowers the sum of squared lags, so this ends; a step for each queue is more than a group needs.
    for _ in planned:
        step = _best_step(table, budget)
        if step is None:
            break
        _move_queue(table, step.queue, step.far, step.near)
        if step.in_return != _NOTHING:
            _move_queue(table, step.in_return, step.near, step.far)
        budget -= step.cost
    return table.new


class _Step(NamedTuple):
    """One step. The best of a pair of members compares lowest: nearest to even, then cheapest, then lower queues."""

    distance: int
    cost: int
    queue: int
    in_return: int
    far: int
    near: int


class _LagTable:
    """The plan so far, and what follows from it for each member."""

    def __init__(
        self,
        cut: Sequence[int],
        members: int,
        owner: Sequence[int],
        planned: Sequence[int],
        lag: Sequence[int],
        fixed_counts: bool,
    ) -> None:
        self.owner, self.lag, self.fixed_counts = owner, lag, fixed_counts
        self.new = list(planned)
        self.topic_of = [topic for topic, (start, end) in enumerate(pairwise(cut)) for _ in range(start, end)]
        self.held: list[dict[int, set[int]]] = [{} for _ in range(members)]
        """For each member its queues, by topic."""
        self.behind = [0] * members
        """For each member the sum of its lags."""
        for queue, member in enumerate(planned):
            if member >= 0:
                self.held[member].setdefault(self.topic_of[queue], set()).add(queue)
                self.behind[member] += lag[queue]


def _best_step(table: _LagTable, budget: int) -> _Step | None:
    """Find the best step from the member furthest behind to the nearest one that there is a step to."""
    behind = table.behind
    nearest_first = sorted(range(len(behind)), key=behind.__getitem__)
    far = max(nearest_first, key=behind.__getitem__)
    for near in nearest_first:
        if behind[far] - behind[near] <= 1:
            break
        best = min(_steps(table, far, near, budget), default=None)
        if best is not None:
            return best
    return None


def _steps(table: _LagTable, far: int, near: int, budget: int) -> Iterator[_Step]:
    """Yield, for each queue of one member, the steps that bring the two closest together."""
    gap = table.behind[far] - table.behind[near]
    one_more = _size(table.held[far]) - _size(table.held[near]) == 1
    for topic, giving in table.held[far].items():
        returns = _returns(table, table.held[near].get(topic, set()), near, far)
        if one_more and not table.fixed_counts and len(giving) - len(table.held[near].get(topic, ())) == 1:
            returns.setdefault(0, []).insert(0, (0, _NOTHING))
        for queue in giving:
            lag, cost = table.lag[queue], _cost(table, queue, far, near)
            for cost_back, row in returns.items():
                if cost + cost_back <= budget:
                    middle = bisect_left(row, (lag - gap // 2, _NOTHING))
                    for lag_back, back in row[max(0, middle - 1) : middle + 1]:
                        if 0 < lag - lag_back < gap:
                            distance = abs(2 * (lag - lag_back) - gap)
                            yield _Step(distance, cost + cost_back, queue, back, far, near)


def _returns(table: _LagTable, queues: set[int], near: int, far: int) -> dict[int, list[tuple[int, int]]]:
    """Sort what could be taken in return by what it costs, and then by lag."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for queue in queues:
        rows.setdefault(_cost(table, queue, near, far), []).append((table.lag[queue], queue))
    for row in rows.values():
        row.sort()
    return rows


def _cost(table: _LagTable, queue: int, giver: int, taker: int) -> int:
    """Return how many more queues move if this one changes its owner: -1, 0 or 1; an unowned queue costs nothing."""
    owner = table.owner[queue]
    return 0 if owner < 0 else (taker != owner) - (giver != owner)


def _move_queue(table: _LagTable, queue: int, giver: int, taker: int) -> None:
    topic = table.topic_of[queue]
    table.held[giver][topic].remove(queue)
    table.held[taker].setdefault(topic, set()).add(queue)
    table.behind[giver] -= table.lag[queue]
    table.behind[taker] += table.lag[queue]
    table.new[queue] = taker


def _size(held: dict[int, set[int]]) -> int:
    return sum(map(len, held.values()))
