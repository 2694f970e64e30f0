"""Members and producers that leave without a word: lines that close, clients that fall silent; and notices."""

from steelyard.broker.state import State
from steelyard.wire.peers import Peer

__all__ = ["closed", "tick"]


def closed(state: State, peer: Peer, now_ms: int) -> None:
    """Take note that a line closed."""


def tick(state: State, now_ms: int) -> None:
    """Remove who is gone for too long, send notices that are due, give up on answers that never came."""
