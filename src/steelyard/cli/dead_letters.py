"""`steelyard dead-letters`: messages that groups gave up after all attempts, and redelivering them.

A resent dead letter goes to the group that gave it up and to no other. It also stays where it is, so resending it twice
delivers it twice; that is why it is shown first.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.message_output import body_preview, message_fields, open_bodies
from steelyard.cli.shared.options import (
    ClientOptions,
    DryRunOption,
    GroupArgument,
    OptionalGroupArgument,
    YesOption,
    confirm,
)
from steelyard.cli.shared.output import Output, OutputFormat, columns, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import ProgressLine, print_note
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model.formatting import format_time, pluralize, printable
from steelyard.model.time_text import parse_time

if TYPE_CHECKING:
    from steelyard.client.sync.admin import Admin
    from steelyard.model import Queue, StoredMessage

app = CommandGroup("dead-letters", "Show messages that groups gave up, and redeliver them.")

_PAGE_SIZE = 500
_PREVIEW_ROWS = 20

_SinceOption = Annotated[str | None, option(metavar="TIME", help="Given up since then, such as '2 hours ago'.")]
_MessageIdArgument = Annotated[str, argument(metavar="ID", help="The message's id.")]


@app.subcommand(
    "ls",
    "steelyard dead-letters ls",
    "steelyard dead-letters ls billing --since '2 hours ago'",
    "steelyard dead-letters ls billing --json | jq -r .message_id",
)
def _list_dead_letters(
    admin: "Admin",
    client: ClientOptions,
    out: Output,
    group: OptionalGroupArgument = None,
    since: _SinceOption = None,
    count: Annotated[int, option(min=1, help="The maximum number, the oldest first.")] = 100,
) -> None:
    """List groups that have dead letters, or the dead letters of one."""
    start = _parse_since(since)
    if group is None:
        out.print_rows(
            columns("group", "#messages", "last_at:last", last_at=format_time),
            map(fields_of, admin.dead_letters.counts()),
            if_empty="no group has dead letters",
        )
        return
    found = admin.dead_letters.list(group, start=start, most=count + 1, opened=False)
    if not found:
        admin.groups.configs(group)
    out.print_rows(
        _COLUMNS,
        _marked_rows(admin, client.config().namespace, found[:count], preview=out.is_table),
        if_empty=f"group {group} has no dead letters",
    )
    if len(found) > count:
        print_note(
            f"there are more than {count}: see them with --count, or all with: steelyard dead-letters export {group}"
        )


@app.subcommand("show", "steelyard dead-letters show billing 7F0000010001…")
def _show_dead_letter(
    admin: "Admin", client: ClientOptions, out: Output, group: GroupArgument, message_id: _MessageIdArgument
) -> None:
    """Show one dead letter whole, with its attempts, its last error and its body."""
    dead = admin.dead_letters.find(group, message_id)
    (row,) = _marked_rows(admin, client.config().namespace, [dead], preview=False)
    if out.is_table:
        out.print_object(
            {name: value for name, value in row.items() if name not in ("body", "body_encoding", "beginning")}
        )
        for line in dead.body.decode(errors="backslashreplace").split("\n"):
            print(printable(line))
    else:
        out.print_object(row)


@app.subcommand(
    "resend",
    "steelyard dead-letters resend billing --all --dry-run",
    "steelyard dead-letters resend billing --id 7F0000010001…",
    "steelyard dead-letters resend billing --since '2 hours ago' --yes",
)
def _resend_dead_letters(
    admin: "Admin",
    client: ClientOptions,
    out: Output,
    group: GroupArgument,
    message_id: Annotated[list[str] | None, option("--id", help="This one; can be repeated.")] = None,
    everything: Annotated[bool, option("--all", help="All of them.")] = False,
    since: _SinceOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Redeliver dead letters to their group.

    No other group gets them, and they are shown first. A dead letter stays where it is: resent twice, it is delivered
    twice. Apache's brokers from 5.1.3 on put it straight back while orderly members of the group hold locks.
    """
    if sum((bool(message_id), everything, since is not None)) != 1:
        raise ConfigurationError(
            "which dead letters to resend is not given", next_step="give one of --id, --since and --all"
        )
    start = _parse_since(since)
    named = [admin.dead_letters.find(group, each, opened=False) for each in dict.fromkeys(message_id or ())]
    # Read twice, since there may be too many to keep: those that are added meanwhile are left out.
    ends = {} if named else _end_offsets(admin, group, start)
    count = len(named) or sum(there for _, there in ends.values())

    def chosen() -> "Iterator[StoredMessage]":
        limits = {queue: end for queue, (end, _) in ends.items()}
        return chain(named, _iter_dead_letters(admin, group, start, limits) if limits else ())

    consequence = f"{_count_text(count)} would be redelivered to group {group}"
    if dry_run:
        out.print_rows(_COLUMNS, _marked_rows(admin, client.config().namespace, chosen(), preview=out.is_table))
        print_note(f"{consequence}; nothing was sent")
        return
    if not count:
        out.print_result(f"group {group} has no such dead letters", group=group, sent=0)
        return
    if not yes:
        letters = islice(chosen(), _PREVIEW_ROWS)
        _print_preview(_marked_rows(admin, client.config().namespace, letters, preview=True), count)
    confirm(consequence, yes)
    sent = _resend_all(admin, chosen(), count)
    out.print_result(
        f"{_count_text(sent)} {'is' if sent == 1 else 'are'} redelivered to group {group}", group=group, sent=sent
    )


@app.subcommand(
    "export",
    "steelyard dead-letters export billing > billing.jsonl",
    "steelyard dead-letters export billing --since 1d --output json",
)
def _export_dead_letters(
    admin: "Admin", client: ClientOptions, out: Output, group: GroupArgument, since: _SinceOption = None
) -> None:
    """Write all dead letters of a group with all fields.

    The default is one JSON object a line.
    """
    start = _parse_since(since)
    if not admin.dead_letters.queues(group):
        admin.groups.configs(group)
    lines = Output(OutputFormat.JSONL) if out.is_table else out
    lines.print_rows(
        columns(*_EXPORT_FIELDS),
        _dead_letter_rows(client.config().namespace, _iter_dead_letters(admin, group, start)),
    )


@app.subcommand("delete", "steelyard dead-letters delete billing", "steelyard dead-letters delete billing --yes")
def _delete_dead_letters(admin: "Admin", out: Output, group: GroupArgument, yes: YesOption = False) -> None:
    """Delete all dead letters of a group."""
    there = next((each.messages for each in admin.dead_letters.counts() if each.group == group), 0)
    if not there:
        admin.groups.configs(group)
        out.print_result(f"group {group} has no dead letters", group=group, deleted=0)
        return
    confirm(f"{_count_text(there)} of group {group!r} would be deleted", yes)
    gone = admin.dead_letters.delete(group)
    out.print_result(
        f"{_count_text(gone)} of group {group} {'is' if gone == 1 else 'are'} deleted", group=group, deleted=gone
    )


_COLUMNS = columns(
    "message_id:id",
    "to:sent to",
    "#attempts",
    "given_up_at:given up",
    "error",
    "resent_at:resent",
    "keys",
    "tags",
    "beginning:body",
    given_up_at=format_time,
    error=lambda error: body_preview(error.encode()),
    resent_at=format_time,
)
_EXPORT_FIELDS = (
    *("message_id", "to", "attempts", "given_up_at", "error", "keys", "tags", "body", "body_encoding", "properties"),
)


def _parse_since(since: str | None) -> datetime | None:
    return None if since is None else parse_time(since, datetime.now(UTC))


def _iter_dead_letters(
    admin: "Admin", group: str, start: datetime | None, ends: "Mapping[Queue, int] | None" = None
) -> "Iterator[StoredMessage]":
    """Yield the dead letters of a group, queue by queue; ``ends`` limits the offsets."""
    for queue in admin.dead_letters.queues(group):
        at: datetime | int | None = start
        end = None if ends is None else ends.get(queue, 0)
        while page := admin.dead_letters.list(group, start=at, queue=queue, most=_PAGE_SIZE, opened=False):
            yield from (dead for dead in page if end is None or dead.offset < end)
            at = page[-1].offset + 1
            if end is not None and at >= end:
                break


def _end_offsets(admin: "Admin", group: str, start: datetime | None) -> "dict[Queue, tuple[int, int]]":
    """Return for each queue the offset after its last dead letter, and how many it has."""
    found: dict[Queue, tuple[int, int]] = {}
    for dead in _iter_dead_letters(admin, group, start):
        found[dead.queue] = dead.offset + 1, found.get(dead.queue, (0, 0))[1] + 1
    if not found:
        admin.groups.configs(group)
    return found


def _print_preview(rows: Iterable[Mapping[str, object]], count: int) -> None:
    for row in rows:
        tried = pluralize(int(str(row["attempts"])), "attempt")
        at = row["resent_at"]
        resent = f", resent at {format_time(at)}" if isinstance(at, datetime) else ""
        print_note(f"{row['message_id']} to {row['to']}, given up after {tried}{resent}: {row['beginning']}")
    if count > _PREVIEW_ROWS:
        print_note(f"and {count - _PREVIEW_ROWS} more, which --dry-run lists")


def _resend_all(admin: "Admin", found: "Iterable[StoredMessage]", count: int) -> int:
    """Resend dead letters one after the other; on an error the number of those sent is printed."""
    progress, sent = ProgressLine(), 0
    try:
        for dead in found:
            admin.dead_letters.resend(dead)
            sent += 1
            progress.update(partial("{} of {} sent".format, sent, count))
    except SteelyardError:
        print_note(f"{sent} of {count} were sent before this:")
        raise
    finally:
        progress.clear()
    return sent


def _dead_letter_rows(
    namespace: str, found: "Iterable[StoredMessage]", *, preview: bool = False
) -> Iterator[dict[str, object]]:
    from steelyard.client.admin.dead_letters import dead_letter_error, dead_letter_topic
    from steelyard.client.namespace import ClientNamespace

    names = ClientNamespace(namespace)
    for dead in open_bodies(found, preview=preview):
        yield {
            **message_fields(dead),
            "to": names.unwrap(dead_letter_topic(dead)) or None,
            "attempts": dead.reconsume_times,
            "given_up_at": dead.stored_at,
            "error": dead_letter_error(dead),
            "beginning": body_preview(dead.body),
        }


def _marked_rows(
    admin: "Admin", namespace: str, found: "Iterable[StoredMessage]", *, preview: bool
) -> Iterator[dict[str, object]]:
    """Yield the rows of dead letters, with when and by which client each was resent."""
    letters = iter(found)
    while page := list(islice(letters, _PAGE_SIZE)):
        for row, mark in zip(
            _dead_letter_rows(namespace, page, preview=preview), admin.dead_letters.resends(page), strict=True
        ):
            yield row | {"resent_at": mark and mark.at, "resent_by": mark and mark.by}


def _count_text(messages: int) -> str:
    return pluralize(messages, "dead letter")
