"""`steelyard dead-letters`: what groups gave up after all attempts, and giving it to them again.

What is sent again goes to the group that gave it up, and to no other. The dead letter stays where it is, so sending it
twice brings it twice; that is why it is shown first.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import GroupName, SomeGroup
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.moments import moment, on_the_clock
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Format, Out
from steelyard.cli.frame.screen import Progress, note, visible
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError, SteelyardError

if TYPE_CHECKING:
    from steelyard.client.blocking.admin import Admin
    from steelyard.model import Queue, StoredMessage

__all__ = ["app"]

app = Noun("dead-letters", "Look at what groups gave up, and send it again.")

_PAGE = 500
_PREVIEWED = 20

_Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Given up since then, such as '2 hours ago'.", show_default=False),
]
_MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)]


@app.verb(
    "ls",
    "steelyard dead-letters ls",
    "steelyard dead-letters ls billing --since '2 hours ago'",
    "steelyard dead-letters ls billing --json | jq -r .message_id",
)
@at_cluster
def _list(
    where: Where,
    out: Out,
    group: SomeGroup = None,
    since: _Since = None,
    count: Annotated[int, typer.Option(min=1, help="No more than so many, the oldest first.")] = 100,
) -> None:
    """List groups that gave messages up, or the dead letters of one."""
    from steelyard.client.blocking.admin import Admin

    connect, start = where.connect(), _moment(since)
    with Admin(connect) as admin:
        if group is None:
            columns = [Column("group"), Column("messages", right=True), Column("last_at", "last", show=on_the_clock)]
            rows = ({name: getattr(each, name) for name, *_ in columns} for each in admin.given_up())
            out.rows(columns, rows, none="no group gave anything up")
            return
        found = admin.dead_letters(group, start=start, most=count + 1)
        if not found:
            admin.group_rules(group)
    out.rows(_COLUMNS, _rows(connect.namespace, found[:count]), none=f"group {group} gave nothing up")
    if len(found) > count:
        note(f"there are more than {count}: see them with --count, or all with: steelyard dead-letters export {group}")


@app.verb("show", "steelyard dead-letters show billing 7F0000010001…")
@at_cluster
def _show(where: Where, out: Out, group: GroupName, message_id: _MessageId) -> None:
    """Show one dead letter whole, with its attempts and its body."""
    from steelyard.client.blocking.admin import Admin

    connect = where.connect()
    with Admin(connect) as admin:
        dead = admin.dead_letter(group, message_id)
    (row,) = _rows(connect.namespace, [dead])
    if out.is_table:
        out.one({name: value for name, value in row.items() if name not in ("body", "body_encoding", "beginning")})
        for line in dead.body.decode(errors="backslashreplace").split("\n"):
            typer.echo(visible(line))
    else:
        out.one(row)


@app.verb(
    "resend",
    "steelyard dead-letters resend billing --all --dry-run",
    "steelyard dead-letters resend billing --id 7F0000010001…",
    "steelyard dead-letters resend billing --since '2 hours ago' --yes",
)
@at_cluster
def _resend(
    where: Where,
    out: Out,
    group: GroupName,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", help="This one; several by repeating it.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    since: _Since = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give dead letters to their group again.

    They come to no other group, and what would be sent is shown first. A dead letter stays where it is: sent twice, it
    comes twice. Apache's brokers from 5.1.3 on put it straight back while orderly members of the group hold locks.
    """
    from steelyard.client.blocking.admin import Admin

    if sum((bool(message_id), everything, since is not None)) != 1:
        raise ConfigurationError(
            "it is not said which dead letters to send again", next_step="give --id, --since or --all, one of them"
        )
    connect, start = where.connect(), _moment(since)
    with Admin(connect) as admin:
        named = [admin.dead_letter(group, each) for each in dict.fromkeys(message_id or ())]
        # Looked at twice, since there may be many: what is given up meanwhile does not count.
        ends = {} if named else _ends(admin, group, start)
        count = len(named) or sum(there for _, there in ends.values())

        def chosen() -> "Iterator[StoredMessage]":
            limits = {queue: end for queue, (end, _) in ends.items()}
            return chain(named, _each(admin, group, start, limits) if limits else ())

        what = f"{_count(count)} would be given to group {group} again"
        if dry_run:
            out.rows(_COLUMNS, _rows(connect.namespace, chosen()))
            note(f"{what}; nothing was sent")
            return
        if not count:
            out.done(f"group {group} has no such dead letters", group=group, sent=0)
            return
        if not yes:
            _preview(_rows(connect.namespace, islice(chosen(), _PREVIEWED)), count)
        confirm(what, yes)
        sent = _send(admin, chosen(), count)
    out.done(f"{_count(sent)} {'is' if sent == 1 else 'are'} given to group {group} again", group=group, sent=sent)


@app.verb(
    "export",
    "steelyard dead-letters export billing > billing.jsonl",
    "steelyard dead-letters export billing --since 1d --output json",
)
@at_cluster
def _export(where: Where, out: Out, group: GroupName, since: _Since = None) -> None:
    """Write all dead letters of a group, whole.

    That is one JSON object a line, unless --output says otherwise.
    """
    from steelyard.client.blocking.admin import Admin

    connect, start = where.connect(), _moment(since)
    with Admin(connect) as admin:
        if not admin.dead_letter_queues(group):
            admin.group_rules(group)
        chosen = Out(Format.JSONL) if out.is_table else out
        chosen.rows([Column(name) for name in _WHOLE], _rows(connect.namespace, _each(admin, group, start)))


@app.verb("delete", "steelyard dead-letters delete billing", "steelyard dead-letters delete billing --yes")
@at_cluster
def _delete(where: Where, out: Out, group: GroupName, yes: Yes = False) -> None:
    """Delete all dead letters of a group."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        there = next((each.messages for each in admin.given_up() if each.group == group), 0)
        if not there:
            admin.group_rules(group)
            out.done(f"group {group} has no dead letters", group=group, deleted=0)
            return
        confirm(f"{_count(there)} of group {group!r} would be gone", yes)
        gone = admin.delete_dead_letters(group)
    out.done(f"{_count(gone)} of group {group} {'is' if gone == 1 else 'are'} deleted", group=group, deleted=gone)


_COLUMNS = [
    Column("message_id", "id"),
    Column("to", "sent to"),
    Column("attempts", right=True),
    Column("given_up_at", "given up", show=on_the_clock),
    Column("keys"),
    Column("tags"),
    Column("beginning", "body"),
]
_WHOLE = ("message_id", "to", "attempts", "given_up_at", "keys", "tags", "body", "body_encoding", "properties")


def _moment(since: str | None) -> datetime | None:
    return None if since is None else moment(since, datetime.now(UTC))


def _each(
    admin: "Admin", group: str, start: datetime | None, ends: "Mapping[Queue, int] | None" = None
) -> "Iterator[StoredMessage]":
    """Go through the dead letters of a group, queue by queue, up to certain offsets if they are given."""
    for queue in admin.dead_letter_queues(group):
        at: datetime | int | None = start
        end = None if ends is None else ends.get(queue, 0)
        while page := admin.dead_letters(group, start=at, queue=queue, most=_PAGE, opened=False):
            yield from (dead for dead in page if end is None or dead.offset < end)
            at = page[-1].offset + 1
            if end is not None and at >= end:
                break


def _ends(admin: "Admin", group: str, start: datetime | None) -> "dict[Queue, tuple[int, int]]":
    """Return of each queue the offset behind its last dead letter, and how many there are."""
    found: dict[Queue, tuple[int, int]] = {}
    for dead in _each(admin, group, start):
        found[dead.queue] = dead.offset + 1, found.get(dead.queue, (0, 0))[1] + 1
    if not found:
        admin.group_rules(group)
    return found


def _preview(rows: Iterable[Mapping[str, object]], count: int) -> None:
    for row in rows:
        tried = f"{row['attempts']} {'attempt' if row['attempts'] == 1 else 'attempts'}"
        note(f"{row['message_id']} to {row['to']}, given up after {tried}: {row['beginning']}")
    if count > _PREVIEWED:
        note(f"and {count - _PREVIEWED} more, which --dry-run lists")


def _send(admin: "Admin", found: "Iterable[StoredMessage]", count: int) -> int:
    """Send dead letters one after the other; if one cannot be sent, it is said how many were."""
    progress, sent = Progress(), 0
    try:
        for dead in found:
            admin.resend(dead)
            sent += 1
            progress.tell(partial("{} of {} sent".format, sent, count))
    except SteelyardError:
        note(f"{sent} of {count} were sent before this:")
        raise
    finally:
        progress.clear()
    return sent


def _rows(namespace: str, found: "Iterable[StoredMessage]") -> Iterator[dict[str, object]]:
    from steelyard.cli.frame.print_message import preview, values_of
    from steelyard.client.admin.dead_letters import topic_of
    from steelyard.client.names import Names

    names = Names(namespace)
    for dead in found:
        yield {
            **values_of(dead),
            "to": names.bare(topic_of(dead)) or None,
            "attempts": dead.reconsume_times,
            "given_up_at": dead.stored_at,
            "beginning": preview(dead.body),
        }


def _count(messages: int) -> str:
    return counted(messages, "dead letter")
