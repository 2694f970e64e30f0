"""`steelyard group`: which groups there are, who in one has which queue, and how that changes.

`explain` is one look; `watch` goes on looking and shows only what changed: on a terminal a grid that is redrawn, on a
pipe one line for each change. Both only ask: nothing is joined and nothing is moved.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.screen import screen, visible
from steelyard.cli.frame.short_names import short_names, shortened
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.group_view import GroupView

__all__ = ["app"]

app = typer.Typer(
    name="group", help="Look at consumer groups: who has which queue, how far it is, and why.", no_args_is_help=True
)

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False)]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("ls")
@at_cluster
def _list_groups(where: Where, as_json: _Json = False) -> None:
    """List the groups that brokers know."""
    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.cli.frame.tables import listing
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        groups = admin.groups()
    if as_json:
        for each in groups:
            typer.echo(msgspec.json.encode(each))
        return
    table = listing("group", "#members", "#waiting", "kind")
    for each in groups:
        kind = "broadcast" if each.broadcast else each.kind or "-"
        table.add_row(visible(each.name), str(each.members), str(each.lag), kind)
    screen().print(table)


@app.command("explain")
@at_cluster
def _explain_group(where: Where, group: _Group, as_json: _Json = False) -> None:
    """Say who has each queue of a group, since when and why, and how far it is; and what looks wrong."""
    from steelyard.cli.group.grid import table_of
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        view = admin.group(group)
    if as_json:
        typer.echo(msgspec.json.encode(_as_values(view)))
        return
    console = screen()
    console.print(visible(str(view).partition("\n")[0]), style="bold", soft_wrap=True)
    console.print(table_of(view))
    names = short_names(view.owned())
    for hazard in view.hazards:
        console.print(f"look: {visible(shortened(hazard.sentence, names))}", style="bold yellow", soft_wrap=True)
    for note in view.notes:
        console.print(f"note: {visible(note)}", soft_wrap=True)


@app.command("watch")
@at_cluster
def _watch_group(
    where: Where,
    group: _Group,
    every: Annotated[float, typer.Option(min=0.05, metavar="SECONDS", help="How often to look.")] = 0.5,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many changes.", show_default=False)] = None,
) -> None:
    """Show who has which queue, and again when that changes, until Ctrl-C."""
    from steelyard.cli.group.watch import watch

    watch(where.connect(), group, every_s=every, count=count, is_terminal=sys.stdout.isatty())


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
        "queues": [
            {
                "queue": list(each.queue),
                "owners": list(each.owners),
                "owned_at": each.owned_at,
                "committed": each.committed,
                "end": each.end,
                "lag": each.lag,
                "consumed_at": each.consumed_at,
            }
            for each in view.queues
        ],
        "hazards": [hazard.sentence for hazard in view.hazards],
        "notes": list(view.notes),
    }
