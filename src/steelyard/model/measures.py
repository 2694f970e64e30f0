"""What is measured: families of samples, as values; how they are written down is in `steelyard.model.exposition`.

A `Measure` says once what a family is called, what it counts and which labels its samples carry; a `Family` is that
with the samples of one moment. Every family that Steelyard tells is declared as a `Measure`, so that the page that
documents them, the board that draws them and the code that fills them cannot come apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from steelyard.errors import ConfigurationError
from steelyard.model.buckets import Buckets

__all__ = ["NODE", "Distribution", "Family", "Kind", "Measure", "Node", "Row", "Sample", "joined"]

NODE = ("cluster", "node_type", "node_id")
"""The labels that say which server a sample is of: every family of a server has them, and has them first."""

_OF_COUNTERS = "_total"


Row: TypeAlias = tuple[tuple[str, ...], float | Buckets]
"""The values of a sample's labels, in the order of its measure, and its number, or the buckets of a histogram."""


class Kind(StrEnum):
    """What may be done with the numbers of a family."""

    COUNTER = "counter"
    """Only grows, and begins at nothing with its process."""
    GAUGE = "gauge"
    """Goes up and down."""
    HISTOGRAM = "histogram"
    """How many fell under each of a few bounds; its samples are `Distribution` values."""


class Sample(Struct, frozen=True, gc=False):
    """One number, and of what it is."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """How values were spread: ``under`` says for each bound how many were at or below it.

    >>> spread = Distribution({}, (1.0, 10.0), (2, 3), total=4, sum=120.5)
    >>> spread.total - spread.under[-1]
    1
    """

    labels: Mapping[str, str]
    bounds: tuple[float, ...]
    under: tuple[int, ...]
    total: int
    sum: float

    @classmethod
    def of(cls, labels: Mapping[str, str], buckets: Buckets) -> "Distribution":
        """Return what buckets hold at this moment."""
        return cls(labels, buckets.bounds, tuple(buckets.cumulative()[:-1]), buckets.total, buckets.sum)


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name at one moment."""

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample | Distribution, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """A family that can be told: its name as Prometheus stores it, what it counts, and the labels of its samples.

    >>> lines = Measure("steelyard_lines", Kind.GAUGE, "Lines that are open.", ("node_id",))
    >>> lines.family([(("broker-a",), 3)]).samples
    (Sample(labels={'node_id': 'broker-a'}, value=3),)
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind is Kind.COUNTER) != self.name.endswith(_OF_COUNTERS):
            raise ConfigurationError(
                f"{self.name} is a {self.kind}",
                next_step=f"let the names of counters, and no others, end in {_OF_COUNTERS}",
            )

    def family(self, rows: Iterable[Row]) -> Family:
        """Return the family with its samples: each the values of its labels in their order, and its number."""
        samples = (self._sample(dict(zip(self.labels, values, strict=True)), number) for values, number in rows)
        return Family(self.name, self.kind, self.help, tuple(samples))

    def _sample(self, labels: dict[str, str], number: float | Buckets) -> Sample | Distribution:
        if isinstance(number, float | int):
            return Sample(labels, number)
        return Distribution.of(labels, number)


@dataclass(frozen=True, slots=True)
class Node:
    """The server that samples are of.

    >>> lines = Measure("steelyard_lines", Kind.GAUGE, "Lines that are open.", NODE)
    >>> Node("shop", "broker", "broker-a").tell(lines, [((), 3)]).samples[0].labels["node_id"]
    'broker-a'
    """

    cluster: str
    kind: str
    id: str

    def tell(self, measure: Measure, rows: Iterable[Row]) -> Family:
        """Return a family of this server; rows begin behind the labels that say which server it is."""
        own = (self.cluster, self.kind, self.id)
        return measure.family(((*own, *values), number) for values, number in rows)


def joined(parts: Iterable[Family]) -> list[Family]:
    """Return one family for each name, in the order in which names came first: several servers tell the same ones."""
    found: dict[str, list[Family]] = {}
    for part in parts:
        found.setdefault(part.name, []).append(part)
    return [
        replace(same[0], samples=tuple(sample for part in same for sample in part.samples)) for same in found.values()
    ]
