"""What is to be done later, in the order it is due; what is due at once is done in the order it was asked for.

A timer is never cancelled: whoever is called looks whether there is still something to do.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from steelyard.balance.rounds import NEVER_MS

__all__ = ["Timers", "sooner"]


def sooner(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the sooner of two times, of which None is never.

    >>> sooner(None, 5), sooner(7, 5), sooner(None, None)
    (5, 5, None)
    """
    return one_ms if other_ms is None else other_ms if one_ms is None else min(one_ms, other_ms)


class Timers:
    """A member's alarm clock.

    >>> timers, said = Timers(), []
    >>> timers.at(20, said.append, "later")
    >>> timers.at(10, said.append, "first")
    >>> timers.due_ms()
    10
    >>> timers.run(15)
    >>> said
    ['first']
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = 0

    def at(self, due_ms: int, call: Callable[..., None], *about: object) -> None:
        """Call something at a time, or as soon after it as somebody looks."""
        self._number += 1
        heappush(self._waiting, (due_ms, self._number, call, about))

    def due_ms(self) -> int:
        """Return when the next one is due."""
        return self._waiting[0][0] if self._waiting else NEVER_MS

    def run(self, now_ms: int) -> None:
        """Do what is due; what that asks for is for the next time, even if it is due already."""
        last = self._number
        early: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            alarm = heappop(self._waiting)
            if alarm[1] > last:
                early.append(alarm)
            else:
                alarm[2](*alarm[3])
        for alarm in early:
            heappush(self._waiting, alarm)
