"""A list as people read it: columns without lines between them, long texts folded, numbers at the right."""

from rich.table import Table

__all__ = ["listing"]

_NUMBER = "#"


def listing(*columns: str) -> Table:
    """Return an empty list; a column that begins with ``#`` has numbers.

    >>> [(column.header, column.justify) for column in listing("group", "#members").columns]
    [('group', 'left'), ('members', 'right')]
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        if name.startswith(_NUMBER):
            table.add_column(name.removeprefix(_NUMBER), justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    return table
