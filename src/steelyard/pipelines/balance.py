"""The balance report: messages, ownership and lag → skew, hot keys, moves and hand-over gaps, as a page and a table.

    run(BalanceOptions(Connect("mq:9876"), "orders", group="billing", events=(Path("till-1.jsonl"),)))

Messages are summed up by Spark; owners and lag come from the cluster; moves from what members write with ``steelyard
consume --events json``, and from watching the group for a while. The page is one HTML file that needs nothing else;
beside it lies the same as one tidy Parquet table (report/facts.py has its columns).
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.client.blocking.admin import Admin
from steelyard.client.connect import Connect
from steelyard.client.moments import since_1970_ms
from steelyard.errors import ConfigurationError
from steelyard.model import Queue
from steelyard.pipelines.report.events import MOST_EVENTS, Event, read_lines
from steelyard.pipelines.report.findings import Finding, findings, opening
from steelyard.pipelines.report.history import history
from steelyard.pipelines.report.page import page
from steelyard.pipelines.report.study import Study
from steelyard.pipelines.report.watching import LOOK_S, Watched, merged, watch
from steelyard.pipelines.report.words import count, duration
from steelyard.pipelines.where import where_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BalanceOptions", "Report", "run"]

_MOST_TOP = 1_000
_LONGEST_WATCH_S = 24 * 3_600.0


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """What a report is about, and where it goes."""

    connect: Connect
    topic: str
    group: str | None = None
    """Whose members, lag and moves it tells of; without one it is about the messages alone."""
    to: Path = Path("balance.html")
    table: Path | None = None
    """Where the Parquet table goes; beside the page if nothing is said."""
    since: datetime | None = None
    until: datetime | None = None
    """Messages that were stored from then on, and before then; all, if nothing is said."""
    events: tuple[Path, ...] = ()
    """Files of what members wrote with ``steelyard consume --events json``."""
    watch_s: float = 0.0
    """How long to watch the group before the report is made."""
    top: int = 20
    """How many of the heaviest keys to name."""
    key: str | None = None
    """What is a message's key: ``keys``, or the name of a property; by default its sharding key, else its keys."""

    def __post_init__(self) -> None:
        if not 1 <= self.top <= _MOST_TOP:
            raise ConfigurationError(f"{self.top} keys cannot be named", next_step=f"name 1 to {_MOST_TOP}")
        if not 0 <= self.watch_s <= _LONGEST_WATCH_S:
            raise ConfigurationError(f"a group cannot be watched for {self.watch_s} s", next_step="watch up to a day")
        if self.group is None and (self.events or self.watch_s):
            raise ConfigurationError(
                f"{'events are' if self.events else 'a time to watch is'} given without a group",
                next_step="say whose: give group",
            )
        since, until = self.since_ms, self.until_ms
        if since is not None and until is not None and since >= until:
            raise ConfigurationError("the time from which ends before it begins", next_step="give since before until")
        if self.table_path == self.to:
            raise ConfigurationError(f"page and table are both {self.to}", next_step="give the table another name")

    @property
    def since_ms(self) -> int | None:
        """The time from which on, in milliseconds."""
        return None if self.since is None else since_1970_ms(self.since)

    @property
    def until_ms(self) -> int | None:
        """The time up to which, in milliseconds."""
        return None if self.until is None else since_1970_ms(self.until)

    @property
    def table_path(self) -> Path:
        """Where the table goes.

        >>> BalanceOptions(Connect("mq:9876"), "orders", to=Path("lake/report.html")).table_path.as_posix()
        'lake/report.parquet'
        """
        return self.to.with_suffix(".parquet") if self.table is None else self.table


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was made. ``print`` it for its summary."""

    study: Study
    page: Path
    table: Path

    @property
    def findings(self) -> list[Finding]:
        """What was found, what is wrong first."""
        return findings(self.study)

    def __str__(self) -> str:
        """Return what was found in sentences, one a line."""
        return "\n".join([opening(self.study), *map(str, self.findings)])


def run(options: BalanceOptions, spark: "SparkSession | AbstractContextManager[SparkSession] | None" = None) -> Report:
    """Make a report. Spark is needed late, after all that is quickly found wrong: a session may be given to be started.

    Without one, the session that runs is taken, or one is started on this machine and stopped again.
    """
    told, notes = _read_events(options.events)
    with Admin(options.connect) as admin:
        queues = [each.queue for each in admin.topic(options.topic).queues]
        seen = (
            watch(admin, options.group, options.topic, for_s=options.watch_s, sleep=time.sleep)
            if options.group is not None
            else None
        )
    if seen is not None and options.watch_s:
        notes += _notes_of_watching(seen, told)
    study = _study(options, queues, told, seen, tuple(notes), spark)
    from pyarrow import parquet

    from steelyard.pipelines.report.facts import as_table

    _put(options.to, lambda path: path.write_text(page(study), encoding="utf-8"))
    _put(options.table_path, lambda path: parquet.write_table(as_table(study), path))
    return Report(study, options.to, options.table_path)


def _study(
    options: BalanceOptions,
    queues: list[Queue],
    told: list[Event],
    seen: Watched | None,
    notes: tuple[str, ...],
    spark: "SparkSession | AbstractContextManager[SparkSession] | None",
) -> Study:
    with _session(spark, options.topic) as running:
        # Here and not above: it needs PySpark, of which the session says how to get it.
        from steelyard.pipelines.report.reading import read_traffic

        traffic = read_traffic(running, _source_options(options), queues, key=options.key, top=options.top)
    return Study(
        topic=options.topic,
        group=options.group,
        at_ms=since_1970_ms(datetime.now(UTC)),
        traffic=traffic,
        since_ms=options.since_ms,
        until_ms=options.until_ms,
        view=None if seen is None else seen.view,
        history=history(merged(told, seen.events if seen is not None and options.watch_s else ()), options.topic),
        waiting=tuple(seen.waiting) if seen is not None and options.watch_s else (),
        notes=notes,
    )


@contextmanager
def _session(
    spark: "SparkSession | AbstractContextManager[SparkSession] | None", topic: str
) -> "Iterator[SparkSession]":
    """Lend the session that was given or that runs; one that is started here is stopped."""
    from steelyard.spark.local import prepare, session

    if spark is None:
        prepare()
    from pyspark.sql import SparkSession

    # A session is a context manager too, whose end stops it: what was given running goes on running.
    there = spark if isinstance(spark, SparkSession) else SparkSession.getActiveSession() if spark is None else None
    if there is not None:
        yield there
        return
    with spark or session(f"balance of {topic}") as started:
        yield started


def _source_options(options: BalanceOptions) -> dict[str, str]:
    source = {
        **where_options(options.connect),
        "subscribe": options.topic,
        # What brokers delete while they are read is not missed in a sum.
        "failOnDataLoss": "false",
    }
    if options.since_ms is not None:
        source["startingTimestamp"] = str(options.since_ms)
    if options.until_ms is not None:
        source["endingTimestamp"] = str(options.until_ms)
    return source


def _read_events(paths: tuple[Path, ...]) -> tuple[list[Event], list[str]]:
    """Read what members wrote, and note what there is to say about it."""
    events: list[Event] = []
    notes: list[str] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                lines = read_lines(file, most=MOST_EVENTS - len(events))
        except OSError as error:
            raise ConfigurationError(
                f"the events in {path} cannot be read ({error.strerror})",
                next_step="give a file that steelyard consume --events json wrote",
            ) from error
        events += lines.events
        if not lines.events and not lines.is_cut:
            notes.append(f"{path.name} tells of no queue")
        elif lines.others:
            notes.append(f"{count(lines.others, 'line')} of {path.name} say nothing of queues and were passed over")
        if lines.is_cut:
            notes.append(f"only the first {MOST_EVENTS:,} events are told of; {path.name} has more")
    return events, notes


def _notes_of_watching(seen: Watched, told: list[Event]) -> list[str]:
    notes = [f"{count(seen.missed, 'look')} at the group got no answer"] if seen.missed else []
    if not told:
        spans = [then.at_ms - one.at_ms for one, then in pairwise(seen.waiting)]
        every = max(spans, default=round(LOOK_S * 1_000))
        notes.append(
            f"moves were seen by looking at the group every {duration(every)}: a shorter gap is not seen, and a "
            "longer one is no better known than that; what members write with --events json is exact"
        )
    return notes


def _put(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside its place and move it there: whoever opens it finds the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        beside.replace(path)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror})", next_step="give a place that can"
        ) from error
    finally:
        beside.unlink(missing_ok=True)
