"""Limits on browser connections: a process with brokers in it must not run out of file descriptors.

A request has some seconds to arrive; a response may take any time. Of more than `_MAX_IDLE` connections without a
complete request, the one that has been idle longest is closed, so no client can lock others out.
"""

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_MAX_CONNECTIONS = 500
"""Those beyond are closed at once. More than are served at a time, so that some browsers still get a 503."""
_IDLE_TIMEOUT_S = 20.0
_MAX_IDLE = 100  # a browser has six connections, and sends a request as soon as it opens one


class BrowserConnection(H11Protocol):
    """A connection of a browser."""

    _idle_timer: asyncio.TimerHandle | None = None
    _last_state: tuple[object, object] = (None, h11.IDLE)  # the request and the state of its parser at the last check
    _idle_since = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it has no complete request."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection, if the limits allow it."""
        connection = cast("asyncio.Transport", transport)
        super().connection_made(connection)
        self._idle_since = self.loop.time()
        if len(self.connections) > _MAX_CONNECTIONS:
            connection.abort()
            return
        self._idle_timer = self.loop.call_later(_IDLE_TIMEOUT_S, self._close_if_idle)
        idle = [each for each in self.connections if isinstance(each, BrowserConnection) and each.is_idle]
        if len(idle) > _MAX_IDLE:
            min(idle, key=lambda each: each._idle_since).transport.abort()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer of a closed connection."""
        super().connection_lost(exc)
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def _close_if_idle(self) -> None:
        """Close a connection on which no request arrived, or not to its end, since the last check."""
        state = (self.cycle, self.conn.their_state)
        if state == self._last_state and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.abort()
            return
        self._last_state = state
        self._idle_timer = self.loop.call_later(_IDLE_TIMEOUT_S, self._close_if_idle)
