"""How long a broker is avoided after an attempt that took so long: steps, by name or of one's own.

The two that have names are Java's: `CLASSIC` up to 5.1.3, in 4.9 too, and `MODERN` since 5.1.4, with the rule each of
them has for a broker that is avoided already: the classic one starts anew with every attempt, so that a quick answer
ends an exclusion; with the modern one an exclusion can only become longer.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from steelyard.errors import ConfigurationError

__all__ = ["CLASSIC", "MODERN", "LatencyTable", "latency_table"]


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """Steps of latency, each with a time of avoidance; the largest step that is reached counts.

    >>> MODERN.avoid_ms(549), MODERN.avoid_ms(550), MODERN.avoid_ms(MODERN.failure_ms)
    (0, 2000, 10000)
    """

    name: str
    steps_ms: tuple[int, ...]
    avoid_for_ms: tuple[int, ...]
    failure_ms: int
    """The latency that a failure counts as."""
    overwrites: bool = False
    """Whether every attempt replaces what the ones before it led to."""

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in pairwise(self.steps_ms))
        if not rising or len(self.steps_ms) != len(self.avoid_for_ms) or min(self.avoid_for_ms, default=0) < 0:
            raise ConfigurationError(
                f"the latency table {self.name!r} has the steps {self.steps_ms} and the times {self.avoid_for_ms}",
                next_step="give rising steps, and as many times, none below 0",
            )

    @property
    def harmless_ms(self) -> int:
        """What an answer may take without any consequence: less than this.

        >>> MODERN.harmless_ms
        550
        """
        steps = zip(self.steps_ms, self.avoid_for_ms, strict=True)
        return next((step_ms for step_ms, avoid_ms in steps if avoid_ms), 1 << 62)

    def avoid_ms(self, latency_ms: int) -> int:
        """Return how long to avoid a broker that took so long."""
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
