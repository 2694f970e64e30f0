"""Whether the time for something has come, by a clock that may have been set."""

__all__ = ["has_come"]


def has_come(due_ms: int, gap_ms: int, now_ms: int) -> bool:
    """Whether it is time for what is done every ``gap_ms`` and was to be done next at ``due_ms``.

    A clock that was set back would let it wait until it is that late again: what is further off than the gap is due.

    >>> has_come(1_000, 100, 950), has_come(1_000, 100, 1_000), has_come(1_000, 100, 5)
    (False, True, True)
    """
    return not due_ms - gap_ms <= now_ms < due_ms
