"""What is on its way: bounded in number and in bytes, and none of it forgotten when a producer is closed.

Who finds no room waits for it, a thread or a coroutine, and gets it in the order of asking. A message that is larger
than all the room there is goes alone. What is sent from within a callback, in the loop's own thread, does not wait: the
loop would wait for itself.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from steelyard.errors import ConfigurationError, SteelyardError

__all__ = ["Flight", "Flights"]


class Flight(Protocol):
    """Something on its way."""

    def give_up(self, error: SteelyardError) -> None:
        """End it."""


class _Waiter(NamedTuple):
    messages: int
    size: int
    wake: Callable[[], None]


class Flights:
    """The room for messages on their way, and the ways to give them up. Made on the loop; for any thread then."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._loop_thread = threading.get_ident()
        self._count = self._bytes = 0
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self.is_closed = False
        """Whether nothing may leave any more."""
        self.flying: set[Flight] = set()
        """What is on its way by the loop; used there alone."""

    @property
    def count(self) -> int:
        """How many messages are on their way."""
        return self._count

    def try_enter(self, count: int, size: int) -> bool:
        """Take room for so many messages of so many bytes if there is some, and nobody waits for it."""
        with self._lock:
            if self._waiting or not self._has_room(count, size):
                return False
            self._add(count, size)
            return True

    async def enter(self, count: int, size: int) -> None:
        """Take room, on the loop; wait for it if need be."""
        if self.try_enter(count, size):
            return
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(lambda: None if granted.done() else granted.set_result(None))

        waiter = _Waiter(count, size, wake)
        self._wait(waiter)
        try:
            await granted
        except asyncio.CancelledError:
            self._forget(waiter)
            raise
        self._check_open()

    def enter_in_thread(self, count: int, size: int) -> None:
        """Take room, in a thread of the user's; wait for it if need be."""
        if self.try_enter(count, size):
            return
        if threading.get_ident() == self._loop_thread:
            with self._lock:
                self._add(count, size)
            return
        granted = threading.Event()
        waiter = _Waiter(count, size, granted.set)
        self._wait(waiter)
        try:
            granted.wait()
        except BaseException:
            self._forget(waiter)
            raise
        self._check_open()

    def leave(self, count: int, size: int) -> None:
        """Give room back, and let in who waits for it."""
        with self._lock:
            self._count -= count
            self._bytes -= size
            if self._waiting:
                self._let_in()

    def close(self, error: SteelyardError) -> None:
        """Let nobody wait any longer, and end what is on its way; on the loop."""
        with self._lock:
            self.is_closed = True
            self._let_in()
        for flight in list(self.flying):
            flight.give_up(error)

    def _has_room(self, count: int, size: int) -> bool:
        if self.is_closed or not self._count:
            return True
        return self._count + count <= self._most and self._bytes + size <= self._most_bytes

    def _add(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size

    def _let_in(self) -> None:
        while self._waiting and self._has_room(*self._waiting[0][:2]):
            count, size, wake = self._waiting.popleft()
            self._add(count, size)
            wake()

    def _wait(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.append(waiter)
            self._let_in()

    def _forget(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._let_in()
                return
        self.leave(waiter.messages, waiter.size)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ConfigurationError("the producer was closed before the message was sent", next_step="send it again")
