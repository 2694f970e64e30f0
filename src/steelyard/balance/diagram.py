"""The life of a queue as pages show it: written from the one table, so that it cannot tell anything else.

Left out: pictures, which the documentation draws from the same table.
"""

from steelyard.balance.life import LIFE, Row, Seen, State

__all__ = ["life_table"]


def life_table() -> str:
    """Write the whole table: each state, what can happen, what is done then and where it may lead.

    >>> life_table().splitlines()[2]
    '| absent | planned in | want | wanted |'
    """
    head = ["| state | what happens | what is done | where it may lead |", "|---|---|---|---|"]
    return "\n".join([*head, *(_line(state, seen, row) for (state, seen), row in LIFE.items())])


def _line(state: State, seen: Seen, row: Row) -> str:
    leads = ", ".join(after.value for after in row.leads_to)
    return f"| {state.value} | {seen.value} | {row.does.replace('_', ' ')} | {leads} |"
