"""`steelyard member`: the members of a group, and what one of them is doing.

Brokers know who is online; what a member owns and consumes only the member itself knows, and it is asked through a
broker. What looks wrong in the group is printed on stderr.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import GroupArgument, MemberArgument
from steelyard.cli.shared.output import Output, OutputFormat, columns, fields_of
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import print_note
from steelyard.model.formatting import format_time, short_names, shorten_ids

if TYPE_CHECKING:
    from steelyard.client.sync.admin import Admin

_RUNNING_FIELDS = ("handler", "worker", "queue", "offset", "message_id", "messages", "running_ms", "stack")

app = CommandGroup("member", "Show the members of a group.")


@app.subcommand("ls", "steelyard member ls billing", "steelyard member ls billing --output csv")
def _list_members(admin: "Admin", out: Output, group: GroupArgument) -> None:
    """List members that are online, with their subscriptions and queues."""
    view = admin.groups.describe(group)
    owned = view.owned()
    names = short_names(owned)
    out.print_rows(
        columns(
            *("name:member", "address", "client", "strategy", "#queues", "#lag", "started_at:since"),
            "wants:subscriptions",
            queues=lambda queues: str(len(queues)),
            started_at=format_time,
        ),
        (
            {
                "name": names[each.id],
                **fields_of(each, "id", "address", client=f"{each.language} {each.release}"),
                **fields_of(each, "language", "release", "ours", "strategy"),
                "queues": [str(queue) for queue in owned[each.id]],
                "lag": sum(queue.lag or 0 for queue in view.queues if each.id in queue.owners),
                "started_at": each.started_at,
                "wants": _subscription_texts(each.filters) if each.filters is not None else each.topics,
                **fields_of(each, "leaving", "brokers"),
            }
            for each in view.members
        ),
    )
    if not view.members:
        print_note(f"no member of group {group} is online")
    for finding in view.findings:
        print_note(f"look: {shorten_ids(str(finding), names)}")
    for note in view.notes:
        print_note(f"note: {note}")


@app.subcommand(
    "show",
    "steelyard member show billing till-1",
    "steelyard member show billing till-1 --stacks",
    "steelyard member show billing till-1 --json | jq .queues",
)
def _show_member(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    member: MemberArgument,
    stacks: Annotated[bool, option(help="Also the stacks of all its threads; of Java, jstack.")] = False,
) -> None:
    """Ask a member for its queues, its throughput, and what each running handler does.

    The last is the Python stack of the handler with its message, and how long it has had it. For members in Java use
    --stacks.
    """
    from steelyard.model.formatting import short_names

    names = short_names(each.id for each in admin.groups.members(group))
    matching = [each for each, name in names.items() if member in (each, name)]
    status = admin.groups.member_status(group, matching[0] if len(matching) == 1 else member, stacks=stacks)
    summary: dict[str, object] = {
        "id": status.id,
        "started_at": status.started_at,
        "subscriptions" if out.is_table else "wants": _subscription_texts(status.subscriptions),
        "settings": status.settings,
    }
    queues = [fields_of(each) for each in status.queues]
    rates = dict(sorted(status.topics.items()))
    if out.format in (OutputFormat.JSON, OutputFormat.JSONL):
        running = None if status.running is None else [fields_of(each, *_RUNNING_FIELDS) for each in status.running]
        details = {"queues": queues, "topics": rates, "running": running}
        if stacks:
            summary["stacks"] = status.stacks
        out.print_object(summary | details)
        return
    if out.is_table:
        out.print_object(summary)
    out.print_rows(
        columns(
            *("topic", "broker", "#queue_id:queue", "#committed", "#waiting:cached", "locked", "leaving"),
            *("pulled_at:pulled", "consumed_at:consumed"),
            pulled_at=format_time,
            consumed_at=format_time,
        ),
        queues,
    )
    if out.is_table:
        out.print_rows(
            columns("topic", "#handled_tps:handled/s", "#failed_tps:failed/s", "#handle_ms:ms each"),
            ({"topic": topic, **fields_of(rate)} for topic, rate in rates.items()),
        )
        dump = "\n".join(f"{each}\n{each.stack}" for each in status.running or ())
        if stacks:
            dump = status.stacks or "it does not report the stacks of its threads"
        for line in dump.splitlines():
            out.print_result(line)


def _subscription_texts(filters: Mapping[str, str]) -> list[str]:
    """Return topics, each with its tags or expression unless it subscribes to all messages."""
    return [topic if text in ("", "*") else f"{topic}: {text}" for topic, text in sorted(filters.items())]
