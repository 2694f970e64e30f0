"""`steelyard plan`: who would get which queue. Nothing is changed.

Three inputs: numbers (`--queues 16 --members 1..3`) draw an example for every strategy, a file (`--input group.json`)
plans that group, and a live group (`--group billing --join new-1 --leave old-7`) shows what a change would move.
"""

from typing import Annotated

from steelyard.balance.assignors import BUILT_IN_STRATEGIES, find_strategy
from steelyard.cli.shared.commands import command
from steelyard.cli.shared.options import ClientOptions, LineOutput
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import make_console
from steelyard.errors import ConfigurationError


@command(
    "steelyard plan --queues 16 --members 1..3",
    "steelyard plan --input group.json --strategy sticky",
    "steelyard plan --group billing --join new-1 --leave old-7",
)
def plan(
    client: ClientOptions,
    out: LineOutput,
    queues: Annotated[int | None, option(help="How many queues, for an example.")] = None,
    members: Annotated[str | None, option(help="How many members: 3, 1..3 or 2,4,8.")] = None,
    source: Annotated[str | None, option("--input", help="A group as a JSON file, - for stdin.")] = None,
    strategy: Annotated[
        str | None, option(help=f"One of {', '.join(BUILT_IN_STRATEGIES.names)}, Java's name, or module:callable.")
    ] = None,
    group: Annotated[str | None, option(help="A live group: show what a change would move.")] = None,
    join: Annotated[list[str] | None, option(help="With --group: a member that joins.")] = None,
    leave: Annotated[list[str] | None, option(help="With --group: a member that leaves.")] = None,
) -> None:
    """Show which queue each member would get, and what would move; nothing changes."""
    if group is not None:
        if source is not None or queues is not None or members is not None:
            raise ConfigurationError("--group already gives queues and members", next_step="leave the others out")
        from steelyard.cli.plan_run import plan_live_group

        plan_live_group(client.config(), group, join or [], leave or [], strategy, as_json=out.is_json)
        return
    from steelyard.cli.plan_run import (
        example_input,
        load_strategy,
        parse_member_counts,
        print_example_plans,
        print_one_plan,
        read_plan_file,
    )

    if join or leave:
        raise ConfigurationError("--join and --leave need a group", next_step="give --group NAME")
    if source is not None:
        if queues is not None or members is not None:
            raise ConfigurationError("--input already gives queues and members", next_step="leave the others out")
        given = read_plan_file(source)
        name = "average" if strategy is None else strategy
        print_one_plan(given, find_strategy(name, given.settings, load=load_strategy), as_json=out.is_json)
        return
    if queues is None or members is None:
        raise ConfigurationError(
            "there is nothing to plan", next_step="give --queues and --members, --input with a file, or --group"
        )
    names = BUILT_IN_STRATEGIES.names if strategy is None else (strategy,)
    for count in parse_member_counts(members):
        given = example_input(queues, count)
        strategies = [find_strategy(name, given.settings, load=load_strategy) for name in names]
        if out.is_json:
            for each in strategies:
                print_one_plan(given, each, as_json=True)
        else:
            print_example_plans(make_console(), given, strategies)
