"""Broker latency (latency fault tolerance): how fast each broker answers, and until when it is avoided.

Every finished attempt is recorded. A table maps its duration to the time for which the broker is avoided; a failure
counts as a fixed long duration. Beyond Java: an exclusion always ends by time. Then one message tries the broker, and
the others wait for its outcome, so that one sender is held up and not all. A broker that comes back gets a growing
share of its turns, so that a thousand producers do not flood it at once. Optionally, latency is relative to the other
brokers: if all are slow, none is avoided. If all are avoided, the better half is used, in turns.

Left out: which errors count (send_attempts.py), and probes, since the next message is one. The clock is monotonic.
"""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from msgspec import Struct

from steelyard.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """Steps of latency, each with a time of avoidance; the largest step that is reached counts.

    `CLASSIC` is Java's table up to 5.1.3 (and in 4.9), `MODERN` that since 5.1.4. They also differ for a broker that is
    avoided already: the classic one starts anew with every attempt, so a quick response ends an exclusion; with the
    modern one an exclusion can only become longer.

    >>> MODERN.avoid_ms(549), MODERN.avoid_ms(550), MODERN.avoid_ms(MODERN.failure_ms)
    (0, 2000, 10000)
    """

    name: str
    steps_ms: tuple[int, ...]
    avoid_for_ms: tuple[int, ...]
    failure_ms: int
    """The latency that a failure counts as."""
    overwrites: bool = False
    """Whether every attempt replaces the exclusion so far."""

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in pairwise(self.steps_ms))
        if not rising or len(self.steps_ms) != len(self.avoid_for_ms) or min(self.avoid_for_ms, default=0) < 0:
            raise ConfigurationError(
                f"the latency table {self.name!r} has the steps {self.steps_ms} and the times {self.avoid_for_ms}",
                next_step="give rising steps, and as many times, none below 0",
            )

    @property
    def harmless_ms(self) -> int:
        """A response may take less than this without any consequence.

        >>> MODERN.harmless_ms
        550
        """
        steps = zip(self.steps_ms, self.avoid_for_ms, strict=True)
        return next((step_ms for step_ms, avoid_ms in steps if avoid_ms), 1 << 62)

    def avoid_ms(self, latency_ms: int) -> int:
        """Return how long to avoid a broker with this latency."""
        at = bisect_right(self.steps_ms, latency_ms)
        return self.avoid_for_ms[at - 1] if at else 0


CLASSIC = LatencyTable(
    "classic",
    steps_ms=(50, 100, 550, 1_000, 2_000, 3_000, 15_000),
    avoid_for_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    failure_ms=30_000,
    overwrites=True,
)

MODERN = LatencyTable(
    "modern",
    steps_ms=(50, 100, 550, 1_800, 3_000, 5_000, 15_000),
    avoid_for_ms=(0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
    failure_ms=10_000,
)


def latency_table(name: str) -> LatencyTable:
    """Return the table of that name.

    >>> latency_table("classic").failure_ms
    30000
    """
    for table in (CLASSIC, MODERN):
        if table.name == name.strip().casefold():
            return table
    raise ConfigurationError(
        f"no latency table is called {name!r}", next_step="give classic, modern or one of your own"
    )


_FULL_SHARE = 1_000
_FIRST_SHARE = 125
"""In thousandths: with less than every eighth turn, a broker's return would not be noticed."""

_TRIAL_MS = 3_000
"""How long to wait for the message that tries a broker; some have no outcome."""

_SUBMILLISECONDS = 64
"""Averages are kept in these parts of a millisecond: whole ones, rounded each time, would never fall below 2."""

_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The state of a broker, for users."""

    broker: str
    latency_ms: int
    """Of the last attempt; a failure counts as the table says."""
    usual_ms: int | None
    """The moving average of its responses; None if it never answered."""
    share: float
    """The share of its turns that it gets now: 0 while it is avoided, 1 when all is well."""
    avoided_until_ms: int | None
    avoided_since_ms: int | None
    why: str
    failures: int = 0
    """Attempts that failed, since it is tracked."""


class _TrackedBroker(Struct):
    latency_ms: int = 0
    average: int | None = None
    avoided_since_ms: int = _NEVER
    avoided_until_ms: int = _NEVER
    why: str = ""
    failures: int = 0
    credit: int = 0
    is_on_trial: bool = False
    """Whether it has had no quick response since it was last avoided."""
    trial_ms: int = _NEVER
    """When it was last tried, while on trial."""


class LatencyTracker:
    """The latency of brokers, by name.

    >>> tracker = LatencyTracker()
    >>> tracker.record_latency("broker-a", took_ms=700, failed=False, now_ms=10_000)
    >>> tracker.is_avoided("broker-a", 10_000), tracker.is_avoided("broker-a", 12_000)
    (True, False)
    >>> tracker.snapshot(10_000)[0].why
    'it took 700 ms'
    """

    def __init__(self, table: LatencyTable = MODERN, *, ramp_ms: int = 5_000, relative_to_median: bool = False) -> None:
        if ramp_ms < 0:
            raise ConfigurationError(f"ramp_ms is {ramp_ms}", next_step="give 0 or more; 0 means at once")
        self.table = table
        self.ramp_ms = ramp_ms
        self.relative_to_median = relative_to_median
        self._brokers: dict[str, _TrackedBroker] = {}
        self._all_available_ms = _NEVER
        self._harmless_ms = table.harmless_ms

    def record_latency(self, broker: str, took_ms: int, failed: bool, now_ms: int) -> None:
        """Record a finished attempt; never one that is still unanswered."""
        tracked = self._brokers.get(broker) or self._track(broker)
        tracked.latency_ms = self.table.failure_ms if failed else took_ms
        if failed:
            tracked.failures += 1
        else:
            usual, took = tracked.average, took_ms * _SUBMILLISECONDS
            tracked.average = took if usual is None else (3 * usual + took + 2) // 4
        is_harmless = took_ms < self._harmless_ms and not failed
        avoid_ms = 0 if is_harmless else self.table.avoid_ms(self._effective_latency_ms(broker, took_ms, failed))
        if avoid_ms > 0:
            self._avoid(tracked, avoid_ms, now_ms)
            tracked.why = "it failed" if failed else f"it took {took_ms} ms"
        elif tracked.is_on_trial:
            tracked.is_on_trial = False
            share = self._share_of(tracked, now_ms)
            if share < _FULL_SHARE and (share or self.table.overwrites):
                self._start_ramp(tracked, now_ms)

    def _track(self, broker: str) -> _TrackedBroker:
        tracked = self._brokers[broker] = _TrackedBroker()
        self._on_change()
        return tracked

    def _on_change(self) -> None:
        """Do nothing; a subclass may publish that a broker is new, or is avoided from now on."""

    def _effective_latency_ms(self, broker: str, took_ms: int, failed: bool) -> int:
        """Return the latency to look up in the table."""
        if failed:
            return self.table.failure_ms
        if not self.relative_to_median:
            return took_ms
        others = [each.average for name, each in self._brokers.items() if name != broker and each.average is not None]
        return took_ms - _to_ms(median_low(others)) if others else 0

    def _avoid(self, tracked: _TrackedBroker, avoid_ms: int, now_ms: int) -> None:
        until_ms = now_ms + avoid_ms
        if not tracked.avoided_since_ms <= now_ms < tracked.avoided_until_ms:
            tracked.avoided_since_ms, tracked.avoided_until_ms = now_ms, until_ms
        elif self.table.overwrites or until_ms > tracked.avoided_until_ms:
            tracked.avoided_until_ms = until_ms
        tracked.credit = 0
        tracked.is_on_trial, tracked.trial_ms = True, _NEVER
        self._all_available_ms = max(self._all_available_ms, tracked.avoided_until_ms + self.ramp_ms)
        self._on_change()

    def _start_ramp(self, tracked: _TrackedBroker, now_ms: int) -> None:
        """Let its share of the turns grow from now on."""
        tracked.avoided_since_ms = tracked.avoided_until_ms = now_ms
        tracked.credit = 0
        self._all_available_ms = max(self._all_available_ms, now_ms + self.ramp_ms)

    def are_all_available(self, now_ms: int) -> bool:
        """Say whether no broker is avoided or coming back: the quick check before the others."""
        return now_ms >= self._all_available_ms

    def is_avoided(self, broker: str, now_ms: int) -> bool:
        """Say whether a broker is avoided now; an unknown one is not."""
        tracked = self._brokers.get(broker)
        # Comparing with the start too ends an exclusion even if a clock was set back.
        return tracked is not None and tracked.avoided_since_ms <= now_ms < tracked.avoided_until_ms

    def _share_of(self, tracked: _TrackedBroker, now_ms: int) -> int:
        if tracked.avoided_since_ms <= now_ms < tracked.avoided_until_ms:
            return 0
        back_ms = now_ms - tracked.avoided_until_ms
        if not 0 <= back_ms < self.ramp_ms:
            return _FULL_SHARE
        return max(_FIRST_SHARE, back_ms * _FULL_SHARE // self.ramp_ms)

    def admits(self, broker: str, now_ms: int) -> bool:
        """Say whether a broker takes this turn; one that comes back takes some, evenly spread."""
        tracked = self._brokers.get(broker)
        if tracked is None:
            return True
        share = self._share_of(tracked, now_ms)
        if share == _FULL_SHARE:
            return True
        if tracked.is_on_trial and share:
            if 0 <= now_ms - tracked.trial_ms < _TRIAL_MS:
                return False
            tracked.trial_ms = now_ms
            return True
        tracked.credit += share
        if tracked.credit < _FULL_SHARE:
            return False
        tracked.credit -= _FULL_SHARE
        return True

    def least_bad(self, brokers: Collection[str], turn: int, now_ms: int) -> str:
        """Return one of brokers that are all avoided: in turns, one of the better half; if some are not, one of them.

        >>> tracker = LatencyTracker()
        >>> for broker, took_ms in (("a", 4_000), ("b", 600), ("c", 2_000), ("d", 9_000)):
        ...     tracker.record_latency(broker, took_ms, failed=False, now_ms=0)
        >>> [tracker.least_bad("abcd", turn, 1) for turn in range(4)]
        ['b', 'c', 'b', 'c']
        """
        usable = [broker for broker in brokers if not self.is_avoided(broker, now_ms)]
        if usable:
            return usable[turn % len(usable)]
        ranked = sorted(
            brokers, key=lambda broker: (self._brokers[broker].latency_ms, self._brokers[broker].avoided_until_ms)
        )
        return ranked[turn % max(1, len(ranked) // 2)]

    def snapshot(self, now_ms: int) -> tuple[BrokerHealth, ...]:
        """Return the state of every tracked broker."""
        return tuple(self._health_of(broker, tracked, now_ms) for broker, tracked in sorted(self._brokers.items()))

    def _health_of(self, broker: str, tracked: _TrackedBroker, now_ms: int) -> BrokerHealth:
        share = self._share_of(tracked, now_ms)
        since_ms, until_ms = (tracked.avoided_since_ms, tracked.avoided_until_ms) if share == 0 else (None, None)
        why = tracked.why if share < _FULL_SHARE else ""
        usual_ms = None if tracked.average is None else _to_ms(tracked.average)
        latency_ms, failures = tracked.latency_ms, tracked.failures
        return BrokerHealth(broker, latency_ms, usual_ms, share / _FULL_SHARE, until_ms, since_ms, why, failures)

    def broker_appeared(self, broker: str, now_ms: int) -> None:
        """Record that a broker is in a route again: it comes back step by step."""
        tracked = self._brokers.get(broker) or self._track(broker)
        if not self.is_avoided(broker, now_ms):
            self._start_ramp(tracked, now_ms)
            tracked.why = "it was not in the route"

    def retain(self, brokers: Collection[str], now_ms: int) -> None:
        """Forget all other brokers, which are in no route any more.

        One that is avoided or coming back is kept, since a restarted broker is missing in the route for a while.
        """
        for broker, tracked in list(self._brokers.items()):
            if broker not in brokers and self._share_of(tracked, now_ms) == _FULL_SHARE:
                del self._brokers[broker]


def _to_ms(usual: int) -> int:
    return (usual + _SUBMILLISECONDS // 2) // _SUBMILLISECONDS
