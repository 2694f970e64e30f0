"""Topics on Spark beside Spark's own Kafka connector: the same rows, one session, in turns, in one run.

Ours reads and writes on Apache's broker and on our own; the connector on a node of Kafka beside them, all on this
machine. Both have the same columns: its seven, or all of ours with a map of five properties beside it with five
headers. A figure is the median of three turns, by the clock and by the processors: what Spark's JVM, the Python workers
and the server take together for a row, for a batch or, where messages come one by one, as a share of a core. Apache's
broker hands out up to 1,000 messages a pull, and 32 where it says so.

Takes some twelve minutes and 8 GiB of the folder for temporary files; `--quick` shows in less than two that it works.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.java_load import check_java
from bench.kafka import prepare_kafka
from bench.spark_cases import Contest
from bench.spark_queues import many_queues
from bench.spark_rounds import RoundCounts
from bench.spark_servers import on_stage
from bench.spark_work import (
    Topic,
    as_it_comes,
    beside_parquet,
    counted,
    drained,
    fill,
    in_small_batches,
    into_files,
    into_nothing,
    make,
    one_by_one,
    written,
)
from bench.table import Row
from tests.interop.prepared import NotReady

_MANY_QUEUES = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows, batches and messages there are."""

    small: int = 1_000_000
    big: int = 250_000
    a_trigger: int = 500_000
    batches: int = 20
    messages: int = 100
    queues: int = 10_000


_QUICK = Sizes(20_000, 5_000, 10_000, 4, 20, 500)


def run(*, is_quick: bool = False) -> Iterator[Row]:
    """Measure everything; where there is no Java or no Maven it is left out, and said."""
    try:
        check_java()
        prepare_kafka()
    except NotReady as problem:
        print(f"spark: left out, {problem}")
        return
    sizes, counts = (_QUICK, RoundCounts(warm=0, rounds=1)) if is_quick else (Sizes(), RoundCounts())
    small = Topic("small", "100 B", sizes.small, 100)
    big = Topic("big", "1 KiB", sizes.big, 1024)
    headed = Topic("headed", "100 B, all columns", sizes.small, 100, has_headers=True)
    wide = Topic("wide", f"100 B, {_MANY_QUEUES} queues", sizes.small, 100, queues=_MANY_QUEUES)
    with on_stage() as stage, TemporaryDirectory(prefix="steelyard-spark-") as folder:
        for prepare in (make, fill):
            for topic in (small, big, headed, wide):
                prepare(stage, topic)
        asides = () if is_quick else (stage.kafka,)
        contest = Contest(stage.spark, counts, (stage.apache, stage.ours), rivals=(stage.short_wait,), asides=asides)
        files = Path(folder)
        for topic, goal in ((small, 0.4), (big, 0.5)):
            yield from contest.rows(into_nothing(topic))
            yield from as_it_comes(stage, topic, counts)
            yield from contest.rows(counted(topic))
            yield from contest.rows(into_files(topic, files))
            yield from beside_parquet(stage, topic, files, counts, goal)
        for topic in (headed, wide):
            yield from contest.rows(into_nothing(topic))
        yield from contest.rows(into_files(headed, files))
        yield from contest.rows(drained(small, sizes.a_trigger))
        yield from contest.rows(drained(small, sizes.a_trigger, files))
        yield from contest.rows(in_small_batches(small, sizes.batches))
        yield from one_by_one(contest, headed, sizes.messages)
        for topic in (small, big):
            yield from written(stage, topic, counts)
        for side in (stage.apache, stage.ours):
            yield from many_queues(side, sizes.queues)
