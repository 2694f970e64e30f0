"""Turns on Spark: one after the other does the same work, round for round, and the median of each counts.

A first turn of everybody is not timed: it warms the JVM, which is the same for all. Whoever is only shown beside
others, and has no goal to decide, has a single turn. What fails is told, and its row misses the goal.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.spark_meter import Cost, Meter


@dataclass(frozen=True, slots=True)
class Entrant:
    """Who takes turns: a name, the servers that work for it, and what it does under the meter."""

    name: str
    pids: tuple[int, ...]
    measure: Callable[[Meter], Cost]
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """How many turns there are that do not count, and that do."""

    warm: int = 1
    rounds: int = 3


@dataclass(slots=True)
class RoundResults:
    """What the turns took, by name."""

    costs: dict[str, list[Cost]] = field(default_factory=lambda: defaultdict(list))
    faults: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Cost | None:
        """Return the medians; None if a turn failed or there was none."""
        costs = self.costs.get(name)
        if not costs or name in self.faults:
            return None
        middle = sorted(costs)[len(costs) // 2]
        return Cost(median(cost.wall_s for cost in costs), median(cost.cpu_s for cost in costs), middle.note)

    def reported(self, name: str, format_cost: Callable[[Cost], str]) -> str:
        """Return the medians as text."""
        cost = self.of(name)
        if cost is None:
            return self.faults.get(name, "left out")
        return f"{format_cost(cost)}, {cost.note}" if cost.note else format_cost(cost)


def run_rounds(spark: SparkSession, entrants: Sequence[Entrant], counts: RoundCounts) -> RoundResults:
    """Let everybody do it, first without counting."""
    results = RoundResults()
    leading = [entrant for entrant in entrants if not entrant.is_aside]
    for _ in range(counts.warm):
        _round(spark, leading, RoundResults())
    for _ in range(counts.rounds):
        _round(spark, leading, results)
    _round(spark, (entrant for entrant in entrants if entrant.is_aside), results)
    return results


def _round(spark: SparkSession, entrants: Iterable[Entrant], results: RoundResults) -> None:
    java = spark.sparkContext._jvm
    assert java is not None
    process: int = java.java.lang.ProcessHandle.current().pid()
    for entrant in entrants:
        java.java.lang.System.gc()
        try:
            results.costs[entrant.name].append(entrant.measure(Meter((process, *entrant.pids))))
        except (PySparkException, RuntimeError, OSError) as problem:
            text = str(problem)
            print(f"{entrant.name}: {text[:500]} … {text[-500:]}", flush=True)
            results.faults[entrant.name] = "did not finish"
