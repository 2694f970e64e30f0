"""Messages that wait for a time of their own: which are due when."""

__all__ = ["Timers"]


class Timers:
    """What waits, by time."""
