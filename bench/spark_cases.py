"""What is measured on Spark, and the rows of the table that come of it: one for each broker of ours and each rival.

The rival is Spark's connector with a short wait at the end of a log. As it comes it waits half a second there, with
each task: that is shown beside it, and to beat it alone would be to beat a time limit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from bench.spark_meter import Cost, Meter
from bench.spark_rounds import Entrant, RoundCounts, RoundResults, run_rounds
from bench.spark_sides import Side
from bench.table import Row

Measure = Callable[[Side, Meter], Cost]
"""What a side does under the meter."""

FormatCost = Callable[[Cost], str]
"""How a cost is written."""


def reported_by_row(rows: int) -> FormatCost:
    """Write costs as seconds, and as microseconds of a processor for each of so many rows.

    >>> reported_by_row(1_000_000)(Cost(1.5, 2.5))
    '1.50 s, 2.50 µs of CPU'
    """
    return lambda cost: f"{cost.wall_s:.2f} s, {cost.cpu_s / rows * 1e6:.2f} µs of CPU"


@dataclass(frozen=True, slots=True)
class Case:
    """One piece of work: what it is called, what a side does, and how its cost is told."""

    what: str
    measure: Measure
    reported: FormatCost


@dataclass(frozen=True, slots=True)
class Contest:
    """Who takes turns: those who are beaten or not, and those who are only shown."""

    spark: SparkSession
    counts: RoundCounts
    ours: Sequence[Side]
    rivals: Sequence[Side]
    asides: Sequence[Side] = ()

    def rows(self, case: Case) -> Iterator[Row]:
        """Let everybody do it in turns."""
        entrants = [entrant(side, case.measure) for side in (*self.rivals, *self.ours)]
        entrants += [replace(entrant(side, case.measure), is_aside=True) for side in self.asides]
        results = run_rounds(self.spark, entrants, self.counts)
        shown = "".join(f" ({side.name}: {results.reported(side.name, case.reported)})" for side in self.asides)
        for rival in self.rivals:
            for side in self.ours:
                row = compared(f"{case.what}, {side.name}", results, side.name, rival.name, case.reported)
                yield row._replace(beside=row.beside + shown)


def entrant(side: Side, measure: Measure) -> Entrant:
    """Let a side take turns."""
    return Entrant(side.name, side.pids, lambda meter: measure(side, meter))


def compared(what: str, results: RoundResults, ours: str, rival: str, reported: FormatCost, goal: float = 1.0) -> Row:
    """Return the row of two of them: by the clock and by the processors, both have to reach the goal."""
    mine, other = results.of(ours), results.of(rival)
    wall, cpu = (other.wall_s / mine.wall_s, other.cpu_s / mine.cpu_s) if mine and other else (0.0, 0.0)
    return Row(
        what,
        results.reported(ours, reported),
        f"{rival}: {results.reported(rival, reported)}",
        f"{wall:.2f}x, by CPU {cpu:.2f}x",
        f"≥ {goal:g}x, both",
        min(wall, cpu) >= goal,
    )
