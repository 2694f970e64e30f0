"""How often something rare happened, by the names it happened to: for whoever measures the broker.

What happens with every message is counted elsewhere (rates.py). Names are chosen by clients, so a table has an end:
what comes beyond it is counted under no name at all, and sums stay right.
"""

from collections.abc import Iterator

__all__ = ["Tallies", "Tally"]

_MOST_NAMES = 10_000


class Tally:
    """Counts by names, of which each count has equally many.

    >>> dead = Tally(2)
    >>> dead.add("billing", "orders")
    >>> dead.add("billing", "orders", count=2)
    >>> list(dead)
    [(('billing', 'orders'), 3)]
    """

    def __init__(self, names: int, most: int = _MOST_NAMES) -> None:
        self._nameless, self._most = ("",) * names, most
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *names: str, count: int = 1) -> None:
        """Count something that happened to these names."""
        if names not in self._counts and len(self._counts) >= self._most:
            names = self._nameless
        self._counts[names] = self._counts.get(names, 0) + count

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Go through names and counts, as they are now."""
        return iter(list(self._counts.items()))


class Tallies:
    """What a broker counts by name, since it was started."""

    def __init__(self) -> None:
        self.dead = Tally(2)
        """Messages that became dead letters, by group and by the topic they came from."""
        self.committed, self.rolled_back = Tally(1), Tally(1)
        """Transactions that ended, by the topic that their message was for."""
        self.fenced = Tally(1)
        """Commits that were refused because somebody else holds the queue, by group."""
        self.avoided = Tally(1)
        """Messages that were finished and committed before their queue was handed over, by group."""
