"""Rules for topics: queues to write and to read, and how evenly they are filled.

*Skew* is the maximum over the mean. 1.0 is even; 4.1 means that the busiest queue has 4.1 times the mean, and since a
group is done only when its busiest queue is, everything takes 4.1 times as long as it could. Small numbers are uneven
by chance: `Skew.is_uneven` requires more than chance explains.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Generic, TypeVar

from steelyard.diagnostics import thresholds
from steelyard.model.finding import Finding, Severity

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic of a user, as servers list it."""

    name: str
    brokers: int
    """How many that answer have it."""
    readable: int
    """Queues that exist to be read, whether or not that is allowed."""
    may_read: bool = True
    may_write: bool = True


def diagnose_topic(topic: TopicFacts) -> Iterator[Finding]:
    """Yield what is wrong with a topic: each has queues, and can be written to and read."""
    subject = f"topic {topic.name}"
    if not topic.brokers:
        yield Finding(
            f"nowhere: {topic.name}",
            "name servers know it, and no broker that can be reached has it",
            Severity.WARNING,
            subject,
            f"see whether its broker is down; if it is gone for good: steelyard topic delete {topic.name}",
        )
    elif not topic.readable:
        step = f"give it some: steelyard topic add-queues {topic.name} --to 8"
        yield Finding(f"no queues: {topic.name}", "it has no queues to read", Severity.ERROR, subject, step)
    elif not topic.may_write or not topic.may_read:
        what = "it cannot be read" if topic.may_write else "it cannot be written to"
        step = f"if that is not wanted: steelyard topic set {topic.name} --may read-write"
        yield Finding(f"permission: {topic.name}", what, Severity.WARNING, subject, step)


@dataclass(frozen=True, slots=True)
class Skew(Generic[T]):
    """The distribution of a load: total, maximum, and who has it."""

    parts: int
    total: float
    busiest: T | None  # None if there is no load
    max_load: float
    empty: int  # how many have no load

    @property
    def mean(self) -> float:
        """The load of each if it were even."""
        return self.total / self.parts if self.parts else 0.0

    @property
    def ratio(self) -> float:
        """The maximum over the mean; 1 if there is no load."""
        return self.max_load / self.mean if self.mean else 1.0

    @property
    def is_uneven(self) -> bool:
        """Whether it is more than chance, and notable."""
        if not self.mean:
            return False
        return self.ratio > max(thresholds.UNEVEN_RATIO, 1 + thresholds.CHANCE_DEVIATIONS / sqrt(self.mean))


def measure_skew(loads: Mapping[T, float]) -> Skew[T]:
    """Measure the skew of loads; of two equal maxima the first is the busiest.

    >>> weighed = measure_skew({"broker-a:0": 10, "broker-a:1": 10, "broker-b:0": 40, "broker-b:1": 20})
    >>> weighed.busiest, weighed.mean, weighed.ratio
    ('broker-b:0', 20.0, 2.0)
    """
    total = sum(loads.values())
    busiest = max(loads, key=loads.__getitem__, default=None) if total else None
    most = loads[busiest] if busiest is not None else 0.0
    return Skew(len(loads), total, busiest, most, sum(not load for load in loads.values()))
