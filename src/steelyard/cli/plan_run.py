"""Plans of `steelyard plan`: from example numbers, a JSON file or a live group; printed as pictures, tables or JSON."""

import importlib
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec
from rich.table import Table

from steelyard.balance.assignors import (
    AssignmentPlan,
    OwnedQueues,
    Strategy,
    StrategyFunction,
    StrategyOptions,
    find_strategy,
    read_strategy_options,
)
from steelyard.balance.assignors import plan as make_plan
from steelyard.balance.assignors.explain import Explanation, describe_plan, explain
from steelyard.balance.assignors.strategy import member_tables_of, unmatched_keys
from steelyard.cli.shared.tables import marks_legend, queue_counts, queue_grid, queue_ruler
from steelyard.cli.shared.terminal import make_console
from steelyard.client.admin.group_description import GroupDescription, dry_run_rebalance
from steelyard.client.sync.admin import Admin
from steelyard.errors import ConfigurationError, file_error
from steelyard.model import Queue, sort_queues
from steelyard.model.formatting import pluralize, printable, resolve_member, short_names, shorten_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

    from steelyard.client.config import ClientConfig

MAX_QUEUES = 4096
MAX_MEMBERS = 62
"""Each member is drawn as one letter or digit."""

_EXAMPLE = '{"group": "g", "queues": [["topic", "broker", 0]], "members": ["c1"]}'


class _PlanFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file's format."""

    group: str
    queues: list[Queue]
    members: list[str]
    previous: dict[str, list[Queue]] | None = None
    config: dict[str, Any] | None = None


class _PlanInput(msgspec.Struct, frozen=True):
    """A group to plan: its queues and members, the previous plan, and the strategy's options."""

    group: str
    queues: list[Queue]
    members: list[str]
    previous: OwnedQueues | None
    settings: StrategyOptions


def read_plan_file(name: str) -> _PlanInput:
    """Read a group from a JSON file, or from stdin for ``-``."""
    try:
        written = msgspec.json.decode(_read_file(name), type=_PlanFile)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{name} is not a plan's input: {error}", next_step=f"it looks like {_EXAMPLE}"
        ) from error
    settings = read_strategy_options(written.config or {})
    fixed = settings.queues or []
    lists = [
        written.queues,
        *(written.previous or {}).values(),
        *(fixed.values() if isinstance(fixed, dict) else [fixed]),
    ]
    for queue in chain.from_iterable(lists):
        if not queue.topic or not queue.broker or queue.queue_id < 0:
            raise ConfigurationError(
                f"{name} has the queue {list(queue)}", next_step='a queue is ["topic", "broker", id] with an id from 0'
            )
    return _PlanInput(written.group, written.queues, written.members, written.previous, settings)


def _read_file(name: str) -> bytes:
    if name == "-" and sys.stdin is None:
        raise ConfigurationError("stdin is closed", next_step="give a JSON file, or write to stdin")
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise file_error(f"the file {name!r} cannot be read", error, "give a JSON file, or - for stdin") from error


def example_input(queues: int, members: int) -> _PlanInput:
    """Return a group of this size: one topic on two brokers in two rooms, members in turn in each."""
    if not 1 <= queues <= MAX_QUEUES:
        raise ConfigurationError(f"{queues} queues cannot be drawn", next_step=f"give 1 to {MAX_QUEUES}")
    half = (queues + 1) // 2
    east = [Queue("orders", "east@broker-a", number) for number in range(half)]
    west = [Queue("orders", "west@broker-b", number) for number in range(queues - half)]
    names = [f"c{number:02d}" if members > 9 else f"c{number}" for number in range(1, members + 1)]
    settings = StrategyOptions(
        rooms=frozenset({"east", "west"}),
        member_rooms={name: ("east", "west")[place % 2] for place, name in enumerate(names)},
        queues={name: [*west, *east][place::members] for place, name in enumerate(names)},
    )
    return _PlanInput("example", [*east, *west], names, None, settings)


def parse_member_counts(text: str) -> list[int]:
    """Parse numbers of members, such as ``3``, ``1..3`` or ``2,4,8``.

    >>> parse_member_counts("1..3"), parse_member_counts("2,4,8")
    ([1, 2, 3], [2, 4, 8])
    """
    try:
        first, dots, last = text.partition("..")
        counts = range(int(first), int(last) + 1) if dots else [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= count <= MAX_MEMBERS for count in counts):
        raise ConfigurationError(
            f"--members {text} is not a number of members",
            next_step=f"give one such as 3, a range such as 1..3 or a list such as 2,4,8, from 1 to {MAX_MEMBERS}",
        )
    return list(counts)


def load_strategy(name: str) -> StrategyFunction:
    """Import a user's strategy, ``package.module:callable``; the current directory is searched too."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        # A user's module may raise anything while it is imported, even SystemExit: it is one line here.
        raise ConfigurationError(
            f"the strategy {name} cannot be loaded ({type(error).__name__}: {error})",
            next_step="give module:callable, importable from here",
        ) from error
    if not callable(found):
        raise ConfigurationError(f"{name} is a {type(found).__name__}", next_step="name a callable")
    return cast("StrategyFunction", found)


def _print_plan_json(plan: AssignmentPlan, explanation: Explanation, **known: object) -> None:
    """Print a plan as one JSON object, with how much it moves and how even it is."""
    result = {
        **known,
        "assignment": plan,
        "moved": explanation.moved,
        "least": explanation.least,
        "max": explanation.most,
        "min": explanation.fewest,
    }
    # As bytes: JSON is UTF-8, whatever the terminal's encoding.
    click.echo(msgspec.json.encode(result))


_MAX_NAMED = 5


def _make_plan(plan_input: _PlanInput, strategy: Strategy) -> tuple[AssignmentPlan, Explanation]:
    for table in member_tables_of(strategy):
        if unmatched := unmatched_keys(table.keys, plan_input.members):
            raise ConfigurationError(
                f"{table.setting} has entries for {', '.join(unmatched[:_MAX_NAMED])}, which match no member",
                next_step="give names or client ids of members",
            )
    made = make_plan(strategy, plan_input.group, plan_input.queues, plan_input.members, previous=plan_input.previous)
    return made, explain(plan_input.previous or {}, made, plan_input.queues)


def print_one_plan(plan_input: _PlanInput, strategy: Strategy, *, as_json: bool) -> None:
    """Print the plan of one strategy, and what it moves if there is a previous plan."""
    made, explanation = _make_plan(plan_input, strategy)
    if as_json:
        _print_plan_json(made, explanation, strategy=strategy.name)
        return
    console = make_console()
    table = Table(title=f"{strategy.name} for group {plan_input.group}", title_justify="left")
    table.add_column("member")
    table.add_column("queues", justify="right")
    table.add_column("which", overflow="fold")
    for member, mine in made.items():
        table.add_row(member, str(len(mine)), " ".join(map(str, mine)) or "-")
    console.print(table)
    for line in describe_plan(explanation)[: None if plan_input.previous is not None else 1]:
        console.print(line, soft_wrap=True)


def print_example_plans(console: "Console", plan_input: _PlanInput, strategies: list[Strategy]) -> None:
    """Draw the plan of every strategy for one group."""
    queues = sort_queues(plan_input.queues)
    plans = {strategy.name: _make_plan(plan_input, strategy)[0] for strategy in strategies}
    pictures = [queue_grid(queues, made) for made in plans.values()]
    console.print(f"{len(queues)} queues, {pluralize(len(plan_input.members), 'member')}", style="bold")
    _print_pictures(console, ("strategy", queue_ruler(len(queues))), plans, pictures)
    console.print(marks_legend(plan_input.members, pictures), style="dim")
    console.print()


def _print_pictures(
    console: "Console", titles: tuple[str, str], plans: "Mapping[str, AssignmentPlan]", pictures: "Sequence[Text]"
) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(titles[0], no_wrap=True)
    table.add_column(titles[1], overflow="fold")
    table.add_column("each", overflow="fold")
    for (name, made), picture in zip(plans.items(), pictures, strict=True):
        table.add_row(name, picture, queue_counts(made))
    console.print(table)


def plan_live_group(
    config: "ClientConfig",
    group: str,
    join: "Sequence[str]",
    leave: "Sequence[str]",
    strategy: str | None,
    *,
    as_json: bool,
) -> None:
    """Print what would move in a live group if members joined and left."""
    rule = None if strategy is None else find_strategy(strategy, load=load_strategy)
    with Admin(config) as admin:
        view = admin.groups.describe(group)
    leaving = [resolve_member(each, [member.id for member in view.members]) for each in leave]
    explanation = dry_run_rebalance(view, join=join, leave=leaving, strategy=rule)
    after = _plan_after(view, explanation, join, leaving)
    if as_json:
        name = view.strategy if rule is None else rule.name
        _print_plan_json(after, explanation, group=group, strategy=name, before=view.owned())
        return
    _print_live_plan(view, after, explanation)


def _plan_after(
    view: GroupDescription, explanation: Explanation, join: "Sequence[str]", leaving: "Sequence[str]"
) -> AssignmentPlan:
    """Return the new plan, including members without queues."""
    staying = [member.id for member in view.members if member.id not in leaving]
    after: AssignmentPlan = {name: [] for name in (*staying, *join)}
    for change in explanation.changes:
        if change.now is not None:
            after.setdefault(change.now, []).append(change.queue)
    return after


def _print_live_plan(view: GroupDescription, after: AssignmentPlan, explanation: Explanation) -> None:
    console = make_console()
    names = short_names([*view.owned(), *after])
    marks = {name: place for place, name in enumerate(names)}
    queues = [each.queue for each in view.queues]
    owners = {each.queue: each.owner for each in view.queues if each.owner is not None}
    before = view.owned()
    pictures = [queue_grid(queues, before, mark_places=marks), queue_grid(queues, after, owners, marks)]
    _print_pictures(console, (f"group {printable(view.group)}", ""), {"now": before, "then": after}, pictures)
    console.print(printable(marks_legend([names[name] for name in marks], pictures)), style="dim")
    for line in describe_plan(explanation):
        console.print(printable(shorten_ids(line, names)), soft_wrap=True)
