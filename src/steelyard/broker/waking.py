"""Parked pulls are tried again: when a message came, and when their time is over."""

from steelyard.broker.state import State

__all__ = ["expire", "forget", "wake"]


def wake(state: State, now_ms: int) -> None:
    """Answer the parked pulls for which a message came; called after each flush."""


def expire(state: State, now_ms: int) -> None:
    """Answer the parked pulls whose time is over."""


def forget(state: State, peer_number: int) -> None:
    """Drop the parked pulls of a line that closed."""
