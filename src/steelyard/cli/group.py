"""`steelyard group`: list groups, explain and watch who owns which queue, show lag and rebalance history.

`explain` describes the group once; `watch` describes it again and again: on a terminal as a grid that is redrawn, on a
pipe as one line for each change. Both only read: nothing joins and nothing is changed. What happened before is in
`moves` (cli/group_history.py). A setting that is not given to `create` or `set` stays as it is; `apply` shows the
changes of a file before it makes them.
"""

import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from steelyard.cli.group_history import show_history
from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import (
    BrokersOption,
    ClientOptions,
    DryRunOption,
    GroupArgument,
    TopicArgument,
    YesOption,
    confirm,
    parse_pairs,
)
from steelyard.cli.shared.output import Output, OutputFormat, columns, fields_of, finding_values
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import print_note
from steelyard.errors import ConfigurationError
from steelyard.model.formatting import format_duration, format_time, pluralize
from steelyard.model.time_text import parse_duration_s

if TYPE_CHECKING:
    from steelyard.client.admin.group_config import GroupChange, GroupChangePlan, GroupConfig
    from steelyard.client.admin.group_description import GroupDescription
    from steelyard.client.sync.admin import Admin

_MIN_INTERVAL_S = 0.05
_QUEUE_FIELDS = ("owners", "owned_at", "committed", "end", "lag", "consumed_at", "stuck_since", "oldest_at")

app = CommandGroup("group", "Show consumer groups: who owns which queue and why, and the lag; change groups.")


@app.subcommand(
    "ls", "steelyard group ls", "steelyard group ls 'bill*'", "steelyard group ls --output csv > groups.csv"
)
def _list_groups(
    admin: "Admin",
    out: Output,
    pattern: Annotated[str | None, argument(metavar="[PATTERN]", help="Only names like this: 'bill*'.")] = None,
    system: Annotated[bool, option(help="Also system groups and groups of tools.")] = False,
) -> None:
    """List groups."""
    groups = [each for each in admin.groups.list(system=system) if pattern is None or fnmatchcase(each.name, pattern)]
    out.print_rows(
        columns("group", "#members", "#lag", "#tps:messages/s", "kind"),
        (
            {
                "group": each.name,
                **fields_of(each, "members", "lag", "tps"),
                "kind": "broadcast" if each.broadcast and out.is_table else each.kind,
                "broadcast": each.broadcast,
            }
            for each in groups
        ),
        if_empty="no group exists yet; its first consumer creates it" if pattern is None else "no group matches",
    )


@app.subcommand("show", "steelyard group show billing", "steelyard group show billing --output json")
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
def _explain_group(admin: "Admin", out: Output, group: GroupArgument) -> None:
    """Explain who owns each queue, since when and why, and what looks wrong."""
    view = admin.groups.describe(group)
    if out.is_table:
        from steelyard.cli.group_watch import print_group

        print_group(view)
    elif out.format is OutputFormat.CSV:
        out.print_rows(columns("topic", "broker", "queue_id", *_QUEUE_FIELDS), _queue_rows(view))
    else:
        out.print_object(_group_values(view))


def _queue_rows(view: "GroupDescription") -> list[dict[str, object]]:
    return [fields_of(each, "queue", *_QUEUE_FIELDS) for each in view.queues]


def _group_values(view: "GroupDescription") -> dict[str, object]:
    return {
        **fields_of(view, "group", "at_ms", "strategy", "broadcast", "lag"),
        "members": [
            fields_of(member, "id", "address", "language", "release", "strategy", "leaving") for member in view.members
        ],
        "queues": _queue_rows(view),
        "findings": list(map(finding_values, view.findings)),
        "notes": list(view.notes),
    }


@app.subcommand(
    "watch",
    "steelyard group watch billing",
    "steelyard group watch billing --every 200ms --count 3 > changes.txt",
)
def _watch_group(
    client: ClientOptions,
    group: GroupArgument,
    every: Annotated[str, option(metavar="SPAN", help="How often to refresh.")] = "500ms",
    count: Annotated[int | None, option(min=1, help="Stop after this many changes.")] = None,
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
def _show_lag(admin: "Admin", out: Output, group: GroupArgument) -> None:
    """Show the lag of a group in each topic."""
    out.print_rows(
        columns(
            *("topic", "#queues", "#lag", "handled_to:handled up to", "#behind_s:behind"),
            handled_to=format_time,
            behind_s=format_duration,
        ),
        (
            fields_of(
                each,
                *("topic", "queues"),
                lag=each.waiting,
                handled_to=each.handled_to,
                behind_s=None if each.handled_to is None else _age_s(each.handled_to),
            )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupSettings:
    """A group and its settings, as options; `config` makes them a value."""

    PANEL: ClassVar = "The group"

    group: GroupArgument
    retries: Annotated[
        int | None, option(min=0, help="Redeliveries before a message becomes a dead letter; usually 16.")
    ] = None
    consume: Annotated[bool | None, option("--consume/--no-consume", help="Whether members get messages.")] = None
    broadcast: Annotated[
        bool | None, option("--broadcast/--no-broadcast", help="Whether members may consume in broadcast mode.")
    ] = None
    from_first: Annotated[
        bool | None,
        option("--from-first/--not-from-first", help="Whether members may begin with a queue's first message."),
    ] = None
    notices: Annotated[
        bool | None, option("--notices/--no-notices", help="Whether members are notified when the group changes.")
    ] = None
    retry_queues: Annotated[int | None, option(min=1, help="Queues of its retry topic on a broker; usually 1.")] = None
    read_from: Annotated[int | None, option(min=0, metavar="ID", help="The replica to read from; 0 is the master.")] = (
        None
    )
    slow_read_from: Annotated[
        int | None, option(min=0, metavar="ID", help="The replica for reads that are no longer in memory.")
    ] = None
    orderly: Annotated[
        bool | None, option("--orderly/--not-orderly", help="Whether pop consumes in order (5.0 and later).")
    ] = None
    timeout_minutes: Annotated[
        int | None, option(min=1, help="How long a popped message may be handled; usually 15 (5.0 and later).")
    ] = None
    retry_policy: Annotated[
        str | None, option(metavar="JSON", help="Delay before a popped message is redelivered (5.0 and later).")
    ] = None
    attribute: Annotated[
        list[str] | None, option(metavar="NAME=VALUE", help="An attribute (5.0 and later); NAME= removes it.")
    ] = None

    def config(self) -> "GroupConfig":
        from steelyard.client.admin.group_config import GroupConfig, parse_retry_policy

        given = asdict(self)
        name, policy, attributes = given.pop("group"), given.pop("retry_policy"), given.pop("attribute")
        policy = None if policy is None else parse_retry_policy(policy)
        return GroupConfig(
            name=name, retry_policy=policy, attributes=parse_pairs(attributes, "attribute") or None, **given
        )


class _RequestMode(StrEnum):
    PULL = "pull"
    POP = "pop"


@app.subcommand(
    "create",
    "steelyard group create billing",
    "steelyard group create billing --retries 3 --broker broker-a",
)
def _create_group(admin: "Admin", out: Output, group: _GroupSettings, broker: BrokersOption = None) -> None:
    """Create a group. Its first consumer would create it too, with default settings."""
    settings = group.config()
    plan = admin.groups.plan([settings], brokers=broker)
    for change in plan.todo:
        if change.before is not None:
            raise ConfigurationError(
                f"group {settings.name!r} already exists on {change.broker}, and would change: {change.details}",
                next_step=f"if that is wanted: steelyard group set {settings.name}, with the same options",
            )
    admin.groups.apply(plan)
    created = [change.broker for change in plan.todo]
    out.print_result(
        f"group {settings.name} is created on {', '.join(created)}"
        if created
        else f"group {settings.name} already exists",
        group=settings.name,
        created=created,
    )


@app.subcommand(
    "set",
    "steelyard group set billing --retries 3",
    "steelyard group set billing --no-consume    # no member gets messages until --consume",
)
def _set_group(admin: "Admin", out: Output, group: _GroupSettings, broker: BrokersOption = None) -> None:
    """Change settings of a group; those not given stay."""
    settings = group.config()
    if not settings.specified():
        raise ConfigurationError("there is nothing to change", next_step="give a setting, such as --retries 3")
    admin.groups.configs(settings.name)
    plan = admin.groups.apply(admin.groups.plan([settings], brokers=broker))
    changed = {change.broker: change.details for change in plan.todo}
    details = "; ".join(f"{broker}: {each}" for broker, each in changed.items())
    out.print_result(
        f"group {settings.name} is changed on {details}"
        if details
        else f"group {settings.name} already has these settings",
        group=settings.name,
        changed={change.broker: change.differences for change in plan.todo},
    )


@app.subcommand(
    "apply",
    "steelyard group apply groups.json --dry-run",
    'echo \'{"name": "billing", "retries": 3}\' | steelyard group apply - --yes',
)
def _apply_groups(
    admin: "Admin",
    out: Output,
    file: Annotated[str, argument(metavar="FILE", help="Groups as JSON; - for stdin.")],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    broker: BrokersOption = None,
) -> None:
    """Create and change groups as a file says. Groups and settings that it leaves out stay.

    The file has a list of objects, or one object a line: {"name": "billing", "retries": 3}. What `mqadmin` takes is
    accepted too.
    """
    from steelyard.cli.shared.input_files import read_groups

    wanted = read_groups(file)
    plan = admin.groups.plan(wanted, brokers=broker)
    if not dry_run:
        _confirm_changes(plan, yes)
        admin.groups.apply(plan)
    out.print_rows(columns("group", "broker", "what", "details"), map(_change_row, plan.changes))
    if dry_run:
        print_note("nothing was changed")


def _change_row(change: "GroupChange") -> dict[str, object]:
    row = fields_of(change, "broker", "what", details=change.details or None, differences=change.differences)
    return {"group": change.wanted.name, **row}


def _confirm_changes(plan: "GroupChangePlan", yes: bool) -> None:
    """Ask before existing groups are changed; creating one takes nothing away."""
    changed = [change for change in plan.todo if change.before is not None]
    if not changed:
        return
    if not yes:
        for change in changed:
            print_note(f"{change.wanted.name} on {change.broker}: {change.details}")
    groups = len({change.wanted.name for change in changed})
    confirm(f"{pluralize(groups, 'group')} would be changed", yes)


@app.subcommand(
    "mode",
    "steelyard group mode billing orders pop",
    "steelyard group mode billing orders pull",
)
def _set_request_mode(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    topic: TopicArgument,
    mode: Annotated[_RequestMode, argument(metavar="pull|pop", help="How members get messages.")],
    share_queues: Annotated[int, option(min=0, help="With pop: how many more queues than its own a member reads.")] = 0,
) -> None:
    """Choose how a group gets messages: by pull or by pop.

    Only Apache's brokers from 5.0 on support pop.
    """
    brokers = admin.groups.set_request_mode(group, topic, pop=mode is _RequestMode.POP, share_queues=share_queues)
    how = "pops" if mode is _RequestMode.POP else "pulls"
    out.print_result(
        f"group {group} {how} messages of {topic} on {', '.join(brokers)}",
        group=group,
        topic=topic,
        mode=mode,
        brokers=brokers,
    )


@app.subcommand(
    "delete",
    "steelyard group delete billing",
    "steelyard group delete billing --dead-letters --yes",
)
def _delete_group(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    dead_letters: Annotated[bool, option(help="Also its dead letters.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete a group, its offsets and its retries. Stop its members first: they would create it again."""
    admin.groups.configs(group)
    lag = sum(row.lag for row in admin.offsets.list(group))
    gone = [
        f"its offsets (a lag of {pluralize(lag, 'message')})",
        "its retries",
        *(["its dead letters"] if dead_letters else []),
    ]
    confirm(f"group {group!r} would be deleted, with {', '.join(gone[:-1])} and {gone[-1]}", yes)
    admin.groups.delete(group, dead_letters=dead_letters)
    out.print_result(f"group {group} is deleted", group=group, deleted=True)
