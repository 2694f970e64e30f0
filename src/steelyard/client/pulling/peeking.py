"""A puller for who only looks: it joins no group, commits nothing, and opens no more of a body than is looked at.

A body of a few kilobytes may hold 16 MiB, and a page often lives in the process of a broker. What cannot be read is
given as it is stored: whoever looks into a queue wants to see that too, and a tool sends nobody letters.
"""

from typing import TypeVar

from steelyard.client.admin.asking import TOOLS_GROUP
from steelyard.client.connect import Connect
from steelyard.client.consuming.opening import PART_BYTES
from steelyard.client.consuming.received import Received
from steelyard.client.pulling.puller import Puller
from steelyard.client.pulling.reading import Reading
from steelyard.model import StoredMessage
from steelyard.wire.stored import opened_start
from steelyard.wire.sysflag import SEALED

__all__ = ["LOOKED_AT_BYTES", "Peek", "beginning"]

M = TypeVar("M", bound=StoredMessage)

LOOKED_AT_BYTES = 1 << 20
"""So much of a compressed body is looked at: a text behind it is not found."""


def beginning(message: M, most: int) -> tuple[M, bool]:
    """Return a message with at most so many bytes of a compressed body, and whether that is all of it.

    One that cannot be opened is given as it is stored, and is never all of it.
    """
    start = opened_start(message, most)
    return start, not start.sys_flag & SEALED


class Peek(Puller):
    """Reads queues that are assigned to it."""

    def __init__(self, connect: Connect, *, pull_batch: int, queue_messages: int, queue_bytes: int) -> None:
        super().__init__(
            connect,
            TOOLS_GROUP,
            auto_commit=False,
            pull_batch=pull_batch,
            queue_messages=queue_messages,
            queue_bytes=queue_bytes,
            on_unreadable="skip",
        )

    def _opened(self, _reading: Reading, taken: list[Received]) -> list[Received]:
        given: list[Received] = []
        size = 0
        for place, message in enumerate(taken):
            if size >= PART_BYTES:
                self._shelves.take_back(taken[place:])
                break
            start = opened_start(message, LOOKED_AT_BYTES)
            given.append(start)
            size += len(start.body)
        return given
