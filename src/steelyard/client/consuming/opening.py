"""Opening bodies for who is given messages: one at a time, and within a bound for all of a consumer's workers.

What waits is as small as it is stored. A body that is compressed is opened right before the user's code gets it, and
let go after it. A few kilobytes may become 16 MiB, and nobody knows before; so each opening takes room for the most
that can come out, and gives back at once what was not needed. Who finds no room waits for others to finish, unless
nothing else is open.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from steelyard.balance.events import Unreadable
from steelyard.errors import MissingExtra
from steelyard.model import StoredMessage
from steelyard.wire.limits import DECOMPRESSED_BYTES
from steelyard.wire.stored import UNREADABLE, opened

__all__ = ["PART_BYTES", "Room", "open_message"]

PART_BYTES = DECOMPRESSED_BYTES
"""Once bodies of so many bytes were opened to be handed out together, the rest waits for the next time."""

M = TypeVar("M", bound=StoredMessage)


def open_message(message: M) -> M | Unreadable:
    """Return a message with its body as its sender gave it, or why that cannot be."""
    try:
        return opened(message)
    except UNREADABLE as error:
        return Unreadable(str(error), isinstance(error, MissingExtra))


class Room:
    """How many bytes of opened bodies may be with handlers at a time; from any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most = max(most_bytes, DECOMPRESSED_BYTES)
        self._lock = threading.Lock()
        self._taken = 0
        self._waiting: list[Callable[[], object]] = []

    @property
    def taken(self) -> int:
        """How many bytes are taken."""
        return self._taken

    def wait(self) -> None:
        """Take room for one body, in a thread."""
        free = threading.Event()
        while not self._take(free.set):
            free.wait()
            free.clear()

    async def wait_on_loop(self) -> None:
        """Take room for one body, in a task."""
        loop, free = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # Whoever waited on a loop that came to its end does not wait any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(free.set)

        while not self._take(wake):
            await free.wait()
            free.clear()

    def leave(self, body_bytes: int) -> None:
        """Keep of the room for one body what it takes, and give back the rest."""
        self.give(DECOMPRESSED_BYTES - body_bytes)

    def give(self, body_bytes: int) -> None:
        """Give room back."""
        with self._lock:
            self._taken -= body_bytes
            woken, self._waiting = self._waiting, []
        # All of them: one of them may have given up waiting.
        for wake in woken:
            wake()

    def _take(self, wake: Callable[[], object]) -> bool:
        """Take room if there is some; else have ``wake`` called when somebody gave back."""
        with self._lock:
            if not self._taken or self._taken + DECOMPRESSED_BYTES <= self._most:
                self._taken += DECOMPRESSED_BYTES
                return True
            self._waiting.append(wake)
            return False
