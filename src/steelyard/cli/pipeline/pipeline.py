"""`steelyard pipeline`: jobs on topics that Spark runs. Each is a file of its own in `pipelines`.

A mistake in a name or an option is told before Spark has started, and ``--dry-run`` says what there is to do and writes
nothing. Ctrl-C or SIGTERM end a job after the batch that runs; started again, it goes on. Exit codes are those of
`cli/frame/exits.py`.
"""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.frame.moments import moment, seconds
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.screen import screen, visible
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.pipeline.spark_job import ConfOption, MasterOption, Spark, pairs, run_job, say, say_what_is_shared
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from steelyard.client.connect import Connect
    from steelyard.model import OffsetRange

__all__ = ["app"]

app = Noun("pipeline", "Run jobs on topics with Spark, here or on a cluster.")
_run = Noun("run", "Run one; each has its own --help.")
app.add_typer(_run)

_CHECKPOINTS = "steelyard-checkpoints"

_Topics = Annotated[
    list[str], typer.Option("--topic", help="What to read; several by repeating it.", show_default=False)
]
_Start = Annotated[str, typer.Option(help="Where to begin without a checkpoint: first, last, a time, '2 hours ago'.")]
_Trigger = Annotated[
    str, typer.Option(help="once (or available-now): what is there, and end; 10s: every ten seconds, and go on.")
]
_Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where it is kept how far it is.", show_default="beside the output"),
]
_Group = Annotated[
    str | None,
    typer.Option(help="Tell brokers the progress as this group's, so that tools show the lag.", show_default=False),
]
_More = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="An option of the source or sink, such as tags=paid.", show_default=False
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what there is to do; write nothing.")]


@app.verb("ls", "steelyard pipeline ls")
def _list_pipelines() -> None:
    """List the jobs that there are."""
    # Here and not above, as all that only some verbs need: the others do not wait for it.
    from steelyard.cli.frame.tables import listing

    table = listing("pipeline", "what it does")
    for each in _run.registered_commands:
        sentence = (each.callback.__doc__ or "").partition("\n")[0] if each.callback else ""
        table.add_row(each.name, sentence)
    screen().print(table)


@app.verb("init", "steelyard pipeline init lake --topic orders")
@at_cluster
def _write_project(
    where: Where,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the project goes.", show_default=False)],
    topic: Annotated[str, typer.Option(help="What it reads.", show_default=False)],
) -> None:
    """Write a small project for Spark Declarative Pipelines: a table, a view by the minute, and a sink."""
    from steelyard.pipelines.declarative.template import write_template

    for path in write_template(directory, namesrv=str(where.connect()), topic=topic):
        screen().print(visible(str(path)), soft_wrap=True)
    say(f"read {directory / 'README.md'}, then: python {directory / 'run.py'} dry-run")


@_run.verb("archive", "steelyard pipeline run archive --topic orders --to lake/orders")
@at_cluster
def _archive(
    where: Where,
    topic: _Topics,
    to: Annotated[str, typer.Option(metavar="DIR", help="Where the Parquet goes.", show_default=False)],
    start: _Start = "first",
    trigger: _Trigger = "once",
    checkpoint: _Checkpoint = None,
    group: _Group = None,
    option: _More = None,
    merge: Annotated[
        int, typer.Option(metavar="FILES", help="Merge the small files of a day once there are so many; 0 never does.")
    ] = 32,
    dry_run: _DryRun = False,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Topics to Parquet by day, every message once, resumable."""
    _need_spark()
    from steelyard.pipelines import archive
    from steelyard.pipelines.compacting import Compaction
    from steelyard.pipelines.running import Progress
    from steelyard.pipelines.streaming import StreamOptions

    beside = f"{to.rstrip('/')}.checkpoint"
    stream = StreamOptions(**_stream(where, topic, start, trigger, checkpoint or beside, group, option))
    options = archive.ArchiveOptions(stream, to, Compaction(merge))
    outlook = stream.outlook()  # which says what is wrong, before Spark starts
    if dry_run:
        _show(outlook.ranges, f"archive to {options.to}, {stream.trigger}", stream.checkpoint, str(outlook))
        return
    say_what_is_shared(master, options.to, stream.checkpoint)
    run_job(
        f"archive {', '.join(topic)}",
        Spark(master, conf or ()),
        lambda spark, tell, is_over: archive.run(spark, options, Progress(tell, is_over)),
        lambda rows: f"{rows:,} messages to {options.to}",
    )


@_run.verb("aggregate", "steelyard pipeline run aggregate --topic orders --sql windowed.sql --to-topic totals")
@at_cluster
def _aggregate(
    where: Where,
    topic: _Topics,
    sql: Annotated[
        str,
        typer.Option(help="The query, or a file with it: SELECT … FROM messages …", show_default=False),
    ],
    to_topic: Annotated[str | None, typer.Option(help="Send the answer there.", show_default=False)] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the answer there, as Parquet.", show_default="print it as JSON"),
    ] = None,
    event_time: Annotated[str, typer.Option(help="An expression of SQL that is a message's time.")] = "stored_at",
    watermark: Annotated[str, typer.Option(metavar="SPAN", help="How late a message may be.")] = "10m",
    mode: Annotated[
        str, typer.Option(help="append: a window is told once, when it is over; update: whenever it changes.")
    ] = "append",
    start: _Start = "first",
    trigger: _Trigger = "once",
    checkpoint: _Checkpoint = None,
    group: _Group = None,
    option: _More = None,
    dry_run: _DryRun = False,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Run SQL over topics, with windows of event time, to a topic, Parquet or the screen."""
    _need_spark()
    from steelyard.pipelines import aggregate
    from steelyard.pipelines.running import Progress
    from steelyard.pipelines.streaming import StreamOptions

    with tempfile.TemporaryDirectory(prefix="steelyard-") as passing:
        if to is not None:
            beside = f"{to.rstrip('/')}.checkpoint"
        else:
            beside = f"{_CHECKPOINTS}/aggregate-{'-'.join(topic)}-to-{to_topic}" if to_topic else passing
        stream = StreamOptions(**_stream(where, topic, start, trigger, checkpoint or beside, group, option))
        options = aggregate.AggregateOptions(
            stream, _query(sql), to_topic, to, event_time, round(seconds(watermark) * 1_000), mode
        )
        if to_topic is not None:
            _check_topic(stream.connect, to_topic)
        spark = Spark(master, _few_shuffles(conf, master))
        outlook = stream.outlook()
        if dry_run:
            _show(outlook.ranges, f"aggregate to {options.target}, {stream.trigger}", stream.checkpoint, str(outlook))
            with spark.running("aggregate") as running:
                found = aggregate.result_of(running, options).schema
            say(f"the answer has: {', '.join(f'{each.name} {each.dataType.simpleString()}' for each in found.fields)}")
            return
        say_what_is_shared(master, *filter(None, [options.to]), stream.checkpoint)
        out = screen()
        run_job(
            f"aggregate {', '.join(topic)}",
            spark,
            lambda running, tell, is_over: aggregate.run(
                running, options, Progress(tell, is_over), show=lambda line: out.print(visible(line), soft_wrap=True)
            ),
            lambda rows: f"read {rows:,} messages",
        )


@_run.verb("replay", "steelyard pipeline run replay --from lake/orders --to-topic orders-again --dry-run")
@at_cluster
def _replay(
    where: Where,
    source: Annotated[str, typer.Option("--from", metavar="DIR", help="What `archive` wrote.", show_default=False)],
    to_topic: Annotated[str, typer.Option(help="Where to send it.", show_default=False)],
    rate: Annotated[
        str | None, typer.Option(help="No more than so many: 10k/s, 600/min.", show_default="as fast as can be")
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only rows such as: day >= '2026-11-01'.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where it is kept how far it is.", show_default="it begins anew"),
    ] = None,
    option: _More = None,
    dry_run: _DryRun = False,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Parquet to a topic, at a rate, in the order per key."""
    _need_spark()
    from steelyard.pipelines import replay
    from steelyard.pipelines.pacing import read_rate
    from steelyard.pipelines.running import Progress

    connect = where.connect()
    speed = None if rate is None else read_rate(rate)
    options = replay.ReplayOptions(
        connect, source, to_topic, speed, condition, checkpoint, more=pairs("--option", option)
    )
    _check_topic(connect, to_topic)
    spark = Spark(master, _few_shuffles(conf, master))
    if dry_run:
        with spark.running("replay") as running:
            plan, done = replay.plan_of(running, options)
        screen().print(_table(plan.queues))
        long = f", at least {plan.rows / speed:,.0f} s" if speed else ""
        say(f"{options.job}: {plan.rows:,} rows in {plan.steps:,} steps, {done:,} of them done{long}")
        return
    say_what_is_shared(master, *filter(None, [options.source, options.checkpoint]))
    if checkpoint is None:
        say("without --checkpoint a replay that is interrupted begins anew")
    run_job(
        f"replay to {to_topic}",
        spark,
        lambda running, tell, is_over: replay.run(running, options, Progress(tell, is_over)),
        lambda rows: f"sent {rows:,} messages",
    )


@_run.verb("balance", "steelyard pipeline run balance --topic orders --group billing")
@at_cluster
def _balance(
    where: Where,
    topic: Annotated[str, typer.Option(help="Whose messages.", show_default=False)],
    group: Annotated[
        str | None, typer.Option(help="Whose members, lag and moves.", show_default="the messages alone")
    ] = None,
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where the page goes; the table lies beside it.")] = Path(
        "balance.html"
    ),
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what was stored from then on.", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what was stored before then.", show_default=False)
    ] = None,
    events: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="What members wrote with `consume --events json`; repeat it.", show_default=False
        ),
    ] = None,
    watch: Annotated[str, typer.Option(metavar="SPAN", help="Watch the group for so long first.")] = "0s",
    top: Annotated[int, typer.Option(help="How many of the heaviest keys to name.")] = 20,
    key: Annotated[
        str | None,
        typer.Option(
            help="What a key is: keys, or the name of a property.", show_default="the sharding key, else keys"
        ),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Skew, hot keys, lag and moves of a topic and its group, as a page with plots and a table."""
    _need_spark()
    from steelyard.pipelines import balance

    now = datetime.now(UTC)
    options = balance.BalanceOptions(
        where.connect(),
        topic,
        group,
        to,
        since=None if since is None else moment(since, now),
        until=None if until is None else moment(until, now),
        events=tuple(events or ()),
        watch_s=seconds(watch),
        top=top,
        key=key,
    )
    report = balance.run(options, Spark(master, _few_shuffles(conf, master)).running(f"balance of {topic}"))
    screen().print("\n".join(map(visible, str(report).splitlines())), soft_wrap=True)
    say(f"the page is {report.page}, the table {report.table}")


def _need_spark() -> None:
    """Say which extra is missing before anything else is looked at."""
    from steelyard.spark.local import check_packages

    check_packages()


def _check_topic(connect: "Connect", topic: str) -> None:
    """Say so if a topic that is to be written to is not there."""
    from steelyard.client.blocking.admin import Admin

    with Admin(connect) as admin:
        admin.topic(topic)


def _stream(
    where: Where,
    topics: list[str],
    start: str,
    trigger: str,
    checkpoint: str,
    group: str | None,
    more: list[str] | None,
) -> dict[str, Any]:
    """Return the options of a stream as jobs want them."""
    from steelyard.client.moments import since_1970_ms
    from steelyard.pipelines.triggers import Trigger

    words = {"first": "earliest", "earliest": "earliest", "last": "latest", "latest": "latest", "group": "group"}
    return {
        "connect": where.connect(),
        "topics": tuple(topics),
        "checkpoint": checkpoint,
        "start": words.get(start) or str(since_1970_ms(moment(start, datetime.now(UTC)))),
        "trigger": Trigger.of(trigger),
        "group": group,
        "more": pairs("--option", more),
    }


def _show(ranges: "Iterable[OffsetRange]", what: str, checkpoint: str, outlook: str) -> None:
    """Show what there is to do."""
    screen().print(_table(ranges))
    for line in (what, f"checkpoint: {checkpoint}", *outlook.splitlines()):
        say(line)


def _table(ranges: "Iterable[OffsetRange]") -> "Table":
    from steelyard.cli.frame.tables import listing

    table = listing("queue", "#from", "#to", "#messages")
    for each in ranges:
        table.add_row(visible(str(each.queue)), f"{each.start:,}", f"{each.end:,}", f"{len(each):,}")
    return table


def _query(text: str) -> str:
    """Return the query, which is given as it is or as a file's name."""
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # Several words that are no file, or that are longer than a file's name may be, are a query.
        if len(text.split()) > 1 and isinstance(error, OSError) and not isinstance(error, PermissionError):
            return text
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationError(
            f"the query {text!r} cannot be read ({why})", next_step="give a file, or SELECT … FROM messages"
        ) from None


def _few_shuffles(conf: list[str] | None, master: str | None) -> list[str]:
    """Return the settings; on this machine alone, with as many parts of a shuffle as there are cores."""
    from steelyard.spark.local import is_local

    given = list(conf or ())
    if not is_local(master) or any(each.startswith("spark.sql.shuffle.partitions") for each in given):
        return given
    return [f"spark.sql.shuffle.partitions={os.cpu_count() or 2}", *given]
