"""Members by the short names that people call them by (client/short_names.py)."""

from collections.abc import Iterable

from steelyard.client.short_names import short_names, shortened
from steelyard.errors import ConsumerOffline

__all__ = ["find_member", "short_names", "shortened"]


def find_member(wanted: str, ids: Iterable[str]) -> str:
    """Return the id that was meant: all of it, or its short name.

    >>> find_member("till-1", ["10.0.0.7@till-1#47#11@sy1", "10.0.0.7@till-2#48#12@sy1"])
    '10.0.0.7@till-1#47#11@sy1'
    """
    short = short_names(ids)
    found = [each for each, name in short.items() if wanted in (each, name)]
    if len(found) != 1:
        raise ConsumerOffline(
            code=ConsumerOffline.codes[0],
            server="",
            what=f"no member is called {wanted!r}",
            next_step=f"there are: {', '.join(short.values()) or 'none'}",
        )
    return found[0]
