"""What Spark tells the demo, line by line as JSON: that it is up, what it wrote, its table of windows, its own count.

The count is made from the Parquet files alone, and two messages never lie in the same place of a queue: as many places
as messages were sent is the proof that each is there, and once.
"""

import msgspec

__all__ = ["WINDOW_S", "Archived", "Lake", "News", "Started", "Window", "news_of"]

WINDOW_S = 5
"""How long a window of the table is."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """Spark is up."""

    took_s: float


class Archived(msgspec.Struct, frozen=True, tag="archived"):
    """A batch is in the files."""

    number: int
    rows: int


class Window(msgspec.Struct, frozen=True, tag="window"):
    """A row of the table as it is now: it is told again whenever it changed."""

    start_ms: int
    """Since the demo began."""
    broker: str
    messages: int


class Lake(msgspec.Struct, frozen=True, tag="lake"):
    """What was found in the files."""

    messages: int
    places: int
    """How many places of queues they had: as many as messages, if none is there twice."""
    files: int
    fullest: int
    """How many messages the queue had that had most."""
    emptiest: int


News = Started | Archived | Window | Lake

_decoder: msgspec.json.Decoder[News] = msgspec.json.Decoder(News)


def news_of(line: bytes) -> News:
    """Read a line.

    >>> news_of(b'{"type": "archived", "number": 3, "rows": 120}')
    Archived(number=3, rows=120)
    """
    return _decoder.decode(line)
