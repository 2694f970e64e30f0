"""`steelyard group`: list groups, explain and watch who owns which queue, show lag and rebalance history.

`explain` describes the group once; `watch` describes it again and again: on a terminal as a grid that is redrawn, on a
pipe as one line for each change. Both only read: nothing joins and nothing is changed. What happened before is in
`moves` (cli/group_history.py), and subcommands that change groups are in cli/group_edit.py.
"""

import sys
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.group_edit import apply_groups, create_group, delete_group, set_group, set_request_mode
from steelyard.cli.group_history import show_history
from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import ClientOptions, GroupArgument, with_shared_options
from steelyard.cli.shared.output import Output, OutputFormat, columns
from steelyard.cli.shared.units import format_time
from steelyard.model.time_text import format_duration, parse_duration_s

if TYPE_CHECKING:
    from steelyard.client.admin.group_config import GroupConfig
    from steelyard.client.admin.group_description import GroupDescription
    from steelyard.client.sync.admin import Admin

__all__ = ["app"]

_MIN_INTERVAL_S = 0.05

app = CommandGroup("group", "Show consumer groups: who owns which queue and why, and the lag; change groups.")


@app.subcommand(
    "ls", "steelyard group ls", "steelyard group ls 'bill*'", "steelyard group ls --output csv > groups.csv"
)
@with_shared_options
def _list_groups(
    admin: "Admin",
    out: Output,
    pattern: Annotated[
        str | None, typer.Argument(metavar="[PATTERN]", help="Only names like this: 'bill*'.", show_default=False)
    ] = None,
    system: Annotated[bool, typer.Option("--system", help="Also system groups and groups of tools.")] = False,
) -> None:
    """List groups."""
    groups = [each for each in admin.groups.list(system=system) if pattern is None or fnmatchcase(each.name, pattern)]
    out.print_rows(
        columns("group", "#members", "#lag", "#tps:messages/s", "kind"),
        (
            {
                "group": each.name,
                "members": each.members,
                "lag": each.lag,
                "tps": each.tps,
                "kind": "broadcast" if each.broadcast and out.is_table else each.kind,
                "broadcast": each.broadcast,
            }
            for each in groups
        ),
        if_empty="no group exists yet; its first consumer creates it" if pattern is None else "no group matches",
    )


@app.subcommand("show", "steelyard group show billing", "steelyard group show billing --output json")
@with_shared_options
def _show_group(admin: "Admin", out: Output, group: GroupArgument) -> None:
    """Show the members, topics, lag and settings of a group."""
    configs = {broker: _settings_values(each) for broker, each in admin.groups.configs(group).items()}
    view = admin.groups.describe(group)
    about: dict[str, object] = {
        "group": group,
        "members": len(view.members),
        "kind": "broadcast" if view.broadcast else view.kind,
        "strategy": view.strategy,
        "topics": [topic for topic in view.topics if not topic.startswith("%")],
        "lag": view.lag,
    }
    out.print_object(about | (_merged_settings(configs) if out.is_table else {"brokers": configs}))


def _settings_values(config: "GroupConfig") -> dict[str, object]:
    """Return settings as JSON that `group apply` reads again."""
    return {name: msgspec.to_builtins(value) for name, value in config.specified().items()}


def _merged_settings(configs: dict[str, dict[str, object]]) -> dict[str, object]:
    """Return settings for people: one value where brokers agree, and that of each broker where they differ."""
    merged: dict[str, object] = {}
    for name in dict.fromkeys(name for each in configs.values() for name in each):
        values = [each.get(name) for each in configs.values()]
        agree = all(value == values[0] for value in values)
        merged[name] = values[0] if agree else dict(zip(configs, values, strict=True))
    return {"brokers": list(configs), **merged}


@app.subcommand(
    "explain",
    "steelyard group explain billing",
    "steelyard group explain billing --json | jq '.queues[] | select(.lag > 0)'",
)
@with_shared_options
def _explain_group(admin: "Admin", out: Output, group: GroupArgument) -> None:
    """Explain who owns each queue, since when and why, and what looks wrong."""
    view = admin.groups.describe(group)
    if out.is_table:
        from steelyard.cli.group_watch import print_group

        print_group(view)
    elif out.format is OutputFormat.CSV:
        names = ("topic", "broker", "queue_id", "owners", "owned_at", "committed", "end", "lag", "consumed_at")
        out.print_rows(columns(*names), _queue_rows(view))
    else:
        out.print_object(_group_values(view))


def _queue_rows(view: "GroupDescription") -> list[dict[str, object]]:
    return [
        {
            "topic": each.queue.topic,
            "broker": each.queue.broker,
            "queue_id": each.queue.queue_id,
            "owners": list(each.owners),
            "owned_at": each.owned_at,
            "committed": each.committed,
            "end": each.end,
            "lag": each.lag,
            "consumed_at": each.consumed_at,
        }
        for each in view.queues
    ]


def _group_values(view: "GroupDescription") -> dict[str, object]:
    return {
        "group": view.group,
        "at_ms": view.at_ms,
        "strategy": view.strategy,
        "broadcast": view.broadcast,
        "lag": view.lag,
        "members": [
            {
                "id": member.id,
                "address": member.address,
                "language": member.language,
                "release": member.release,
                "strategy": member.strategy,
                "leaving": member.leaving,
            }
            for member in view.members
        ],
        "queues": _queue_rows(view),
        "hazards": [finding.message for finding in view.findings],
        "notes": list(view.notes),
    }


@app.subcommand(
    "watch",
    "steelyard group watch billing",
    "steelyard group watch billing --every 200ms --count 3 > changes.txt",
)
@with_shared_options
def _watch_group(
    client: ClientOptions,
    group: GroupArgument,
    every: Annotated[str, typer.Option(metavar="SPAN", help="How often to refresh.")] = "500ms",
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many changes.", show_default=False)] = None,
) -> None:
    """Show who owns which queue, refreshed until Ctrl-C.

    On a terminal that is a grid; through a pipe, one line for each change.
    """
    from steelyard.cli.group_watch import watch_group

    watch_group(
        client.config(),
        group,
        interval_s=max(_MIN_INTERVAL_S, parse_duration_s(every)),
        count=count,
        is_terminal=sys.stdout.isatty(),
    )


@app.subcommand("lag", "steelyard group lag billing", "steelyard group lag billing --json | jq .lag")
@with_shared_options
def _show_lag(admin: "Admin", out: Output, group: GroupArgument) -> None:
    """Show the lag of a group in each topic."""
    out.print_rows(
        columns(
            *("topic", "#queues", "#lag", "handled_to:handled up to", "#behind_s:behind"),
            handled_to=format_time,
            behind_s=format_duration,
        ),
        (
            {
                "topic": each.topic,
                "queues": each.queues,
                "lag": each.waiting,
                "handled_to": each.handled_to,
                "behind_s": None if each.handled_to is None else _age_s(each.handled_to),
            }
            for each in admin.offsets.lag(group)
        ),
    )


def _age_s(when: datetime) -> float:
    return max(0.0, round((datetime.now(when.tzinfo) - when).total_seconds(), 3))


app.subcommand(
    "moves",
    "steelyard group moves billing",
    "steelyard group moves billing --since 2h --output csv > moves.csv",
    "steelyard group moves billing --follow",
)(show_history)
app.subcommand(
    "create",
    "steelyard group create billing",
    "steelyard group create billing --retries 3 --broker broker-a",
)(create_group)
app.subcommand(
    "set",
    "steelyard group set billing --retries 3",
    "steelyard group set billing --no-consume    # no member gets messages until --consume",
)(set_group)
app.subcommand(
    "apply",
    "steelyard group apply groups.json --dry-run",
    'echo \'{"name": "billing", "retries": 3}\' | steelyard group apply - --yes',
)(apply_groups)
app.subcommand(
    "mode",
    "steelyard group mode billing orders pop",
    "steelyard group mode billing orders pull",
)(set_request_mode)
app.subcommand(
    "delete",
    "steelyard group delete billing",
    "steelyard group delete billing --dead-letters --yes",
)(delete_group)
