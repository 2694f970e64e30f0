"""Timers of one member, and the rules for when it rebalances and polls again.

A timer is never cancelled: the function that it calls checks whether there is still something to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

NEVER_MS = 1 << 62
"""Later than anything: what is due then is never due."""


@dataclass(slots=True)
class BackOff:
    """Delays that double.

    >>> wait = BackOff(1_000, 5_000)
    >>> [wait.after(0) for _ in range(4)]
    [1000, 2000, 4000, 5000]
    >>> wait.reset()
    >>> wait.after(7)
    1007
    """

    min_ms: int
    max_ms: int
    tries: int = 0

    def after(self, now_ms: int) -> int:
        """Return when to try again, and wait longer the next time."""
        wait_ms = min(self.min_ms << min(self.tries, 32), self.max_ms)
        self.tries += 1
        return now_ms + wait_ms

    def reset(self) -> None:
        """Start with the shortest delay again, after a success."""
        self.tries = 0


class RebalanceTimer:
    """One rebalance at a time, with a gap between them.

    A requested rebalance starts when none is running and the last but one started a gap ago: brokers report one change
    one after the other, and the second report must not wait for the first. Requests meanwhile lead to one more.

    >>> timer = RebalanceTimer(gap_ms=200)
    >>> timer.begin(0)
    >>> timer.request(10)
    >>> timer.due_ms() == NEVER_MS
    True
    >>> timer.end()
    >>> timer.begin(30)
    >>> timer.end()
    >>> timer.request(40)
    >>> timer.due_ms()
    200
    """

    def __init__(self, gap_ms: int) -> None:
        self.count = 0
        self.is_running = False
        self.started_ms: int | None = None
        self._gap_ms = gap_ms
        self._free_ms = -NEVER_MS
        """When the next one may start: each takes a gap of time, and one may be taken ahead."""
        self._requested_ms = NEVER_MS

    def request(self, at_ms: int) -> None:
        """Request a rebalance at a time, or as soon after it as possible; an earlier request stays."""
        self._requested_ms = min(self._requested_ms, at_ms)

    def due_ms(self) -> int:
        """Return when a requested rebalance may start; never while one runs or none is requested."""
        if self.is_running or self._requested_ms == NEVER_MS:
            return NEVER_MS
        return max(self._requested_ms, self._free_ms)

    def begin(self, now_ms: int) -> None:
        """Record that a rebalance starts: it serves every request so far."""
        self.count += 1
        self.is_running = True
        self.started_ms = now_ms
        self._free_ms = max(self._free_ms + self._gap_ms, now_ms)
        self._requested_ms = NEVER_MS

    def end(self) -> None:
        """Record that the rebalance is over."""
        self.is_running = False


class ConfirmingRead:
    """Two equal reads, a moment apart, before something is done; but not endless waiting where each read differs.

    >>> read = ConfirmingRead(wait_ms=200, max_ms=5_000)
    >>> read.confirms("a", 0), read.confirms("b", 100), read.confirms("b", 299), read.confirms("b", 300)
    (False, False, False, True)
    >>> read.confirms("b", 301), read.confirms("c", 400)
    (True, False)
    >>> read.confirms_at_ms
    600
    """

    def __init__(self, wait_ms: int, max_ms: int) -> None:
        self._wait_ms = wait_ms
        self._max_ms = max_ms
        self._last_read: object = None
        self._last_read_ms = 0
        self._unconfirmed_since_ms: int | None = None

    @property
    def confirms_at_ms(self) -> int:
        """When an equal read will confirm the last one."""
        return self._last_read_ms + self._wait_ms

    def confirms(self, read: object, now_ms: int) -> bool:
        """Say whether an equal read was long enough ago, or reads have differed for too long."""
        if read != self._last_read:
            self._last_read, self._last_read_ms = read, now_ms
            if self._unconfirmed_since_ms is None:
                self._unconfirmed_since_ms = now_ms
        is_sure = now_ms >= self.confirms_at_ms or (
            self._unconfirmed_since_ms is not None and now_ms - self._unconfirmed_since_ms >= self._max_ms
        )
        if is_sure:
            self._unconfirmed_since_ms = None
        return is_sure


def next_poll_ms(last_ms: int, unsettled_interval_ms: int, interval_ms: int, settled_at_ms: int) -> int:
    """Return when to poll again: soon until everything has settled, then seldom.

    >>> next_poll_ms(0, 5, 20, settled_at_ms=60), next_poll_ms(56, 5, 20, settled_at_ms=60)
    (5, 76)
    """
    return last_ms + (unsettled_interval_ms if last_ms + unsettled_interval_ms <= settled_at_ms else interval_ms)


def earliest(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the earlier of two times, of which None is never.

    >>> earliest(None, 5), earliest(7, 5), earliest(None, None)
    (5, 5, None)
    """
    return one_ms if other_ms is None else other_ms if one_ms is None else min(one_ms, other_ms)


class TimerQueue:
    """Calls that are due later, in the order they are due.

    >>> timers, said = TimerQueue(), []
    >>> timers.call_at(20, said.append, "later")
    >>> timers.call_at(10, said.append, "first")
    >>> timers.due_ms
    10
    >>> timers.run_due(15)
    >>> said
    ['first']
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = 0
        self.due_ms = NEVER_MS
        """When the next call is due."""

    def call_at(self, due_ms: int, call: Callable[..., None], *arguments: object) -> None:
        """Call a function at a time, or at the first `run_due` after it."""
        self._number += 1
        heappush(self._waiting, (due_ms, self._number, call, arguments))
        self.due_ms = self._waiting[0][0]

    def run_due(self, now_ms: int) -> None:
        """Run the calls that are due; calls that they add wait for the next run, even if due already."""
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
        self.due_ms = self._waiting[0][0] if self._waiting else NEVER_MS
