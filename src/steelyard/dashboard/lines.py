"""The lines of browsers: no more of them than a process with brokers can do without, and none that only waits.

Whoever wants to ask has some seconds to do so, and as long for what he posts. How long an answer takes is not limited:
streams last as long as somebody looks. Only so many lines may be without a whole question: one more, and the one that
has been so for longest is closed. So nobody can lock others out by asking nothing, without a token and on many lines.
"""

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientLine"]

_MOST_LINES = 500
"""Those beyond are closed at once: more than are served, so that some browsers are told that there are too many."""
_PATIENCE_S = 20.0
_MOST_WAITING = 100
"""A browser has six lines, and asks at once when it opens one."""


class PatientLine(H11Protocol):
    """A line of a browser."""

    _look: asyncio.TimerHandle | None = None
    _found: tuple[object, object] = (None, h11.IDLE)
    """The last question, and whether more is to come of it or of the next one, as they were at the last look."""
    _waiting_since = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is being answered on it, and no whole question is there."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a line, if there is room for it."""
        line = cast("asyncio.Transport", transport)
        super().connection_made(line)
        self._waiting_since = self.loop.time()
        if len(self.connections) > _MOST_LINES:
            line.abort()
            return
        self._look = self.loop.call_later(_PATIENCE_S, self._look_after_it)
        waiting = [each for each in self.connections if isinstance(each, PatientLine) and each.is_waiting]
        if len(waiting) > _MOST_WAITING:
            min(waiting, key=lambda each: each._waiting_since).transport.abort()

    def on_response_complete(self) -> None:
        """Take note that an answer is out, and wait for the next question."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a line."""
        super().connection_lost(exc)
        if self._look is not None:
            self._look.cancel()

    def _look_after_it(self) -> None:
        """Close a line on which nothing was asked, or not to the end, since the last look."""
        found = (self.cycle, self.conn.their_state)
        if found == self._found and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.abort()
            return
        self._found = found
        self._look = self.loop.call_later(_PATIENCE_S, self._look_after_it)
