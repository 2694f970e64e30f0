"""Recurring work and epochs by a clock that may be set back."""


def is_due(due_ms: int, gap_ms: int, now_ms: int) -> bool:
    """Return whether work that recurs every ``gap_ms``, next at ``due_ms``, is due.

    If the clock was set back, ``due_ms`` is further away than the gap; then the work is due, too.

    >>> is_due(1_000, 100, 950), is_due(1_000, 100, 1_000), is_due(1_000, 100, 5)
    (False, True, True)
    """
    return not due_ms - gap_ms <= now_ms < due_ms


def first_epoch(started_ms: int) -> int:
    """Return the first epoch of a broker that started at a time.

    A later start begins higher, unless more than a thousand epochs are used in every millisecond between; and a JSON
    number holds them for two hundred years.

    >>> first_epoch(1_700_000_000_001) - first_epoch(1_700_000_000_000)
    1024
    """
    return started_ms << 10
