"""`steelyard consume`: messages as they come, one line or one JSON object each, or by a pattern of the user's.

Without ``--group`` it reads every queue and leaves no trace: no group, no offsets, nobody waits for it. With it, it is
a member like any other: it shares the queues with the others, and what it has printed is done. Ctrl-C or SIGTERM end it
cleanly: what is being printed is finished, its queues are handed over, and the exit code is 0.
"""

from datetime import UTC, datetime
from typing import Annotated

import typer

from steelyard.cli.frame.arguments import TopicNames
from steelyard.cli.frame.moments import HOW_TO_WRITE, moment
from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

__all__ = ["consume"]

_MOST_WORKERS = 1_000


@verb(
    "steelyard consume orders",
    "steelyard consume orders --from first --exit-at-end --json | jq .body",
    r"steelyard consume orders --from -100 --format '%t %q %o %k %s\n'",
    "steelyard consume orders --from '2 hours ago' --tags 'paid || refunded' --count 10",
    "steelyard consume orders --group billing --orderly",
)
@at_cluster
def consume(
    where: Where,
    topics: TopicNames,
    group: Annotated[
        str | None,
        typer.Option(
            help="Join this group and share the queues with its members.", show_default="none, without a trace"
        ),
    ] = None,
    allocate: Annotated[
        str, typer.Option(help="With --group: how its members share; all of them must say the same.")
    ] = "sticky",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="first, last, a time, '2 hours ago'; without --group also -100: the last hundred of each queue. "
            "A group that has offsets goes on from there.",
        ),
    ] = "last",
    tags: Annotated[str | None, typer.Option(help="Only these: 'paid || refunded'.", show_default=False)] = None,
    sql: Annotated[
        str | None, typer.Option(help="Only those that an SQL92 condition is true for.", show_default=False)
    ] = None,
    orderly: Annotated[
        bool, typer.Option("--orderly", help="With --group: one at a time of each queue, across the group.")
    ] = False,
    broadcast: Annotated[bool, typer.Option("--broadcast", help="With --group: every member gets everything.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a message.")] = False,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="PATTERN",
            help=r"Print each message so, such as '%t %q %o %k %s\n'; the words are above.",
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(
            metavar="json",
            help="With --group: write each change of what it owns to stderr, as a line of JSON with at_ms, id, queues "
            "(all it owns now, each as topic, broker and id; those of the retry topic are left out) and why. Nothing "
            "else is written there while it runs.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many messages.", show_default=False)] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", help="Stop at what was the end when it began.")] = False,
    work_ms: Annotated[int, typer.Option(min=0, help="Pretend that each message takes so long.")] = 0,
    workers: Annotated[
        int, typer.Option(min=1, max=_MOST_WORKERS, help="With --group: how many messages at a time.")
    ] = 20,
    drain: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="With --group: how long the end may take.")
    ] = 30.0,
    name: Annotated[str | None, typer.Option(help="A part of its id, to recognise it by.", show_default=False)] = None,
) -> None:
    r"""Print messages as they come.

    \b
    Words of --format:
      %t  topic                    %k  keys, blanks between them
      %b  broker                   %K  how many bytes those have
      %q  queue, also %p           %g  tag
      %o  offset                   %h  properties: name=value,name=value
      %s  body, byte by byte       %i  id that its producer gave it
      %S  how many bytes it has    %I  id made of its place
      %R  the same as 4 bytes      %r  how often it came back before
      %T  stored, in ms            %D  stored, as 2026-11-01T08:00:00.000Z
      %B  born, in ms              %%  a percent sign
    Escapes: \n \r \t \0 \\ \xNN

    On a terminal what could be a command to it is shown by its number; a pipe gets the bytes as they are.
    """
    if events not in (None, "json"):
        raise ConfigurationError(f"--events is {events!r}", next_step="give json")
    if tags is not None and sql is not None:
        raise ConfigurationError("--tags and --sql exclude each other", next_step="write TAGS in ('a', 'b') in --sql")
    if len(set(topics)) < len(topics):
        raise ConfigurationError("a topic is named twice", next_step="name each once")
    if as_json and pattern is not None:
        raise ConfigurationError("--json and --format exclude each other", next_step="give one of them")
    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.cli.consume.printing import printed_as

    write = printed_as(pattern, as_json=as_json)
    if group is None:
        if orderly or broadcast or events is not None:
            what = "--orderly" if orderly else "--broadcast" if broadcast else "--events"
            raise ConfigurationError(f"{what} is about a group", next_step="give --group NAME")
        from steelyard.cli.consume.alone import read_alone

        read_alone(
            where.connect(),
            topics,
            _start(start),
            tags=tags,
            sql=sql,
            write=write,
            count=count,
            exit_at_end=exit_at_end,
            work_ms=work_ms,
        )
        return
    begin = _start(start)
    if isinstance(begin, int):
        raise ConfigurationError(
            f"--from {start} is not for a group", next_step=f"give first or last, or {HOW_TO_WRITE}"
        )
    from steelyard.cli.consume.member import Membership, read_as_member

    wanted = Membership(
        topics=tuple(topics),
        group=group,
        allocate=allocate,
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
        where.connect(),
        wanted,
        write=write,
        tells_moves=events is not None,
        count=count,
        exit_at_end=exit_at_end,
        work_ms=work_ms,
    )


def _start(text: str) -> str | int | datetime:
    """Read where to begin: a word, so many before the end, or a time.

    >>> _start("first"), _start("-100")
    ('first', -100)
    """
    if text in ("first", "last"):
        return text
    if text.startswith("-"):
        try:
            return int(text)
        except ValueError:
            pass
    return moment(text, datetime.now(UTC))
