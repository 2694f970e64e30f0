"""`steelyard plan`: who would get which queue, without touching anything.

Three ways in. With numbers (`--queues 16 --members 1..3`) it draws a worked example for every strategy. With a file
(`--input group.json`) it plans that group, and with `--json` prints the plan for a program to read. With a live group
(`--group billing --join new-1 --leave old-7`) it says what a change of its members would move.
"""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from steelyard.balance.allocate import BUILT_IN, Plan, Strategy, find_strategy
from steelyard.balance.allocate import plan as make_plan
from steelyard.balance.explain import Explanation, explain, tell
from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.screen import screen
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.plan.as_json import print_plan
from steelyard.cli.plan.draw import counts, grid, legend, ruler
from steelyard.cli.plan.source import PlanInput, load_rule, member_counts, read_input, worked_input
from steelyard.errors import ConfigurationError
from steelyard.model import in_order

__all__ = ["draw_worked", "plan"]


@verb(
    "steelyard plan --queues 16 --members 1..3",
    "steelyard plan --input group.json --strategy sticky",
    "steelyard plan --group billing --join new-1 --leave old-7",
)
@at_cluster
def plan(
    where: Where,
    queues: Annotated[
        int | None, typer.Option(help="How many queues, for a worked example.", show_default=False)
    ] = None,
    members: Annotated[str | None, typer.Option(help="How many members: 3, 1..3 or 2,4,8.", show_default=False)] = None,
    source: Annotated[
        str | None, typer.Option("--input", help="A group as a JSON file, - for stdin.", show_default=False)
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            "--allocate",
            help=f"One of {', '.join(BUILT_IN.names)}, Java's name, or module:callable.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="A group that is there: what would a change move?", show_default=False)
    ] = None,
    join: Annotated[
        list[str] | None, typer.Option(help="With --group: a member that joins.", show_default=False)
    ] = None,
    leave: Annotated[
        list[str] | None, typer.Option(help="With --group: a member that leaves.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one plan a line.")] = False,
) -> None:
    """Show who would get which queue, and what would move; nothing is touched."""
    if group is not None:
        if source is not None or queues is not None or members is not None:
            raise ConfigurationError("--group already says which queues and members", next_step="leave the others out")
        # Here and not above, so that other plans do not wait for what they do not need.
        from steelyard.cli.plan.live import plan_live

        plan_live(where.connect(), group, join or [], leave or [], strategy, as_json=as_json)
        return
    if join or leave:
        raise ConfigurationError("--join and --leave are about a group", next_step="give --group NAME")
    if source is not None:
        if queues is not None or members is not None:
            raise ConfigurationError("--input already says which queues and members", next_step="leave the others out")
        given = read_input(source)
        name = "average" if strategy is None else strategy
        _show_one(given, find_strategy(name, given.settings, load=load_rule), as_json)
        return
    if queues is None or members is None:
        raise ConfigurationError(
            "there is nothing to plan", next_step="give --queues and --members, --input with a file, or --group"
        )
    names = BUILT_IN.names if strategy is None else (strategy,)
    for count in member_counts(members):
        given = worked_input(queues, count)
        strategies = [find_strategy(name, given.settings, load=load_rule) for name in names]
        if as_json:
            for each in strategies:
                _show_one(given, each, as_json)
        else:
            draw_worked(screen(), given, strategies)


def _planned(given: PlanInput, strategy: Strategy) -> tuple[Plan, Explanation]:
    made = make_plan(strategy, given.group, given.queues, given.members, previous=given.previous)
    return made, explain(given.previous or {}, made, given.queues)


def _show_one(given: PlanInput, strategy: Strategy, as_json: bool) -> None:
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


def draw_worked(console: Console, given: PlanInput, strategies: list[Strategy]) -> None:
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
    console.print(f"{len(queues)} queues, {count} {'member' if count == 1 else 'members'}", style="bold")
    console.print(table)
    console.print(legend(given.members, pictures), style="dim")
    console.print()
