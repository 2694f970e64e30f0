"""Which lines a session goes on keeping: those to brokers that routes tell of, and those on which something is asked.

A broker that no route tells of may be restarting, so it is called for some minutes more, and then no longer. A line to
anywhere else, such as a slave, is kept while it is used. Neither is a loss: the next question opens a line again, and
so does the next route that tells of the broker.
"""

from collections.abc import Iterable, Mapping

from steelyard.model import Route

__all__ = ["GRACE_MS", "IDLE_MS", "Keeping"]

GRACE_MS = 300_000
"""How long a broker is called that no route tells of."""
IDLE_MS = 120_000
"""How long a line is kept on which nothing is asked: Apache's servers end it then."""


class Keeping:
    """What routes tell of, and what was asked, as it was at each look."""

    def __init__(self) -> None:
        self._told: dict[str, frozenset[str]] = {}
        """The brokers of each topic, as its last route had them."""
        self._untold_ms: dict[str, int] = {}
        """Since when no route tells of a broker."""
        self._asked: dict[str, tuple[int, int]] = {}
        """How often an address was asked something, and since when that is so."""

    def learn(self, route: Route) -> None:
        """Take note of the brokers of a topic; one that no name server knows has none."""
        self._told[route.topic] = frozenset(place.name for place in route.brokers)

    def untold(self, brokers: Iterable[str], now_ms: int) -> list[str]:
        """Look at brokers, and return those of which no route has told for long.

        >>> keeping = Keeping()
        >>> keeping.untold(["broker-a"], now_ms=0), keeping.untold(["broker-a"], now_ms=GRACE_MS)
        ([], ['broker-a'])
        """
        told = frozenset[str]().union(*self._told.values())
        self._untold_ms = {name: self._untold_ms.get(name, now_ms) for name in brokers if name not in told}
        return [name for name, since_ms in self._untold_ms.items() if now_ms - since_ms >= GRACE_MS]

    def idle(self, asked: Mapping[str, int], now_ms: int) -> list[str]:
        """Look at how often each address was asked something, and return those where that has not changed for long.

        >>> keeping = Keeping()
        >>> [keeping.idle({"mq-2:10911": count}, now_ms) for count, now_ms in ((7, 0), (8, 9), (8, IDLE_MS))]
        [[], [], []]
        >>> keeping.idle({"mq-2:10911": 8}, now_ms=IDLE_MS + 9)
        ['mq-2:10911']
        """
        before = self._asked
        self._asked = {
            address: before[address] if before.get(address, (-1, 0))[0] == count else (count, now_ms)
            for address, count in asked.items()
        }
        return [address for address, (_, since_ms) in self._asked.items() if now_ms - since_ms >= IDLE_MS]
