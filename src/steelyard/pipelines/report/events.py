"""Who owned what, and since when: the lines that members write with ``steelyard consume --group … --events json``.

    {"at_ms": 1793520000123, "id": "10.0.0.7@till-1#47#11@sy1", "queues": [["orders", "broker-a", 0]], "why": "…"}

Each line is all that a member owns from then on. What stands between them in a file (a log, the last words of a
command) is passed over and counted. Times are those of the member's machine: gaps between members of two machines are
no better than their clocks agree.
"""

from collections.abc import Iterable
from typing import IO, Annotated

import msgspec

from steelyard.model import Queue
from steelyard.pipelines.report.words import LAST_MS

__all__ = ["LEAVES", "MOST_EVENTS", "Event", "Lines", "read_lines"]

LEAVES = "it leaves the group"
"""What a member says with its last line; it is there no more, where another without queues is idle."""

MOST_EVENTS = 100_000
"""So many lines are read of all files: a group that changes once a minute writes so many in two months."""

_LONGEST_LINE = 4 << 20
"""Enough for a member that owns fifty thousand queues."""


class Event(msgspec.Struct, frozen=True):
    """All that a member owns from a moment on."""

    at_ms: Annotated[int, msgspec.Meta(ge=0, le=LAST_MS)]
    id: str
    queues: tuple[Queue, ...]
    why: str = ""

    @property
    def leaves(self) -> bool:
        """Whether it is the last word of a member that leaves in order."""
        return not self.queues and self.why == LEAVES


class Lines(msgspec.Struct, frozen=True):
    """What was read of a file."""

    events: tuple[Event, ...]
    others: int
    """Lines that say nothing of queues."""
    is_cut: bool
    """Whether there are more events than are read."""


_read_event = msgspec.json.Decoder(Event).decode


def read_lines(file: IO[bytes], *, most: int = MOST_EVENTS) -> Lines:
    r"""Read the events of a file, and count what else is in it.

    >>> from io import BytesIO
    >>> lines = read_lines(BytesIO(b'{"at_ms": 5, "id": "c1", "queues": [["orders", "broker-a", 0]]}\nstopped\n'))
    >>> lines.events[0].queues, lines.others
    ((Queue(topic='orders', broker='broker-a', queue_id=0),), 1)
    """
    events: list[Event] = []
    others = 0
    for line in _whole_lines(file):
        if not line.strip():
            continue
        event = _event(line)
        if event is None:
            others += 1
        elif len(events) == most:
            return Lines(tuple(events), others, is_cut=True)
        else:
            events.append(event)
    return Lines(tuple(events), others, is_cut=False)


def _whole_lines(file: IO[bytes]) -> Iterable[bytes]:
    """Go through the lines; one that is too long for an event comes in pieces, none of which is one."""
    while line := file.readline(_LONGEST_LINE):
        yield line


def _event(line: bytes) -> Event | None:
    try:
        return _read_event(line)
    except msgspec.DecodeError:
        return None
