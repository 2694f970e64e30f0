"""`steelyard group`: which groups there are, who in one has which queue, how that changes, and their settings.

`explain` is one look; `watch` goes on looking and shows only what changed: on a terminal a grid that is redrawn, on a
pipe one line for each change. Both only ask: nothing is joined and nothing is moved. What happened while nobody looked
is told by `moves` (cli/group/moves.py). The verbs that change something are in cli/group/changing.py.
"""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.arguments import GroupName
from steelyard.cli.frame.moments import in_short, on_the_clock, seconds
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Format, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.group.changing import apply_groups, create_group, delete_group, set_group, set_mode
from steelyard.cli.group.moves import show_moves

if TYPE_CHECKING:
    from steelyard.client.admin.group_rules import GroupRules
    from steelyard.client.admin.group_view import GroupView

__all__ = ["app"]

_LEAST_EVERY_S = 0.05

app = Noun("group", "Look at consumer groups: who has which queue, how far it is, and why.")


@app.verb("ls", "steelyard group ls", "steelyard group ls 'bill*'", "steelyard group ls --output csv > groups.csv")
@at_cluster
def _list_groups(
    where: Where,
    out: Out,
    pattern: Annotated[
        str | None, typer.Argument(metavar="[PATTERN]", help="Only names like this: 'bill*'.", show_default=False)
    ] = None,
    system: Annotated[bool, typer.Option("--system", help="Also those of the servers and of tools.")] = False,
) -> None:
    """List the groups that brokers know."""
    from fnmatch import fnmatchcase

    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        groups = [each for each in admin.groups(system=system) if pattern is None or fnmatchcase(each.name, pattern)]
    out.rows(
        [
            Column("group"),
            Column("members", right=True),
            Column("lag", "waiting", right=True),
            Column("tps", "messages/s", right=True),
            Column("kind"),
        ],
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
        none="there is no group yet; its first consumer makes it" if pattern is None else "no group is like that",
    )


@app.verb("show", "steelyard group show billing", "steelyard group show billing --output json")
@at_cluster
def _show_group(where: Where, out: Out, group: GroupName) -> None:
    """Show a group: who reads what, what waits, and its settings."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        rules = admin.group_rules(group)
        view = admin.group(group)
    about: dict[str, object] = {
        "group": group,
        "members": len(view.members),
        "kind": "broadcast" if view.broadcast else view.kind,
        "strategy": view.strategy,
        "topics": [topic for topic in view.topics if not topic.startswith("%")],
        "lag": view.lag,
    }
    if out.is_table:
        about["waiting"] = about.pop("lag")
        out.one(about | _settings(rules))
    else:
        out.one(about | {"brokers": {broker: _shown(each) for broker, each in rules.items()}})


def _shown(rules: "GroupRules") -> dict[str, object]:
    """Return a group's settings as they can be printed, and read again."""
    return {name: msgspec.to_builtins(value) for name, value in rules.wanted().items()}


def _settings(rules: "dict[str, GroupRules]") -> dict[str, object]:
    """Return settings for people: one value where brokers agree, and each broker's where they do not."""
    told = {broker: _shown(each) for broker, each in rules.items()}
    names = dict.fromkeys(name for each in told.values() for name in each)
    found: dict[str, object] = {}
    for name in names:
        values = [each.get(name) for each in told.values()]
        agreed = all(value == values[0] for value in values)
        found[name] = values[0] if agreed else dict(zip(told, values, strict=True))
    return {"brokers": list(told), **found}


@app.verb(
    "explain",
    "steelyard group explain billing",
    "steelyard group explain billing --json | jq '.queues[] | select(.lag > 0)'",
)
@at_cluster
def _explain_group(where: Where, out: Out, group: GroupName) -> None:
    """Say who has each queue, since when and why, and what looks wrong."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        view = admin.group(group)
    if out.is_table:
        from steelyard.cli.group.grid import draw

        draw(view)
    elif out.form is Format.CSV:
        columns = ("topic", "broker", "queue_id", "owners", "owned_at", "committed", "end", "lag", "consumed_at")
        out.rows([Column(key) for key in columns], _queues(view))
    else:
        out.one(_as_values(view))


@app.verb(
    "watch",
    "steelyard group watch billing",
    "steelyard group watch billing --every 200ms --count 3 > changes.txt",
)
@at_cluster
def _watch_group(
    where: Where,
    group: GroupName,
    every: Annotated[str, typer.Option(metavar="SPAN", help="How often to look.")] = "500ms",
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many changes.", show_default=False)] = None,
) -> None:
    """Show who has which queue, again and again, until Ctrl-C.

    On a terminal that is a grid; through a pipe, one line for each change.
    """
    from steelyard.cli.group.watch import watch

    watch(
        where.connect(),
        group,
        every_s=max(_LEAST_EVERY_S, seconds(every)),
        count=count,
        is_terminal=sys.stdout.isatty(),
    )


@app.verb("lag", "steelyard group lag billing", "steelyard group lag billing --json | jq .lag")
@at_cluster
def _show_lag(where: Where, out: Out, group: GroupName) -> None:
    """Say how many messages wait in each topic of a group."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.lag(group)
    out.rows(
        [
            Column("topic"),
            Column("queues", right=True),
            Column("lag", "waiting", right=True),
            Column("handled_to", "handled up to", show=on_the_clock),
            Column("behind_s", "behind", right=True, show=in_short),
        ],
        (
            {
                "topic": each.topic,
                "queues": each.queues,
                "lag": each.waiting,
                "handled_to": each.handled_to,
                "behind_s": None if each.handled_to is None else _ago_s(each.handled_to),
            }
            for each in found
        ),
    )


def _ago_s(when: datetime) -> float:
    return max(0.0, round((datetime.now(when.tzinfo) - when).total_seconds(), 3))


app.verb(
    "moves",
    "steelyard group moves billing",
    "steelyard group moves billing --since 2h --output csv > moves.csv",
    "steelyard group moves billing --follow",
)(show_moves)
app.verb(
    "create",
    "steelyard group create billing",
    "steelyard group create billing --retries 3 --broker broker-a",
)(create_group)
app.verb(
    "set",
    "steelyard group set billing --retries 3",
    "steelyard group set billing --no-consume    # nobody gets anything until --consume",
)(set_group)
app.verb(
    "apply",
    "steelyard group apply groups.json --dry-run",
    'echo \'{"name": "billing", "retries": 3}\' | steelyard group apply - --yes',
)(apply_groups)
app.verb(
    "mode",
    "steelyard group mode billing orders pop",
    "steelyard group mode billing orders pull",
)(set_mode)
app.verb(
    "delete",
    "steelyard group delete billing",
    "steelyard group delete billing --dead-letters --yes",
)(delete_group)


def _queues(view: "GroupView") -> list[dict[str, object]]:
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


def _as_values(view: "GroupView") -> dict[str, object]:
    """Return a view for programs."""
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
        "queues": _queues(view),
        "hazards": [hazard.sentence for hazard in view.hazards],
        "notes": list(view.notes),
    }
