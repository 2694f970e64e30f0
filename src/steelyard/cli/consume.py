"""`steelyard consume`: print messages as they arrive, one line or one JSON object each, or by a pattern.

Without ``--group`` it reads every queue and leaves no trace: no group, no offsets. With it, it is a member like any
other: it shares the queues, and a printed message is consumed. Ctrl-C or SIGTERM stop it cleanly: printing is
finished, its queues are released, and the exit code is 0.
"""

from datetime import UTC, datetime
from typing import Annotated

from steelyard.cli.shared.commands import command
from steelyard.cli.shared.message_output import message_format
from steelyard.cli.shared.options import ClientOptions, LineOutput, TopicsArgument
from steelyard.cli.shared.parameters import option
from steelyard.errors import ConfigurationError
from steelyard.model.time_text import TIME_HINT, parse_time

_MAX_WORKERS = 1_000


@command(
    "steelyard consume orders",
    "steelyard consume orders --from first --exit-at-end --json | jq .body",
    r"steelyard consume orders --from -100 --format '%t %q %o %k %s\n'",
    "steelyard consume orders --from '2 hours ago' --tags 'paid || refunded' --count 10",
    "steelyard consume orders --group billing --orderly",
)
def consume(
    client: ClientOptions,
    out: LineOutput,
    topics: TopicsArgument,
    group: Annotated[
        str | None,
        option(help="Join this group and share the queues with its members.", show_default="none, without a trace"),
    ] = None,
    strategy: Annotated[str, option(help="With --group: allocation strategy; the same for all members.")] = "sticky",
    start: Annotated[
        str,
        option(
            "--from",
            help="first, last, a time, '2 hours ago'; without --group also -100: the last hundred of each queue. "
            "A group with committed offsets continues there.",
        ),
    ] = "last",
    tags: Annotated[str | None, option(help="Only these: 'paid || refunded'.")] = None,
    sql: Annotated[str | None, option(help="Only messages that match this SQL92 expression.")] = None,
    orderly: Annotated[bool, option(help="With --group: one message at a time of each queue.")] = False,
    broadcast: Annotated[bool, option(help="With --group: every member gets all messages.")] = False,
    pattern: Annotated[
        str | None,
        option(
            "--format",
            metavar="PATTERN",
            help=r"Print each message so, such as '%t %q %o %k %s\n'; the directives are above.",
        ),
    ] = None,
    events: Annotated[
        str | None,
        option(
            metavar="json",
            help="With --group: write each change of the queues it owns to stderr, as a line of JSON with at_ms, id, "
            "queues (each as topic, broker and id, without the retry topic) and why. Nothing else is written there "
            "while it runs.",
        ),
    ] = None,
    count: Annotated[int | None, option(min=1, help="Stop after this many messages.")] = None,
    exit_at_end: Annotated[bool, option(help="Stop at the end as it was at the start.")] = False,
    work_ms: Annotated[int, option(min=0, help="Simulate so much work for each message.")] = 0,
    workers: Annotated[int, option(min=1, max=_MAX_WORKERS, help="With --group: how many messages at a time.")] = 20,
    drain: Annotated[float, option(min=0, metavar="SECONDS", help="With --group: how long stopping may take.")] = 30.0,
    name: Annotated[str | None, option(help="A part of its id, to recognise it by.")] = None,
) -> None:
    r"""Print messages as they arrive.

    \b
    Directives of --format:
      %t  topic                    %k  keys, blanks between them
      %b  broker                   %K  bytes of the keys
      %q  queue, also %p           %g  tag
      %o  offset                   %h  properties: name=value,name=value
      %s  body, byte by byte       %i  message id
      %S  bytes of the body        %I  offset id
      %R  %S as 4 bytes           %r  redeliveries so far
      %T  stored, in ms            %D  stored, as 2026-11-01T08:00:00.000Z
      %B  born, in ms              %%  a percent sign
    Escapes: \n \r \t \0 \\ \xNN

    On a terminal control characters are escaped; a pipe gets the bytes as they are.
    """
    if events not in (None, "json"):
        raise ConfigurationError(f"--events is {events!r}", next_step="give json")
    if tags is not None and sql is not None:
        raise ConfigurationError("--tags and --sql exclude each other", next_step="write TAGS in ('a', 'b') in --sql")
    if len(set(topics)) < len(topics):
        raise ConfigurationError("a topic is named twice", next_step="name each once")
    if out.is_json and pattern is not None:
        raise ConfigurationError("--json and --format exclude each other", next_step="give one of them")
    from steelyard.cli.consume_run import ConsumeOptions, read_as_member, read_without_group

    write = message_format(pattern, as_json=out.is_json)
    if group is None:
        if orderly or broadcast or events is not None:
            option = "--orderly" if orderly else "--broadcast" if broadcast else "--events"
            raise ConfigurationError(f"{option} needs a group", next_step="give --group NAME")
        read_without_group(
            client.config(),
            topics,
            _parse_start(start),
            tags=tags,
            sql=sql,
            format_message=write,
            count=count,
            exit_at_end=exit_at_end,
            work_ms=work_ms,
        )
        return
    begin = _parse_start(start)
    if isinstance(begin, int):
        raise ConfigurationError(f"--from {start} is not for a group", next_step=f"give first or last, or {TIME_HINT}")
    wanted = ConsumeOptions(
        topics=tuple(topics),
        group=group,
        strategy=strategy,
        start=begin,
        tags=tags,
        sql=sql,
        orderly=orderly,
        broadcast=broadcast,
        workers=workers,
        drain_s=drain,
        name=name,
    )
    read_as_member(
        client.config(),
        wanted,
        format_message=write,
        write_events=events is not None,
        count=count,
        exit_at_end=exit_at_end,
        work_ms=work_ms,
    )


def _parse_start(text: str) -> str | int | datetime:
    """Parse where to begin: first, last, so many before the end, or a time.

    >>> _parse_start("first"), _parse_start("-100")
    ('first', -100)
    """
    if text in ("first", "last"):
        return text
    if text.startswith("-"):
        try:
            return int(text)
        except ValueError:
            pass
    return parse_time(text, datetime.now(UTC))
