"""A list as people read it: columns without lines between them, long texts folded, numbers at the right."""

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

__all__ = ["listing", "print_listing"]

_NUMBER = "#"
_BETWEEN = 2
_NARROWEST = 21
"""Where there is no room a text is folded, but not to less than that: an address stays whole."""


def listing(*columns: str) -> Table:
    """Return an empty list; a column that begins with ``#`` has numbers.

    >>> [(column.header, column.justify) for column in listing("group", "#members").columns]
    [('group', 'left'), ('members', 'right')]
    """
    table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0))
    for name in columns:
        if name.startswith(_NUMBER):
            table.add_column(name.removeprefix(_NUMBER), justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    return table


def print_listing(console: Console, table: Table) -> None:
    """Print a list of texts; on a terminal too narrow for it lines are longer than that, and nothing is left out."""
    width = 0
    for column in table.columns:
        texts = [str(column.header), *map(str, column.cells)]
        words = texts if column.no_wrap else [word for text in texts for word in text.split()]
        longest = max(map(cell_len, words), default=0)
        column.min_width = longest if column.no_wrap else min(longest, _NARROWEST)
        width += column.min_width + _BETWEEN
    console.width = max(console.width, width - _BETWEEN)
    console.print(table)
