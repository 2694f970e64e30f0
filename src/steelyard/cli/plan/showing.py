"""A plan as people see it: a table of who gets what, or a picture of what every strategy would do."""

from typing import TYPE_CHECKING

from rich.table import Table

from steelyard.balance.allocate import Plan, Strategy
from steelyard.balance.allocate import plan as make_plan
from steelyard.balance.allocate.member_tables import tables_of, unmatched
from steelyard.balance.explain import Explanation, explain, tell
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.screen import screen
from steelyard.cli.plan.as_json import print_plan
from steelyard.cli.plan.draw import counts, grid, legend, ruler
from steelyard.cli.plan.source import PlanInput
from steelyard.errors import ConfigurationError
from steelyard.model import in_order

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["draw_worked", "show_one"]

_NAMED = 5


def _planned(given: PlanInput, strategy: Strategy) -> tuple[Plan, Explanation]:
    for table in tables_of(strategy):
        if nobodys := unmatched(table.keys, given.members):
            raise ConfigurationError(
                f"{table.setting} has entries for {', '.join(nobodys[:_NAMED])}, and none of the members is meant",
                next_step="give names or client ids of members",
            )
    made = make_plan(strategy, given.group, given.queues, given.members, previous=given.previous)
    return made, explain(given.previous or {}, made, given.queues)


def show_one(given: PlanInput, strategy: Strategy, *, as_json: bool) -> None:
    """Show the plan of one strategy, and what it moves if it is known who has what now."""
    made, told = _planned(given, strategy)
    if as_json:
        print_plan(made, told, strategy=strategy.name)
        return
    console = screen()
    table = Table(title=f"{strategy.name} for group {given.group}", title_justify="left")
    table.add_column("member")
    table.add_column("queues", justify="right")
    table.add_column("which", overflow="fold")
    for member, mine in made.items():
        table.add_row(member, str(len(mine)), " ".join(map(str, mine)) or "-")
    console.print(table)
    for line in tell(told) if given.previous is not None else tell(told)[:1]:
        console.print(line, soft_wrap=True)


def draw_worked(console: "Console", given: PlanInput, strategies: list[Strategy]) -> None:
    """Draw what every strategy does with one group."""
    queues = in_order(given.queues)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("strategy", no_wrap=True)
    table.add_column(ruler(len(queues)), overflow="fold")
    table.add_column("each", overflow="fold")
    plans = [_planned(given, strategy)[0] for strategy in strategies]
    pictures = [grid(queues, made) for made in plans]
    for strategy, made, picture in zip(strategies, plans, pictures, strict=True):
        table.add_row(strategy.name, picture, counts(made))
    count = len(given.members)
    console.print(f"{len(queues)} queues, {counted(count, 'member')}", style="bold")
    console.print(table)
    console.print(legend(given.members, pictures), style="dim")
    console.print()
