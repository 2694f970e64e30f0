"""The pieces of work on Spark: topics into nothing, into a count and into files, as batches and streams, and back."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame

from bench.spark_cases import Case, Contest, compared, entrant, reported_by_row
from bench.spark_meter import Cost, Meter
from bench.spark_rounds import Entrant, RoundCounts, run_rounds
from bench.spark_rows import make_rows, wait_for_rows
from bench.spark_servers import RAISED, STOCK, Stage, set_pull_limits
from bench.spark_sides import Side
from bench.spark_streams import drain, small_batches, trickle
from bench.table import Row

_QUEUES = 8
_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that all servers have, with the same rows."""

    name: str
    reported: str
    rows: int
    value_bytes: int
    queues: int = _QUEUES
    has_headers: bool = False


def make(stage: Stage, topic: Topic) -> None:
    """Make a topic on each server, and another to write to."""
    for side in stage.servers:
        side.make_topic(topic.name, topic.queues)
        side.make_topic(_written_to(topic), topic.queues)


def _written_to(topic: Topic) -> str:
    return f"{topic.name}-written"


def fill(stage: Stage, topic: Topic) -> None:
    """Write the rows of a topic to each server."""
    rows = make_rows(stage.spark, topic.rows, topic.value_bytes, has_headers=topic.has_headers)
    for side in stage.servers:
        side.write(rows, topic.name)
        wait_for_rows(side, topic.name, topic.rows)


def _read(side: Side, topic: Topic) -> DataFrame:
    return side.read(topic.name, has_headers=topic.has_headers)


def _case(what: str, topic: Topic, work: Callable[[Side], object]) -> Case:
    def measure(side: Side, meter: Meter) -> Cost:
        return meter.measure(lambda: work(side))

    return Case(f"{topic.reported} → {what}", measure, reported_by_row(topic.rows))


# -- batches ----------------------------------------------------------------------------------------------------------


def into_nothing(topic: Topic) -> Case:
    """Make every row, and throw it away."""
    return _case("noop", topic, lambda side: _throw_away(_read(side, topic)))


def _throw_away(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def counted(topic: Topic) -> Case:
    """Count the rows, rightly."""

    def count(side: Side) -> None:
        if (found := _read(side, topic).count()) != topic.rows:
            raise RuntimeError(f"{side.name}: {found:,} rows of {topic.rows:,}")

    return _case("count", topic, count)


def into_files(topic: Topic, folder: Path) -> Case:
    """Write the rows to Parquet."""
    return _case("Parquet", topic, lambda side: _write_files(_read(side, topic), folder / "batch"))


def _write_files(rows: DataFrame, folder: Path) -> None:
    rows.write.mode("overwrite").parquet(str(folder))


def as_it_comes(stage: Stage, topic: Topic, counts: RoundCounts) -> Iterator[Row]:
    """Do the same with Apache's broker as it comes: it hands out 32 messages at a time."""
    case, side = into_nothing(topic), stage.apache

    def measure(of: Side, meter: Meter) -> Cost:
        set_pull_limits(side.broker, *STOCK)
        try:
            return case.measure(of, meter)
        finally:
            set_pull_limits(side.broker, *RAISED)

    stock = replace(entrant(side, measure), name=f"{side.name}, {STOCK[0]} a pull")
    results = run_rounds(stage.spark, [entrant(stage.short_wait, case.measure), stock], counts)
    yield compared(f"{case.what}, {stock.name}", results, stock.name, stage.short_wait.name, case.reported)


def beside_parquet(stage: Stage, topic: Topic, folder: Path, counts: RoundCounts, goal: float) -> Iterator[Row]:
    """Read the rows from a topic, and from files that Spark has written of them."""
    case, place, scan = into_nothing(topic), folder / "scanned", "a scan of Parquet"
    _write_files(_read(stage.ours, topic), place)
    scanning = Entrant(scan, (), lambda meter: meter.measure(lambda: _throw_away(stage.spark.read.parquet(str(place)))))
    sides = (stage.apache, stage.ours)
    results = run_rounds(stage.spark, [scanning, *(entrant(side, case.measure) for side in sides)], counts)
    for side in sides:
        yield compared(f"{case.what} beside Parquet, {side.name}", results, side.name, scan, case.reported, goal)


# -- streams ----------------------------------------------------------------------------------------------------------


def drained(topic: Topic, most: int, folder: Path | None = None) -> Case:
    """Read everything as a stream that ends, so many rows a batch."""
    if folder is None:
        return _case("noop, AvailableNow", topic, lambda side: drain(side, topic.name, most))
    place = folder / "stream"

    def measure(side: Side, meter: Meter) -> Cost:
        if place.exists():
            shutil.rmtree(place)
        return meter.measure(lambda: drain(side, topic.name, most, place))

    return Case(f"{topic.reported} → Parquet, AvailableNow", measure, reported_by_row(topic.rows))


def in_small_batches(topic: Topic, batches: int) -> Case:
    """Read as a stream in batches that are so small that only the batch itself counts."""

    def reported(cost: Cost) -> str:
        return f"{cost.wall_s * 1000:,.0f} ms, {cost.cpu_s * 1000:,.0f} ms of CPU"

    def measure(side: Side, meter: Meter) -> Cost:
        return small_batches(side, topic.name, batches, meter)

    return Case(f"{topic.reported} → noop, 1,000 rows a batch", measure, reported)


def one_by_one(contest: Contest, topic: Topic, messages: int) -> Iterator[Row]:
    """Send messages one by one while a stream runs."""

    def reported(cost: Cost) -> str:
        return f"{cost.wall_s * 1000:,.0f} ms, {cost.cpu_s:.2f} cores"

    def measure(side: Side, meter: Meter) -> Cost:
        return trickle(side, _written_to(topic), messages, _EVERY_S, meter)

    what = f"sent → seen, {1 / _EVERY_S:.0f} messages a second"
    yield from replace(contest, counts=replace(contest.counts, warm=0)).rows(Case(what, measure, reported))


# -- and back ---------------------------------------------------------------------------------------------------------


def written(stage: Stage, topic: Topic, counts: RoundCounts) -> Iterator[Row]:
    """Write rows that are in memory to topics."""
    rows, name = make_rows(stage.spark, topic.rows, topic.value_bytes).persist(), _written_to(topic)
    rows.count()

    def measure(side: Side, meter: Meter) -> Cost:
        return meter.measure(lambda: side.write(rows, name))

    sides = (stage.apache, stage.ours)
    contest = Contest(stage.spark, counts, sides, rivals=(stage.kafka, stage.lingering))
    yield from contest.rows(Case(f"write {topic.reported}", measure, reported_by_row(topic.rows)))
    rows.unpersist()
