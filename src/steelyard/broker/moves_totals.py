"""How often queues changed hands since the broker started, by group: how many, why, and for how long nobody had them.

Groups choose their names, so there is an end to how many are counted apart; what comes beyond is counted together.
"""

from collections import Counter

from steelyard.model.buckets import Buckets

__all__ = ["OTHERS", "GroupTotals", "Totals"]

OTHERS = "(others)"
"""What groups are counted as that there is no room for; no group can have that name."""

_MOST_GROUPS = 2_000
_GAPS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
_DURATIONS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)


class GroupTotals:
    """What was counted of one group."""

    __slots__ = ("duration_ms", "gap_ms", "kept", "moves", "rebalances")

    def __init__(self) -> None:
        self.rebalances = 0
        """How often the group came to rest after a change."""
        self.moves = Counter[str]()
        """Queues that went from one member to another, by how they got free: ``given up``, ``left``, ``lost``, …"""
        self.kept = 0
        """Queues whose holders went on with them after the broker was started again."""
        self.gap_ms = Buckets(_GAPS_MS)
        """For how long nobody had a queue that moved."""
        self.duration_ms = Buckets(_DURATIONS_MS)
        """How long it took from the first change until the last queue had its holder."""


class Totals(dict[str, GroupTotals]):
    """What was counted, by group.

    >>> totals = Totals()
    >>> totals.of("billing").moves["left"] += 1
    >>> totals["billing"].moves
    Counter({'left': 1})
    """

    def of(self, group: str) -> GroupTotals:
        """Return where a group is counted."""
        found = self.get(group)
        if found is None:
            name = group if len(self) < _MOST_GROUPS else OTHERS
            found = self.setdefault(name, GroupTotals())
        return found
