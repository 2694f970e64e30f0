"""`steelyard offset`: how far groups are, and moving them, on servers of ours and of Apache's.

A move is worked out and shown before it is done: from where to where in each queue, and how many messages are skipped
or come again. It counts whether the group's members run or not (client/admin/resets.py).
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import GroupName, InTopics, SomeTopic, TopicName
from steelyard.cli.frame.confirming import DryRun, Yes
from steelyard.cli.frame.moments import on_the_clock
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.offset.moving import QUEUE, move, queue_values
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from steelyard.client.admin.resets import Reset
    from steelyard.client.blocking.admin import Admin

__all__ = ["app"]

app = Noun("offset", "See how far groups are, and move them.")


@app.verb(
    "show",
    "steelyard offset show billing",
    "steelyard offset show billing orders --output csv",
    "steelyard offset show billing --json > billing.jsonl    # for: steelyard offset import",
)
@at_cluster
def _show_offsets(
    where: Where,
    out: Out,
    group: GroupName,
    topic: SomeTopic = None,
) -> None:
    """Show how far a group is in each queue."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        rows = admin.offsets(group, topic)
    out.rows(
        [
            *QUEUE,
            Column("committed", right=True),
            Column("end", right=True),
            Column("lag", "waiting", right=True),
            Column("consumed_at", "handled up to", show=on_the_clock),
        ],
        (
            {
                **queue_values(row.queue),
                "committed": row.committed,
                "end": row.end,
                "lag": row.lag,
                "consumed_at": row.consumed_at,
            }
            for row in rows
        ),
    )


@app.verb("held", "steelyard offset held billing orders", "steelyard offset held billing orders --member till-1")
@at_cluster
def _show_held(
    where: Where,
    out: Out,
    group: GroupName,
    topic: TopicName,
    member: Annotated[str | None, typer.Option(help="Only this member.", show_default=False)] = None,
) -> None:
    """Ask the members of a group how far they are.

    That is what they have in memory, and commit every few seconds.
    """
    from steelyard.cli.frame.short_names import find_member, short_names
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        meant = None if member is None else find_member(member, [each.id for each in admin.members(group)])
        held = admin.held_offsets(group, topic, meant)
    names = short_names(each.member for each in held)
    out.rows(
        [Column("name", "member"), *QUEUE, Column("offset", right=True)],
        (
            {"name": names[each.member], "member": each.member, **queue_values(each.queue), "offset": each.offset}
            for each in held
        ),
    )


@app.verb(
    "reset",
    "steelyard offset reset billing --to '2 hours ago' --dry-run",
    "steelyard offset reset billing --to first --topic orders --yes",
    "steelyard offset reset billing --to 1200 --topic orders --queue broker-0:3",
    "steelyard offset reset billing --to -100    # the last 100 of each queue again",
)
@at_cluster
def _reset_offsets(
    where: Where,
    out: Out,
    group: GroupName,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="first, last, a time, '2 hours ago', an offset, or +10 or -10 from where it is.",
            show_default=False,
        ),
    ],
    topic: InTopics = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER:ID", help="Only this queue; several by repeating it.", show_default="all of the topic"
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a group to an end, a time or an offset.

    What that does is shown first. It counts whether the group's members run or not.
    """
    from steelyard.client.admin.targets import target_of

    target = target_of(to, datetime.now(UTC))

    def plan(admin: "Admin") -> "list[Reset]":
        if queue is None:
            return admin.plan_resets(group, target, topic)
        if topic is None or len(topic) != 1:
            raise ConfigurationError("a queue is one of a topic", next_step="give --topic with --queue")
        from steelyard.cli.message.places import queue_of

        return [admin.plan_reset(group, topic[0], target, queues=[queue_of(topic[0], each) for each in queue])]

    move(where, out, plan, dry_run=dry_run, yes=yes)


@app.verb("skip", "steelyard offset skip billing --dry-run", "steelyard offset skip billing --topic orders --yes")
@at_cluster
def _skip(
    where: Where, out: Out, group: GroupName, topic: InTopics = None, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Let a group leave out all that waits, as reset --to last does."""
    move(where, out, lambda admin: admin.plan_resets(group, "last", topic), dry_run=dry_run, yes=yes)


@app.verb("copy", "steelyard offset copy billing billing-2 --dry-run", "steelyard offset copy billing audit --yes")
@at_cluster
def _copy(
    where: Where,
    out: Out,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The group that is there.", show_default=False)],
    group: Annotated[str, typer.Argument(metavar="TO", help="The group to move, or to make.", show_default=False)],
    topic: InTopics = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a group to where another one is. One that does not exist is made."""
    move(where, out, lambda admin: admin.plan_copy(source, group, topic), dry_run=dry_run, yes=yes)


@app.verb(
    "import",
    "steelyard offset import billing billing.jsonl --dry-run",
    "steelyard offset show billing --json | steelyard offset import billing-2 - --yes",
)
@at_cluster
def _import(
    where: Where,
    out: Out,
    group: GroupName,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What `offset show` printed as JSON; - for stdin.", show_default=False)
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a group to the offsets of a file."""
    from steelyard.cli.offset.file import read_offsets

    offsets = read_offsets(file)

    def plan(admin: "Admin") -> "list[Reset]":
        topics = dict.fromkeys(queue.topic for queue in offsets)
        return [
            admin.plan_reset(group, topic, {queue: at for queue, at in offsets.items() if queue.topic == topic})
            for topic in topics
        ]

    move(where, out, plan, dry_run=dry_run, yes=yes)
