"""`steelyard plan --group`: what a change of members would move in a group that is there; only questions are asked."""

from typing import TYPE_CHECKING

from rich.table import Table

from steelyard.balance.allocate import Plan, find_strategy
from steelyard.balance.explain import Explanation, tell
from steelyard.cli.frame.screen import screen, visible
from steelyard.cli.frame.short_names import find_member, short_names, shortened
from steelyard.cli.plan.as_json import print_plan
from steelyard.cli.plan.draw import counts, grid, legend
from steelyard.cli.plan.source import load_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client.admin.group_view import GroupView
    from steelyard.client.connect import Connect

__all__ = ["plan_live"]


def plan_live(
    where: "Connect",
    group: str,
    join: "Sequence[str]",
    leave: "Sequence[str]",
    strategy: str | None,
    *,
    as_json: bool,
) -> None:
    """Look at a group, and tell what would move if these joined and those left."""
    from steelyard.client.admin.group_plan import plan_change
    from steelyard.client.blocking.admin import Admin

    rule = None if strategy is None else find_strategy(strategy, load=load_rule)
    with Admin(where) as admin:
        view = admin.group(group)
    leaving = [find_member(each, [member.id for member in view.members]) for each in leave]
    told = plan_change(view, join=join, leave=leaving, strategy=rule)
    after = _after(view, told, join, leaving)
    if as_json:
        name = view.strategy if rule is None else rule.name
        print_plan(after, told, group=group, strategy=name, before=view.owned())
        return
    _draw(view, after, told)


def _after(view: "GroupView", told: Explanation, join: "Sequence[str]", leaving: "Sequence[str]") -> Plan:
    """Return the new plan, members without a queue included."""
    staying = [member.id for member in view.members if member.id not in leaving]
    after: Plan = {name: [] for name in (*staying, *join)}
    for change in told.changes:
        if change.now is not None:
            after.setdefault(change.now, []).append(change.queue)
    return after


def _draw(view: "GroupView", after: Plan, told: Explanation) -> None:
    console = screen()
    names = short_names([*view.owned(), *after])
    marks = {name: place for place, name in enumerate(names)}
    queues = [each.queue for each in view.queues]
    owners = {each.queue: each.owner for each in view.queues if each.owner is not None}
    before = view.owned()
    pictures = [grid(queues, before, marks=marks), grid(queues, after, owners, marks)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"group {visible(view.group)}", no_wrap=True)
    table.add_column("", overflow="fold")
    table.add_column("each", overflow="fold")
    for what, plan, picture in zip(("now", "then"), (before, after), pictures, strict=True):
        table.add_row(what, picture, counts(plan))
    console.print(table)
    console.print(visible(legend([names[name] for name in marks], pictures)), style="dim")
    for line in tell(told):
        console.print(visible(shortened(line, names)), soft_wrap=True)
