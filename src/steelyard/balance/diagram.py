"""The life of a queue as a picture: drawn from the one table, so that it cannot tell anything else.

The text is Mermaid's, which GitHub and the documentation show as a diagram. Rows that lead nowhere else are left out of
the picture, and so is what is the same everywhere: everything held can be given up.
"""

from steelyard.balance.life import LIFE, Row, Seen, State

__all__ = ["life_diagram", "life_table"]

_NOT_DRAWN = frozenset({Seen.GIVEN_UP})


def life_diagram() -> str:
    """Draw the states of a queue and what leads from one to another.

    >>> life_diagram().splitlines()[1]
    '    [*] --> wanted: planned in'
    """
    labels: dict[tuple[State, State], list[str]] = {}
    for (state, seen), row in LIFE.items():
        for after in row.leads_to if seen not in _NOT_DRAWN else ():
            if after is not state:
                labels.setdefault((state, after), []).append(seen.value)
    lines = [f"    {_end(before)} --> {_end(after)}: {', '.join(seen)}" for (before, after), seen in labels.items()]
    return "\n".join(["stateDiagram-v2", *lines])


def _end(state: State) -> str:
    return "[*]" if state is State.ABSENT else state.value


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
