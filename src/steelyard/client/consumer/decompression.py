"""Decompression of bodies right before a handler gets them, within one memory budget for all workers of a consumer.

Messages wait compressed, as they are stored. A few kilobytes may become 16 MiB, which is not known before; so each
decompression acquires room for the largest possible body, and releases at once what was not needed. A worker without
room waits for others to finish, unless nothing else is decompressed.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from steelyard.balance.group.events import UnreadableMessage
from steelyard.errors import MissingExtra
from steelyard.model import StoredMessage
from steelyard.wire.limits import DECOMPRESSED_BYTES
from steelyard.wire.stored_messages import BODY_ERRORS, unseal_message

MAX_OPEN_BYTES = DECOMPRESSED_BYTES
"""Once bodies of this size were decompressed to be returned together, the rest waits for the next time."""

M = TypeVar("M", bound=StoredMessage)


def decompress_message(message: M) -> M | UnreadableMessage:
    """Return a message with its original body, or why it cannot be read."""
    try:
        return unseal_message(message)
    except BODY_ERRORS as error:
        return UnreadableMessage(str(error), isinstance(error, MissingExtra))


class DecompressionBudget:
    """The bytes of decompressed bodies that handlers may have at a time; from any thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max(max_bytes, DECOMPRESSED_BYTES)
        self._lock = threading.Lock()
        self.used_bytes = 0
        """How many bytes are acquired."""
        self._waiting: list[Callable[[], object]] = []

    def acquire(self) -> None:
        """Acquire room for one body, in a thread."""
        free = threading.Event()
        while not self._try_acquire(free.set):
            free.wait()
            free.clear()

    async def acquire_on_loop(self) -> None:
        """Acquire room for one body, in a task."""
        loop, free = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop has ended, and with it the waiting task.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(free.set)

        while not self._try_acquire(wake):
            await free.wait()
            free.clear()

    def keep_only(self, body_bytes: int) -> None:
        """Release the room for one body except what it takes."""
        self.release(DECOMPRESSED_BYTES - body_bytes)

    def release(self, body_bytes: int) -> None:
        """Release room."""
        with self._lock:
            self.used_bytes -= body_bytes
            woken, self._waiting = self._waiting, []
        # All of them: one may have stopped waiting.
        for wake in woken:
            wake()

    def _try_acquire(self, wake: Callable[[], object]) -> bool:
        """Acquire room if there is some; else have ``wake`` called at the next release."""
        with self._lock:
            if not self.used_bytes or self.used_bytes + DECOMPRESSED_BYTES <= self._max_bytes:
                self.used_bytes += DECOMPRESSED_BYTES
                return True
            self._waiting.append(wake)
            return False
