"""Forwarded requests: sent on to a client for another one, and waiting for its response.

Each gets an opaque of the broker's own, so that two clients may ask a third one at the same time. A response counts
only on the connection that was asked. These opaques begin far from those of the broker's other requests.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from steelyard.broker.request_errors import request_error
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Peer

_MAX_OPEN = 4_096
_FIRST_OPAQUE, _LAST_OPAQUE = 1 << 30, (1 << 31) - 1


class _ForwardedRequest(NamedTuple):
    callback: Callable[[Command | None], None]
    deadline_ms: int


class ForwardedRequests:
    """Requests to clients without a response yet."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], _ForwardedRequest] = {}
        self._opaque = _FIRST_OPAQUE

    def forward(
        self, peer: Peer, request: Command, callback: Callable[[Command | None], None], deadline_ms: int
    ) -> Command:
        """Return the request to send, with its own opaque; ``callback`` gets the response, or None if none came."""
        if len(self._open) >= _MAX_OPEN:
            raise request_error(
                ResponseCode.SYSTEM_BUSY, f"{_MAX_OPEN} requests to clients wait for a response: try again later"
            )
        self._opaque = self._opaque + 1 if self._opaque < _LAST_OPAQUE else _FIRST_OPAQUE
        self._open[peer.connection_id, self._opaque] = _ForwardedRequest(callback, deadline_ms)
        return structs.replace(request, opaque=self._opaque, flag=0)

    def on_response(self, peer: Peer, answer: Command) -> None:
        """Pass a response to its callback; an unexpected one is dropped."""
        request = self._open.pop((peer.connection_id, answer.opaque), None)
        if request is not None:
            request.callback(answer)

    def connection_closed(self, peer: Peer) -> None:
        """Give up the requests on a closed connection."""
        self._give_up([key for key in self._open if key[0] == peer.connection_id])

    def expire(self, now_ms: int) -> None:
        """Give up requests without a response in time."""
        self._give_up([key for key, request in self._open.items() if request.deadline_ms <= now_ms])

    def _give_up(self, keys: list[tuple[int, int]]) -> None:
        for request in [self._open.pop(key) for key in keys]:
            request.callback(None)
