"""A page of a table, as clients of 5.3 and later ask for tables: by a sequence number, for one version of the table."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from steelyard.errors import ProtocolError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.shared import TableVersion

__all__ = ["page_of"]

_MOST_ENTRIES = 1_000
"""What a page has at most, whatever was asked for."""

V = TypeVar("V")


def page_of(
    table: Mapping[str, V], version: TableVersion | None, start: int | None, seen: str | None, most: int | None
) -> Mapping[str, V]:
    """Return the entries from number ``start`` on, at most ``most``; all of them if neither of the three was given.

    ``seen`` is the version that the asker began with, as JSON text: if it is another one, the page is the first one.

    >>> page_of({"a": 1, "b": 2, "c": 3}, TableVersion(counter=7), 1, '{"counter":7,"timestamp":0}', 1)
    {'b': 2}
    """
    if start is None and seen is None and most is None:
        return table
    begin = max(0, start or 0) if version is not None and _read(seen) == version else 0
    count = _MOST_ENTRIES if most is None else min(max(1, most), _MOST_ENTRIES)
    return dict(islice(table.items(), begin, begin + count))


def _read(seen: str | None) -> TableVersion | None:
    with suppress(ProtocolError):
        return decode_body(TableVersion, (seen or "").encode(errors="replace"))
    return None
