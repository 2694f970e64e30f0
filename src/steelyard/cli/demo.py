"""What `make demo` shows: how a group shares a topic's queues, and what a join and a leave move.

The numbers are computed while you look, by the rules that members of a group run.
"""

import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table

from steelyard.balance.allocate import Average, Plan, Sticky, Strategy, plan
from steelyard.balance.explain import Explanation, Why, explain, in_words
from steelyard.cli.draw import counts, grid, legend, ruler
from steelyard.cli.plan_input import worked_input
from steelyard.cli.screen import screen, shown
from steelyard.model import Queue

__all__ = ["main"]

GROUP = "billing"
_MEMBERS = ("c1", "c2", "c3", "c4")
_CHANGES = (
    ("three share", ("c1", "c2", "c3")),
    ("c4 joins", ("c1", "c2", "c3", "c4")),
    ("c2 leaves", ("c1", "c3", "c4")),
)


def main() -> int:
    """Show the demo on the terminal; nothing is asked and nothing is left behind."""
    return shown(_show)


def _show() -> int:
    console = screen()
    _worked_examples(console)
    _side_by_side(console)
    console.print("Try your own: .venv/bin/steelyard plan --queues 16 --members 1..3")
    return 0


def _worked_examples(console: Console) -> None:
    console.print("Java's default, AVG: contiguous pages, the first members get one more", style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("queues x members")
    table.add_column(ruler(16), overflow="fold")
    table.add_column("each", no_wrap=True)
    for queues, members in ((16, 1), (16, 2), (16, 3), (4, 2), (7, 2)):
        given = worked_input(queues, members)
        made = plan(Average(), GROUP, given.queues, given.members)
        table.add_row(f"{queues} x {members}", grid(given.queues, made), counts(made))
    console.print(table)
    console.print("1 is the first member, 2 the second, 3 the third\n", style="dim")


def _side_by_side(console: Console) -> None:
    console.print("A join and a leave, AVG and STICKY side by side; what moved is shown reversed", style="bold")
    queues = worked_input(16, 1).queues
    marks = {member: place for place, member in enumerate(_MEMBERS)}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    for name in ("AVG", "STICKY"):
        table.add_column(f"{name}\n{ruler(16)}", overflow="fold")
        table.add_column("\nmoved", no_wrap=True, justify="right")
    table.add_column("\nleast", no_wrap=True, justify="right")
    moved = {"AVG": 0, "STICKY": 0}
    for (what, _), *steps in zip(_CHANGES, _story(Average(), queues), _story(Sticky(), queues), strict=True):
        cells: list[RenderableType] = []
        for name, (before, made, told) in zip(moved, steps, strict=True):
            moved[name] += told.moved
            owners = {queue: member for member, mine in before.items() for queue in mine}
            cells += [grid(queues, made, owners, marks), str(told.moved)]
        table.add_row(what, *cells, str(told.least))
    console.print(table)
    console.print(legend(_MEMBERS, []) + "\n", style="dim")
    console.print(f"AVG moved {moved['AVG']} queues, STICKY {moved['STICKY']}. STICKY's reasons for the last step:")
    for change in told.changes:
        if change.why is not Why.KEPT:
            console.print(f"  {in_words(change)}")
    console.print()


def _story(strategy: Strategy, queues: list[Queue]) -> Iterator[tuple[Plan, Plan, Explanation]]:
    """Yield for each change: who had what, who has it now, and the explanation."""
    before: Plan = {}
    for _, members in _CHANGES:
        made = plan(strategy, GROUP, queues, members, previous=before)
        yield before, made, explain(before, made, queues)
        before = made


if __name__ == "__main__":
    sys.exit(main())
