"""Pages of tables, as clients of 5.3 and later request them, and the limit of rows in one response.

A page is requested by sequence number and version of the table. Topics may have many thousand queues, and some requests
concern all queues of all topics. A response with too many of them would not fit into a frame, or would take too much of
the event loop that all clients share. So it is refused before it is built, and the remark names a smaller request.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from steelyard.broker.request_errors import system_error
from steelyard.errors import ProtocolError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TableVersion

_MAX_ENTRIES = 1_000
"""The limit of a page, whatever was requested."""

V = TypeVar("V")


def page_of(
    table: Mapping[str, V],
    version: TableVersion | None,
    start: int | None,
    known_version: str | None,
    max_entries: int | None,
) -> Mapping[str, V]:
    """Return the entries from number ``start`` on, at most ``max_entries``; all if none of the three is given.

    ``known_version`` is the version of the client's first page, as JSON: if it differs, the page is the first one.

    >>> page_of({"a": 1, "b": 2, "c": 3}, TableVersion(counter=7), 1, '{"counter":7,"timestamp":0}', 1)
    {'b': 2}
    """
    if start is None and known_version is None and max_entries is None:
        return table
    begin = max(0, start or 0) if version is not None and _parse_version(known_version) == version else 0
    count = _MAX_ENTRIES if max_entries is None else min(max(1, max_entries), _MAX_ENTRIES)
    return dict(islice(table.items(), begin, begin + count))


def _parse_version(known_version: str | None) -> TableVersion | None:
    with suppress(ProtocolError):
        return decode_body(TableVersion, (known_version or "").encode(errors="replace"))
    return None


MAX_ROWS = 12_000
"""Queues in one response: it takes half of a tenth of a second if each has messages."""


def check_rows(count: int, next_step: str, max_rows: int = MAX_ROWS) -> None:
    """Refuse a response with too many rows.

    >>> check_rows(100_000, "request one group")
    Traceback (most recent call last):
    steelyard.errors.ServerFailed: ...
    """
    if count > max_rows:
        raise system_error(f"this concerns {count} queues, at most {max_rows} are allowed: {next_step}")
