"""Delayed messages whose time has come go to the topics they were meant for."""

from steelyard.broker.state import State

__all__ = ["tick"]


def tick(state: State, now_ms: int) -> None:
    """Deliver what is due: by delay level, and by a time of its own."""
