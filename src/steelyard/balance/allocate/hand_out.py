"""Which queues stay and which move, once it is settled how many each member gets of each topic.

In each topic a member keeps its lowest queues, as many as its share allows; the rest is pooled and goes, in order, to
those with room, in order. Pool and room are matched from the low end on both sides, so a plan that is partly carried
out leads to the same plan again: a finished pair is missing at the same place from both.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise, repeat

__all__ = ["hand_out"]


def hand_out(cut: Sequence[int], owner: Sequence[int], shares: Iterable[list[int]]) -> list[int]:
    """Return the new owner of each queue; -1 where the shares of a topic leave some to nobody.

    >>> hand_out([0, 5], owner=[0, 0, 0, 0, 1], shares=[[2, 2, 1]])
    [0, 0, 1, 2, 1]
    """
    new = [-1] * len(owner)
    for (start, end), share in zip(pairwise(cut), shares, strict=True):
        # Nobody is -1, and finds the last place, where nothing is left.
        left = [*share, 0]
        pool: list[int] = []
        for queue in range(start, end):
            member = owner[queue]
            if left[member]:
                left[member] -= 1
                new[queue] = member
            else:
                pool.append(queue)
        if pool:
            for queue, member in zip(pool, chain.from_iterable(map(repeat, range(len(share)), left)), strict=False):
                new[queue] = member
    return new
