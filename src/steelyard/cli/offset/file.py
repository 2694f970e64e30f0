"""Offsets from a file: what `steelyard offset show` printed as JSON."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from steelyard.cli.frame.objects import read_objects
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["offsets_of", "read_offsets"]

_HOW = "give what this prints: steelyard offset show GROUP --json"


class _Row(msgspec.Struct):
    topic: str
    broker: str
    queue_id: int
    committed: Annotated[int, msgspec.Meta(ge=0)]


def read_offsets(source: str) -> dict[Queue, int]:
    """Read offsets from a file, or from stdin."""
    return offsets_of(read_objects(source, _HOW))


def offsets_of(found: Iterable[object]) -> dict[Queue, int]:
    """Return the offsets in what was read.

    >>> offsets_of([{"topic": "orders", "broker": "broker-0", "queue_id": 3, "committed": 41, "lag": 0}])
    {Queue(topic='orders', broker='broker-0', queue_id=3): 41}
    """
    try:
        rows = msgspec.convert(found, list[_Row])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"these are no offsets ({error})", next_step=_HOW) from None
    if not rows:
        raise ConfigurationError("there are no offsets in it", next_step=_HOW)
    return {Queue(row.topic, row.broker, row.queue_id): row.committed for row in rows}
