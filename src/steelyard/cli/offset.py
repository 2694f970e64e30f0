"""`steelyard offset`: committed offsets of groups, and resetting them, on our servers and on Apache's.

A reset is planned and shown before it is done: from where to where in each queue, and how many messages are skipped or
consumed again. It takes effect whether the group's members run or not (client/admin/offsets.py).
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import (
    DryRunOption,
    GroupArgument,
    OptionalTopicArgument,
    TopicArgument,
    TopicsOption,
    YesOption,
    confirm,
    parse_queue,
)
from steelyard.cli.shared.output import Output, columns, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import print_note
from steelyard.errors import ConfigurationError
from steelyard.model.formatting import format_time, pluralize, resolve_member, short_names

if TYPE_CHECKING:
    from steelyard.client.admin.offsets import ResetPlan
    from steelyard.client.sync.admin import Admin

app = CommandGroup("offset", "Show committed offsets of groups, and reset them.")

_QUEUE = ("topic", "broker", "#queue_id:queue")


@app.subcommand(
    "show",
    "steelyard offset show billing",
    "steelyard offset show billing orders --output csv",
    "steelyard offset show billing --json > billing.jsonl    # for: steelyard offset import",
)
def _show_offsets(admin: "Admin", out: Output, group: GroupArgument, topic: OptionalTopicArgument = None) -> None:
    """Show the committed offset and the lag of a group in each queue."""
    out.print_rows(
        columns(*_QUEUE, "#committed", "#end", "#lag", "consumed_at:handled up to", consumed_at=format_time),
        (fields_of(each, lag=each.lag) for each in admin.offsets.list(group, topic)),
    )


@app.subcommand("held", "steelyard offset held billing orders", "steelyard offset held billing orders --member till-1")
def _show_member_offsets(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    topic: TopicArgument,
    member: Annotated[str | None, option(help="Only this member.")] = None,
) -> None:
    """Ask the members of a group for their offsets in memory, which they commit every few seconds."""
    member_id = None if member is None else resolve_member(member, [each.id for each in admin.groups.members(group)])
    found = admin.offsets.in_memory(group, topic, member_id)
    names = short_names(each.member for each in found)
    out.print_rows(
        columns("name:member", *_QUEUE, "#offset"),
        ({"name": names[each.member], **fields_of(each)} for each in found),
    )


@app.subcommand(
    "reset",
    "steelyard offset reset billing --to '2 hours ago' --dry-run",
    "steelyard offset reset billing --to first --topic orders --yes",
    "steelyard offset reset billing --to last --yes    # skips what was not consumed",
    "steelyard offset reset billing --to 1200 --topic orders --queue broker-0:3",
    "steelyard offset reset billing --to -100    # the last 100 of each queue again",
)
def _reset_offsets(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    to: Annotated[
        str, option(metavar="WHERE", help="first, last, a time, '2 hours ago', an offset, or +10 or -10 to shift it.")
    ],
    topic: TopicsOption = None,
    queue: Annotated[
        list[str] | None,
        option(metavar="BROKER:ID", help="Only this queue; can be repeated.", show_default="all of the topic"),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Reset the offsets of a group to an end, a time or an offset.

    The effect is shown first. It takes effect whether the group's members run or not.
    """
    from steelyard.client.admin.offsets import parse_reset_target

    target = parse_reset_target(to, datetime.now(UTC))
    if queue is None:
        plans = admin.offsets.plan_resets(group, target, topic)
    elif topic is None or len(topic) != 1:
        raise ConfigurationError("--queue is a queue of one topic", next_step="give --topic with --queue")
    else:
        queues = [parse_queue(topic[0], each) for each in queue]
        plans = [admin.offsets.plan_reset(group, topic[0], target, queues=queues)]
    _apply_resets(admin, out, plans, dry_run=dry_run, yes=yes)


@app.subcommand(
    "copy", "steelyard offset copy billing billing-2 --dry-run", "steelyard offset copy billing audit --yes"
)
def _copy_offsets(
    admin: "Admin",
    out: Output,
    source: Annotated[str, argument(metavar="FROM", help="The group to copy from.")],
    group: Annotated[str, argument(metavar="TO", help="The group to reset, or to create.")],
    topic: TopicsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Reset a group to the offsets of another one; it is created if it does not exist."""
    _apply_resets(admin, out, admin.offsets.plan_copy(source, group, topic), dry_run=dry_run, yes=yes)


@app.subcommand(
    "import",
    "steelyard offset import billing billing.jsonl --dry-run",
    "steelyard offset show billing --json | steelyard offset import billing-2 - --yes",
)
def _import_offsets(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    file: Annotated[str, argument(metavar="FILE", help="What `offset show` printed as JSON; - for stdin.")],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Reset a group to the offsets in a file."""
    from steelyard.cli.shared.input_files import read_offsets

    offsets = read_offsets(file)
    plans = [
        admin.offsets.plan_reset(group, topic, {queue: at for queue, at in offsets.items() if queue.topic == topic})
        for topic in dict.fromkeys(queue.topic for queue in offsets)
    ]
    _apply_resets(admin, out, plans, dry_run=dry_run, yes=yes)


def _apply_resets(admin: "Admin", out: Output, plans: "Sequence[ResetPlan]", *, dry_run: bool, yes: bool) -> None:
    """Show the plans, ask for confirmation if a message is skipped or repeated, and carry them out."""
    consequence = _reset_sentence(plans)
    if dry_run:
        out.print_rows(
            columns(*_QUEUE, "#before:from", "#to", "#skipped:skips", "#repeated:repeats"), _reset_rows(plans)
        )
        print_note(f"{consequence}; nothing was changed")
        return
    affected = [each for plan in plans for each in plan.moves if each.skipped or each.repeated]
    if affected:
        for each in affected if not yes else ():
            print_note(str(each))
        confirm(consequence, yes)
    for plan in plans:
        admin.offsets.apply(plan)
    out.print_result(_reset_sentence(plans, done=True), group=plans[0].group, moves=list(_reset_rows(plans)))


def _reset_rows(plans: "Iterable[ResetPlan]") -> Iterable[dict[str, object]]:
    names = ("queue", "before", "to", "skipped", "repeated")
    return (fields_of(each, *names) for plan in plans for each in plan.moves)


def _reset_sentence(plans: "Sequence[ResetPlan]", *, done: bool = False) -> str:
    first = plans[0]
    online = f"{pluralize(first.members, 'member')} online" if first.members else "no member online"
    verb = f"{'is' if done else 'would be'} {'created and reset' if first.is_new else 'reset'}"
    return (
        f"group {first.group} {verb} in {pluralize(sum(len(plan.moves) for plan in plans), 'queue')} of "
        f"{', '.join(plan.topic for plan in plans)} ({online}): "
        f"skips {pluralize(sum(plan.skipped for plan in plans), 'message')}, "
        f"repeats {pluralize(sum(plan.repeated for plan in plans), 'message')}"
    )
