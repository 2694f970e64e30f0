"""`steelyard plan`: who would get which queue, without touching anything.

Three ways in. With numbers (`--queues 16 --members 1..3`) it draws a worked example for every strategy. With a file
(`--input group.json`) it plans that group, and with `--json` prints the plan for a program to read. With a live group
(`--group billing --join new-1 --leave old-7`) it says what a change of its members would move.
"""

from typing import Annotated

import typer

from steelyard.balance.allocate import BUILT_IN, find_strategy
from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

__all__ = ["plan"]


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
    from steelyard.cli.frame.screen import screen
    from steelyard.cli.plan.showing import draw_worked, show_one
    from steelyard.cli.plan.source import load_rule, member_counts, read_input, worked_input

    if join or leave:
        raise ConfigurationError("--join and --leave are about a group", next_step="give --group NAME")
    if source is not None:
        if queues is not None or members is not None:
            raise ConfigurationError("--input already says which queues and members", next_step="leave the others out")
        given = read_input(source)
        name = "average" if strategy is None else strategy
        show_one(given, find_strategy(name, given.settings, load=load_rule), as_json=as_json)
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
                show_one(given, each, as_json=True)
        else:
            draw_worked(screen(), given, strategies)
