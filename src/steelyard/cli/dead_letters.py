"""`steelyard dead-letters`: what groups gave up after all attempts, and giving it to them again.

What is sent again goes to the group that gave it up, and to no other. The dead letter stays where it is, so sending it
twice brings it twice; that is why it is shown first.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import GroupName, SomeGroup
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Format, Out
from steelyard.cli.frame.screen import Progress, note, visible
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError, SteelyardError

if TYPE_CHECKING:
    from steelyard.client.blocking.admin import Admin
    from steelyard.model import StoredMessage

__all__ = ["app"]

app = Noun("dead-letters", "Look at what groups gave up, and send it again.")

_ALL = 1 << 31

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
    most: Annotated[int, typer.Option(min=1, help="At most so many, the oldest first.")] = 100,
) -> None:
    """List groups that gave messages up, or the dead letters of one."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        if group is None:
            out.rows(
                [Column("group"), Column("messages", right=True), Column("last_at", "last")],
                (
                    {"group": each.group, "messages": each.messages, "last_at": each.last_at}
                    for each in admin.given_up()
                ),
            )
            return
        found = _read(admin, group, since, most + 1)
    out.rows(_COLUMNS, _rows(where, found[:most]))
    if len(found) > most:
        note(f"there are more than {most}: see them with --most, or all with: steelyard dead-letters export {group}")


@app.verb("show", "steelyard dead-letters show billing 7F0000010001…")
@at_cluster
def _show(where: Where, out: Out, group: GroupName, message_id: _MessageId) -> None:
    """Show one dead letter whole, with its attempts and its body."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        dead = admin.dead_letter(group, message_id)
    (row,) = _rows(where, [dead])
    if out.is_table:
        out.one({name: value for name, value in row.items() if name not in ("body", "body_encoding")})
        typer.echo(_visible_lines(dead.body))
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
    with Admin(where.connect()) as admin:
        if message_id:
            found = [admin.dead_letter(group, each) for each in dict.fromkeys(message_id)]
        else:
            found = _read(admin, group, since, _ALL)
        what = f"{_count(len(found))} would be given to group {group} again"
        if dry_run:
            out.rows(_COLUMNS, _rows(where, found))
            note(f"{what}; nothing was sent")
            return
        if not found:
            out.done(f"group {group} has no such dead letters", group=group, sent=0, messages=[])
            return
        if not yes:
            for row in _rows(where, found):
                tried = f"{row['attempts']} {'attempt' if row['attempts'] == 1 else 'attempts'}"
                note(f"{row['message_id']} to {row['to']}, given up after {tried}: {row['beginning']}")
        confirm(what, yes)
        sent = _send(admin, found)
    out.done(
        f"{_count(sent)} {'is' if sent == 1 else 'are'} given to group {group} again",
        group=group,
        sent=sent,
        messages=[each.message_id for each in found],
    )


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

    with Admin(where.connect()) as admin:
        found = _read(admin, group, since, _ALL)
    chosen = Out(Format.JSONL) if out.is_table else out
    chosen.rows([Column(name) for name in _WHOLE], _rows(where, found))


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
        deleted = admin.delete_dead_letters(group)
    out.done(
        f"{_count(deleted)} of group {group} {'is' if deleted == 1 else 'are'} deleted", group=group, deleted=deleted
    )


_COLUMNS = [
    Column("message_id", "id"),
    Column("to", "sent to"),
    Column("attempts", right=True),
    Column("given_up_at", "given up"),
    Column("keys"),
    Column("tags"),
    Column("beginning", "body"),
]
_WHOLE = ("message_id", "to", "attempts", "given_up_at", "keys", "tags", "body", "body_encoding", "properties")


def _read(admin: "Admin", group: str, since: str | None, most: int) -> "list[StoredMessage]":
    """Read dead letters; a group that is not there, and never was, is an error."""
    from steelyard.cli.frame.moments import moment

    start = None if since is None else moment(since, datetime.now(UTC))
    found = admin.dead_letters(group, start=start, most=most)
    if not found:
        admin.group_rules(group)
    return found


def _send(admin: "Admin", found: "Sequence[StoredMessage]") -> int:
    """Send dead letters one after the other; if one cannot be sent, it is said how many were."""
    progress, sent = Progress(), 0
    try:
        for dead in found:
            admin.resend(dead)
            sent += 1
            progress.tell(partial("{} of {} sent".format, sent, len(found)))
    except SteelyardError:
        note(f"{sent} of {len(found)} were sent before this:")
        raise
    finally:
        progress.clear()
    return sent


def _rows(where: Where, found: "Iterable[StoredMessage]") -> Iterable[dict[str, object]]:
    from steelyard.cli.frame.print_message import preview, values_of
    from steelyard.client.admin.dead_letters import topic_of
    from steelyard.client.names import Names

    names = Names(where.connect().namespace)
    for dead in found:
        yield {
            **values_of(dead),
            "to": names.bare(topic_of(dead)) or None,
            "attempts": dead.reconsume_times,
            "given_up_at": dead.stored_at,
            "beginning": preview(dead.body),
        }


def _visible_lines(body: bytes) -> str:
    """Return a body for a terminal, its lines as they are."""
    text = body.decode(errors="backslashreplace")
    return "\n".join(visible(line) for line in text.split("\n"))


def _count(messages: int) -> str:
    return f"{messages} dead {'letter' if messages == 1 else 'letters'}"
