"""When to look at the group: one round at a time, the first notice at once, a storm of them in a few rounds.

A round that is wanted begins as soon as none is running and the one before the last began a gap ago: brokers tell of
one change one after the other, and the second must not wait for the first. In a storm there is one round a gap.
Whatever is wanted while one runs makes exactly one more. How soon an undisturbed group is looked at again depends on
whether it is at rest.

Left out: what a round asks, and whom (views.py).
"""

from dataclasses import dataclass

__all__ = ["NEVER_MS", "BackOff", "Rounds", "SecondLook", "next_look_ms"]

NEVER_MS = 1 << 62
"""Later than anything: what is due then is not due."""


@dataclass(slots=True)
class BackOff:
    """Waits that double.

    >>> wait = BackOff(1_000, 5_000)
    >>> [wait.after(0) for _ in range(4)]
    [1000, 2000, 4000, 5000]
    >>> wait.reset()
    >>> wait.after(7)
    1007
    """

    least_ms: int
    most_ms: int
    tries: int = 0

    def after(self, now_ms: int) -> int:
        """Return when to try again, and wait longer next time."""
        wait_ms = min(self.least_ms << min(self.tries, 32), self.most_ms)
        self.tries += 1
        return now_ms + wait_ms

    def reset(self) -> None:
        """Begin with the shortest wait again: it went well."""
        self.tries = 0


class Rounds:
    """Single flight and gaps.

    >>> rounds = Rounds(gap_ms=200)
    >>> rounds.want(0)
    >>> rounds.due_ms()
    0
    >>> rounds.begin(0)
    >>> rounds.want(10)
    >>> rounds.want(20)
    >>> rounds.due_ms() == NEVER_MS
    True
    >>> rounds.end()
    >>> rounds.due_ms()
    10
    >>> rounds.begin(30)
    >>> rounds.end()
    >>> rounds.want(40)
    >>> rounds.due_ms()
    200
    """

    def __init__(self, gap_ms: int) -> None:
        self.count = 0
        """How many rounds there were."""
        self.is_running = False
        self.began_ms: int | None = None
        self._gap_ms = gap_ms
        self._free_ms = -NEVER_MS
        """When one more may begin: each takes a gap of time, and one may be taken ahead."""
        self._wanted_ms = NEVER_MS

    def want(self, at_ms: int) -> None:
        """Ask for a round at a time, or as soon after it as may be; an earlier wish stays."""
        self._wanted_ms = min(self._wanted_ms, at_ms)

    def due_ms(self) -> int:
        """Return when a wanted round may begin; never while one runs or none is wanted."""
        if self.is_running or self._wanted_ms == NEVER_MS:
            return NEVER_MS
        return max(self._wanted_ms, self._free_ms)

    def begin(self, now_ms: int) -> None:
        """Take note that a round begins: everything wanted so far is in it."""
        self.count += 1
        self.is_running = True
        self.began_ms = now_ms
        self._free_ms = max(self._free_ms + self._gap_ms, now_ms)
        self._wanted_ms = NEVER_MS

    def end(self) -> None:
        """Take note that the round is over."""
        self.is_running = False


class SecondLook:
    """Two equal looks, a moment apart, before something is done; but no waiting for ever where each look differs.

    >>> look = SecondLook(wait_ms=200, most_ms=5_000)
    >>> look.confirms("a", 0), look.confirms("b", 100), look.confirms("b", 299), look.confirms("b", 300)
    (False, False, False, True)
    >>> look.confirms("b", 301), look.confirms("c", 400)
    (True, False)
    >>> look.again_ms
    600
    """

    def __init__(self, wait_ms: int, most_ms: int) -> None:
        self._wait_ms = wait_ms
        self._most_ms = most_ms
        self._seen: object = None
        self._seen_ms = 0
        self._unsure_ms: int | None = None

    @property
    def again_ms(self) -> int:
        """When an equal look will do."""
        return self._seen_ms + self._wait_ms

    def confirms(self, seen: object, now_ms: int) -> bool:
        """Say whether this was seen before, long enough ago; or something else each time, for too long."""
        if seen != self._seen:
            self._seen, self._seen_ms = seen, now_ms
            if self._unsure_ms is None:
                self._unsure_ms = now_ms
        is_sure = now_ms >= self.again_ms or (self._unsure_ms is not None and now_ms - self._unsure_ms >= self._most_ms)
        if is_sure:
            self._unsure_ms = None
        return is_sure


def next_look_ms(last_ms: int, soon_ms: int, seldom_ms: int, calm_ms: int) -> int:
    """Return when to look again after a last look: soon until all is calm, then seldom.

    >>> next_look_ms(0, 5, 20, calm_ms=60), next_look_ms(56, 5, 20, calm_ms=60)
    (5, 76)
    """
    return last_ms + (soon_ms if last_ms + soon_ms <= calm_ms else seldom_ms)
