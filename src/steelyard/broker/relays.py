"""Questions that the broker passed on to a client, and who waits for the answers.

Each gets a number of the broker's own, so that two callers may ask one client at the same time. An answer counts only
on the line that was asked. Numbers begin far from those of the broker's other requests: nothing has to be shared.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from steelyard.broker.refusals import refusal
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["Relays"]

_MOST_OPEN = 4_096
_FIRST, _LAST = 1 << 30, (1 << 31) - 1


class _Question(NamedTuple):
    then: Callable[[Command | None], None]
    until_ms: int


class Relays:
    """What was asked of clients and is not answered yet."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], _Question] = {}
        self._opaque = _FIRST

    def ask(self, peer: Peer, request: Command, then: Callable[[Command | None], None], until_ms: int) -> Command:
        """Return the request to send, with a number of its own; ``then`` gets the answer, or None if none came."""
        if len(self._open) >= _MOST_OPEN:
            raise refusal(
                ResponseCode.SYSTEM_BUSY, f"{_MOST_OPEN} questions to clients wait for their answers: try again later"
            )
        self._opaque = self._opaque + 1 if self._opaque < _LAST else _FIRST
        self._open[peer.number, self._opaque] = _Question(then, until_ms)
        return structs.replace(request, opaque=self._opaque, flag=0)

    def answered(self, peer: Peer, answer: Command) -> None:
        """Hand an answer to whoever waits for it; one that nobody waits for is dropped."""
        question = self._open.pop((peer.number, answer.opaque), None)
        if question is not None:
            question.then(answer)

    def closed(self, peer: Peer) -> None:
        """Give up on all that was asked of a line that closed."""
        self._give_up([key for key in self._open if key[0] == peer.number])

    def expire(self, now_ms: int) -> None:
        """Give up on what was not answered in time."""
        self._give_up([key for key, question in self._open.items() if question.until_ms <= now_ms])

    def _give_up(self, keys: list[tuple[int, int]]) -> None:
        for question in [self._open.pop(key) for key in keys]:
            question.then(None)
