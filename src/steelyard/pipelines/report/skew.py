"""How uneven a load is, in one number that people understand: the most over the mean.

1.0 is even. 4.1 says that the busiest has 4.1 times what it would have if all had the same; and since a group is done
only when its busiest queue is, the whole takes 4.1 times as long as it could. All in one of sixteen is 16.

Chance alone makes few things uneven. A queue that should get 4 messages often gets 8, one that should get 4,000 hardly
ever 4,300: `Skew.is_uneven` asks for more than chance would do, and for more than is worth a word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Generic, TypeVar

__all__ = ["Skew", "skew"]

_WORTH_A_WORD = 1.25
_CHANCE = 4.0
"""Deviations from the mean beyond which it is not chance: once in some ten thousand."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Skew(Generic[T]):
    """A load over several: how much, how even, and who has the most."""

    parts: int
    total: float
    busiest: T | None
    """None if there is nobody, or nothing."""
    most: float
    empty: int
    """How many have nothing."""

    @property
    def mean(self) -> float:
        """What each would have if all had the same."""
        return self.total / self.parts if self.parts else 0.0

    @property
    def ratio(self) -> float:
        """The most over the mean; 1 if there is nothing."""
        return self.most / self.mean if self.mean else 1.0

    @property
    def is_uneven(self) -> bool:
        """Whether it is more than chance does, and more than is worth a word."""
        return self.mean > 0 and self.ratio > max(_WORTH_A_WORD, 1 + _CHANCE / sqrt(self.mean))


def skew(loads: Mapping[T, float]) -> Skew[T]:
    """Weigh loads; of two that have the same, the first is the busiest.

    >>> weighed = skew({"broker-a:0": 10, "broker-a:1": 10, "broker-b:0": 40, "broker-b:1": 20})
    >>> weighed.busiest, weighed.mean, weighed.ratio
    ('broker-b:0', 20.0, 2.0)
    """
    total = sum(loads.values())
    busiest = max(loads, key=loads.__getitem__, default=None) if total else None
    most = loads[busiest] if busiest is not None else 0.0
    return Skew(len(loads), total, busiest, most, sum(not load for load in loads.values()))
