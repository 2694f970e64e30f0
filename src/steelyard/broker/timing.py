"""Whether the time for something has come, by a clock that may have been set."""

__all__ = ["first_epoch", "has_come"]


def has_come(due_ms: int, gap_ms: int, now_ms: int) -> bool:
    """Whether it is time for what is done every ``gap_ms`` and was to be done next at ``due_ms``.

    A clock that was set back would let it wait until it is that late again: what is further off than the gap is due.

    >>> has_come(1_000, 100, 950), has_come(1_000, 100, 1_000), has_come(1_000, 100, 5)
    (False, True, True)
    """
    return not due_ms - gap_ms <= now_ms < due_ms


def first_epoch(started_ms: int) -> int:
    """Return the number that epochs are counted from by a broker that started then.

    Later ones begin higher, also within the same second, unless more than a thousand epochs are given out in every
    millisecond between; and a number of JSON holds them for two hundred years.

    >>> first_epoch(1_700_000_000_001) - first_epoch(1_700_000_000_000)
    1024
    """
    return started_ms << 10
