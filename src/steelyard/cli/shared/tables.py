"""Tables without borders, and plans as pictures: one row a strategy, one character a queue, one colour a member."""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase, digits

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.model import Queue

_NUMBER_MARK = "#"
_COLUMN_GAP = 2
_MIN_FOLD_WIDTH = 21
"""A narrow column is folded to no less than this: an address stays whole."""


def make_table(*columns: str) -> Table:
    """Return an empty table; a column that begins with ``#`` has numbers.

    >>> [(column.header, column.justify) for column in make_table("group", "#members").columns]
    [('group', 'left'), ('members', 'right')]
    """
    table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0))
    for name in columns:
        if name.startswith(_NUMBER_MARK):
            table.add_column(name.removeprefix(_NUMBER_MARK), justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table; on a terminal that is too narrow its lines are longer, and nothing is cut."""
    width = 0
    for column in table.columns:
        texts = [str(column.header), *map(str, column.cells)]
        words = texts if column.no_wrap else [word for text in texts for word in text.split()]
        longest = max(map(cell_len, words), default=0)
        column.min_width = longest if column.no_wrap else min(longest, _MIN_FOLD_WIDTH)
        width += column.min_width + _COLUMN_GAP
    console.width = max(console.width, width - _COLUMN_GAP)
    console.print(table)


MARKS = digits[1:] + ascii_uppercase + ascii_lowercase + digits[0]
"""The mark of the first member is 1, of the tenth A."""

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
UNOWNED_MARK = "."
SHARED_MARK = "!"


def member_mark(index: int, style: str = "") -> Text:
    """Return the mark of a member in its colour. After the last mark they start over.

    >>> member_mark(9).plain
    'A'
    """
    return Text(MARKS[index % len(MARKS)], f"{_COLOURS[index % len(_COLOURS)]} {style}".rstrip())


def queue_grid(
    queues: Sequence[Queue],
    plan: Mapping[str, Sequence[Queue]],
    before: Mapping[Queue, str] | None = None,
    mark_places: Mapping[str, int] | None = None,
) -> Text:
    """Draw the owner of each queue; a queue that had another owner before is shown reversed.

    ``mark_places`` gives each member its place among the marks, which it keeps while others come and go.

    >>> from steelyard.model import Queue
    >>> queues = [Queue("orders", "broker-a", number) for number in range(5)]
    >>> queue_grid(queues, {"c1": queues[:2], "c2": queues[2:4]}).plain
    '1122.'
    """
    places = mark_places or {member: place for place, member in enumerate(plan)}
    owners: dict[Queue, list[str]] = {}
    for member, mine in plan.items():
        for queue in mine:
            owners.setdefault(queue, []).append(member)
    text = Text()
    for queue in queues:
        has = owners.get(queue, [])
        if not has:
            text.append(UNOWNED_MARK, "dim")
        elif len(has) > 1:
            text.append(SHARED_MARK, "bold red")
        else:
            place = places[has[0]]
            moved = before is not None and before.get(queue, has[0]) != has[0]
            text.append_text(member_mark(place, "reverse" if moved else ""))
    return text


def queue_counts(plan: Mapping[str, Sequence[Queue]]) -> str:
    """Return how many queues each member has.

    >>> queue_counts({"c1": [1, 2], "c2": [3]})
    '2/1'
    """
    return "/".join(str(len(mine)) for mine in plan.values())


def queue_ruler(count: int) -> str:
    """Return the last digit of each queue's number.

    >>> queue_ruler(12)
    '012345678901'
    """
    return "".join(str(number % 10) for number in range(count))


def marks_legend(members: Sequence[str], pictures: Iterable[Text]) -> str:
    """Explain the marks of members, and the other marks that occur.

    >>> marks_legend(["c1", "c2"], [Text("122.")])
    '1 is c1, 2 is c2, . has no owner'
    """
    parts = [f"{mark} is {member}" for mark, member in zip(MARKS, members, strict=False)]
    drawn = "".join(picture.plain for picture in pictures)
    if SHARED_MARK in drawn:
        parts.append(f"{SHARED_MARK} has several owners")
    if UNOWNED_MARK in drawn:
        parts.append(f"{UNOWNED_MARK} has no owner")
    return ", ".join(parts)
