"""`steelyard pipeline`: run Spark jobs on topics; each job is a module of `pipelines`.

Wrong names and options are reported before Spark starts, and ``--dry-run`` writes nothing. Until Spark has started,
Ctrl-C and SIGTERM end everything at once; then they stop the job after the current batch, and a restart resumes it.
Progress goes to stderr: a line that is redrawn on a terminal, a line for each batch elsewhere.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import ClientOptions, parse_pairs
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import make_console, stderr_warnings, stop_on_signals
from steelyard.errors import ConfigurationError
from steelyard.model.formatting import pluralize, printable
from steelyard.model.time_text import parse_duration_s, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from rich.table import Table

    from steelyard.client.config import ClientConfig
    from steelyard.model import OffsetRange


class _PrintableBatch(Protocol):
    """A batch that is done; its text is printed as progress."""

    @property
    def rows(self) -> int:
        """How many rows it had."""


_SparkJob = Callable[["SparkSession", Callable[[_PrintableBatch], None], Callable[[], bool]], int]
"""A job: it reports each batch, asks whether to stop, and returns how many rows it processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRunOptions:
    """Spark's master and settings, as options."""

    PANEL: ClassVar = "Spark"

    master: Annotated[
        str | None,
        option(
            help="Spark's master: spark://host:7077, yarn, local[2] …", show_default="this machine, all of its cores"
        ),
    ] = None
    conf: Annotated[list[str] | None, option(metavar="NAME=VALUE", help="A setting of Spark; can be repeated.")] = None

    def with_few_shuffles(self) -> "SparkRunOptions":
        """Return them; on one machine with as many shuffle partitions as cores, not the default of 200."""
        from steelyard.spark.spark_session import is_local

        given = self.conf or []
        if not is_local(self.master) or any(each.startswith("spark.sql.shuffle.partitions") for each in given):
            return self
        return replace(self, conf=[f"spark.sql.shuffle.partitions={os.cpu_count() or 2}", *given])

    @contextmanager
    def session(self, name: str) -> "Iterator[SparkSession]":
        """Start Spark, print what was chosen, and stop it at the end."""
        from steelyard.spark.spark_session import prepare, session

        conf = parse_pairs(self.conf, "setting of Spark")
        _print_status(prepare(master=self.master))
        spark = session(name, master=self.master, conf=conf)
        yield spark
        spark.stop()  # not after an error: it may hang, and Java ends with this process


def _print_shared_paths(master: str | None, *paths: str) -> None:
    """Remind that all machines of a cluster must see the same files."""
    from steelyard.pipelines.hadoop_files import is_local_path
    from steelyard.spark.spark_session import is_local

    for path in paths if not is_local(master) else ():
        if is_local_path(path):
            _print_status(f"all machines of {master} must see the same {path}")


def _print_status(line: str) -> None:
    """Print a line about the job on stderr, so that stdout has only results."""
    print("steelyard:", printable(line), file=sys.stderr)


def _run_job(name: str, spark: SparkRunOptions, work: _SparkJob, summary: Callable[[int], str]) -> None:
    """Run a job to its end, or until it is stopped; ``summary`` describes what was done with so many rows."""
    with stderr_warnings(), spark.session(name) as running, stop_on_signals() as stop, _batch_progress(name) as report:
        begin = time.monotonic()
        rows = work(running, report, stop.__bool__)
        took_s = time.monotonic() - begin
    why = ", stopped by a signal" if stop else ""
    _print_status(f"{name}: {summary(rows)} in {took_s:.1f} s{why}")


@contextmanager
def _batch_progress(name: str) -> Iterator[Callable[[_PrintableBatch], None]]:
    """Yield a function that prints the progress of each batch."""
    if not sys.stderr.isatty():
        yield lambda batch: _print_status(f"{name}: {batch}")
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    rows = 0
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        line = bar.add_task(f"{name}: the first batch runs", total=None)

        def report(batch: _PrintableBatch) -> None:
            nonlocal rows
            rows += batch.rows
            bar.update(line, description=f"{name}: {pluralize(rows, 'row')}; {batch}")

        yield report


app = CommandGroup("pipeline", "Run jobs on topics with Spark, here or on a cluster.")
_run_commands = CommandGroup("run", "Run one; each has its own --help.")
app.add_command(_run_commands)

_CHECKPOINTS = "steelyard-checkpoints"
_HERE = SparkRunOptions()

_TopicsOption = Annotated[list[str], option("--topic", help="A topic to read; can be repeated.")]
_SourceOption = Annotated[
    list[str] | None,
    option("--option", metavar="NAME=VALUE", help="An option of the source or sink, such as tags=paid."),
]
_PipelineDryRunOption = Annotated[bool, option("--dry-run", help="Show what would be done; write nothing.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamArguments:
    """How a job reads its topics, as options."""

    start: Annotated[str, option(help="Where to begin without a checkpoint: first, last, a time, '2 hours ago'.")] = (
        "first"
    )
    trigger: Annotated[
        str, option(help="once (or available-now): up to the present end; 10s: every ten seconds, without end.")
    ] = "once"
    checkpoint: Annotated[
        str | None, option(metavar="DIR", help="The checkpoint directory.", show_default="beside the output")
    ] = None
    group: Annotated[str | None, option(help="Commit the progress as this group, so that tools show the lag.")] = None
    source_options: _SourceOption = None

    def of_topics(self, client: ClientOptions, topics: list[str], beside: str) -> dict[str, Any]:
        """Return the fields of `StreamOptions`; the checkpoint is ``beside`` unless it is given."""
        from steelyard.client.times import to_epoch_ms
        from steelyard.pipelines.stream_options import Trigger

        words = {"first": "earliest", "earliest": "earliest", "last": "latest", "latest": "latest", "group": "group"}
        return {
            "client_config": client.config(),
            "topics": tuple(topics),
            "checkpoint": self.checkpoint or beside,
            "start": words.get(self.start) or str(to_epoch_ms(parse_time(self.start, datetime.now(UTC)))),
            "trigger": Trigger.of(self.trigger),
            "group": self.group,
            "source_options": parse_pairs(self.source_options, "option"),
        }


_FROM_FIRST = _StreamArguments()


@app.subcommand("ls", "steelyard pipeline ls")
def _list_pipelines() -> None:
    """List the jobs."""
    from steelyard.cli.shared.tables import make_table

    table = make_table("pipeline", "what it does")
    for name, each in _run_commands.commands.items():
        table.add_row(name, (each.help or "").partition("\n")[0])
    make_console().print(table)


@app.subcommand("init", "steelyard pipeline init lake --topic orders")
def _write_project(
    client: ClientOptions,
    directory: Annotated[Path, argument(metavar="DIR", help="The project directory.")],
    topic: Annotated[str, option(help="The topic it reads.")],
) -> None:
    """Write a small project for Spark Declarative Pipelines: a table, a view by the minute, and a sink."""
    from steelyard.pipelines.declarative_template import write_project

    for path in write_project(directory, namesrv=str(client.config()), topic=topic):
        make_console().print(printable(str(path)), soft_wrap=True)
    _print_status(f"read {directory / 'README.md'}, then: python {directory / 'run.py'} dry-run")


@_run_commands.subcommand("archive", "steelyard pipeline run archive --topic orders --to lake/orders")
def _archive(
    client: ClientOptions,
    topic: _TopicsOption,
    to: Annotated[str, option(metavar="DIR", help="Directory of the Parquet files.")],
    source: _StreamArguments = _FROM_FIRST,
    merge: Annotated[
        int,
        option(metavar="FILES", help="Merge the small files of a day once there are this many; 0 never merges."),
    ] = 32,
    dry_run: _PipelineDryRunOption = False,
    spark: SparkRunOptions = _HERE,
) -> None:
    """Topics to Parquet by day, every message once, resumable."""
    _require_spark()
    from steelyard.pipelines import archive
    from steelyard.pipelines.parquet_sink import Compaction
    from steelyard.pipelines.stream_options import StreamOptions
    from steelyard.pipelines.stream_runner import JobControl

    beside = f"{to.rstrip('/')}.checkpoint"
    stream = StreamOptions(**source.of_topics(client, topic, beside))
    options = archive.ArchiveOptions(stream, to, Compaction(merge))
    outlook = stream.dry_run()  # reports errors before Spark starts
    if dry_run:
        _print_plan(f"archive to {options.to}, {stream.trigger}", stream.checkpoint, outlook.ranges, str(outlook))
        return
    _print_shared_paths(spark.master, options.to, stream.checkpoint)
    _run_job(
        f"archive {', '.join(topic)}",
        spark,
        lambda running, report, is_stopped: archive.run(running, options, JobControl(report, is_stopped)),
        lambda rows: f"{pluralize(rows, 'message')} to {options.to}",
    )


@_run_commands.subcommand(
    "aggregate", "steelyard pipeline run aggregate --topic orders --sql windowed.sql --to-topic totals"
)
def _aggregate(
    client: ClientOptions,
    topic: _TopicsOption,
    sql: Annotated[str, option(help="The query, or a file with it: SELECT … FROM messages …")],
    to_topic: Annotated[str | None, option(help="Send the result there.")] = None,
    to: Annotated[
        str | None, option(metavar="DIR", help="Write the result there, as Parquet.", show_default="print it as JSON")
    ] = None,
    event_time: Annotated[str, option(help="SQL expression of a message's time.")] = "stored_at",
    watermark: Annotated[str, option(metavar="SPAN", help="How late a message may be.")] = "10m",
    mode: Annotated[
        str, option(help="append: a window is emitted once, when it is complete; update: whenever it changes.")
    ] = "append",
    source: _StreamArguments = _FROM_FIRST,
    dry_run: _PipelineDryRunOption = False,
    spark: SparkRunOptions = _HERE,
) -> None:
    """Run SQL over topics, with windows of event time, to a topic, Parquet or the screen."""
    _require_spark()
    from steelyard.pipelines import aggregate
    from steelyard.pipelines.stream_options import StreamOptions
    from steelyard.pipelines.stream_runner import JobControl

    with tempfile.TemporaryDirectory(prefix="steelyard-") as passing:
        if to is not None:
            beside = f"{to.rstrip('/')}.checkpoint"
        else:
            beside = f"{_CHECKPOINTS}/aggregate-{'-'.join(topic)}-to-{to_topic}" if to_topic else passing
        stream = StreamOptions(**source.of_topics(client, topic, beside))
        options = aggregate.AggregateOptions(
            stream, _read_query(sql), to_topic, to, event_time, round(parse_duration_s(watermark) * 1_000), mode
        )
        if to_topic is not None:
            _require_topic(stream.client_config, to_topic)
        spark = spark.with_few_shuffles()
        outlook = stream.dry_run()
        if dry_run:
            job = f"aggregate to {options.target}, {stream.trigger}"
            _print_plan(job, stream.checkpoint, outlook.ranges, str(outlook))
            with spark.session("aggregate") as running:
                found = aggregate.query_result(running, options).schema
            _print_status(
                f"the result has: {', '.join(f'{each.name} {each.dataType.simpleString()}' for each in found.fields)}"
            )
            return
        _print_shared_paths(spark.master, *filter(None, [options.to]), stream.checkpoint)
        out = make_console()
        _run_job(
            f"aggregate {', '.join(topic)}",
            spark,
            lambda running, report, is_stopped: aggregate.run(
                running,
                options,
                JobControl(report, is_stopped),
                show=lambda line: out.print(printable(line), soft_wrap=True),
            ),
            lambda rows: f"read {pluralize(rows, 'message')}",
        )


@_run_commands.subcommand(
    "replay", "steelyard pipeline run replay --from lake/orders --to-topic orders-again --dry-run"
)
def _replay(
    client: ClientOptions,
    source: Annotated[str, option("--from", metavar="DIR", help="What `archive` wrote.")],
    to_topic: Annotated[str, option(help="Where to send it.")],
    rate: Annotated[
        str | None, option(help="The maximum rate: 10k/s, 600/min.", show_default="as fast as can be")
    ] = None,
    condition: Annotated[
        str | None, option("--where", metavar="SQL", help="Only rows such as: day >= '2026-11-01'.")
    ] = None,
    checkpoint: Annotated[
        str | None, option(metavar="DIR", help="The checkpoint directory.", show_default="none: it starts over")
    ] = None,
    option: _SourceOption = None,
    dry_run: _PipelineDryRunOption = False,
    spark: SparkRunOptions = _HERE,
) -> None:
    """Parquet to a topic, at a rate, in order per key."""
    _require_spark()
    from steelyard.pipelines import replay
    from steelyard.pipelines.replay import parse_rate
    from steelyard.pipelines.stream_runner import JobControl

    config = client.config()
    speed = None if rate is None else parse_rate(rate)
    options = replay.ReplayOptions(
        config, source, to_topic, speed, condition, checkpoint, sink_options=parse_pairs(option, "option")
    )
    _require_topic(config, to_topic)
    spark = spark.with_few_shuffles()
    if dry_run:
        with spark.session("replay") as running:
            plan, done = replay.plan_replay(running, options)
        make_console().print(_ranges_table(plan.queues))
        long = f", at least {plan.rows / speed:,.0f} s" if speed else ""
        _print_status(
            f"{options.job}: {pluralize(plan.rows, 'row')} in {plan.steps:,} steps, {done:,} of them done{long}"
        )
        return
    _print_shared_paths(spark.master, *filter(None, [options.source, options.checkpoint]))
    if checkpoint is None:
        _print_status("without --checkpoint an interrupted replay starts over")
    _run_job(
        f"replay to {to_topic}",
        spark,
        lambda running, report, is_stopped: replay.run(running, options, JobControl(report, is_stopped)),
        lambda rows: f"sent {pluralize(rows, 'message')}",
    )


@_run_commands.subcommand("balance", "steelyard pipeline run balance --topic orders --group billing")
def _balance(
    client: ClientOptions,
    topic: Annotated[str, option(help="The topic.")],
    group: Annotated[
        str | None, option(help="Its group: members, lag and moves.", show_default="the messages alone")
    ] = None,
    to: Annotated[Path, option(metavar="FILE", help="The HTML report; the table is written beside it.")] = Path(
        "balance.html"
    ),
    since: Annotated[str | None, option(metavar="TIME", help="Only messages stored since then.")] = None,
    until: Annotated[str | None, option(metavar="TIME", help="Only messages stored before then.")] = None,
    events: Annotated[
        list[Path] | None,
        option(metavar="FILE", help="What members wrote with `consume --events json`; can be repeated."),
    ] = None,
    watch: Annotated[str, option(metavar="SPAN", help="Poll the group this long first.")] = "0s",
    top: Annotated[int, option(help="How many of the heaviest keys to name.")] = 20,
    key: Annotated[
        str | None,
        option(help="What a key is: keys, or the name of a property.", show_default="the sharding key, else keys"),
    ] = None,
    spark: SparkRunOptions = _HERE,
) -> None:
    """Skew, hot keys, lag and moves of a topic and its group, as an HTML page and a table."""
    _require_spark()
    from steelyard.pipelines import balance_report

    now = datetime.now(UTC)
    options = balance_report.BalanceOptions(
        client.config(),
        topic,
        group,
        to,
        since=None if since is None else parse_time(since, now),
        until=None if until is None else parse_time(until, now),
        events=tuple(events or ()),
        watch_s=parse_duration_s(watch),
        top=top,
        key=key,
    )
    report = balance_report.run(options, spark.with_few_shuffles().session(f"balance of {topic}"))
    make_console().print("\n".join(map(printable, str(report).splitlines())), soft_wrap=True)
    _print_status(f"the report is {report.page}, the table {report.table}")


def _require_spark() -> None:
    """Raise an error that names the missing extra, before anything else is checked."""
    from steelyard.spark.spark_session import check_packages

    check_packages()


def _require_topic(config: "ClientConfig", topic: str) -> None:
    """Raise an error if a topic does not exist."""
    from steelyard.client.sync.admin import Admin

    with Admin(config) as admin:
        admin.topics.describe(topic)


def _print_plan(job: str, checkpoint: str, ranges: "Iterable[OffsetRange]", outlook: str) -> None:
    """Print what a job would do."""
    make_console().print(_ranges_table(ranges))
    for line in (job, f"checkpoint: {checkpoint}", *outlook.splitlines()):
        _print_status(line)


def _ranges_table(ranges: "Iterable[OffsetRange]") -> "Table":
    from steelyard.cli.shared.tables import make_table

    table = make_table("queue", "#from", "#to", "#messages")
    for each in ranges:
        table.add_row(printable(str(each.queue)), f"{each.start:,}", f"{each.end:,}", f"{len(each):,}")
    return table


def _read_query(text: str) -> str:
    """Return the query, which is given as text or as a file name."""
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # Several words that are no file, or are too long for a file name, are a query.
        if len(text.split()) > 1 and isinstance(error, OSError) and not isinstance(error, PermissionError):
            return text
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationError(
            f"the query {text!r} cannot be read ({why})", next_step="give a file, or SELECT … FROM messages"
        ) from None
