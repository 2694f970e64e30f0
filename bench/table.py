"""One line of a benchmark: what was measured, ours, what it is held against in the same run, and the goal."""

from typing import NamedTuple


class Row(NamedTuple):
    """A measurement beside its yardstick, as text ready to print."""

    what: str
    ours: str
    beside: str
    ratio: str
    goal: str
    met: bool
