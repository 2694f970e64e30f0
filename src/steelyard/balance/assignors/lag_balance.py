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
        step = table.best_step(budget)
        if step is None:
            break
        table.move_queue(step.queue, step.far, step.near)
        if step.in_return != _NOTHING:
            table.move_queue(step.in_return, step.near, step.far)
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

    def best_step(self, budget: int) -> _Step | None:
        """Find the best step from the member furthest behind to the nearest one that there is a step to."""
        behind = self.behind
        nearest_first = sorted(range(len(behind)), key=behind.__getitem__)
        far = max(nearest_first, key=behind.__getitem__)
        for near in nearest_first:
            if behind[far] - behind[near] <= 1:
                break
            best = min(self._steps(far, near, budget), default=None)
            if best is not None:
                return best
        return None

    def _steps(self, far: int, near: int, budget: int) -> Iterator[_Step]:
        """Yield, for each queue of one member, the steps that bring the two closest together."""
        gap = self.behind[far] - self.behind[near]
        more, fewer = (sum(map(len, self.held[member].values())) for member in (far, near))
        for topic, giving in self.held[far].items():
            taken = self.held[near].get(topic, set())
            returns = self._returns(taken, near, far)
            if more - fewer == 1 and not self.fixed_counts and len(giving) - len(taken) == 1:
                returns.setdefault(0, []).insert(0, (0, _NOTHING))
            for queue in giving:
                lag, cost = self.lag[queue], self._cost(queue, far, near)
                for cost_back, row in returns.items():
                    if cost + cost_back <= budget:
                        middle = bisect_left(row, (lag - gap // 2, _NOTHING))
                        for lag_back, back in row[max(0, middle - 1) : middle + 1]:
                            if 0 < lag - lag_back < gap:
                                distance = abs(2 * (lag - lag_back) - gap)
                                yield _Step(distance, cost + cost_back, queue, back, far, near)

    def _returns(self, queues: set[int], near: int, far: int) -> dict[int, list[tuple[int, int]]]:
        """Sort what could be taken in return by what it costs, and then by lag."""
        rows: dict[int, list[tuple[int, int]]] = {}
        for lag, queue in sorted((self.lag[queue], queue) for queue in queues):
            rows.setdefault(self._cost(queue, near, far), []).append((lag, queue))
        return rows

    def _cost(self, queue: int, giver: int, taker: int) -> int:
        """Return how many more queues move if this one changes its owner: -1, 0 or 1; an unowned queue costs none."""
        owner = self.owner[queue]
        return 0 if owner < 0 else (taker != owner) - (giver != owner)

    def move_queue(self, queue: int, giver: int, taker: int) -> None:
        """Pass a queue from one member to another."""
        topic = self.topic_of[queue]
        self.held[giver][topic].remove(queue)
        self.held[taker].setdefault(topic, set()).add(queue)
        self.behind[giver] -= self.lag[queue]
        self.behind[taker] += self.lag[queue]
        self.new[queue] = taker
