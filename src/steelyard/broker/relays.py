"""Questions that the broker passed on to a client, and who waits for the answers."""

from collections.abc import Callable

from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["Relays"]


class Relays:
    """What was asked of clients and is not answered yet."""

    def ask(self, peer: Peer, request: Command, then: Callable[[Command | None], None], until_ms: int) -> Command:
        """Return the request to send, with a number of its own; ``then`` gets the answer, or None if none came."""
        raise NotImplementedError

    def answered(self, peer: Peer, answer: Command) -> None:
        """Hand an answer to whoever waits for it; one that nobody waits for is dropped."""
