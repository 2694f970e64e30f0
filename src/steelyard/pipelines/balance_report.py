"""The balance report: messages, ownership and lag → skew, hot keys, moves and hand-over gaps, as HTML and a table.

    run(BalanceOptions(ClientConfig("mq:9876"), "orders", group="billing", events=(Path("till-1.jsonl"),)))

Messages are aggregated by Spark; owners and lag come from the cluster; moves from what members write with ``steelyard
consume --events json``, or from polling the group for a while. A change between two polls is dated at the second, so
moves and gaps found by polling are no finer than the time between two polls; what members write is exact, and wins. The
report is one small HTML page; beside it is the same as one tidy Parquet table (report/fact_table.py).
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

from steelyard.client.config import ClientConfig
from steelyard.client.sync.admin import Admin
from steelyard.client.times import to_epoch_ms
from steelyard.errors import ConfigurationError, file_error
from steelyard.model import Queue
from steelyard.model.finding import Finding
from steelyard.model.formatting import format_duration, pluralize
from steelyard.pipelines.report.contents import ReportContents, report_findings, summary_line
from steelyard.pipelines.report.html_report import render_page
from steelyard.pipelines.report.ownership import (
    MAX_EVENTS,
    POLL_INTERVAL_S,
    OwnershipEvent,
    WatchedGroup,
    merge_events,
    read_events,
    watch_group,
)
from steelyard.pipelines.report.rebalance_history import build_history
from steelyard.pipelines.stream_options import connection_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_TOP_KEYS = 1_000
_MAX_WATCH_S = 24 * 3_600.0


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """The subject of a report, and its output files."""

    client_config: ClientConfig
    topic: str
    group: str | None = None  # the consumer group; None: the report is about the messages alone
    to: Path = Path("balance.html")
    table: Path | None = None  # the Parquet table; None: beside the HTML file
    since: datetime | None = None
    until: datetime | None = None  # only messages that were stored in this period; None: no bound
    events: tuple[Path, ...] = ()  # event files that members wrote with ``steelyard consume --events json``
    watch_s: float = 0.0  # how long to poll the group
    top: int = 20  # how many of the heaviest keys to list
    key: str | None = None
    """The key of a message: ``keys``, or the name of a property; default: its sharding key, else its keys."""

    def __post_init__(self) -> None:
        if not 1 <= self.top <= _MAX_TOP_KEYS:
            raise ConfigurationError(f"{self.top} keys cannot be listed", next_step=f"give 1 to {_MAX_TOP_KEYS}")
        if not 0 <= self.watch_s <= _MAX_WATCH_S:
            raise ConfigurationError(f"a group cannot be watched for {self.watch_s} s", next_step="watch up to a day")
        if self.group is None and (self.events or self.watch_s):
            raise ConfigurationError(
                f"{'events are' if self.events else 'a time to watch is'} given without a group",
                next_step="give group",
            )
        since, until = self.since_ms, self.until_ms
        if since is not None and until is not None and since >= until:
            raise ConfigurationError("since is not before until", next_step="give since before until")
        if self.table_path == self.to:
            raise ConfigurationError(f"report and table are both {self.to}", next_step="give the table another name")

    @property
    def since_ms(self) -> int | None:
        """`since` in milliseconds."""
        return None if self.since is None else to_epoch_ms(self.since)

    @property
    def until_ms(self) -> int | None:
        """`until` in milliseconds."""
        return None if self.until is None else to_epoch_ms(self.until)

    @property
    def table_path(self) -> Path:
        """The path of the table.

        >>> BalanceOptions(ClientConfig("mq:9876"), "orders", to=Path("lake/report.html")).table_path.as_posix()
        'lake/report.parquet'
        """
        return self.to.with_suffix(".parquet") if self.table is None else self.table


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A finished report. ``print`` it for its summary."""

    contents: ReportContents
    page: Path
    table: Path

    @property
    def findings(self) -> list[Finding]:
        """All findings, the worst first."""
        return report_findings(self.contents)

    def __str__(self) -> str:
        """Return summary and findings, one a line."""
        return "\n".join([summary_line(self.contents), *map(str, self.findings)])


def run(
    options: BalanceOptions, spark: "SparkSession | AbstractContextManager[SparkSession] | None" = None
) -> WrittenReport:
    """Make a report. Spark is used last, after all cheap checks: ``spark`` may start a session on entry.

    Without one, the running session is used, or one is started on this machine and stopped again.
    """
    events, notes = _read_events(options.events)
    with Admin(options.client_config) as admin:
        queues = [each.queue for each in admin.topics.describe(options.topic).queues]
        watched = (
            watch_group(admin.groups, options.group, options.topic, for_s=options.watch_s, sleep=time.sleep)
            if options.group is not None
            else None
        )
    if watched is not None and options.watch_s:
        notes += _watch_notes(watched, events)
    contents = _collect(options, queues, events, watched, tuple(notes), spark)
    from pyarrow import parquet

    from steelyard.pipelines.report.fact_table import fact_table

    _write_atomically(options.to, lambda path: path.write_text(render_page(contents), encoding="utf-8"))
    _write_atomically(options.table_path, lambda path: parquet.write_table(fact_table(contents), path))
    return WrittenReport(contents, options.to, options.table_path)


def _collect(
    options: BalanceOptions,
    queues: list[Queue],
    events: list[OwnershipEvent],
    watched: WatchedGroup | None,
    notes: tuple[str, ...],
    spark: "SparkSession | AbstractContextManager[SparkSession] | None",
) -> ReportContents:
    with _spark_session(spark, options.topic) as running:
        # Imported here: it needs PySpark, and the session explains how to install it.
        from steelyard.pipelines.report.traffic_query import query_traffic

        traffic = query_traffic(running, _source_options(options), queues, key=options.key, top=options.top)
    polls = watched if options.watch_s else None
    return ReportContents(
        topic=options.topic,
        group=options.group,
        at_ms=to_epoch_ms(datetime.now(UTC)),
        traffic=traffic,
        since_ms=options.since_ms,
        until_ms=options.until_ms,
        group_view=None if watched is None else watched.view,
        history=build_history(merge_events(events, polls.events if polls else ()), options.topic),
        lag_samples=tuple(polls.lag_samples) if polls else (),
        notes=notes,
    )


@contextmanager
def _spark_session(
    spark: "SparkSession | AbstractContextManager[SparkSession] | None", topic: str
) -> "Iterator[SparkSession]":
    """Lend the given or the running session; one that is started here is stopped."""
    from steelyard.spark.spark_session import prepare, session

    if spark is None:
        prepare()
    from pyspark.sql import SparkSession

    # A session is a context manager too, whose exit stops it: a running one must go on running.
    running = spark if isinstance(spark, SparkSession) else SparkSession.getActiveSession() if spark is None else None
    if running is not None:
        yield running
        return
    with spark or session(f"balance of {topic}") as started:
        yield started


def _source_options(options: BalanceOptions) -> dict[str, str]:
    source = {
        **connection_options(options.client_config),
        "subscribe": options.topic,
        # Messages that brokers delete meanwhile do not matter in a sum.
        "failOnDataLoss": "false",
    }
    if options.since_ms is not None:
        source["startingTimestamp"] = str(options.since_ms)
    if options.until_ms is not None:
        source["endingTimestamp"] = str(options.until_ms)
    return source


def _read_events(paths: tuple[Path, ...]) -> tuple[list[OwnershipEvent], list[str]]:
    """Read event files; return the events, and notes about skipped lines."""
    events: list[OwnershipEvent] = []
    notes: list[str] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                found = read_events(file, most=MAX_EVENTS - len(events))
        except OSError as error:
            otherwise = "give a file that steelyard consume --events json wrote"
            raise file_error(f"the events in {path} cannot be read", error, otherwise) from error
        events += found.events
        if not found.events and not found.is_truncated:
            notes.append(f"{path.name} has no events")
        elif found.skipped_lines:
            notes.append(f"{pluralize(found.skipped_lines, 'line')} of {path.name} are no events and were skipped")
        if found.is_truncated:
            notes.append(f"only the first {MAX_EVENTS:,} events are used; {path.name} has more")
    return events, notes


def _watch_notes(watched: WatchedGroup, events: list[OwnershipEvent]) -> list[str]:
    notes = [f"{pluralize(watched.failed_polls, 'poll')} of the group got no answer"] if watched.failed_polls else []
    if not events:
        spans = [then.at_ms - one.at_ms for one, then in pairwise(watched.lag_samples)]
        every = max(spans, default=round(POLL_INTERVAL_S * 1_000))
        notes.append(
            f"moves were observed by polling the group every {format_duration(every / 1_000)}: a shorter gap is not "
            "visible, and a longer one is no more exact than that; what members write with --events json is exact"
        )
    return notes


def _write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a temporary file and rename it: a reader finds the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        beside.replace(path)
    except OSError as error:
        raise file_error(f"{path} cannot be written", error, "give a writable path") from error
    finally:
        beside.unlink(missing_ok=True)
