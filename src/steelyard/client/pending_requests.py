"""PendingRequests: requests on a connection that wait for their answers, with one timer for all timeouts.

Nearly every request is answered long before its timeout, so none has a timer of its own. The timer fires when the first
of those that wait is due, checks all, and is armed for the next. A request that is due sooner arms it sooner.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from steelyard.errors import SteelyardError
from steelyard.net.clock import steady_ms
from steelyard.wire.command import Command

_NEVER_MS = 1 << 62


class ResponseHandler(Protocol):
    """Waits for an answer; one of its methods is called, once, on the loop."""

    def on_response(self, answer: Command) -> None:
        """Take the answer, whatever its code."""

    def on_error(self, error: SteelyardError) -> None:
        """Take the error: no answer will come."""


class FutureResponse:
    """Puts the answer into a future."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[Command]") -> None:
        self._future = future

    def on_response(self, answer: Command) -> None:
        """Take the answer."""
        if not self._future.done():
            self._future.set_result(answer)

    def on_error(self, error: SteelyardError) -> None:
        """Take the error: no answer will come."""
        if not self._future.done():
            self._future.set_exception(error)


class PendingRequest(Struct, frozen=True):
    """A request that waits for its answer."""

    handler: ResponseHandler
    code: int
    timeout_ms: int
    sent_ms: int

    @property
    def due_ms(self) -> int:
        """When it times out."""
        return self.sent_ms + self.timeout_ms


class PendingRequests:
    """The pending requests of one connection, by opaque; ``on_timeout`` gets each that timed out."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_timeout: Callable[[int, PendingRequest], None]) -> None:
        self._loop, self._on_timeout = loop, on_timeout
        self._requests: dict[int, PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = _NEVER_MS

    def __bool__(self) -> bool:
        """Say whether a request waits."""
        return bool(self._requests)

    def __contains__(self, opaque: int) -> bool:
        """Say whether this one waits."""
        return opaque in self._requests

    def add(self, opaque: int, handler: ResponseHandler, code: int, timeout_ms: int) -> None:
        """Add a request."""
        now_ms = steady_ms()
        self._requests[opaque] = PendingRequest(handler, code, timeout_ms, now_ms)
        if now_ms + timeout_ms < self._timer_due_ms:
            self._arm_timer(now_ms + timeout_ms, now_ms)

    def pop(self, opaque: int) -> PendingRequest | None:
        """Remove and return a request; None if it does not wait."""
        return self._requests.pop(opaque, None)

    def pop_all(self) -> list[PendingRequest]:
        """Remove and return all."""
        pending, self._requests = list(self._requests.values()), {}
        return pending

    def _arm_timer(self, due_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later((due_ms - now_ms) / 1000, self._expire)

    def _expire(self) -> None:
        self._timer, self._timer_due_ms = None, _NEVER_MS
        now_ms = steady_ms()
        for opaque in [opaque for opaque, pending in self._requests.items() if pending.due_ms <= now_ms]:
            # The callback of one may remove others.
            pending = self._requests.pop(opaque, None)
            if pending is not None:
                self._on_timeout(opaque, pending)
        next_ms = min((pending.due_ms for pending in self._requests.values()), default=_NEVER_MS)
        if next_ms < self._timer_due_ms:
            self._arm_timer(next_ms, steady_ms())
