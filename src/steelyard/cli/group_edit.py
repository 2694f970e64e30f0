"""Subcommands of `steelyard group` that change groups: create, set, apply from a file, request mode, delete.

A setting that is not given stays as it is. `with_group_settings` declares the settings as options once, for the
subcommands that take a `GroupConfig`. A file of groups is shown as changes before it is applied.
"""

import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.shared.options import (
    BrokersOption,
    DryRunOption,
    GroupArgument,
    TopicArgument,
    YesOption,
    confirm,
    with_shared_options,
)
from steelyard.cli.shared.output import Output, columns
from steelyard.cli.shared.terminal import print_note
from steelyard.cli.shared.units import parse_pairs, pluralize
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from steelyard.client.admin.group_config import GroupChange, GroupChangePlan, GroupConfig
    from steelyard.client.sync.admin import Admin

__all__ = ["apply_groups", "create_group", "delete_group", "set_group", "set_request_mode", "with_group_settings"]


def _setting(*names: str, **more: Any) -> Any:
    return typer.Option(*names, show_default=False, rich_help_panel="The group", **more)


def _declare_settings(
    *,
    group: GroupArgument,
    retries: Annotated[
        int | None, _setting(min=0, help="Redeliveries before a message becomes a dead letter; usually 16.")
    ] = None,
    consume: Annotated[bool | None, _setting("--consume/--no-consume", help="Whether members get messages.")] = None,
    broadcast: Annotated[
        bool | None, _setting("--broadcast/--no-broadcast", help="Whether members may consume in broadcast mode.")
    ] = None,
    from_first: Annotated[
        bool | None,
        _setting("--from-first/--not-from-first", help="Whether members may begin with a queue's first message."),
    ] = None,
    notices: Annotated[
        bool | None, _setting("--notices/--no-notices", help="Whether members are notified when the group changes.")
    ] = None,
    retry_queues: Annotated[
        int | None, _setting(min=1, help="Queues of its retry topic on a broker; usually 1.")
    ] = None,
    read_from: Annotated[
        int | None, _setting(min=0, metavar="ID", help="The replica to read from; 0 is the master.")
    ] = None,
    slow_read_from: Annotated[
        int | None, _setting(min=0, metavar="ID", help="The replica for reads that are no longer in memory.")
    ] = None,
    orderly: Annotated[
        bool | None, _setting("--orderly/--not-orderly", help="Whether pop consumes in order (5.0 and later).")
    ] = None,
    timeout_minutes: Annotated[
        int | None, _setting(min=1, help="How long a popped message may be handled; usually 15 (5.0 and later).")
    ] = None,
    retry_policy: Annotated[
        str | None, _setting(metavar="JSON", help="Delay before a popped message is redelivered (5.0 and later).")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        _setting(metavar="NAME=VALUE", help="An attribute (5.0 and later); NAME= removes it."),
    ] = None,
) -> None: ...


_SETTING_PARAMETERS = tuple(inspect.signature(_declare_settings).parameters.values())


def with_group_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of group settings to a command, which gets a `GroupConfig` as its third argument."""
    own = list(inspect.signature(command).parameters.values())

    def run(*first: Any, **given: Any) -> None:
        settings = {each.name: given.pop(each.name) for each in _SETTING_PARAMETERS}
        command(*first, _make_settings(**settings), **given)

    taken = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*_SETTING_PARAMETERS, *own[3:])]
    run.__dict__.update(command.__dict__, __signature__=inspect.Signature([*own[:2], *taken]))
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, {}
    return run


def _make_settings(*, group: str, retry_policy: str | None, attribute: list[str] | None, **plain: Any) -> "GroupConfig":
    from steelyard.client.admin.group_config import GroupConfig, parse_retry_policy

    policy = None if retry_policy is None else parse_retry_policy(retry_policy)
    return GroupConfig(name=group, retry_policy=policy, attributes=parse_pairs(attribute, "attribute") or None, **plain)


class _RequestMode(StrEnum):
    PULL = "pull"
    POP = "pop"


@with_shared_options
@with_group_settings
def create_group(admin: "Admin", out: Output, settings: "GroupConfig", broker: BrokersOption = None) -> None:
    """Create a group. Its first consumer would create it too, with default settings."""
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


@with_shared_options
@with_group_settings
def set_group(admin: "Admin", out: Output, settings: "GroupConfig", broker: BrokersOption = None) -> None:
    """Change settings of a group; those not given stay."""
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


@with_shared_options
def apply_groups(
    admin: "Admin",
    out: Output,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Groups as JSON; - for stdin.", show_default=False)],
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
    return {
        "group": change.wanted.name,
        "broker": change.broker,
        "what": change.what,
        "details": change.details or None,
        "differences": change.differences,
    }


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


@with_shared_options
def set_request_mode(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    topic: TopicArgument,
    mode: Annotated[
        _RequestMode, typer.Argument(metavar="pull|pop", help="How members get messages.", show_default=False)
    ],
    share_queues: Annotated[
        int, typer.Option(min=0, help="With pop: how many more queues than its own a member reads.")
    ] = 0,
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


@with_shared_options
def delete_group(
    admin: "Admin",
    out: Output,
    group: GroupArgument,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Also its dead letters.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete a group, its offsets and its retries. Stop its members first: they would create it again."""
    admin.groups.configs(group)
    lag = sum(row.lag for row in admin.offsets.list(group))
    gone = [
        f"its offsets (a lag of {lag} messages)",
        "its retries",
        *(["its dead letters"] if dead_letters else []),
    ]
    confirm(f"group {group!r} would be deleted, with {', '.join(gone[:-1])} and {gone[-1]}", yes)
    admin.groups.delete(group, dead_letters=dead_letters)
    out.print_result(f"group {group} is deleted", group=group, deleted=True)
