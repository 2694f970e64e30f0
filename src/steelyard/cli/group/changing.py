"""Verbs that change groups: make one, change its settings, many from a file, how it gets messages, delete it.

A setting that is not given stays as it is. Everything is planned first, and a file of groups is shown as changes before
it is applied.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import AtBrokers, GroupName, TopicName
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.group.settings import with_settings
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from steelyard.client.admin.group_rules import GroupChange, GroupPlan, GroupRules

__all__ = ["apply_groups", "create_group", "delete_group", "set_group", "set_mode"]


class _Mode(StrEnum):
    PULL = "pull"
    POP = "pop"


@at_cluster
@with_settings
def create_group(where: Where, out: Out, wish: "GroupRules", broker: AtBrokers = None) -> None:
    """Make a group. Its first consumer would make it too, with the usual settings."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        plan = admin.plan_groups([wish], brokers=broker)
        for change in plan.todo:
            if change.before is not None:
                raise ConfigurationError(
                    f"group {wish.name!r} exists already on {change.broker}, and would change: {change.details}",
                    next_step=f"if that is wanted: steelyard group set {wish.name}, with the same options",
                )
        admin.apply_groups(plan)
    made = [change.broker for change in plan.todo]
    out.done(
        f"group {wish.name} is made on {', '.join(made)}" if made else f"group {wish.name} is there already",
        group=wish.name,
        created=made,
    )


@at_cluster
@with_settings
def set_group(where: Where, out: Out, wish: "GroupRules", broker: AtBrokers = None) -> None:
    """Change settings of a group. Those that are not given stay as they are."""
    from steelyard.client.blocking.admin import Admin

    if not wish.wanted():
        raise ConfigurationError("there is nothing to change", next_step="give a setting, such as --retries 3")
    with Admin(where.connect()) as admin:
        admin.group_rules(wish.name)
        plan = admin.apply_groups(admin.plan_groups([wish], brokers=broker))
    changed = {change.broker: change.details for change in plan.todo}
    told = "; ".join(f"{broker}: {details}" for broker, details in changed.items())
    out.done(
        f"group {wish.name} is changed on {told}" if told else f"group {wish.name} is as wanted already",
        group=wish.name,
        changed={change.broker: change.differences for change in plan.todo},
    )


@at_cluster
def apply_groups(
    where: Where,
    out: Out,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Groups as JSON; - for stdin.", show_default=False)],
    dry_run: DryRun = False,
    yes: Yes = False,
    broker: AtBrokers = None,
) -> None:
    """Make and change groups as a file has them. Groups that are not in it, and settings that are not, stay.

    The file has a list of objects, or one object a line: {"name": "billing", "retries": 3}. What `mqadmin` takes is
    understood too.
    """
    from steelyard.cli.group.file import read_groups
    from steelyard.client.blocking.admin import Admin

    wishes = read_groups(file)
    with Admin(where.connect()) as admin:
        plan = admin.plan_groups(wishes, brokers=broker)
        if dry_run:
            out.rows(_CHANGES, map(_row, plan.changes))
            note("nothing was changed")
            return
        _confirm(plan, yes)
        admin.apply_groups(plan)
    out.rows(_CHANGES, map(_row, plan.changes))


_CHANGES = [Column("group"), Column("broker"), Column("what"), Column("details")]


def _row(change: "GroupChange") -> dict[str, object]:
    return {
        "group": change.wish.name,
        "broker": change.broker,
        "what": change.what,
        "details": change.details or None,
        "differences": change.differences,
    }


def _confirm(plan: "GroupPlan", yes: bool) -> None:
    """Ask before groups that are there become others; making new ones takes nothing away."""
    changed = [change for change in plan.todo if change.before is not None]
    if not changed:
        return
    if not yes:
        for change in changed:
            note(f"{change.wish.name} on {change.broker}: {change.details}")
    groups = len({change.wish.name for change in changed})
    confirm(f"{counted(groups, 'group')} would get other settings", yes)


@at_cluster
def set_mode(
    where: Where,
    out: Out,
    group: GroupName,
    topic: TopicName,
    mode: Annotated[_Mode, typer.Argument(metavar="pull|pop", help="How messages come.", show_default=False)],
    share_queues: Annotated[
        int, typer.Option(min=0, help="With pop: from how many more queues than its own a member reads.")
    ] = 0,
) -> None:
    """Choose how a group gets messages: it pulls, or a broker pops.

    Only Apache's brokers from 5.0 on know pop.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        brokers = admin.set_request_mode(group, topic, pop=mode is _Mode.POP, share_queues=share_queues)
    how = "pops" if mode is _Mode.POP else "pulls"
    out.done(
        f"group {group} {how} messages of {topic} on {', '.join(brokers)}",
        group=group,
        topic=topic,
        mode=mode,
        brokers=brokers,
    )


@at_cluster
def delete_group(
    where: Where,
    out: Out,
    group: GroupName,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Also what it gave up.")] = False,
    yes: Yes = False,
) -> None:
    """Delete a group, its offsets and its retries. Members have to be stopped before: they would make it again."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.group_rules(group)
        waiting = sum(row.lag for row in admin.offsets(group))
        gone = [
            f"its offsets ({waiting} messages wait)",
            "its retries",
            *(["its dead letters"] if dead_letters else []),
        ]
        confirm(f"group {group!r} would be deleted, with {', '.join(gone[:-1])} and {gone[-1]}", yes)
        admin.delete_group(group, dead_letters=dead_letters)
    out.done(f"group {group} is deleted", group=group, deleted=True)
