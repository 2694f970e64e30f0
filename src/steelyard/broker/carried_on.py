"""Timers that Apache took out of their place: those that it carried on, and those that were recalled.

A timer that waits longer than Apache's wheel is wide is stored again when its turn comes, and says so; the one before
is void. To recall one, a note is stored among the timers that names it by topic and unique key: neither of the two is
ever delivered. Ours does neither, so only what was there at the start is looked at.
"""

from collections.abc import Mapping
from hashlib import blake2b

from steelyard.wire.property_names import REAL_TOPIC, TIMER_DELETED_KEY, TIMER_ROLL_TIMES, UNIQUE_KEY

__all__ = ["CarriedOn"]


class CarriedOn:
    """Sees the timers that wait, in their order.

    >>> carried_on = CarriedOn()
    >>> carried_on.see(4, {"REAL_TOPIC": "orders", "UNIQ_KEY": "AC11"})
    >>> carried_on.see(9, {"REAL_TOPIC": "orders", "UNIQ_KEY": "AC11", "TIMER_ROLL_TIMES": "1"})
    >>> carried_on.gone
    {4}
    """

    def __init__(self) -> None:
        self._waiting: dict[bytes, int] = {}
        """Offsets by the names of timers; these are short, since there may be a million."""
        self.gone: set[int] = set()
        """Offsets of timers that wait no more."""

    def see(self, offset: int, properties: Mapping[str, str]) -> None:
        """Look at the next timer that waits."""
        recalled = properties.get(TIMER_DELETED_KEY)
        if recalled is not None:
            self.gone.add(offset)
            self._drop(_short(recalled))
        elif UNIQUE_KEY in properties:
            name = _short(f"{properties.get(REAL_TOPIC)}+{properties[UNIQUE_KEY]}")
            if TIMER_ROLL_TIMES in properties:
                self._drop(name)
            self._waiting[name] = offset

    def _drop(self, name: bytes) -> None:
        before = self._waiting.pop(name, None)
        if before is not None:
            self.gone.add(before)


def _short(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
