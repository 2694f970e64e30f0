"""Half messages that nobody resolved: their producers are asked, and given up on after a while."""

from steelyard.broker.state import State

__all__ = ["tick"]


def tick(state: State, now_ms: int) -> None:
    """Ask about half messages that are due."""
