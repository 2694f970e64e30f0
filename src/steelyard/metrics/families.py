"""What is measured: families of samples, as values; exposition.py writes them as text.

A `MetricSpec` declares a family once: its name, its help and its labels. A `MetricFamily` is that with the samples of
one moment. Every family of Steelyard is declared as a spec, so that the page that documents it, the board that draws it
and the code that fills it cannot diverge.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import Self, TypeAlias

from msgspec import Struct

from steelyard.errors import ConfigurationError


class Histogram:
    """Counts of values in buckets with fixed upper bounds, a total and a sum: no percentiles, no time.

    A value counts in the first bucket whose bound it does not exceed; the last bucket has no bound.

    >>> gaps = Histogram((0.01, 0.1))
    >>> for gap_s in (0.005, 0.01, 0.055, 4):
    ...     gaps.add(gap_s)
    >>> gaps.counts, gaps.total, gaps.sum
    ([2, 1, 1], 4, 4.07)
    >>> gaps.cumulative()
    [2, 3, 4]
    """

    __slots__ = ("bounds", "counts", "sum", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        if list(bounds) != sorted(set(bounds)):
            raise ConfigurationError(
                f"the bounds of buckets {bounds} do not grow", next_step="give each once, the smallest first"
            )
        self.bounds = bounds
        """The upper bound of each bucket but the last."""
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += 1
        self.sum += value

    def __iadd__(self, other: Self) -> Self:
        """Count the values of another one with the same bounds."""
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.sum += other.sum
        return self

    def cumulative(self) -> list[int]:
        """Return for each bucket the number of values at or below its bound; the last is the total."""
        return list(accumulate(self.counts))

    def __repr__(self) -> str:
        return f"Histogram({self.total} values, {self.sum:g} in sum)"


NODE_LABELS = ("cluster", "node_type", "node_id")
"""The labels of the server that a sample is of: the first ones of every family of a server."""

_COUNTER_SUFFIX = "_total"


SampleRow: TypeAlias = tuple[tuple[str, ...], float | Histogram]
"""The values of a sample's labels, in the order of its spec, and its number or histogram."""


class MetricType(StrEnum):
    """The type of a family, as Prometheus calls it."""

    COUNTER = "counter"
    """Only grows, and starts at 0 with its process."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    """Its samples are `HistogramSample` values."""


class Sample(Struct, frozen=True, gc=False):
    """One number and its labels."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """A histogram at one moment: ``cumulative_counts`` has the number of values at or below each bound.

    >>> spread = HistogramSample({}, (1.0, 10.0), (2, 3), total=4, sum=120.5)
    >>> spread.total - spread.cumulative_counts[-1]
    1
    """

    labels: Mapping[str, str]
    bounds: tuple[float, ...]
    cumulative_counts: tuple[int, ...]
    total: int
    sum: float


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """All samples of one name at one moment."""

    name: str
    kind: MetricType
    help: str
    samples: tuple[Sample | HistogramSample, ...]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The declaration of a family: its name as Prometheus stores it, its help, and the labels of its samples.

    >>> spec = MetricSpec("steelyard_connections", MetricType.GAUGE, "Open connections.", ("node_id",))
    >>> spec.family([(("broker-a",), 3)]).samples
    (Sample(labels={'node_id': 'broker-a'}, value=3),)
    """

    name: str
    kind: MetricType
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind is MetricType.COUNTER) != self.name.endswith(_COUNTER_SUFFIX):
            raise ConfigurationError(
                f"{self.name} is a {self.kind}",
                next_step=f"let the names of counters, and no others, end in {_COUNTER_SUFFIX}",
            )

    def family(self, rows: Iterable[SampleRow]) -> MetricFamily:
        """Return the family with its samples: each has the values of its labels in their order, and its number."""
        samples = (self._sample(dict(zip(self.labels, values, strict=True)), number) for values, number in rows)
        return MetricFamily(self.name, self.kind, self.help, tuple(samples))

    def _sample(self, labels: dict[str, str], number: float | Histogram) -> Sample | HistogramSample:
        if isinstance(number, float | int):
            return Sample(labels, number)
        return HistogramSample(labels, number.bounds, tuple(number.cumulative()[:-1]), number.total, number.sum)


class MetricCatalog:
    """Declares families, and lists them in their order; ``labels`` are the first labels of each.

    >>> catalog = MetricCatalog(("node_id",))
    >>> catalog.gauge("steelyard_lag", "Messages behind.", ("topic",)).labels
    ('node_id', 'topic')
    >>> [spec.name for spec in catalog.specs]
    ['steelyard_lag']
    """

    def __init__(self, labels: tuple[str, ...] = ()) -> None:
        self.specs: list[MetricSpec] = []
        self._labels = labels

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> MetricSpec:
        """Declare a counter."""
        return self._declare(MetricType.COUNTER, name, text, labels)

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> MetricSpec:
        """Declare a gauge."""
        return self._declare(MetricType.GAUGE, name, text, labels)

    def histogram(self, name: str, text: str, labels: tuple[str, ...] = ()) -> MetricSpec:
        """Declare a histogram."""
        return self._declare(MetricType.HISTOGRAM, name, text, labels)

    def _declare(self, kind: MetricType, name: str, text: str, labels: tuple[str, ...]) -> MetricSpec:
        self.specs.append(MetricSpec(name, kind, text, self._labels + labels))
        return self.specs[-1]


@dataclass(frozen=True, slots=True)
class MetricNode:
    """The server of samples.

    >>> spec = MetricSpec("steelyard_connections", MetricType.GAUGE, "Open connections.", NODE_LABELS)
    >>> MetricNode("shop", "broker", "broker-a").family(spec, [((), 3)]).samples[0].labels["node_id"]
    'broker-a'
    """

    cluster: str
    kind: str
    id: str

    def family(self, metric: MetricSpec, rows: Iterable[SampleRow]) -> MetricFamily:
        """Return a family of this server; rows leave out the labels of the server."""
        own = (self.cluster, self.kind, self.id)
        return metric.family(((*own, *values), number) for values, number in rows)


def merge_families(parts: Iterable[MetricFamily]) -> list[MetricFamily]:
    """Return one family for each name, in the order of their first appearance: several servers have the same ones."""
    found: dict[str, list[MetricFamily]] = {}
    for part in parts:
        found.setdefault(part.name, []).append(part)
    return [
        replace(same[0], samples=tuple(sample for part in same for sample in part.samples)) for same in found.values()
    ]
